#!/usr/bin/env python3
"""Restores the weights of a checkpoint into the Keras model that the job describes."""
import os
import re
import unittest

import keras
import numpy as np

import checkpoint_sample
import load_checkpoint
import real_cluster

# `model.json` is beside it.
INNER_JOB = """
name: inner
seed: 7
model: {keras_json: model.json}
compile: {loss: binary_crossentropy, optimizer: {Adam: {learning_rate: 0.01}}}
data:
  batch_size: 32
  train:
    generator: {name: recommender, records: 6400, seed: 1}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: 4}
"""


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

    def test_what_docs_checkpoints_shows_predicts_what_the_job_learned(self):
        with open(os.path.join(real_cluster.SOURCE, "docs", "checkpoints.md"), encoding="utf-8") as f:
            code, = re.findall(r"^```python\n(.*?)^```$", f.read(), re.M | re.S)
        with real_cluster.Directory() as directory:
            ran = real_cluster.LocalRun(os.path.join(directory, "run"),
                                        os.path.join(real_cluster.EXAMPLES, "recommender.yaml"))
            self.assertEqual(ran.code, 0, ran.out + ran.err)
            names = {}
            self.assertIn('"run2/', code)
            exec(code.replace('"run2/', '"%s/run/' % directory), names)  # pylint: disable=exec-used
        # Words are numbered from 1 in the order of the job's vocabulary: 1 is "avenger".
        answers = names["model"].predict(np.array([[1, 4, 6], [2, 4, 6], [7, 7, 1], [3, 3, 3]]), verbose=0)
        np.testing.assert_array_equal(answers[:, 0] > 0.5, [True, False, True, False])

    def test_a_job_with_the_json_of_a_model_learns_its_weights(self):
        example = os.path.join(real_cluster.EXAMPLES, "keras_json")
        with open(os.path.join(example, "model.json"), encoding="utf-8") as f:
            model = keras.models.model_from_json(f.read())
        with real_cluster.Directory() as directory:
            ran = real_cluster.LocalRun(directory, os.path.join(example, "recommender.yaml"))
            self.assertEqual(ran.code, 0, ran.out + ran.err)
            checkpoints = os.path.join(directory, "checkpoints")
            newest = max(name for name in os.listdir(checkpoints) if name.startswith("ckpt-"))
            load_checkpoint.restore(model, load_checkpoint.load_checkpoint(os.path.join(checkpoints, newest)))
        yes, no = model.predict(np.array([[1, 4, 6], [2, 4, 6], [7, 7, 1], [3, 3, 3]]), verbose=0)
        np.testing.assert_array_equal(yes[:, 0] > 0.5, [True, False, True, False])
        np.testing.assert_array_equal(no[:, 0] > 0.5, [False, True, False, True])

    def test_weights_below_inner_layers_have_the_order_of_keras(self):
        words = keras.Input((3,), dtype="int64", name="features")
        x = keras.layers.Embedding(8, 8)(words)
        x = keras.layers.MultiHeadAttention(2, 4)(x, x)
        x = keras.layers.Bidirectional(keras.layers.GRU(6, return_sequences=True))(x)
        x = keras.layers.LSTM(6, return_sequences=True)(x)
        x = keras.layers.RNN([keras.layers.SimpleRNNCell(5), keras.layers.LSTMCell(4)])(x)
        model = keras.Model(words, keras.layers.Dense(1, activation="sigmoid")(x))
        with real_cluster.Directory() as directory:
            with open(os.path.join(directory, "model.json"), "w", encoding="utf-8") as f:
                f.write(model.to_json())
            job = os.path.join(directory, "job.yaml")
            with open(job, "w", encoding="utf-8") as f:
                f.write(INNER_JOB)
            ran = real_cluster.LocalRun(os.path.join(directory, "run"), job)
            self.assertEqual(ran.code, 0, ran.out + ran.err)
            checkpoints = os.path.join(directory, "run", "checkpoints")
            newest = max(name for name in os.listdir(checkpoints) if name.startswith("ckpt-"))
            load_checkpoint.restore(model, load_checkpoint.load_checkpoint(os.path.join(checkpoints, newest)))
        answers = model.predict(np.array([[1, 4, 6], [2, 4, 6], [7, 7, 1], [3, 3, 3]]), verbose=0)
        np.testing.assert_array_equal(answers[:, 0] > 0.5, [True, False, True, False])
        other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="dense")])
        with self.assertRaisesRegex(ValueError, "the layer 'dense' has the weights .* not that of the job"):
            load_checkpoint.restore(other, {"dense/kernel": np.zeros((3, 1), np.float32)})

    def test_normalization_computes_with_the_moments_of_the_checkpoint(self):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Normalization(name="normalization")])
        load_checkpoint.restore(model, {"normalization/mean": np.array([1, 2], np.float32),
                                        "normalization/variance": np.array([4, 9], np.float32)})
        np.testing.assert_allclose(model.predict(np.array([[3.0, -1.0]]), verbose=0), [[1, -1]], rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
