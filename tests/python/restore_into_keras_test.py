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


if __name__ == "__main__":
    unittest.main()
