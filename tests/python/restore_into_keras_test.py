#!/usr/bin/env python3
"""The weights of a checkpoint go back into the Keras model that the job describes."""
import unittest

import keras
import numpy as np

import checkpoint_sample
import load_checkpoint


class RestoreIntoKeras(unittest.TestCase):
    def test_every_weight_is_the_checkpoints(self):
        model = keras.Sequential([
            keras.Input((3,), dtype="int64"),
            keras.layers.Embedding(7, 4, name="embedding"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1, name="dense"),
        ])
        with checkpoint_sample.written() as directory:
            load_checkpoint.restore(model, load_checkpoint.load_checkpoint(directory))
        table = checkpoint_sample.TABLE
        expected = table[[1, 4, 6]].mean(axis=0) @ np.array([0, 10, 20, 30]) - 0.5
        prediction = model.predict(np.array([[1, 4, 6]]), verbose=0)
        np.testing.assert_allclose(prediction, [[expected]], rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
