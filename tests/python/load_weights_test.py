#!/usr/bin/env python3
"""`cohort.load_weights`: models of the user's own code get the values of a checkpoint, and Keras writes and reads them."""

import os
import sys
import unittest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers, ops  # noqa: E402

import real_cluster  # noqa: E402

os.environ["COHORT_BIN_DIR"] = os.path.join(real_cluster.BINARY, "bin")

import cohort  # noqa: E402


class Block(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.inner = layers.Dense(units, activation="tanh")
        self.norm = layers.BatchNormalization()

    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones")
        self.inner.build(shape)
        self.norm.build((*shape[:-1], self.inner.units))

    def call(self, x, training=False):
        return self.norm(self.inner(x * self.gain), training=training)


class Single(keras.Model):
    def __init__(self, units=5):
        super().__init__()
        self.block, self.head = Block(units), layers.Dense(1)

    def call(self, x, training=False):
        return self.head(self.block(x, training=training))


class Sentence(keras.Model):
    """Inputs of a dict: ids of words, and numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.read, self.block, self.head = layers.Embedding(20, 4), layers.LSTM(3), Block(4), layers.Dense(1)

    def call(self, x, training=False):
        return self.head(ops.concatenate([self.read(self.table(x["ids"])), self.block(x["numbers"], training=training)], axis=-1))


class Pair(keras.Model):
    """Inputs of a list."""

    def __init__(self):
        super().__init__()
        self.left, self.right = Block(3), layers.Dense(3)

    def call(self, x, training=False):
        return ops.sum(self.left(x[0], training=training) * self.right(x[1]), axis=-1, keepdims=True)


class LoadWeights(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(real_cluster.Directory())
        self.rng = np.random.default_rng(1)

    def path(self, name):
        return os.path.join(self.directory, name)

    def trained(self, model, x):
        y = self.rng.normal(size=64)
        model.compile("adam", "mse")
        return cohort.fit(model, x, y, epochs=2, batch_size=16, verbose=0, strategy="one_device", run_dir=self.path(type(model).__name__))

    def numbers(self, *shape):
        return self.rng.normal(size=(64, *shape)).astype("float32")

    def test_a_fresh_model_answers_as_the_checkpoint_and_saves_its_weights(self):
        for make, x in ((Single, self.numbers(4)), (Sentence, {"ids": self.rng.integers(0, 20, (64, 6)), "numbers": self.numbers(2)}),
                        (Pair, [self.numbers(3), self.numbers(2)])):
            with self.subTest(make.__name__):
                history = self.trained(make(), x)
                want = cohort.predict(history, x)
                fresh = make()  # Keras counts on with the names of its layers
                cohort.load_weights(fresh, history)
                np.testing.assert_allclose(fresh.predict(x, verbose=0), want, rtol=1e-5, atol=1e-6)
                path = self.path("own.weights.h5")
                fresh.save_weights(path)
                again = make()
                again.predict(x, verbose=0)
                again.load_weights(path)
                np.testing.assert_array_equal(again.predict(x, verbose=0), fresh.predict(x, verbose=0))

    def test_the_export_of_weights_names_the_way_for_own_models(self):
        history = self.trained(Single(), self.numbers(4))
        self.assertIn("cohort.load_weights(model, checkpoint)", cohort.export(history, self.path("model.weights.h5")))

    def test_another_model_is_refused(self):
        history = self.trained(Single(), self.numbers(4))
        other = keras.Sequential([layers.Dense(5), layers.Dense(1)])
        with self.assertRaisesRegex(ValueError, r"Sequential has other layers than the model of the checkpoint: layer \d is \w+ here, and .* there"):
            cohort.load_weights(other, history)
        with self.assertRaisesRegex(ValueError, r"Pair cannot be called with the inputs of the checkpoint \(input_0 \[4\]\)"):
            cohort.load_weights(Pair(), history)
        with self.assertRaisesRegex(ValueError, "no values for the variable .* it is of another model"):
            cohort.load_weights(Single(units=6), history)
        with self.assertRaisesRegex(cohort.ProgramError, "does not exist"):
            cohort.load_weights(Single(), self.path("nothing"))
        with self.assertRaisesRegex(TypeError, "is no keras.Model"):
            cohort.load_weights(3, history)


if __name__ == "__main__":
    unittest.main()
