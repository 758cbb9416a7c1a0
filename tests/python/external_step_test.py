#!/usr/bin/env python3
"""Trains by steps that Python computes beside each worker: the same values as a traced model, also if their process is killed."""

import os
import sys
import tempfile
import unittest

if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import numpy as np  # noqa: E402

import cohort  # noqa: E402

RECORDS, WIDTH, CLASSES = 320, 10, 3
KILL_AT = "COHORT_TEST_KILL_AT"  # a file; the process that finds it deletes it and dies


def softmax_step(values, batch, training):
    """Softmax regression, with its gradients by hand."""
    x, labels = batch["x"], batch["label"]
    z = x @ values["w"] + values["b"]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    at = np.arange(len(labels))
    loss, accuracy = -np.log(p[at, labels]).mean(), (p.argmax(1) == labels).mean()
    p[at, labels] -= 1
    return loss, {"w": x.T @ p / len(labels), "b": p.mean(0)}, {"accuracy": accuracy}


def dying_step(values, batch, training):
    """The same; its process dies once."""
    flag = os.environ[KILL_AT]
    if os.path.exists(flag) and training:
        os.remove(flag)
        os.kill(os.getpid(), 9)
    return softmax_step(values, batch, training)


def failing_step(values, batch, training):
    """Fails."""
    raise RuntimeError("no such luck")


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(RECORDS, WIDTH))
    return x, (x @ rng.normal(size=(WIDTH, CLASSES))).argmax(1)


def train(step, **arguments):
    x, y = data()
    model = cohort.external_step(step, {"w": np.zeros((WIDTH, CLASSES)), "b": np.zeros(CLASSES)}, metrics=["accuracy"])
    history = cohort.fit(model, x, y, epochs=2, batch_size=32, shuffle=False, verbose=0,
                         optimizer={"Adam": {"learning_rate": 0.05}}, **arguments)
    return model.variables, history


class ExternalStep(unittest.TestCase):
    def test_it_trains_as_keras_does(self):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        try:
            import keras
        except ImportError:
            self.skipTest("keras is not installed")
        keras.config.set_floatx("float64")
        x, y = data()
        model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(CLASSES, kernel_initializer="zeros")])
        model.compile(optimizer=keras.optimizers.Adam(0.05), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        expected = model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0).history["loss"]
        values, history = train(softmax_step, strategy="one_device")
        error = 1e-4 if keras.backend.backend() == "torch" else 1e-9  # that backend sums losses in float32
        np.testing.assert_allclose(history.history["loss"], expected, rtol=error)
        np.testing.assert_allclose(values["w"], model.get_weights()[0], rtol=0, atol=error)
        np.testing.assert_allclose(values["b"], model.get_weights()[1], rtol=0, atol=error)

    def test_a_killed_process_changes_nothing(self):
        values, _ = train(softmax_step, workers=2, ps=2, mode="sync")
        with tempfile.NamedTemporaryFile(delete=False) as flag:
            os.environ[KILL_AT] = flag.name
        killed, _ = train(dying_step, workers=2, ps=2, mode="sync")
        self.assertFalse(os.path.exists(flag.name))
        for name in values:
            np.testing.assert_array_equal(values[name], killed[name])

    def test_validation_is_computed_too(self):
        values, history = train(softmax_step, workers=2, ps=1, validation_data=data())
        self.assertEqual(len(history.history["val_accuracy"]), 2)
        self.assertGreater(history.history["val_accuracy"][-1], 0.8)
        loaded = cohort.external_step(softmax_step, {name: np.zeros_like(value) for name, value in values.items()})
        cohort.load_weights(loaded, history)
        for name, value in values.items():
            np.testing.assert_array_equal(loaded.variables[name], value)

    def test_an_exception_ends_the_job_with_its_text(self):
        with self.assertRaisesRegex(cohort.JobError, "no such luck"):
            train(failing_step, workers=1, ps=1)

    def test_weights_of_records_are_refused(self):
        for name, given in (("sample_weight", np.ones(RECORDS)), ("class_weight", {0: 2.0})):
            with self.assertRaisesRegex(TypeError, f"never sees `{name}`"):
                train(softmax_step, **{name: given})

    def test_a_module_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        torch.manual_seed(0)
        x, y = data()
        module = torch.nn.Linear(WIDTH, CLASSES).double()
        twin = torch.nn.Linear(WIDTH, CLASSES).double()
        twin.load_state_dict(module.state_dict())
        step = cohort.external_step(module, loss=torch.nn.functional.cross_entropy)
        cohort.fit(step, x, y, batch_size=32, shuffle=False, verbose=0, strategy="one_device", optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        for i in range(0, RECORDS, 32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(twin(torch.from_numpy(x[i:i + 32])), torch.from_numpy(y[i:i + 32])).backward()
            optimizer.step()
        np.testing.assert_allclose(module.weight.detach().numpy(), twin.weight.detach().numpy(), rtol=0, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
