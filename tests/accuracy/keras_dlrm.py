#!/usr/bin/env python3
"""Trains the model of deploy/examples/dlrm.yaml with Keras, on the same records, and prints its AUC on the validation data, in
a line for each seed."""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402

NUMBERS, TABLES = 13, 26


def read(path):
    rows = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    return [rows[:, 1:1 + NUMBERS].astype(np.float32), rows[:, 1 + NUMBERS:]], rows[:, 0].astype(np.float32)


def dlrm(vocabulary, width=16):
    numbers = keras.Input((NUMBERS,))
    ids = keras.Input((TABLES,), dtype="int64")
    bottom = keras.layers.Dense(64, activation="relu")(keras.ops.log1p(numbers))
    bottom = keras.layers.Dense(width, activation="relu")(bottom)
    vectors = [bottom] + [keras.layers.Embedding(vocabulary, width)(ids[:, i]) for i in range(TABLES)]
    stack = keras.ops.stack(vectors, axis=1)
    products = keras.ops.matmul(stack, keras.ops.transpose(stack, (0, 2, 1)))
    below = [i * len(vectors) + j for i in range(len(vectors)) for j in range(i)]
    pairs = keras.ops.take(keras.ops.reshape(products, (-1, len(vectors) ** 2)), np.array(below), axis=1)
    top = keras.layers.Concatenate()([bottom, pairs])
    top = keras.layers.Dense(64, activation="relu")(top)
    top = keras.layers.Dense(32, activation="relu")(top)
    return keras.Model([numbers, ids], keras.layers.Dense(1, activation="sigmoid")(top))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--train", required=True)
    parser.add_argument("--validation", required=True)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=0.2)
    args = parser.parse_args()
    training, validation = read(args.train), read(args.validation)
    for seed in args.seeds:
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        model = dlrm(args.vocabulary)
        model.compile(optimizer=keras.optimizers.Adagrad(args.learning_rate), loss="binary_crossentropy", jit_compile=False)
        model.fit(*training, batch_size=args.batch_size, epochs=args.epochs, verbose=0)
        auc = keras.metrics.AUC(num_thresholds=2000)
        auc.update_state(validation[1], model.predict(validation[0], batch_size=4096, verbose=0)[:, 0])
        print(float(auc.result()), flush=True)


if __name__ == "__main__":
    main()
