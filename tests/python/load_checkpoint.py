#!/usr/bin/env python3
"""Reads a Cohort checkpoint into NumPy, and from there into Keras.

    weights = load_checkpoint("checkpoints/recommender/ckpt-0-1-12")
    restore(model, weights)       # a keras.Model with the job's layers, under the same names

As a program: load_checkpoint.py DIRECTORY lists the tensors of a checkpoint.
"""
import collections
import json
import os
import sys

import numpy as np
import safetensors.numpy


def load_checkpoint(directory):
    """{"dense/kernel": array, "dense/kernel@momentum": array, ...}: variables and their optimizer slots.

    A tensor lies in pieces named <tensor>/rows_<begin>_<end>, in any of the checkpoint's files.
    """
    with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as manifest:
        files = [f["name"] for f in json.load(manifest)["files"]]
    pieces = collections.defaultdict(dict)
    for file in files:
        for name, rows in safetensors.numpy.load_file(os.path.join(directory, file)).items():
            tensor, _, row_range = name.rpartition("/rows_")
            pieces[tensor][int(row_range.split("_")[0])] = rows
    return {tensor: rows[0] if rows[0].ndim == 0 else np.concatenate([rows[begin] for begin in sorted(rows)])
            for tensor, rows in pieces.items()}


def restore(model, weights):
    """Assigns the weights to a Keras model whose layers have the job's names.

    A layer of a nested model is named after the models around it: "inner/dense/kernel".
    """
    _restore(model, weights, "")


def _restore(model, weights, path):
    for layer in model.layers:
        if hasattr(layer, "layers"):
            _restore(layer, weights, path + layer.name + "/")
            continue
        for variable in layer.weights:
            # "kernel" in Keras 3, "dense/kernel:0" in tf_keras.
            name = variable.name.split("/")[-1].split(":")[0]
            variable.assign(weights["%s%s/%s" % (path, layer.name, name)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for tensor, value in sorted(load_checkpoint(sys.argv[1]).items()):
        print(f"{tensor}: {value.dtype} {list(value.shape)}")
