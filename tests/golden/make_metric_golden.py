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
GROUP_POSITION = 6
WEIGHT_POSITION = 7

# Class, arguments, kind of labels, classes, steps between 0 and 1 on which the predictions lie (0: any), and
# the kind of weights: none, "unit", or the integers "whole", which IoU needs.
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
    ("Accuracy", {}, "class_map", 6, 3),
    ("Accuracy", {}, "class_map", 6, 3, "unit"),
    ("AUC", {}, "binary", 1, 0, "unit"),
    ("AUC", {"curve": "PR"}, "binary", 3, 8, "unit"),
    ("AUC", {"curve": "PRGAIN"}, "binary", 2, 0),
    ("AUC", {"curve": "PRGAIN", "summation_method": "majoring"}, "binary", 1, 0, "unit"),
    ("AUC", {"multi_label": True}, "binary", 3, 0),
    ("AUC", {"multi_label": True, "num_labels": 3, "num_thresholds": 20}, "binary", 3, 0, "unit"),
    ("AUC", {"multi_label": True, "label_weights": [0.5, 1.0, 2.5], "curve": "PR"}, "binary", 3, 0),
    ("AUC", {"multi_label": True, "thresholds": [0.3, 0.8]}, "binary", 2, 5),
    ("AUC", {"label_weights": [0.5, 1.0, 2.5]}, "binary", 3, 0, "unit"),
    ("BinaryAccuracy", {}, "binary", 3, 4, "unit"),
    ("SparseCategoricalAccuracy", {}, "sparse", 4, 0, "unit"),
    ("CategoricalAccuracy", {}, "one_hot", 4, 0, "unit"),
    ("TopKCategoricalAccuracy", {"k": 3}, "one_hot", 12, 4, "unit"),
    ("SparseTopKCategoricalAccuracy", {"k": 2}, "sparse", 6, 0, "unit"),
    ("SparseTopKCategoricalAccuracy", {"k": 2, "from_sorted_ids": True}, "sorted_ids", 6, 0),
    ("RootMeanSquaredError", {}, "regression", 5, 0, "unit"),
    ("MeanSquaredError", {}, "regression", 5, 0, "unit"),
    ("MeanAbsoluteError", {}, "regression", 1, 0, "unit"),
    ("MeanAbsolutePercentageError", {}, "unit", 3, 0),
    ("MeanSquaredLogarithmicError", {}, "unit", 3, 0, "unit"),
    ("LogCoshError", {}, "regression", 3, 0),
    ("CosineSimilarity", {}, "regression", 3, 0, "unit"),
    ("PearsonCorrelation", {}, "regression", 5, 0),
    ("ConcordanceCorrelation", {}, "regression", 5, 0, "unit"),
    ("KLDivergence", {}, "unit", 3, 0),
    ("Poisson", {}, "unit", 3, 0, "unit"),
    ("Hinge", {}, "binary", 3, 0),
    ("SquaredHinge", {}, "regression", 3, 0, "unit"),
    ("CategoricalHinge", {}, "one_hot", 3, 0),
    ("BinaryCrossentropy", {"label_smoothing": 0.1}, "binary", 3, 0),
    ("BinaryCrossentropy", {"from_logits": True}, "binary", 3, 0, "unit"),
    ("CategoricalCrossentropy", {}, "one_hot", 3, 0, "unit"),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, "sparse", 3, 0),
    ("SparseCategoricalCrossentropy", {"ignore_class": 1}, "sparse", 3, 0),
    ("SparseCategoricalCrossentropy", {"ignore_class": 1}, "sparse", 3, 0, "unit"),
    ("F1Score", {}, "one_hot", 3, 0),
    ("F1Score", {"average": "macro"}, "one_hot", 3, 4, "unit"),
    ("F1Score", {"average": "weighted", "threshold": 0.6}, "binary", 3, 0),
    ("FBetaScore", {"average": "micro", "beta": 2.0}, "binary", 3, 0),
    ("FBetaScore", {"beta": 0.5, "threshold": 0.5}, "binary", 2, 4, "unit"),
    ("TruePositives", {}, "binary", 1, 0),
    ("FalsePositives", {"thresholds": [0.2, 0.7]}, "binary", 3, 0, "unit"),
    ("TrueNegatives", {"thresholds": [0.0, 0.5, 1.0]}, "binary", 2, 4),
    ("FalseNegatives", {"thresholds": 0.3}, "binary", 2, 0, "unit"),
    ("Precision", {"thresholds": [0.25, 0.5, 0.9]}, "binary", 2, 0),
    ("Precision", {"thresholds": [0.0, 0.5, 1.0]}, "binary", 2, 4, "unit"),
    ("Precision", {"top_k": 2}, "binary", 5, 4),
    ("Recall", {"top_k": 3, "class_id": 1}, "binary", 5, 0, "unit"),
    ("Recall", {"top_k": 2, "thresholds": 0.4}, "binary", 5, 0),
    ("SensitivityAtSpecificity", {"specificity": 0.5}, "binary", 1, 0),
    ("SpecificityAtSensitivity", {"sensitivity": 0.6, "num_thresholds": 1}, "binary", 2, 0, "unit"),
    ("PrecisionAtRecall", {"recall": 0.4, "num_thresholds": 50}, "binary", 1, 8, "unit"),
    ("RecallAtPrecision", {"precision": 0.6, "class_id": 1}, "binary", 2, 0),
    ("IoU", {"num_classes": 4, "target_class_ids": [0, 2]}, "class_map", 6, 3),
    ("MeanIoU", {"num_classes": 4}, "class_map", 6, 3, "whole"),
    ("MeanIoU", {"num_classes": 4, "ignore_class": 1}, "class_map", 6, 3),
    ("MeanIoU", {"num_classes": 5, "sparse_y_pred": False}, "sparse", 5, 0),
    ("BinaryIoU", {"threshold": 0.4}, "binary", 4, 0),
    ("BinaryIoU", {"target_class_ids": [1]}, "binary", 1, 0, "whole"),
    ("OneHotIoU", {"num_classes": 4, "target_class_ids": [1, 3]}, "one_hot", 4, 0),
    ("OneHotMeanIoU", {"num_classes": 4}, "one_hot", 4, 0, "whole"),
    ("R2Score", {}, "regression", 1, 0),
    ("R2Score", {"class_aggregation": "variance_weighted_average"}, "regression", 3, 0, "unit"),
    ("R2Score", {"class_aggregation": None, "num_regressors": 2}, "regression", 2, 0),
    # Not in Keras: made of its AUC, and of tf.math.confusion_matrix.
    ("GroupAUC", {"column": "group", "num_groups": 3}, "binary", 1, 0),
    ("GroupAUC", {"column": "group", "num_groups": 2, "average": "macro"}, "binary", 1, 8, "unit"),
    ("GroupAUC", {"column": "group", "num_groups": 4, "average": "none", "num_thresholds": 7}, "binary", 1, 12),
    ("ConfusionMatrix", {}, "sparse", 4, 0),
    ("ConfusionMatrix", {}, "one_hot", 4, 4, "unit"),
    ("ConfusionMatrix", {"threshold": 0.25}, "binary", 1, 8),
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
    if kind == "class_map":  # both are numbers from 0 to quantum
        labels = golden_data.integers(labels, (size, classes), quantum + 1)
        return labels.astype(np.float32), np.round(p * quantum).astype(np.float32)
    if kind == "sorted_ids":
        return golden_data.integers(labels, (size,), classes), np.floor(p * classes)
    if kind == "unit":
        return golden_data.tensor(labels, (size, classes), 0.0, 1.0).astype(np.float32), p
    if kind == "sparse":
        return golden_data.integers(labels, (size,), classes), p
    if kind == "one_hot":
        return np.eye(classes, dtype=np.float32)[golden_data.integers(labels, (size,), classes)], p
    if kind == "regression":
        return golden_data.tensor(labels, (size, classes)).astype(np.float32), p
    bound = 10 if kind == "skewed" else 2  # one label in ten is positive, or one in two
    return (golden_data.integers(labels, (size, classes), bound) == 1).astype(np.float32), p


def weights_of(weighted, kind, classes, seed, step, size):
    """The weights of a batch, of each record or of each element of a map; None: all count as 1."""
    if weighted is None:
        return None
    shape = (size, classes) if kind == "class_map" else (size,)
    s = golden_data.input_seed(seed, step, WEIGHT_POSITION)
    if weighted == "whole":
        return golden_data.integers(s, shape, 4).astype(np.float32)
    return golden_data.tensor(s, shape, 0.0, 1.0).astype(np.float32)


class GroupAUC:
    """Keras' AUC of each group. A group with one kind of labels has none, and counts as 0 in the list."""

    def __init__(self, column, num_groups, num_thresholds=40, average="weighted"):
        self.average = average
        self.aucs = [keras.metrics.AUC(num_thresholds=num_thresholds) for _ in range(num_groups)]

    def update_state(self, labels, predictions, sample_weight, groups):
        for i, auc in enumerate(self.aucs):
            own = groups == i
            if own.any():
                auc.update_state(labels[own], predictions[own],
                                 sample_weight=None if sample_weight is None else sample_weight[own])

    def result(self):
        areas = [float(auc.result()) for auc in self.aucs]
        if self.average == "none":
            return areas
        positives = [float(auc.true_positives[0]) for auc in self.aucs]
        negatives = [float(auc.false_positives[0]) for auc in self.aucs]
        weights = [(p + n if self.average == "weighted" else 1) * (p > 0 and n > 0)
                   for p, n in zip(positives, negatives)]
        return sum(a * w for a, w in zip(areas, weights)) / sum(weights) if sum(weights) else 0.0


class ConfusionMatrix:
    def __init__(self, threshold=0.5):
        self.threshold, self.matrix = threshold, 0

    def update_state(self, labels, predictions, sample_weight):
        classes = max(predictions.shape[1], 2)
        if predictions.shape[1] == 1:
            y, p = labels[:, 0].astype(int), (predictions[:, 0] > self.threshold).astype(int)
        else:
            y, p = labels.argmax(-1) if labels.ndim == 2 else labels, predictions.argmax(-1)
        self.matrix += tf.math.confusion_matrix(y, p, classes, sample_weight, tf.float64).numpy()

    def result(self):
        return self.matrix.trace() / self.matrix.sum()


def run(case, seed):
    name, config, kind, classes, quantum = case[:5]
    weighted = case[5] if len(case) > 5 else None
    metric = (globals().get(name) or getattr(keras.metrics, name))(**config)
    values = []
    for step, size in enumerate(SIZES):
        labels, predictions = batch(kind, classes, quantum, seed, step, size)
        more = {}
        if name == "GroupAUC":  # some records are of no group
            groups = golden_data.input_seed(seed, step, GROUP_POSITION)
            more["groups"] = golden_data.integers(groups, (size,), config["num_groups"] + 1)
        metric.update_state(labels, predictions,
                            sample_weight=weights_of(weighted, kind, classes, seed, step, size), **more)
        result = np.asarray(metric.result())
        values.append([float(v) for v in result] if result.ndim and result.size > 1 else float(result.item()))
    return {"class_name": name, "config": config, "kind": kind, "classes": classes, "quantum": quantum,
            "weighted": weighted, "seed": seed, "values": values}


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
