#!/usr/bin/env python3
"""Trains modules of flax and haiku by cohort.fit: the parameters of optax after the same batches."""

import os
import sys
import tempfile
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import flax.linen as nn  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import cohort  # noqa: E402
import cohort.jax  # noqa: E402

DOUBLE = {"param_dtype": jnp.float64}
CLASSES = 3
BATCH = 16
STEPS = 20
# Keras adds epsilon before the correction of the moments, and optax after it: a small one makes them equal. Keras rounds the numbers
# of an optimizer to float32, so these are fractions that it has exactly.
MOMENTS = 0.875, 0.96875, 2.0**-50
ADAM = optax.adam(0.01, *MOMENTS), {"Adam": {"learning_rate": 0.01, "beta_1": MOMENTS[0], "beta_2": MOMENTS[1], "epsilon": MOMENTS[2]}}
LOSS = {"SparseCategoricalCrossentropy": {"from_logits": True}}


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(CLASSES, **DOUBLE)(nn.LayerNorm(**DOUBLE)(nn.relu(nn.Dense(16, **DOUBLE)(x))))


class Images(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(nn.Conv(4, (3, 3), **DOUBLE)(x)), (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(6, (3, 3), strides=2, **DOUBLE)(x)).reshape(x.shape[0], -1)
        return nn.Dense(CLASSES, **DOUBLE)(x)


class Words(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(30, 8, **DOUBLE)(ids)
        x = x + nn.SelfAttention(2, deterministic=True, **DOUBLE)(x)
        return nn.Dense(CLASSES, **DOUBLE)(x.mean(axis=1))


class Ordered(nn.Module):
    """What sorts, and what reads and writes by places."""

    @nn.compact
    def __call__(self, x):
        y = nn.Dense(12, **DOUBLE)(x).reshape(-1, 3, 4)
        steps = self.param("steps", nn.initializers.uniform(1.0), (4,), jnp.float64)
        top, places = jax.lax.top_k(y, 2)
        order = jnp.argsort(y, axis=1)

        def one(row, at, values):
            return row[0].at[at].add(values) + row.at[:, 2].set(values[0]) + jnp.zeros(row.shape).at[at % 3].add(row[:2])

        segments = jax.ops.segment_sum(steps, jnp.array([1, 0, 1, 1]), 4)
        parts = [jnp.sort(y, axis=2), top, jnp.take_along_axis(y, order, axis=1), jax.vmap(one)(y, places[:, 0], top[:, 1]),
                 y.at[:, 1:3, 2].add(y[:, :2, 0]) * segments, y.at[:, jnp.array([2, 0, 2])].add(y * y), jnp.cumprod(y, axis=1),
                 jax.lax.cummax(y, axis=2), jnp.median(y, axis=2),
                 jnp.arctan2(y, 1 + y * y) + jnp.arcsinh(y) + jnp.arcsin(jnp.tanh(y) * 0.5) + jnp.fmod(y, 0.75)]
        return nn.Dense(CLASSES, **DOUBLE)(jnp.concatenate([part.reshape(x.shape[0], -1) for part in parts], axis=1))


class JaxFitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rng = np.random.default_rng(1)

    def check(self, apply, params, x, optimizer, keys, strategy="one_device", workers=1, ps=1):
        """Trains one epoch of STEPS steps, and the same steps by optax. Returns what training gave."""
        y = self.rng.integers(0, CLASSES, len(x))
        model = cohort.jax.Model(apply, params)
        cluster = {"strategy": strategy} if strategy == "one_device" else {"mode": "sync", "workers": workers, "ps": ps}
        history = cohort.fit(model, x, y, batch_size=BATCH, shuffle=False, loss=LOSS, optimizer=keys, run_dir=self.folder, verbose=0,
                             **cluster)
        state, expected = optimizer.init(params), params
        losses = []

        @jax.jit
        def step(params, state, x, y):
            def loss(params):
                return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y).mean()

            value, gradient = jax.value_and_grad(loss)(params)
            updates, state = optimizer.update(gradient, state, params)
            return optax.apply_updates(params, updates), state, value

        records = BATCH * workers
        for at in range(0, len(x), records):
            expected, state, value = step(expected, state, x[at : at + records], y[at : at + records])
            losses.append(value)
        self.assertEqual(len(losses), STEPS)
        self.assertAlmostEqual(history.history["loss"][0], float(np.mean(losses)), delta=1e-9)
        self.assertGreater(max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(params))), 1e-3)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), model.params, expected)
        loaded = cohort.jax.Model(apply, params)
        cohort.load_weights(loaded, history)
        jax.tree.map(np.testing.assert_array_equal, loaded.params, model.params)
        return history

    def normal(self, *shape, workers=1):
        return self.rng.normal(size=(BATCH * STEPS * workers, *shape))

    def test_perceptron_by_sgd_on_one_device(self):
        x = self.normal(10)
        self.check(Perceptron().apply, Perceptron().init(jax.random.key(0), x[:1]), x, optax.sgd(0.1), {"SGD": {"learning_rate": 0.1}})

    def test_order_and_places_by_sgd_on_one_device(self):
        x = self.normal(10)
        self.check(Ordered().apply, Ordered().init(jax.random.key(0), x[:1]), x, optax.sgd(0.01), {"SGD": {"learning_rate": 0.01}})

    def test_perceptron_by_adam_on_a_cluster(self):
        x = self.normal(10, workers=3)
        self.check(Perceptron().apply, Perceptron().init(jax.random.key(0), x[:1]), x, *ADAM, "parameter_server", 3, 2)

    def test_images_by_adam_on_one_device(self):
        x = self.normal(8, 8, 2)
        self.check(Images().apply, Images().init(jax.random.key(0), x[:1]), x, *ADAM)

    def test_images_by_momentum_on_a_cluster(self):
        x = self.normal(8, 8, 2, workers=3)
        # Keras multiplies the velocity by the rate at once, optax at the end: the same for a constant rate.
        self.check(Images().apply, Images().init(jax.random.key(0), x[:1]), x, optax.sgd(0.05, momentum=0.875),
                   {"SGD": {"learning_rate": 0.05, "momentum": 0.875}}, "parameter_server", 3, 2)

    def test_words_by_sgd_on_a_cluster(self):
        x = self.rng.integers(0, 30, (BATCH * STEPS * 3, 5))
        self.check(Words().apply, Words().init(jax.random.key(0), x[:1]), x, optax.sgd(0.1), {"SGD": {"learning_rate": 0.1}},
                   "parameter_server", 3, 2)

    def test_haiku_by_sgd_on_one_device(self):
        try:
            import haiku as hk
        except ImportError:
            self.skipTest("haiku is not installed")
        module = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, CLASSES], activation=jnp.tanh)(x)))
        x = self.normal(10)
        params = jax.tree.map(lambda p: p.astype(jnp.float64), module.init(jax.random.key(0), x[:1]))
        self.check(module.apply, params, x, optax.sgd(0.1), {"SGD": {"learning_rate": 0.1}})

    def test_arguments_that_only_python_could_run_are_refused(self):
        model = cohort.jax.Model(lambda p, x: x * p, np.ones(3))
        x = self.normal(3)
        for arguments, pattern in (({"loss": "mse", "optimizer": optax.adam(1e-3)}, "optimizer of optax is a closure.*'Adam'"),
                                   ({"loss": lambda x: x, "optimizer": "sgd"}, "no loss of a job"),
                                   ({"optimizer": "sgd"}, "needs `loss` and `optimizer`")):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(TypeError, pattern):
                cohort.fit(model, x, x, run_dir=self.folder, **arguments)


if __name__ == "__main__":
    unittest.main()
