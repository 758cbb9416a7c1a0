#!/usr/bin/env python3
"""Trains the model of deploy/examples/mnist_cnn.yaml with Keras, on the same records, and prints the validation accuracy."""
import argparse
import gzip
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402

TRAINING = 9000


def read_idx(name, header):
    path = os.path.join(os.environ.get("COHORT_DATA_DIR", "."), "mnist", name)
    with gzip.open(path) as f:
        return np.frombuffer(f.read()[header:], np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    x = read_idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28).astype(np.float32) / 255
    y = read_idx("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64)
    model = keras.Sequential([
        keras.Input((28, 28)),
        keras.layers.Reshape((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10, activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x[:TRAINING], y[:TRAINING], batch_size=64, epochs=5, verbose=0)
    print(model.evaluate(x[TRAINING:], y[TRAINING:], verbose=0)[1])


if __name__ == "__main__":
    main()
