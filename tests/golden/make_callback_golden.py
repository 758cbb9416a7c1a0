#!/usr/bin/env python3
"""Writes callbacks.json: after which epoch Keras 3 stops for known values of a metric.

Usage: make_callback_golden.py [OUTPUT]     (needs keras and tensorflow-cpu from PyPI)
"""

import json
import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402

CASES = 200
EPOCHS = 20


class Model:
    stop_training = False
    optimizer = None


def arguments(chance):
    given = {"monitor": "val_loss", "mode": chance.choice(["min", "max"])}
    if chance.random() < 0.8:
        given["patience"] = chance.randint(0, 5)
    if chance.random() < 0.5:
        given["min_delta"] = chance.choice([0.0, 0.01, 0.1, -0.1])
    if chance.random() < 0.3:
        given["baseline"] = chance.choice([0.3, 0.5, 0.7])
    if chance.random() < 0.3:
        given["start_from_epoch"] = chance.randint(0, 5)
    return given


def main():
    chance = random.Random(7)
    cases = []
    for _ in range(CASES):
        given = arguments(chance)
        # A missing value: the epoch was not validated.
        values = [None if chance.random() < 0.1 else round(chance.random(), 3) for _ in range(EPOCHS)]
        callback = keras.callbacks.EarlyStopping(**given)
        callback.set_model(Model())
        callback.on_train_begin()
        stopped = 0
        for epoch, value in enumerate(values):
            callback.on_epoch_end(epoch, {} if value is None else {"val_loss": value})
            if callback.model.stop_training:
                stopped = epoch + 1
                break
        cases.append({"arguments": given, "values": values, "stopped": stopped})
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "callbacks.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"made_by": "tests/golden/make_callback_golden.py", "versions": {"keras": keras.__version__},
                   "early_stopping": cases}, f, separators=(",", ":"))
        f.write("\n")
    print(path, sum(c["stopped"] > 0 for c in cases), "of", len(cases), "stop")


if __name__ == "__main__":
    main()
