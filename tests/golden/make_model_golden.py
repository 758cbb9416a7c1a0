#!/usr/bin/env python3
"""Writes models.json, random_models.json and random_image_models.json.gz with the real Keras.

    build/venv-keras/bin/python tests/golden/make_model_golden.py     (`tests/run.sh --all` makes that venv)

models.json: named models, 100 free-running steps in float64 (loss, metrics and weights), and in float32
loss and gradients at given weights. random_models.json: 200 random models, 5 steps in float64.
random_image_models.json.gz: 200 random models of convolutions, 4 steps in float64.
Inputs, initial weights and dropout masks come from golden_data.py and are not stored. Cases of models.json
that did not change are kept; `--random 0` keeps random_models.json, `--images 0` the other one.

Keras is unchanged except for two things: dropout takes the recorded masks, and rows of a sparse gradient
that have the same index are summed before the optimizer sees them (keras_models.sum_equal_rows says why).
"""
import argparse
import gzip
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import golden_data  # noqa: E402
import keras_models  # noqa: E402
import random_image_models  # noqa: E402
import random_models  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def numbers(array):
    return [float(x) for x in np.asarray(array).reshape(-1)]


def batch_size(step):
    return 5 if step % 4 == 3 else 8  # a short batch now and then


def describe(variable, keep_weights):
    value = np.asarray(variable.numpy(), dtype=np.float64)
    entry = {"name": variable.path, "dims": list(value.shape)}
    if keep_weights:
        entry["values"] = numbers(value)
        return entry
    # Enough to tell two tensors apart.
    flat = value.reshape(-1)
    at = sorted({0, flat.size // 3, flat.size // 2, flat.size - 1})
    entry["sum"], entry["max_abs"] = float(flat.sum()), float(np.abs(flat).max())
    entry["samples"] = [[int(i), float(flat[i])] for i in at]
    return entry


def free_run(case, steps, keep_weights):
    keras.backend.clear_session()
    keras.config.set_floatx("float64")
    model = keras_models.build(case["model"])
    keras_models.compile_model(model, case["compile"])
    masks = keras_models.RecordedMasks(model)
    keras_models.set_weights(model, case["seed"])
    losses, metrics = [], []
    for step in range(steps):
        size = batch_size(step)
        x, y = keras_models.batch(case["model"], case["compile"], case["output_units"], case["seed"],
                                  step, size)
        masks.record(case["seed"], step, size)
        model.reset_metrics()
        logs = model.train_on_batch(x, y, return_dict=True)
        losses.append(float(logs.pop("loss")))
        metrics.append([float(v) for v in logs.values()])
    out = {"losses": losses, "metrics": metrics,
           "variables": [describe(v, keep_weights) for v in model.trainable_variables]}
    state = [describe(v, keep_weights) for v in keras_models.state_of(model)]
    if state:
        out["state"] = state
    return out


def float32_steps(case, steps):
    keras.backend.clear_session()
    keras.config.set_floatx("float32")
    model = keras_models.build(case["model"])
    keras_models.compile_model(model, case["compile"])
    masks = keras_models.RecordedMasks(model)
    out = []

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), training=True)
        return loss, [tf.convert_to_tensor(g) for g in
                      tape.gradient(loss, [v.value for v in model.trainable_variables])]

    for step in range(steps):
        keras_models.set_weights(model, case["seed"] + step)
        size = batch_size(step)
        x, y = keras_models.batch(case["model"], case["compile"], case["output_units"], case["seed"],
                                  step, size)
        masks.record(case["seed"], step, size)
        x = [tf.constant(a if a.dtype == np.int64 else a.astype(np.float32)) for a in x]
        y = tf.constant(y if y.dtype == np.int64 else y.astype(np.float32))
        loss, grads = gradients(x if len(x) > 1 else x[0], y)
        out.append({"loss": float(loss), "gradients": [
            {"name": v.path, "values": [float(np.format_float_positional(g, 9, fractional=False))
                                        for g in np.asarray(grad).reshape(-1)]}
            for v, grad in zip(model.trainable_variables, grads)]})
    return out


def versions():
    return {"keras": keras.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}


def write(name, cases):
    text = '{"versions": ' + json.dumps(versions()) + ',\n"cases": [\n'
    text += ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n"
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode())


def write_random(name, draw, count, steps):
    if count == 0:
        return
    drawn = []
    for seed in range(1, count + 1):
        case = draw(seed)
        case["float64"] = free_run(case, steps, False)
        drawn.append(case)
        if seed % 20 == 0:
            print(name, seed, flush=True)
    write(name, drawn)


def former(name):
    """The cases of a file that these versions wrote."""
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        return []
    with open(path) as f:
        file = json.load(f)
    return file["cases"] if file["versions"] == versions() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--images", type=int, default=200)
    args = parser.parse_args()
    named = json.load(open(os.path.join(HERE, "model_cases.json")))
    kept = {case["name"]: case for case in former("models.json")}
    for case in named:
        old = kept.get(case["name"], {})
        if all(old.get(key) == value for key, value in case.items()):
            case.update(old)
            continue
        case["float64"] = free_run(case, 100, True)
        case["float32"] = float32_steps(case, 3)
        print(case["name"], case["float64"]["losses"][0], "->", case["float64"]["losses"][-1], flush=True)
    write("models.json", named)
    write_random("random_models.json", random_models.draw, args.random, 5)
    write_random("random_image_models.json.gz", random_image_models.draw, args.images, 4)


if __name__ == "__main__":
    main()
