#!/usr/bin/env python3
"""Runs the Cohort versions of TensorFlow's tutorials (deploy/examples/python) on small data: each one learns."""

import contextlib
import io
import os
import re
import runpy
import sys
import tempfile
import unittest
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "deploy", "python"))
EXAMPLES = os.path.join(ROOT, "deploy", "examples", "python")

import keras  # noqa: E402
import numpy as np  # noqa: E402


def digits(records, rng):
    """Images of a bright bar whose row is the class."""
    labels = rng.integers(0, 10, records).astype("uint8")
    images = rng.integers(0, 60, (records, 28, 28)).astype("uint8")
    for image, label in zip(images, labels):
        image[label * 2 + 4:label * 2 + 6] = 250
    return images, labels


def iris(path, records, rng):
    """Flowers of three species with other sizes."""
    means = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.5, 2.0]])
    species = rng.integers(0, 3, records)
    sizes = means[species] + rng.normal(0, 0.15, (records, 4))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{records},4,setosa,versicolor,virginica\n")
        file.writelines(",".join([*(f"{x:.1f}" for x in row), str(s)]) + "\n" for row, s in zip(sizes, species))


class TutorialsTest(unittest.TestCase):
    def run_example(self, name, *arguments):
        rng = np.random.default_rng(0)
        data = digits(1200, rng), digits(200, rng)
        printed = io.StringIO()
        keras.utils.set_random_seed(1)
        path = os.path.join(EXAMPLES, name)
        with mock.patch.object(keras.datasets.mnist, "load_data", lambda: data), \
                mock.patch.object(keras.datasets.fashion_mnist, "load_data", lambda: data), \
                mock.patch.object(sys, "argv", [path, *arguments]), contextlib.redirect_stdout(printed):
            values = runpy.run_path(path, run_name="__main__")
        with open(path, encoding="utf-8") as file:
            self.assertLessEqual(sum("# cohort" in line for line in file), 10, name)
        return values, printed.getvalue()

    def test_recommender_with_parameter_servers(self):
        values, _ = self.run_example("recommender.py")
        self.assertGreater(values["accuracy"][-1], 0.99)

    def test_mnist_with_mirrored_strategy(self):
        values, printed = self.run_example("mnist_mirrored.py")
        self.assertGreater(values["eval_acc"], 0.8)
        self.assertEqual(values["eval_loss"], values["replicated_loss"])
        rates = [float(x) for x in re.findall(r"Learning rate for epoch \d is (\S+)", printed)]
        np.testing.assert_allclose(rates, [1e-3, 1e-3, 1e-3, 1e-4], rtol=1e-6)

    def test_mnist_with_several_workers(self):
        values, printed = self.run_example("mnist_multi_worker.py")
        losses = values["history"].history["loss"]
        self.assertLess(losses[-1], losses[0])
        self.assertRegex(printed, r"Epoch 3/3\n\d+/\d+ - .* - loss: ")

    def test_custom_training(self):
        values, printed = self.run_example("custom_training.py")
        self.assertGreater(values["test_accuracy"], 0.7)
        self.assertEqual(printed.count("Test Accuracy"), 4)

    def test_train_and_evaluate(self):
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng(1)
            paths = [os.path.join(folder, name) for name in ("train.csv", "test.csv")]
            iris(paths[0], 120, rng)
            iris(paths[1], 30, rng)
            values, printed = self.run_example("train_and_evaluate.py", *paths)
        self.assertGreater(values["history"].history["val_accuracy"][-1], 0.9)
        self.assertEqual(len(values["history"].history["val_loss"]), 4)
        self.assertEqual(printed.count("Prediction is"), 3)


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    tempfile.tempdir = folder.name  # the directories of runs are there


if __name__ == "__main__":
    unittest.main()
