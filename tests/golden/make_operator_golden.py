#!/usr/bin/env python3
"""Writes operator_models.json.gz with the real Keras: models with functions of keras.ops, masks and attention.

    build/venv-keras/bin/python tests/golden/make_operator_golden.py     (`tests/run.sh --all` makes that venv)

operator_models.py has the models. Each case is one as make_keras_json_golden.py writes it, with two training steps in
float64.
"""
import argparse
import gzip
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402

import make_keras_json_golden  # noqa: E402
import operator_models  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(HERE, "operator_models.json.gz"))
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    args = parser.parse_args()
    keras.config.set_floatx("float64")
    cases = []
    for number, (name, build) in enumerate(operator_models.CASES.items()):
        if args.only and name not in args.only.split(","):
            continue
        keras.backend.clear_session()
        model, inputs, labels, arguments = build()
        # The exact gradient of the bias of a key is 0, and Adam would make steps of its rounding errors.
        is_adam = name.startswith("function_") and number % 2
        optimizer = keras.optimizers.Adam(0.01) if is_adam else keras.optimizers.SGD(0.1)
        cases.append(make_keras_json_golden.trained_case(name, 3000 + number, model, inputs, labels, arguments,
                                                         optimizer, STEPS))
        print(name, cases[-1]["logs"], flush=True)
    text = '{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n"
    with gzip.GzipFile(args.out, "wb", mtime=0) as f:
        f.write(text.encode())


if __name__ == "__main__":
    main()
