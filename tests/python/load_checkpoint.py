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
    An increment has only the rows that changed since its base, which lies beside it. Rows of a table without bounds have
    no order then.
    """
    with open(os.path.join(directory, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    tensors = _stored(directory, manifest)
    for variable, shards in _hashed(manifest.get("layout", {})).items():
        for tensor in [name for name in tensors if name.split("@")[0] == variable]:
            tensors[tensor] = tensors[tensor][_places_of_rows(len(tensors[tensor]), shards)]
    tensors.update(_learned_moments(manifest))
    return tensors


def _stored(directory, manifest):
    """The tensors in the order of their pieces."""
    base = {}
    if manifest.get("base"):
        before = os.path.join(os.path.dirname(os.path.abspath(directory)), manifest["base"])
        with open(os.path.join(before, "manifest.json"), encoding="utf-8") as file:
            base = _stored(before, json.load(file))
    pieces = collections.defaultdict(dict)
    for name in [variable["name"] for variable in manifest.get("layout", {}).get("variables", [])]:
        pieces[name] = {}
    for file in [entry["name"] for entry in manifest["files"]]:
        for name, rows in safetensors.numpy.load_file(os.path.join(directory, file)).items():
            tensor, _, row_range = name.rpartition("/rows_")
            pieces[tensor][tuple(int(row) for row in row_range.split("_"))] = rows
    tensors = {}
    for tensor in [name for name, rows in pieces.items() if rows and not name.endswith(("@changed_rows", "@removed_keys"))]:
        rows = [_with_base(tensor, piece, pieces, base) for piece in sorted(pieces[tensor])]
        tensors[tensor] = rows[0] if rows[0].ndim == 0 else np.concatenate(rows)
    return tensors


def _with_base(tensor, piece, pieces, base):
    """The rows of a piece. An increment may have only those that have changed: then the base has the others."""
    variable, _, slot = tensor.partition("@")
    changed = pieces.get(variable + "@changed_rows", {}).get(piece)
    removed = pieces.get(variable + "@removed_keys", {}).get(piece)
    if changed is not None:
        rows = base[tensor][piece[0]:piece[1]].copy()
        rows[changed - piece[0]] = pieces[tensor][piece]
        return rows
    if removed is None or slot in ("counted_keys", "counts", "counted"):
        return pieces[tensor][piece]
    before = base[variable + "@keys"]
    row = _row_of_key(before)
    stays = (row >= piece[0]) & (row < piece[1]) & ~np.isin(before, removed) & ~np.isin(before, pieces[variable + "@keys"][piece])
    return np.concatenate([base[tensor][stays], pieces[tensor][piece]])


def _row_of_key(keys):
    """The row of each key of a table without bounds, as in common/tensor/table_rows.h."""
    mask, shift = np.uint64(2**62 - 1), np.uint64(32)
    row = keys.astype(np.uint64) & mask
    for factor in (0xbf58476d1ce4e5b9, 0x94d049bb133111eb):
        row = (row ^ (row >> shift)) * np.uint64(factor) & mask
    return row ^ (row >> shift)


def _hashed(layout):
    """The number of shards of each variable whose rows are partitioned by hash (`rows: hash`)."""
    shards = collections.Counter(shard.get("variable", 0) for shard in layout.get("shards", []))
    return {variable["name"]: shards[i] for i, variable in enumerate(layout.get("variables", []))
            if variable.get("hashed_rows")}


def _places_of_rows(rows, shards):
    """Where each row is, if the shards lie one after the other (common/tensor/hashed_rows.h)."""
    groups = rows // shards
    x = np.arange(groups, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    turns = np.append(((x >> np.uint64(32)) * np.uint64(shards) >> np.uint64(32)).astype(np.int64), 0)
    row = np.arange(rows)
    shard = (row + turns[row // shards]) % shards
    return groups * shard + np.minimum(shard, rows - groups * shards) + row // shards


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
