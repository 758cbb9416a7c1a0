#!/usr/bin/env python3
"""Writes metrics.json with the real Keras.

    build/venv-keras/bin/python tests/golden/make_metric_golden.py    (`tests/run.sh --all` makes that venv)

cases: the value of each metric after each of six batches. evaluation: what model.evaluate returns. Labels,
predictions, inputs and weights come from golden_data.py and are not stored.
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

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [8, 5, 8, 8, 5, 8]
LABEL_POSITION = 9

# Class, arguments, kind of labels, classes, steps between 0 and 1 on which the predictions lie (0: any).
CASES = [
    ("AUC", {}, "binary", 1, 0),
    ("AUC", {}, "binary", 1, 8),
    ("AUC", {}, "binary", 3, 199),
    ("AUC", {"curve": "PR"}, "binary", 1, 0),
    ("AUC", {"curve": "PR"}, "binary", 1, 8),
    ("AUC", {"curve": "PR", "num_thresholds": 7}, "binary", 2, 12),
    ("AUC", {"curve": "PR", "summation_method": "minoring"}, "binary", 1, 0),
    ("AUC", {"curve": "PR", "summation_method": "majoring"}, "binary", 1, 0),
    ("AUC", {"summation_method": "minoring"}, "binary", 1, 4),
    ("AUC", {"summation_method": "majoring", "num_thresholds": 50}, "binary", 1, 4),
    ("AUC", {"from_logits": True}, "binary", 1, 0),
    ("AUC", {"num_thresholds": 1000}, "skewed", 1, 0),
    ("AUC", {"thresholds": [0.7, 0.1, 0.45, 0.5]}, "binary", 1, 20),
    ("AUC", {"thresholds": [0.25, 0.5, 0.75], "curve": "PR"}, "binary", 2, 4),
    ("Precision", {}, "binary", 1, 0),
    ("Precision", {}, "binary", 1, 4),
    ("Precision", {"thresholds": 0.75}, "binary", 3, 0),
    ("Precision", {"class_id": 1}, "binary", 3, 0),
    ("Recall", {"class_id": 2, "thresholds": [0.25]}, "binary", 3, 0),
    ("Recall", {}, "binary", 1, 0),
    ("Recall", {"thresholds": 0.25}, "binary", 1, 4),
    ("BinaryAccuracy", {"threshold": 0.25}, "binary", 3, 4),
    ("TopKCategoricalAccuracy", {}, "one_hot", 12, 0),
    ("TopKCategoricalAccuracy", {"k": 3}, "one_hot", 12, 4),
    ("TopKCategoricalAccuracy", {"k": 20}, "one_hot", 12, 0),
    ("SparseTopKCategoricalAccuracy", {}, "sparse", 12, 0),
    ("SparseTopKCategoricalAccuracy", {"k": 1}, "sparse", 12, 4),
    ("CategoricalAccuracy", {}, "one_hot", 4, 0),
    ("CategoricalAccuracy", {}, "one_hot", 4, 4),
    ("SparseCategoricalAccuracy", {}, "sparse", 4, 0),
    ("RootMeanSquaredError", {}, "regression", 1, 0),
    ("RootMeanSquaredError", {}, "regression", 5, 0),
    ("MeanSquaredError", {}, "regression", 5, 0),
    ("MeanAbsoluteError", {}, "regression", 5, 0),
]

EVALUATION = {
    "seed": 81,
    "records": 103,
    "batch_size": 32,
    "hidden": 6,
    "metrics": ["AUC", "Precision", "recall", "RootMeanSquaredError", "mae", "mse", "accuracy"],
}


def batch(kind, classes, quantum, seed, step, size):
    """Labels and predictions of one batch, as float32 (class numbers as int64)."""
    u = golden_data.uniform(golden_data.input_seed(seed, step, 0), size * classes)
    p = np.floor(u * (quantum + 1)) / quantum if quantum else u
    p = p.reshape(size, classes).astype(np.float32)
    labels = golden_data.input_seed(seed, step, LABEL_POSITION)
    if kind == "sparse":
        return golden_data.integers(labels, (size,), classes), p
    if kind == "one_hot":
        return np.eye(classes, dtype=np.float32)[golden_data.integers(labels, (size,), classes)], p
    if kind == "regression":
        return golden_data.tensor(labels, (size, classes)).astype(np.float32), p
    bound = 10 if kind == "skewed" else 2  # one label in ten is positive, or one in two
    return (golden_data.integers(labels, (size, classes), bound) == 1).astype(np.float32), p


def run(case, seed):
    name, config, kind, classes, quantum = case
    metric = getattr(keras.metrics, name)(**config)
    values = []
    for step, size in enumerate(SIZES):
        labels, predictions = batch(kind, classes, quantum, seed, step, size)
        metric.update_state(labels, predictions)
        values.append(float(metric.result()))
    return {"class_name": name, "config": config, "kind": kind, "classes": classes, "quantum": quantum,
            "seed": seed, "values": values}


def evaluate(case):
    records = case["records"]
    model = keras.Sequential([keras.Input(shape=(3,)), keras.layers.Dense(case["hidden"], activation="relu"),
                              keras.layers.Dense(1, activation="sigmoid")])
    for i, v in enumerate(model.trainable_variables):
        v.assign(golden_data.tensor(golden_data.weight_seed(case["seed"], i), v.shape, -1.0, 1.0))
    x = golden_data.tensor(golden_data.input_seed(case["seed"], 0, 0), (records, 3)).astype(np.float32)
    y = golden_data.integers(golden_data.input_seed(case["seed"], 0, 9), (records,), 2).astype(np.float32)
    model.compile(loss="binary_crossentropy", metrics=list(case["metrics"]))
    logs = model.evaluate(x, y, batch_size=case["batch_size"], verbose=0, return_dict=True)
    return dict(case, values={name: float(value) for name, value in logs.items()})


def main():
    versions = {"keras": keras.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}
    cases = [run(case, 100 + i) for i, case in enumerate(CASES)]
    with open(os.path.join(HERE, "metrics.json"), "w") as f:
        f.write('{"versions": ' + json.dumps(versions) + ',\n"sizes": ' + json.dumps(SIZES) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c) for c in cases))
        f.write('\n],\n"evaluation": ' + json.dumps(evaluate(EVALUATION)) + "}\n")


if __name__ == "__main__":
    main()
