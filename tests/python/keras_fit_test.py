#!/usr/bin/env python3
"""Trains Keras models by `cohort.fit` on real processes: the first steps are those of Model.fit, and the values come back."""

import os
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "python"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import losses, metrics, optimizers  # noqa: E402

import cohort  # noqa: E402
import keras_models as models  # noqa: E402

BATCH, STEPS = 8, 20
# Keras on TensorFlow rounds these to float32 also in float64 models.
EXACT = {"beta_1": 1 - 1 / 8, "beta_2": 1 - 1 / 64}


def cases():
    """Of each kind: what makes the model, and its compile arguments. New objects, as losses and metrics keep the floatx of their time."""
    return {
        "subclassed": (models.Subclassed, {
            "optimizer": optimizers.Adam(optimizers.schedules.PiecewiseConstantDecay([5, 12], [1 / 64, 1 / 128, 1 / 256]), **EXACT),
            "loss": losses.SparseCategoricalCrossentropy(from_logits=True), "metrics": ["accuracy"]}),
        "functional": (models.functional_with_ops, {
            "optimizer": optimizers.SGD(0.02, momentum=0.9), "loss": "mse", "metrics": ["mae", metrics.RootMeanSquaredError()]}),
        "transformer": (models.TransformerClassifier, {
            "optimizer": optimizers.AdamW(0.003, weight_decay=1 / 256, clipnorm=1.0, **EXACT),
            "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}),
        "lstm": (models.TextClassifier, {
            "optimizer": optimizers.RMSprop(0.005), "loss": losses.BinaryCrossentropy(from_logits=True),
            "metrics": [metrics.BinaryAccuracy(threshold=0.0)]}),
        "cnn": (models.cnn, {
            "optimizer": optimizers.Nadam(0.01, **EXACT), "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}),
        "ordered": (models.Ordered, {"optimizer": optimizers.SGD(0.01, momentum=0.9), "loss": "mse"}),
        "modes": (models.TwoModes, {"optimizer": optimizers.SGD(0.05, momentum=0.875), "loss": "mse", "metrics": ["mae"]}),
        "two": (models.two_outputs, {
            "optimizer": optimizers.Adagrad(0.05), "loss": {"price": "mse", "sold": "sparse_categorical_crossentropy"},
            "loss_weights": {"price": 0.3, "sold": 1.0}, "metrics": {"price": ["mae"], "sold": ["accuracy"]}}),
    }


def data_of(case, n, rng):
    if case == "subclassed":
        return rng.normal(size=(n, 10)), rng.integers(0, 3, n)
    if case == "functional":
        return rng.normal(size=(n, 8)), rng.normal(size=(n, 1))
    if case in ("ordered", "modes"):
        return rng.normal(size=(n, 5)), rng.normal(size=(n, 2))
    if case in ("transformer", "lstm"):
        return models.ids_and_labels(n, rng)
    if case == "cnn":
        return rng.integers(0, 256, (n, 10, 10, 3)).astype(keras.config.floatx()), rng.integers(0, 4, n)
    return {"numbers": rng.normal(size=(n, 6)), "kind": rng.integers(0, 5, n)}, {"price": rng.normal(size=n), "sold": rng.integers(0, 2, n)}


def compiled(case, x):
    keras.backend.clear_session()
    make, arguments = cases()[case]
    keras.utils.set_random_seed(1)
    model = make()
    model.compile(jit_compile=False, **arguments)
    if not model.built:
        model(x[:2])
    if case == "modes":  # the layers of training too, so that both models begin with the same weights
        model(keras.KerasTensor((2, 5)), training=True)
    return model


def weights_of(model):
    return {w.path: keras.ops.convert_to_numpy(w.value) for w in model.weights if "seed" not in w.path}


def with_dense_gradients(model):
    """Keras on TensorFlow counts the gradients of a row that a batch reads twice as two, where other backends add them first."""
    model.run_eagerly = len(model.layers) > 4  # else, as for recurrences, compiling takes less time
    apply = model.optimizer.apply
    model.optimizer.apply = lambda gradients, *args: apply([g if g is None else tf.convert_to_tensor(g) for g in gradients], *args)
    return model


class KerasFitTest(unittest.TestCase):
    def setUp(self):
        keras.config.set_floatx("float64")

    def tearDown(self):
        keras.config.set_floatx("float32")

    def compare(self, case, workers=1, tolerance=1e-9, **arguments):
        """The first 20 steps of Cohort and of Keras on the same batches."""
        records = STEPS * BATCH * workers
        rng = np.random.default_rng(5)
        x, y = data_of(case, records, rng)
        more = {"sample_weight": rng.uniform(0.5, 2, records)} if case == "two" else {}
        reference, model = with_dense_gradients(compiled(case, x)), compiled(case, x)
        model.set_weights(reference.get_weights())
        expected = reference.fit(x, y, batch_size=BATCH * workers, shuffle=False, verbose=0, **more)
        actual = cohort.fit(model, x, y, batch_size=BATCH, shuffle=False, verbose=0, workers=workers, **arguments, **more)
        values = weights_of(model)
        for name, value in weights_of(reference).items():
            np.testing.assert_allclose(values[name], value, rtol=tolerance, atol=tolerance, err_msg=f"{case} {arguments}: {name}")
        for name, (value,) in expected.history.items():
            self.assertAlmostEqual(actual.history[name][0], value, delta=max(tolerance, 1e-8) * 10, msg=f"{case}: {name}")
        return model, x, y

    def test_first_steps_on_one_device(self):
        for case in cases():
            with self.subTest(case):
                self.compare(case, strategy="one_device")

    def test_first_steps_on_parameter_servers(self):
        for case in ("subclassed", "functional"):
            with self.subTest(case):
                self.compare(case, workers=3, ps=2, mode="sync")
        self.compare("lstm", mode="async")

    def test_evaluation_has_the_graph_of_inference(self):
        for workers in ({"strategy": "one_device"}, {"workers": 2, "ps": 2, "mode": "sync"}):
            rng = np.random.default_rng(8)
            x, y = data_of("modes", 96, rng)
            model = compiled("modes", x)
            history = cohort.fit(model, x[:64], y[:64], validation_data=(x[64:], y[64:]), epochs=2, verbose=0, run_dir=tempfile.mkdtemp(), **workers)
            expected = model.evaluate(x[64:], y[64:], verbose=0, return_dict=True)
            for name, value in expected.items():
                self.assertAlmostEqual(history.history[f"val_{name}"][-1], value, delta=1e-9, msg=name)
            self.assertEqual(float(model.temperature.numpy()), 0.75)
            np.testing.assert_allclose(cohort.predict(history, x[:16]), model.predict(x[:16], verbose=0), rtol=0, atol=1e-9)
            path = os.path.join(tempfile.mkdtemp(), "modes.keras")
            cohort.export(history, path)
            cohort.register_keras()
            np.testing.assert_allclose(keras.saving.load_model(path).predict(x[:16], verbose=0), model.predict(x[:16], verbose=0), rtol=0, atol=1e-9)
            training = float(np.mean((y[64:] - keras.ops.convert_to_numpy(model(x[64:], training=True))) ** 2))
            self.assertGreater(abs(training - expected["loss"]), 1e-3)

    def test_two_outputs_of_two_modes(self):
        rng = np.random.default_rng(9)
        x, y = rng.normal(size=(80, 6)), {"price": rng.normal(size=(80, 1)), "rest": rng.normal(size=(80, 3))}
        keras.utils.set_random_seed(2)
        model = models.two_modes_and_outputs()
        model.compile(optimizer=optimizers.SGD(0.05), loss={"price": "mae", "rest": "mse"}, metrics={"rest": ["mae"]})
        reference = keras.models.clone_model(model)
        reference.set_weights(model.get_weights())
        reference.compile(optimizer=optimizers.SGD(0.05), loss={"price": "mae", "rest": "mse"}, metrics={"rest": ["mae"]})
        reference.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
        history = cohort.fit(model, x, y, batch_size=BATCH, shuffle=False, verbose=0, strategy="one_device", validation_data=(x, y))
        for name, value in weights_of(reference).items():
            np.testing.assert_allclose(weights_of(model)[name], value, rtol=0, atol=1e-9, err_msg=name)
        for name, value in model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True).items():
            self.assertAlmostEqual(history.history[f"val_{name}"][-1], value, delta=1e-9, msg=name)

    def test_first_steps_in_float32(self):
        keras.config.set_floatx("float32")
        self.compare("cnn", strategy="one_device", tolerance=1e-4)

    def test_evaluations_are_those_of_the_model(self):
        keras.config.set_floatx("float32")
        rng = np.random.default_rng(7)
        x, y = data_of("two", 296, rng)  # Keras' losses of outputs are means of batches, so batches are whole
        model = compiled("two", x)
        held = {name: a[200:] for name, a in x.items()}, {name: a[200:] for name, a in y.items()}
        history = cohort.fit(model, {name: a[:200] for name, a in x.items()}, [y["price"][:200], y["sold"][:200]], validation_data=held,
                             epochs=3, workers=2, ps=2, verbose=0, validation_freq=1)
        self.assertEqual(history.epoch, [0, 1, 2])
        for name, value in model.evaluate(*held, verbose=0, return_dict=True).items():
            self.assertAlmostEqual(history.history[f"val_{name}"][-1], value, places=5, msg=name)


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    tempfile.tempdir = folder.name  # the directories of runs are there


if __name__ == "__main__":
    unittest.main()
