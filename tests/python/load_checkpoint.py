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

    The variables come first, in the order of the model. A tensor lies in pieces named <tensor>/rows_<begin>_<end>, in
    any of the checkpoint's files. "normalization/mean" and ".../variance" may also be what a layer learned from the data.
    """
    with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    pieces = collections.defaultdict(dict)
    for name in [variable["name"] for variable in manifest.get("layout", {}).get("variables", [])]:
        pieces[name] = {}
    for file in [entry["name"] for entry in manifest["files"]]:
        for name, rows in safetensors.numpy.load_file(os.path.join(directory, file)).items():
            tensor, _, row_range = name.rpartition("/rows_")
            pieces[tensor][int(row_range.split("_")[0])] = rows
    tensors = {tensor: rows[0] if rows[0].ndim == 0 else np.concatenate([rows[begin] for begin in sorted(rows)])
               for tensor, rows in pieces.items() if rows}
    tensors.update(_learned_moments(manifest))
    return tensors


def _learned_moments(manifest):
    transforms = manifest.get("job_spec", {}).get("data", {}).get("train", {}).get("transforms", [])
    for transform in transforms:
        learned = transform.get("transform_class", {})
        if learned.get("class_name") != "Normalization" or not transform.get("output"):
            continue
        for name in ("mean", "variance"):
            values = learned["config"][name].get("list", {}).get("values", [])
            yield "%s/%s" % (transform["output"], name), np.array([value.get("f", 0) for value in values], np.float32)


def restore(model, weights):
    """Assigns the weights of load_checkpoint to a Keras model whose layers have the job's names.

    A layer of a nested model is named after the models around it: "inner/dense/kernel". Below a layer, the weights
    have Keras' order, as in a .weights.h5: "lstm/lstm_cell/kernel" is the first one of "lstm".
    """
    _restore(model, _with_offsets(weights), "")


def _with_offsets(weights):
    """The kernel of SpectralNormalization is the sum of two variables."""
    return {name: value + weights.get(name + "_offset", 0) for name, value in weights.items()
            if not name.endswith("/kernel_offset")}


def _restore(model, weights, path):
    for layer in model.layers:
        if hasattr(layer, "layers"):
            _restore(layer, weights, path + layer.name + "/")
        else:
            _restore_layer(layer, weights, path + layer.name + "/")


def _restore_layer(layer, weights, path):
    stored = [name for name in weights if name.startswith(path) and "@" not in name]
    variables = list(layer.weights)
    if hasattr(layer, "finalize_state"):  # Normalization counts what it has seen. Nothing reads the number.
        variables = [variable for variable in variables if _leaf(variable.name) != "count"]
    if [(_leaf(v.name), np.prod(v.shape)) for v in variables] != [(_leaf(n), weights[n].size) for n in stored]:
        raise ValueError("the layer %r has the weights %s; the checkpoint has %s: the model is not that of the job" % (
            path[:-1], ["%s %s" % (_leaf(v.name), tuple(v.shape)) for v in variables],
            ["%s %s" % (n, weights[n].shape) for n in stored]))
    for variable, name in zip(variables, stored):
        variable.assign(np.reshape(weights[name], tuple(variable.shape)))
    if stored and hasattr(layer, "finalize_state"):
        layer.finalize_state()  # it computes with what it derives from its weights


def _leaf(name):
    """The end of a name: "kernel" in Keras 3, "dense/kernel:0" in tf_keras."""
    return name.split("/")[-1].split(":")[0]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for tensor, value in sorted(load_checkpoint(sys.argv[1]).items()):
        print(f"{tensor}: {value.dtype} {list(value.shape)}")
