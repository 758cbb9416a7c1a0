#!/usr/bin/env python3
"""Trains the model of deploy/examples/imdb_lstm.yaml with Keras, on the same reviews, and prints the validation accuracy."""
import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402

WORDS, FEWEST_WORDS = 24, 6
NOT, GOOD, GREAT, BAD, AWFUL = range(9, 14)  # 0 follows the last word; words below NOT have no opinion
OPINIONS = np.array([0] * GOOD + [1, 2, -1, -2])


def philox(counter_low, counter_high, key):
    """Philox4x32-10, the random numbers of Cohort: 4 arrays of uint32 for arrays of counters below 2^32."""
    low, high = np.broadcast_arrays(np.uint64(counter_low), np.uint64(counter_high))
    mask, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [low, np.zeros_like(low), high, np.zeros_like(low)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [(b >> word) ^ counter[1] ^ np.uint64(keys[0]), b & mask,
                   (a >> word) ^ counter[3] ^ np.uint64(keys[1]), a & mask]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [words.astype(np.int64) for words in counter]


def opinion(word, before):
    return np.where(before == NOT, -OPINIONS[word], OPINIONS[word])


def reviews(seed, records):
    """The words and labels that the source `generator: {name: reviews}` makes."""
    index = np.arange(records)
    count = FEWEST_WORDS + philox(index, 1, seed)[0] % (WORDS - FEWEST_WORDS + 1)
    words = np.zeros((records, WORDS), np.int64)
    total = before = np.zeros(records, np.int64)
    for i in range(WORDS):
        random = philox(index, 2 + i // 4, seed)[i % 4]
        word = 1 + random % AWFUL
        undecided = (i + 1 == count) & (total + opinion(word, before) == 0)
        word = np.where(undecided, np.where(random % 2 == 0, GOOD, BAD), word)
        word = np.where(i < count, word, 0)
        total = total + opinion(word, before)
        words[:, i] = before = word
    return words, (total > 0).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=int, default=12800)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((WORDS,), dtype="int64"),
        layers.Embedding(AWFUL + 1, 16, mask_zero=True),
        layers.Bidirectional(layers.LSTM(16, return_sequences=True)),
        layers.LSTM(16, dropout=0.1),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss="binary_crossentropy", metrics=["accuracy"])
    model.fit(*reviews(1, args.records), batch_size=32, epochs=args.epochs, verbose=0)
    print(model.evaluate(*reviews(2, 1600), verbose=0)[1])


if __name__ == "__main__":
    main()
