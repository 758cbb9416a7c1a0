#!/usr/bin/env python3
"""Trains models of tf_keras (Keras 2) by `cohort.fit`: the first steps are those of Model.fit, and the values come back."""

import os
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "python"))

import numpy as np  # noqa: E402
import tf_keras as keras  # noqa: E402

import cohort  # noqa: E402


def functional():
    x = keras.Input((6,), name="x")
    y = keras.layers.BatchNormalization()(keras.layers.Dense(8, "relu")(x))
    return keras.Model(x, keras.layers.Dense(1)(y))


class TfKerasFitTest(unittest.TestCase):
    def test_first_steps(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(160, 6)).astype("float32"), rng.normal(size=(160, 1)).astype("float32")
        reference, model = functional(), functional()
        model.set_weights(reference.get_weights())
        for m in (reference, model):
            m.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
        expected = reference.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        actual = cohort.fit(model, x, y, batch_size=8, shuffle=False, verbose=0, strategy="one_device")
        for a, b in zip(model.get_weights(), reference.get_weights()):
            np.testing.assert_allclose(a, b, atol=1e-5)
        for name, (value,) in expected.history.items():
            self.assertAlmostEqual(actual.history[name][0], value, places=5)
        loaded = keras.models.clone_model(model)
        cohort.load_weights(loaded, actual)
        for a, b in zip(loaded.get_weights(), model.get_weights()):
            np.testing.assert_array_equal(a, b)

    def test_recurrence_on_a_cluster(self):
        rng = np.random.default_rng(1)
        ids, y = rng.integers(0, 9, (160, 5)), rng.normal(size=(160, 1))
        model = keras.Sequential([keras.Input((5,)), keras.layers.Embedding(9, 4, mask_zero=True),
                                  keras.layers.Bidirectional(keras.layers.LSTM(3)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = cohort.fit(model, ids, y, validation_data=(ids, y), verbose=0)
        self.assertAlmostEqual(history.history["val_loss"][0], model.evaluate(ids, y, verbose=0), places=5)

    def test_subclassed_models_are_refused(self):
        class Own(keras.Model):
            def call(self, x):
                return x

        with self.assertRaisesRegex(cohort.TraceError, "subclassed model of tf_keras cannot be traced: build it with Keras 3"):
            cohort.fit(Own(), np.zeros((4, 2)), np.zeros(4))


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    tempfile.tempdir = folder.name  # the directories of runs are there


if __name__ == "__main__":
    unittest.main()
