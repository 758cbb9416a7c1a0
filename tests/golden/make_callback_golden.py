#!/usr/bin/env python3
"""Writes callbacks.json: what callbacks of Keras 3 decide for known values of a metric.

Usage: make_callback_golden.py [OUTPUT]     (needs keras and tensorflow-cpu from PyPI)
"""

import json
import os
import random
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402

CASES = 100
EPOCHS = 20


class Model:
    stop_training = False

    def __init__(self, rate=0.1):
        self.optimizer = keras.optimizers.SGD(rate)

    def rate(self):
        return float(keras.ops.convert_to_numpy(self.optimizer.learning_rate))


class Rates:
    """The learning rate of a model at each epoch, without those that equal the one before."""

    def __init__(self, model):
        self.model = model
        self.first = self.last = model.rate()
        self.changes = {}

    def note(self, epoch):
        if self.model.rate() != self.last:
            self.last = self.changes[epoch] = self.model.rate()


def history(chance):
    # A missing value: the epoch was not validated.
    return [None if chance.random() < 0.1 else round(chance.random(), 3) for _ in range(EPOCHS)]


def logs(value):
    return {} if value is None else {"val_loss": value}


def stopping(chance):
    given = {"monitor": "val_loss", "mode": chance.choice(["min", "max"])}
    if chance.random() < 0.8:
        given["patience"] = chance.randint(0, 5)
    if chance.random() < 0.5:
        given["min_delta"] = chance.choice([0.0, 0.01, 0.1, -0.1])
    if chance.random() < 0.3:
        given["baseline"] = chance.choice([0.3, 0.5, 0.7])
    if chance.random() < 0.3:
        given["start_from_epoch"] = chance.randint(0, 5)
    values = history(chance)
    callback = keras.callbacks.EarlyStopping(**given)
    callback.set_model(Model())
    callback.on_train_begin()
    stopped = 0
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, logs(value))
        if callback.model.stop_training:
            stopped = epoch + 1
            break
    return {"arguments": given, "values": values, "stopped": stopped}


def reducing(chance):
    given = {"monitor": "val_loss", "mode": chance.choice(["min", "max"])}
    if chance.random() < 0.9:
        given["patience"] = chance.randint(0, 5)
    if chance.random() < 0.7:
        given["factor"] = chance.choice([0.5, 0.2, 0.9, 0.0])
    if chance.random() < 0.5:
        given["min_delta"] = chance.choice([0.0, 0.01, 0.1, -0.1])
    if chance.random() < 0.5:
        given["cooldown"] = chance.randint(0, 4)
    if chance.random() < 0.5:
        given["min_lr"] = chance.choice([0.1, 0.03, 1e-3])
    values = history(chance)
    model = Model(chance.choice([0.1, 0.3, 1e-3]))
    callback = keras.callbacks.ReduceLROnPlateau(**given)
    callback.set_model(model)
    callback.on_train_begin()
    rates = Rates(model)
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, logs(value))
        rates.note(epoch)  # the rate in the epoch that follows
    return {"arguments": given, "values": values, "first": rates.first, "rates": rates.changes}


def scheduling(chance):
    table = {epoch: round(chance.random(), 4) for epoch in chance.sample(range(EPOCHS), chance.randint(1, 6))}
    model = Model()
    rates = Rates(model)
    callback = keras.callbacks.LearningRateScheduler(lambda epoch, rate: table.get(epoch, rate))
    callback.set_model(model)
    for epoch in range(EPOCHS):
        callback.on_epoch_begin(epoch)
        rates.note(epoch)
        callback.on_epoch_end(epoch, {})
    schedule = [number for epoch in sorted(table) for number in (float(epoch), table[epoch])]
    return {"schedule": schedule, "first": rates.first, "rates": rates.changes}


def logging(chance):
    separator = chance.choice([",", ";"])
    epochs = [{"loss": round(chance.random(), 3), "val_loss": round(chance.random(), 3)} for _ in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "log.csv")
        callback = keras.callbacks.CSVLogger(path, separator=separator)
        callback.set_model(Model())
        callback.on_train_begin()
        for epoch, values in enumerate(epochs):
            callback.on_epoch_end(epoch, values)
        callback.on_train_end()
        with open(path, encoding="utf-8", newline="") as f:
            return {"separator": separator, "epochs": epochs, "text": f.read()}


def main():
    chance = random.Random(7)
    golden = {
        "early_stopping": [stopping(chance) for _ in range(CASES)],
        "reduce_lr_on_plateau": [reducing(chance) for _ in range(CASES)],
        "learning_rate_scheduler": [scheduling(chance) for _ in range(20)],
        "csv_logger": [logging(chance) for _ in range(4)],
    }
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "callbacks.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"made_by": "tests/golden/make_callback_golden.py", "versions": {"keras": keras.__version__},
                   **golden}, f, separators=(",", ":"))
        f.write("\n")
    cases = golden["early_stopping"]
    print(path, sum(c["stopped"] > 0 for c in cases), "of", len(cases), "stop")
    cases = golden["reduce_lr_on_plateau"]
    print(sum(bool(c["rates"]) for c in cases), "of", len(cases), "reduce the rate")


if __name__ == "__main__":
    main()
