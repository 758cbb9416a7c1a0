#!/usr/bin/env python3
"""Writes tables.json: what Keras 3's preprocessing layers make of columns of tables.

Usage: make_table_golden.py [OUTPUT]     (needs keras and tensorflow-cpu from PyPI)

Each case has the columns of a table (words, integers or numbers), the arguments of a layer, and what it
gives for each record. A layer without a vocabulary, boundaries or moments adapts to the table.
"""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

WORDS = [["red", "green", "blue", "red", "pink", "red", "green", "x", "a longer text of 34 letters, ok ok!"]]
PAIRS = [["red", "green", "blue", "red", "pink", "red"], ["blue", "red", "red", "red", "grey", "red"]]
INTEGERS = [[5, -3, 5, 12, 5, 12, 7, 0, 9007199254740993]]
TRIPLES = [[5, -3, 5, 12, 5], [12, 7, 7, 12, -3], [5, 5, 0, -3, 40]]
NUMBERS = [[0.5, -1.25, 3.0, 2.5, 0.5, 7.75, -2.0, 1.0, 0.0, 4.5, 10.0, 6.5, 3.25]]
MATRIX = [[0.5, -1.25, 3.0, 2.5], [10, 20, 35, 5], [1, 1, 1, 1]]
MANY = [[float((i * 37) % 1009) / 8 for i in range(500)]]
TEXTS = [["The quick, brown fox!", "the lazy dog; the fox.", "A  dog\tbarks", "", "fox-fox fox's FOX",
          "the the the quick"]]

CASES = [
    ("StringLookup", WORDS, dict()),
    ("StringLookup", WORDS, dict(mask_token="x", num_oov_indices=2)),
    ("StringLookup", WORDS, dict(max_tokens=3)),
    ("StringLookup", WORDS, dict(vocabulary=["green", "red"], num_oov_indices=3)),
    ("StringLookup", WORDS, dict(vocabulary=["green", "red"], num_oov_indices=5, salt=[7, 11])),
    ("StringLookup", WORDS, dict(vocabulary=["", "[UNK]", "green", "red"], mask_token="")),
    ("StringLookup", WORDS, dict(output_mode="one_hot", mask_token="red")),
    ("StringLookup", PAIRS, dict()),
    ("StringLookup", PAIRS, dict(output_mode="one_hot", num_oov_indices=0)),
    ("StringLookup", PAIRS, dict(output_mode="multi_hot", max_tokens=9, pad_to_max_tokens=True)),
    ("StringLookup", PAIRS, dict(output_mode="count")),
    ("StringLookup", PAIRS, dict(output_mode="tf_idf")),
    ("StringLookup", PAIRS, dict(output_mode="tf_idf", vocabulary=["red", "grey"], idf_weights=[0.5, 2.0])),
    ("IntegerLookup", INTEGERS, dict()),
    ("IntegerLookup", INTEGERS, dict(mask_token=0, num_oov_indices=0)),
    ("IntegerLookup", INTEGERS, dict(vocabulary=[5, 12], num_oov_indices=3)),
    ("IntegerLookup", INTEGERS, dict(vocabulary=[5, 12], num_oov_indices=3, oov_method="farmhash")),
    ("IntegerLookup", TRIPLES, dict(output_mode="multi_hot")),
    ("IntegerLookup", TRIPLES, dict(output_mode="tf_idf", max_tokens=5)),
    ("Hashing", WORDS, dict(num_bins=7)),
    ("Hashing", WORDS, dict(num_bins=1000000)),
    ("Hashing", WORDS, dict(num_bins=100, salt=133)),
    ("Hashing", WORDS, dict(num_bins=100, salt=[133, -5], mask_value="red")),
    ("Hashing", PAIRS, dict(num_bins=5, output_mode="count")),
    ("Hashing", INTEGERS, dict(num_bins=9)),
    ("Hashing", INTEGERS, dict(num_bins=9, output_mode="one_hot")),
    ("HashedCrossing", PAIRS, dict(num_bins=1000)),
    ("HashedCrossing", PAIRS, dict(num_bins=6, output_mode="one_hot")),
    ("HashedCrossing", TRIPLES, dict(num_bins=1000)),
    ("HashedCrossing", [PAIRS[0][:5], TRIPLES[0]], dict(num_bins=1000)),
    ("CategoryEncoding", [[1, 3, 0, 1], [2, 3, 3, 0]], dict(num_tokens=4)),
    ("CategoryEncoding", [[1, 3, 0, 1], [2, 3, 3, 0]], dict(num_tokens=5, output_mode="one_hot")),
    ("CategoryEncoding", [[1, 3, 0, 1], [2, 3, 3, 0]], dict(num_tokens=4, output_mode="count")),
    ("CategoryEncoding", [[1, 3, 0, 1]], dict(num_tokens=4, output_mode="one_hot")),
    ("Discretization", NUMBERS, dict(bin_boundaries=[0.0, 1.0, 2.5])),
    ("Discretization", NUMBERS, dict(bin_boundaries=[0.0, 1.0, 2.5], output_mode="one_hot")),
    ("Discretization", NUMBERS, dict(num_bins=4, epsilon=0.1)),
    ("Discretization", MANY, dict(num_bins=10)),
    ("Discretization", MANY, dict(num_bins=7, epsilon=0.003)),
    ("Normalization", NUMBERS, dict()),
    ("Normalization", NUMBERS, dict(mean=2.0, variance=9.0)),
    ("Normalization", NUMBERS, dict(mean=2.0, variance=9.0, invert=True)),
    ("Normalization", MATRIX, dict()),
    ("Normalization", MATRIX, dict(axis=None)),
    ("Normalization", MATRIX, dict(mean=[1.0, 2.0, 3.0], variance=[4.0, 9.0, 0.0])),
    ("TextVectorization", TEXTS, dict(output_sequence_length=4)),
    ("TextVectorization", TEXTS, dict(output_sequence_length=6, ngrams=2, max_tokens=9)),
    ("TextVectorization", TEXTS, dict(output_sequence_length=5, standardize="lower", split="character")),
    ("TextVectorization", TEXTS, dict(output_sequence_length=2, standardize=None, split=None)),
    ("TextVectorization", TEXTS, dict(output_sequence_length=3, standardize="strip_punctuation",
                                      vocabulary=["the", "fox", "dog"])),
    ("TextVectorization", TEXTS, dict(output_mode="multi_hot")),
    ("TextVectorization", TEXTS, dict(output_mode="count", ngrams=[2, 2])),
    ("TextVectorization", TEXTS, dict(output_mode="tf_idf")),
]


def run(name, columns, arguments):
    if isinstance(columns[0][0], float):
        data = np.array(columns, np.float32).T
    elif name == "HashedCrossing":
        data = tuple(np.array(column)[:, None] for column in columns)
    else:
        data = np.array(columns).T
    given = dict(arguments)
    if "ngrams" in given and isinstance(given["ngrams"], list):
        given["ngrams"] = tuple(given["ngrams"])
    layer = getattr(keras.layers, name)(**given)
    learned = any(key in arguments for key in ("vocabulary", "bin_boundaries", "mean"))
    if hasattr(layer, "adapt") and not learned:
        layer.adapt(data)
    result = np.asarray(layer(data))
    return {"class_name": name, "columns": columns, "config": arguments,
            "shape": list(result.shape[1:]), "dtype": str(result.dtype),
            "values": [float(str(x)) for x in result.ravel()]}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "tables.json")
    golden = {"made_by": "tests/golden/make_table_golden.py",
              "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
              "cases": [run(*case) for case in CASES]}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
    print(f"{path}: {len(golden['cases'])} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
