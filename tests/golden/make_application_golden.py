#!/usr/bin/env python3
"""Writes models of keras.applications with what one training step of theirs computes: applications.json.gz.

    build/venv-keras/bin/python tests/golden/make_application_golden.py    (`tests/run.sh --all` makes that venv)

Each case has a model as `model.to_json()` writes it (dropout rates are 0, because its masks are random), and one step in
float64 from weights and a batch of golden_data.py: the loss, the outputs, the gradient of every weight, and the moving
averages after the step. The models have millions of weights, so a tensor is described by its norm, by its product with
two vectors of golden_data.py, and by a few of its elements. The file also has how far Keras' own gradients in float32 are
from these.
"""
import argparse
import gzip
import json
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import golden_data  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = 10
BATCH = 8
SAMPLES = 4

# name -> (model, size of an image, range of its pixels)
CASES = {
    "mobilenet_v2": (lambda shape: keras.applications.MobileNetV2(
        input_shape=shape, alpha=0.35, weights=None, classes=CLASSES), 96, (-1, 1)),
    "resnet50": (lambda shape: keras.applications.ResNet50(
        input_shape=shape, weights=None, classes=CLASSES), 64, (-1, 1)),
    "efficientnet_b0": (lambda shape: keras.applications.EfficientNetB0(
        input_shape=shape, weights=None, classes=CLASSES), 64, (0, 255)),
    "mobilenet_v3_small": (lambda shape: keras.applications.MobileNetV3Small(
        input_shape=shape, weights=None, classes=CLASSES), 64, (0, 255)),
}


def prepared(text):
    """The JSON of a model with dropout rates of 0, and scales that float32 has: Keras rounds them, in float64 too."""
    model = json.loads(text)
    for layer in model["config"]["layers"]:
        if layer["class_name"] == "Dropout":
            layer["config"]["rate"] = 0.0
        if layer["class_name"] == "Rescaling":
            layer["config"]["scale"] = np.float32(layer["config"]["scale"]).tolist()
    return model


def range_of(path, shape):
    """(middle, scale): first weights are drawn evenly between middle - scale and middle + scale. They keep signals of the
    size that training has, and the branches of residual blocks small: else a step in float32 is mostly rounding."""
    last = path.split("/")[-1]
    if last == "gamma" and path.endswith("_3_bn/gamma"):
        return 0.2, 0.1
    if last in ("gamma", "moving_variance", "variance"):
        return 1.0, 0.5
    if len(shape) < 2:
        return 0.0, 0.1
    return 0.0, float(np.sqrt(3.0 / np.prod(shape[:-1])))


def prefixed(case):
    """The case, with the names of weights after those of the nested models around their layers, as in Cohort."""
    models = {inner["config"]["name"]: layer["config"]["name"] for layer in case["keras_json"]["config"]["layers"]
              for inner in layer["config"].get("layers", [])}
    for tensor in case["weights"] + case["gradients"] + case["moving"]:
        if tensor["name"].split("/")[0] in models:
            tensor["name"] = models[tensor["name"].split("/")[0]] + "/" + tensor["name"]
        # Keras counts the weights that have no name, over all layers.
        tensor["name"] = re.sub(r"/variable_\d+$", "/variable", tensor["name"])
    return case


def described(name, value, seed):
    """What the golden file has of a tensor."""
    value = np.asarray(value, np.float64).reshape(-1)
    picked = golden_data.integers(seed, (SAMPLES,), len(value))
    return {"name": name, "norm": float(np.linalg.norm(value)),
            "products": [float(value @ golden_data.tensor(seed + 1 + k, (len(value),))) for k in range(2)],
            "samples": [float(value[i]) for i in picked]}


def trained(description, seed, batch, dtype):
    """The model in this dtype with its first weights, what they are drawn from, its loss and its gradients."""
    keras.config.set_floatx(dtype)
    keras.backend.clear_session()
    model = keras.models.model_from_json(json.dumps(description).replace("float64", dtype))
    weights = []
    for i, v in enumerate(w for w in model.weights if w.path.split("/")[-1] != "count"):
        middle, scale = range_of(v.path, tuple(v.shape))
        v.assign(golden_data.tensor(golden_data.weight_seed(seed, i), tuple(v.shape), middle - scale, middle + scale))
        weights.append({"name": v.path, "middle": middle, "scale": scale})
    for layer in model.layers:
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
    x, y = batch
    predicted = np.asarray(model(x.astype(dtype), training=False))
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy()(y, model(x.astype(dtype), training=True))
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return model, weights, predicted, float(loss), [np.asarray(g, np.float64) for g in gradients]


def largest_difference(exact, rounded):
    """How far gradients in float32 are from those in float64, in norms of a tensor; application_golden_test.cc has the
    same rule. Units near the corner of a ReLU round to either side, so this is no property of an implementation."""
    floor = 1e-4 * max(np.linalg.norm(g) for g in exact)
    return float(max(np.linalg.norm(a - b) / max(np.linalg.norm(a), floor) for a, b in zip(exact, rounded)))


def case_of(number, name):
    make, size, (low, high) = CASES[name]
    keras.config.set_floatx("float64")
    keras.backend.clear_session()
    description = prepared(make((size, size, 3)).to_json())
    seed = 7000 + number
    batch = (golden_data.tensor(golden_data.input_seed(seed, 0, 0), (BATCH, size, size, 3), low, high),
             golden_data.integers(golden_data.input_seed(seed, 0, 9), (BATCH,), CLASSES))
    rounded = trained(description, seed, batch, "float32")[-1]
    model, weights, predicted, loss, gradients = trained(description, seed, batch, "float64")
    difference = largest_difference(gradients, rounded)
    case = {"name": name, "seed": seed, "low": low, "high": high, "keras_json": description, "loss": loss,
            "predictions": [float(p) for p in predicted.reshape(-1)], "weights": weights,
            "gradients": [described(v.path, g, 11 * i)
                          for i, (v, g) in enumerate(zip(model.trainable_variables, gradients))],
            "moving": [dict(described(v.path, v, 13 * i), seed=13 * i)
                       for i, v in enumerate(model.non_trainable_variables) if "moving" in v.path],
            "float32_difference": difference}
    print("%s: %d weights, loss %.6f; in float32 %.1e" % (name, model.count_params(), loss, difference), flush=True)
    return prefixed(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(HERE, "applications.json.gz"))
    parser.add_argument("--only", default="", help="names of cases, separated by commas; the others stay as they are")
    args = parser.parse_args()
    kept = {}
    if args.only:
        with gzip.open(args.out) as f:
            kept = {case["name"]: case for case in json.load(f)["cases"]}
    cases = [case_of(number, name) if not args.only or name in args.only.split(",") else kept[name]
             for number, name in enumerate(CASES)]
    text = json.dumps({"keras": keras.__version__, "cases": cases}, separators=(",", ":"))
    with gzip.GzipFile(args.out, "wb", mtime=0) as f:
        f.write(text.encode())


if __name__ == "__main__":
    main()
