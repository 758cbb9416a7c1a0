#!/usr/bin/env python3
"""Writes losses.json with the real Keras.

    build/venv-keras/bin/python tests/golden/make_loss_golden.py      (`tests/run.sh --all` makes that venv)

Each case trains a small model in float64 for a few steps, with a loss, weights of records or classes, and a
reduction. It has the numbers that Keras reports so far after each step (the loss, then the others), and the
weights at the end. Inputs, labels and weights of records come from golden_data.py and are not stored.
"""
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

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 8
WEIGHT_POSITION = 7


def dense(units, activation, steps=0):
    """Inputs of 4 numbers, or `steps` rows of them, through a Dense layer without a bias."""
    return {"layers": [
        {"class_name": "Input", "name": "x", "shape": [steps, 4] if steps else [4]},
        {"class_name": "Dense", "name": "y", "units": units, "activation": activation, "use_bias": False}]}


def masked(units, steps):
    """Ids of which 0 is masked."""
    return {"layers": [
        {"class_name": "Input", "name": "x", "shape": [steps], "dtype": "int64"},
        {"class_name": "Embedding", "name": "e", "input_dim": 4, "output_dim": 3, "mask_zero": True,
         "inputs": ["x"]},
        {"class_name": "Dense", "name": "y", "units": units, "activation": "softmax"}]}


def two_outputs(steps):
    return {"layers": [
        {"class_name": "Input", "name": "x", "shape": [steps, 4]},
        {"class_name": "Dense", "name": "a", "units": 3, "activation": "softmax", "inputs": ["x"]},
        {"class_name": "Flatten", "name": "flat", "inputs": ["x"]},
        {"class_name": "Dense", "name": "b", "units": 2, "inputs": ["flat"]}],
        "outputs": ["a", "b"]}


def label(kind, dims, bound=2, name="label", position=9):
    return {"name": name, "kind": kind, "dims": dims, "bound": bound, "position": position}


def weight(dims=(), name="weight", position=WEIGHT_POSITION):
    return label("unit", list(dims), 2, name, position)


def case(loss, model, labels, **more):
    config = {"loss": loss, **more.pop("compile", {})}
    return {"model": model, "labels": labels, "compile": config, **more}


def weighted(loss, model, labels, dims=(), **more):
    return case(loss, model, labels, weights=[weight(dims)], sample_weight="weight", **more)


REAL, UNIT, BITS = label("real", [3]), label("unit", [3]), label("bits", [3])
ONE_HOT, IDS = label("one_hot", [3]), label("ids", [], 3)
LINEAR, SIGMOID, SOFTMAX = dense(3, "linear"), dense(3, "sigmoid"), dense(3, "softmax")
SEQUENCE, SEQUENCE_IDS = dense(3, "softmax", 5), label("ids", [5], 3)
SPARSE, MEAN_BY_WEIGHT = "SparseCategoricalCrossentropy", {"reduction": "mean_with_sample_weight"}

CASES = [
    case({"Hinge": {}}, LINEAR, [BITS]),
    case({"Hinge": {}}, LINEAR, [REAL]),
    case({"SquaredHinge": {}}, LINEAR, [BITS]),
    case({"CategoricalHinge": {}}, SOFTMAX, [ONE_HOT]),
    case({"KLDivergence": {}}, SOFTMAX, [UNIT]),
    case({"Poisson": {}}, SIGMOID, [UNIT]),
    case({"LogCosh": {}}, LINEAR, [REAL]),
    case({"MeanAbsolutePercentageError": {}}, LINEAR, [UNIT]),
    case({"MeanSquaredLogarithmicError": {}}, SIGMOID, [UNIT]),
    case({"CosineSimilarity": {}}, LINEAR, [REAL]),
    case({"CosineSimilarity": {"axis": 1}}, dense(3, "linear", 5), [label("real", [5, 3])]),
    case({"Huber": {"delta": 0.3}}, LINEAR, [REAL]),
    case({"BinaryFocalCrossentropy": {}}, SIGMOID, [BITS]),
    case({"BinaryFocalCrossentropy": {"from_logits": True, "gamma": 1.5, "apply_class_balancing": True,
                                      "alpha": 0.7, "label_smoothing": 0.1}}, LINEAR, [BITS]),
    case({"BinaryFocalCrossentropy": {"gamma": 3.0}}, dense(3, "hard_sigmoid"), [BITS]),
    case({"CategoricalFocalCrossentropy": {}}, SOFTMAX, [ONE_HOT]),
    case({"CategoricalFocalCrossentropy": {"alpha": [0.25, 0.5, 0.75], "gamma": 1.0, "from_logits": True,
                                           "label_smoothing": 0.2}}, LINEAR, [ONE_HOT]),
    case({"Dice": {}}, SIGMOID, [BITS]),
    case({"Dice": {"axis": [1, 2]}}, dense(3, "sigmoid", 5), [label("bits", [5, 3])]),
    case({"Tversky": {"alpha": 0.3, "beta": 0.7}}, SIGMOID, [BITS]),
    case({"Tversky": {"axis": -1}}, SIGMOID, [BITS]),
    case({"CategoricalGeneralizedCrossEntropy": {"q": 0.7}}, SOFTMAX, [IDS]),
    case({SPARSE: {"ignore_class": 1}}, SOFTMAX, [IDS]),
    case({SPARSE: {"ignore_class": 0, "from_logits": True}}, dense(3, "linear", 5), [SEQUENCE_IDS]),
    case({"MeanSquaredError": {"reduction": "sum"}}, LINEAR, [REAL]),
    case({"MeanSquaredError": {"reduction": "mean"}}, LINEAR, [REAL]),
    # Weights of records.
    weighted({"MeanSquaredError": {}}, LINEAR, [REAL]),
    weighted({"MeanSquaredError": {}}, LINEAR, [REAL], [1]),
    weighted({"MeanSquaredError": {"reduction": "sum"}}, LINEAR, [REAL]),
    weighted({"MeanSquaredError": MEAN_BY_WEIGHT}, LINEAR, [REAL]),
    weighted({"MeanSquaredError": {}}, dense(3, "linear", 5), [label("real", [5, 3])], [5]),
    weighted({"BinaryCrossentropy": {}}, SIGMOID, [BITS],
             compile={"weighted_metrics": ["BinaryAccuracy"], "metrics": ["BinaryAccuracy"]}),
    weighted({SPARSE: {}}, SEQUENCE, [SEQUENCE_IDS], [5],
             compile={"weighted_metrics": ["sparse_categorical_accuracy"]}),
    weighted({SPARSE: {"ignore_class": 2}}, SEQUENCE, [SEQUENCE_IDS], [5]),
    weighted({SPARSE: {"ignore_class": 2, **MEAN_BY_WEIGHT}}, SEQUENCE, [SEQUENCE_IDS], [5]),
    weighted({"Dice": {}}, SIGMOID, [BITS]),
    # Masked steps.
    case({SPARSE: {}}, masked(3, 5), [SEQUENCE_IDS], compile={"metrics": ["accuracy"]}),
    weighted({SPARSE: {}}, masked(3, 5), [SEQUENCE_IDS], [5],
             compile={"metrics": ["accuracy"], "weighted_metrics": ["accuracy"]}),
    weighted({SPARSE: {"ignore_class": 1}}, masked(3, 5), [SEQUENCE_IDS], [1]),
    weighted({SPARSE: MEAN_BY_WEIGHT}, masked(3, 5), [SEQUENCE_IDS], [5]),
    # Weights of classes.
    case({SPARSE: {}}, SOFTMAX, [IDS], class_weight={"0": 0.5, "2": 3.0},
         compile={"weighted_metrics": ["accuracy"]}),
    case({"CategoricalCrossentropy": {}}, SOFTMAX, [ONE_HOT], class_weight={"0": 2.0, "1": 0.25}),
    case({"BinaryCrossentropy": {}}, dense(1, "sigmoid"), [label("bits", [1])],
         class_weight={"0": 1.0, "1": 3.5}),
    # Two outputs: one column for both, one for each, and none for one.
    case({"a": SPARSE, "b": "mean_squared_error"}, two_outputs(5),
         [label("ids", [5], 3, "la", 8), label("real", [2], 2, "lb", 9)],
         weights=[weight([1])], sample_weight="weight",
         compile={"loss_weights": {"a": 0.5, "b": 2.0}, "weighted_metrics": {"b": ["mae"]}}),
    case({"a": SPARSE, "b": "mean_squared_error"}, two_outputs(5),
         [label("ids", [5], 3, "la", 8), label("real", [2], 2, "lb", 9)],
         weights=[weight([5], "wa", 6), weight([], "wb", 7)], sample_weight=["wa", "wb"],
         compile={"metrics": {"b": ["mae"]}, "weighted_metrics": {"a": ["accuracy"], "b": ["mae"]}}),
    case({"a": {SPARSE: {"ignore_class": 1}}, "b": {"MeanSquaredError": MEAN_BY_WEIGHT}}, two_outputs(5),
         [label("ids", [5], 3, "la", 8), label("real", [2], 2, "lb", 9)],
         weights=[weight([5], "wa", 6), weight([], "wb", 7)], sample_weight=["wa", "wb"],
         compile={"loss_weights": [1.5, 0.5]}),
]


def make_loss(spec):
    if isinstance(spec, str):
        return keras.losses.get(spec) if spec.islower() else getattr(keras.losses, spec)()
    name, config = next(iter(spec.items()))
    if isinstance(config.get("axis"), list):
        config = dict(config, axis=tuple(config["axis"]))
    return getattr(keras.losses, name)(**config)


def build(model):
    if "outputs" not in model:
        return keras_models.build(model)
    tensors = {}
    for layer in model["layers"]:
        if layer["class_name"] == "Input":
            tensors[layer["name"]] = keras.Input(shape=tuple(layer["shape"]), name=layer["name"])
        else:
            tensors[layer["name"]] = keras_models._layer(layer)(tensors[layer["inputs"][0]])
    return keras.Model(tensors["x"], [tensors[name] for name in model["outputs"]])


def column(spec, seed, step, size):
    s = golden_data.input_seed(seed, step, spec["position"])
    shape = (size, *spec["dims"])
    if spec["kind"] == "ids":
        return golden_data.integers(s, shape, spec["bound"])
    if spec["kind"] == "bits":
        return golden_data.integers(s, shape, 2).astype(np.float64)
    if spec["kind"] == "one_hot":
        return np.eye(spec["dims"][0])[golden_data.integers(s, (size,), spec["dims"][0])]
    return golden_data.tensor(s, shape, 0.0 if spec["kind"] == "unit" else -1.0, 1.0)


def inputs(model, seed, size):
    layer = model["layers"][0]
    shape = (size, *layer["shape"])
    if layer.get("dtype") == "int64":
        return golden_data.integers(seed, shape, model["layers"][1]["input_dim"])
    return golden_data.tensor(seed, shape)


class Batches(keras.utils.PyDataset):
    """The batches of a case, one of which is short."""

    def __init__(self, case, seed):
        super().__init__()
        self.case, self.seed = case, seed

    def __len__(self):
        return STEPS

    def __getitem__(self, step):
        case, size = self.case, 5 if step % 4 == 3 else 8
        x = inputs(case["model"], golden_data.input_seed(self.seed, step, 0), size)
        y = [column(c, self.seed, step, size) for c in case["labels"]]
        y = tuple(y) if "outputs" in case["model"] else y[0]
        if "weights" not in case:
            return x, y
        w = [column(c, self.seed, step, size) for c in case["weights"]]
        return x, y, tuple(w) if isinstance(case["sample_weight"], list) else w[0]


class Reported(keras.callbacks.Callback):
    """What Keras reports after each step: means over the steps so far."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_train_batch_end(self, batch, logs=None):
        self.logs.append({name: float(value) for name, value in logs.items()})


def run(case, seed):
    keras.backend.clear_session()
    keras.config.set_floatx("float64")
    model = build(case["model"])
    spec = case["compile"]
    outputs = case["model"].get("outputs")
    loss = [make_loss(spec["loss"][name]) for name in outputs] if outputs else make_loss(spec["loss"])
    weights = spec.get("loss_weights")
    if isinstance(weights, dict):
        weights = [weights[name] for name in outputs]
    model.compile(loss=loss, loss_weights=weights, metrics=spec.get("metrics"),
                  weighted_metrics=spec.get("weighted_metrics"), optimizer=keras.optimizers.SGD(0.1))
    keras_models.set_weights(model, seed)
    batches = Batches(case, seed)
    given = {int(k): v for k, v in case.get("class_weight", {}).items()}
    history = Reported()
    model.fit(batches, epochs=1, shuffle=False, verbose=0, class_weight=given or None, callbacks=[history])
    variables = [{"name": v.path, "values": [float(n) for n in np.asarray(v.numpy()).reshape(-1)]}
                 for v in model.trainable_variables]
    spec = dict(spec, optimizer={"class_name": "SGD", "config": {"learning_rate": 0.1}})
    name = f"{seed}: " + json.dumps(case["compile"]["loss"])
    return dict(case, name=name, seed=seed, compile=spec, reported=history.logs, float64={"variables": variables})


def main():
    versions = {"keras": keras.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}
    cases = [run(case, 3000 + i) for i, case in enumerate(CASES)]
    with open(os.path.join(HERE, "losses.json"), "w") as f:
        f.write('{"versions": ' + json.dumps(versions) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
