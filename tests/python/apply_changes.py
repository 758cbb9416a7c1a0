#!/usr/bin/env python3
"""Follows a training: applies the files of `cohort export --changed_since` to the tensors that a program serves.

    tensors, step = load_checkpoint("checkpoints/ckpt-0-1-12"), 1200
    step = follow(tensors, step, "changes")      # as often as you like: it reads what has appeared since
"""
import glob
import os

import numpy as np
import safetensors


def follow(tensors, step, directory):
    """Applies all files of the directory that follow one another from this step on. Returns the last one's step."""
    files = {}
    for path in sorted(glob.glob(os.path.join(directory, "*.safetensors"))):
        with safetensors.safe_open(path, framework="numpy") as file:
            files[int(file.metadata()["base_step"])] = path
    while step in files:
        step = apply_changes(tensors, files.pop(step))
    return step


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
