#!/usr/bin/env python3
"""Follows a training: applies the files of `cohort export --changed_since` to the tensors that a program serves.

    tensors, step, checkpoint = load_checkpoint("checkpoints/ckpt-0-1-12"), 1200, "ckpt-0-1-12"
    step, checkpoint = follow(tensors, step, "changes", checkpoint)   # as often as you like: it reads what has appeared since
"""
import glob
import os

import numpy as np
import safetensors


def follow(tensors, step, directory, checkpoint=None):
    """Applies all files of the directory that follow one another from this step on. Returns the last one's step and checkpoint.

    Two checkpoints may have one step: `checkpoint` is the name of the one that the tensors have (None: it is not known).
    """
    files = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
        files.setdefault(int(metadata["base_step"]), []).append((path, metadata))
    while step in files:
        found = files.pop(step)
        fitting = [(path, metadata) for path, metadata in found if checkpoint in (None, metadata.get("base_id", checkpoint))]
        if not fitting:
            path, metadata = found[-1]
            raise ValueError(f"{path} has changes since {metadata['base_id']}, and the tensors are those of {checkpoint}, another checkpoint "
                             f"of step {step}: load a newer checkpoint whole")
        path, metadata = fitting[-1]
        step, checkpoint = apply_changes(tensors, path), metadata.get("id")
    return step, checkpoint


def apply_changes(tensors, path):
    """Applies one file to {"w": values, "table": values, "table@keys": their keys}. Returns its step."""
    with safetensors.safe_open(path, framework="numpy") as file:
        for name in file.keys():
            variable, _, part = name.partition("@")
            if not part:
                tensors[variable] = file.get_tensor(name)
            elif part == "rows":
                tensors[variable][file.get_tensor(name)] = file.get_tensor(variable + "@values")
            elif part == "keys":
                keys = file.get_tensor(name)
                stays = ~np.isin(tensors[name], np.concatenate([keys, file.get_tensor(variable + "@removed")]))
                tensors[name] = np.concatenate([tensors[name][stays], keys])
                tensors[variable] = np.concatenate([tensors[variable][stays], file.get_tensor(variable + "@values")])
        return int(file.metadata()["step"])
