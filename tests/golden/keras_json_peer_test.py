#!/usr/bin/env python3
"""Trains 500 random models from their JSON, 250 of Keras 3 and 250 of tf_keras, and compares them with Keras.

make_keras_json_golden.py makes the models in build/venv-keras and build/venv-tensorflow, which `tests/run.sh --all`
installs; keras_json_test trains them. Without these environments the test is skipped.
"""
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["COHORT_SOURCE_DIR"]
TEST = os.path.join(os.environ["COHORT_BINARY_DIR"], "tests", "keras_json_test")
MAKER = os.path.join(SOURCE, "tests", "golden", "make_keras_json_golden.py")
COUNT = 250
# What the models of each version must have, to be worth the time: the share of models with it.
LEAST = 0.1


def features(case):
    """The names of the unusual things that a model has."""
    text = json.dumps(case["keras_json"])
    found = set()
    if len(case["inputs"]) > 1:
        found.add("several inputs")
    if len(case["labels"]) > 1:
        found.add("several outputs")
    if text.count('"layers":') > 1:
        found.add("nested models")
    if any(len(layer.get("inbound_nodes", [])) > 1 for layer in case["keras_json"]["config"]["layers"]):
        found.add("shared layers")
    return found


def main():
    pythons = [os.path.join(SOURCE, "build", venv, "bin", "python") for venv in ("venv-keras", "venv-tensorflow")]
    if not all(os.path.exists(python) for python in pythons):
        print("skipped: tests/run.sh --all installs build/venv-keras and build/venv-tensorflow")
        return 77
    failed = False
    for number, python in enumerate(pythons):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "models.json")
            subprocess.check_call([python, MAKER, "--first", str(1 + COUNT * number), "--count", str(COUNT),
                                   "--out", file], stderr=subprocess.DEVNULL)
            with open(file, encoding="utf-8") as f:
                cases = json.load(f)["cases"]
            for name in ("several inputs", "several outputs", "nested models", "shared layers"):
                count = sum(name in features(case) for case in cases)
                print("%s: %d of %d models have %s" % (cases[0]["name"], count, len(cases), name), flush=True)
                failed = failed or count < LEAST * len(cases)
            result = subprocess.call([TEST, "[.peer]"], env={**os.environ, "COHORT_KERAS_JSON_MODELS": file})
            failed = failed or result != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
