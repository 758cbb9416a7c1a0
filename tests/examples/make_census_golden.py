#!/usr/bin/env python3
"""Writes census_golden.json: the accuracy that the real Keras reaches with the model, the rows, the batch and
the epochs of deploy/examples/census_csv.yaml.

Usage: COHORT_DATA_DIR=... make_census_golden.py [SEEDS]    (needs keras and tensorflow)
"""
import collections
import csv
import json
import os
import statistics
import sys

import keras
import numpy as np

TRAIN = 27000
EPOCHS, BATCH = 5, 64
HERE = os.path.dirname(os.path.abspath(__file__))


def lookup(train, rows):
    """Keras' StringLookup with one number for unknown words: 1, 2, ... by frequency, then by the alphabet."""
    counts = collections.Counter(train)
    words = sorted(counts, key=lambda w: (-counts[w], w))
    numbers = {word: i + 1 for i, word in enumerate(words)}
    return np.array([numbers.get(w, 0) for w in rows], np.int64)[:, None]


def read():
    path = os.path.join(os.environ["COHORT_DATA_DIR"], "adult", "adult.data")
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f, skipinitialspace=True))

    def column(name):
        return [row[name] for row in rows]

    def scaled(name, scale, offset):
        return np.array(column(name), np.float32)[:, None] * np.float32(scale) + np.float32(offset)

    x = {"education": lookup(column("education")[:TRAIN], column("education")),
         "occupation": lookup(column("occupation")[:TRAIN], column("occupation")),
         "age": scaled("age", 0.0761, -2.93), "hr_per_week": scaled("hr_per_week", 0.0835, -3.42)}
    y = np.array([income.strip() == ">50K" for income in column("income")], np.float32)[:, None]
    return x, y


def model():
    layers = keras.layers
    inputs = {"education": layers.Input((1,), dtype="int64", name="education"),
              "occupation": layers.Input((1,), dtype="int64", name="occupation"),
              "age": layers.Input((1,), name="age"),
              "hr_per_week": layers.Input((1,), name="hr_per_week")}
    joined = layers.Concatenate()([layers.Flatten()(layers.Embedding(17, 8)(inputs["education"])),
                                   layers.Flatten()(layers.Embedding(15, 8)(inputs["occupation"])),
                                   inputs["age"], inputs["hr_per_week"]])
    answer = layers.Dense(1, activation="sigmoid")(layers.Dense(32, activation="relu")(joined))
    made = keras.Model(inputs, answer)
    made.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return made


def accuracy(seed, x, y):
    keras.utils.set_random_seed(seed)
    trained = model()
    trained.fit({k: v[:TRAIN] for k, v in x.items()}, y[:TRAIN], batch_size=BATCH, epochs=EPOCHS, verbose=0)
    held_out = {k: v[TRAIN:] for k, v in x.items()}
    return trained.evaluate(held_out, y[TRAIN:], batch_size=BATCH, verbose=0, return_dict=True)["accuracy"]


def main():
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    x, y = read()
    found = [round(float(accuracy(seed, x, y)), 6) for seed in range(1, seeds + 1)]
    golden = {"keras": keras.__version__, "backend": keras.backend.backend(), "train_rows": TRAIN,
              "validation_rows": len(y) - TRAIN, "batch_size": BATCH, "epochs": EPOCHS, "accuracy": found,
              "mean_accuracy": round(statistics.mean(found), 6)}
    with open(os.path.join(HERE, "census_golden.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, indent=2)
        f.write("\n")
    print(json.dumps(golden))


if __name__ == "__main__":
    main()
