#!/usr/bin/env python3
"""Traces functions of jax and evaluates the graphs with Keras: the outputs of the functions themselves."""

import os
import sys
import unittest

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import keras  # noqa: E402
import numpy as np  # noqa: E402
from flax import linen as nn  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from cohort import TraceError  # noqa: E402
from cohort import jax as tracer  # noqa: E402
from graph_interpreter import Interpreter  # noqa: E402

keras.config.set_floatx("float64")
RECORDS = 5
DOUBLE = {"param_dtype": jnp.float64}
TOLERANCE = 1e-6  # Keras computes numbers of Python in float32


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x, ids):
        x = nn.LayerNorm(**DOUBLE)(nn.relu(nn.Dense(8, **DOUBLE)(x)))
        rows = nn.Embed(11, 8, **DOUBLE)(ids)
        return nn.softmax(nn.Dense(3, **DOUBLE)(x + rows.mean(axis=1)))


class Images(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3), strides=2, **DOUBLE)(x))
        x = x + nn.max_pool(x, (3, 2), strides=(1, 1), padding="SAME")
        x = nn.ConvTranspose(6, (2, 2), strides=(2, 2), **DOUBLE)(nn.avg_pool(x, (2, 2), strides=(2, 2)))
        x = nn.GroupNorm(2, **DOUBLE)(nn.Conv(6, (3, 3), feature_group_count=3, kernel_dilation=2, padding=1, **DOUBLE)(x))
        return nn.Dense(2, **DOUBLE)(x.reshape(x.shape[0], -1))


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, ids):
        table = nn.Embed(11, 8, **DOUBLE)
        x = table(ids) + self.param("positions", nn.initializers.normal(), (6, 8), jnp.float64)
        x = x + nn.SelfAttention(2, deterministic=True, **DOUBLE)(nn.RMSNorm(**DOUBLE)(x), nn.make_causal_mask(ids))
        x = x + nn.Dense(8, **DOUBLE)(nn.gelu(nn.Dense(16, **DOUBLE)(x)))
        return {"last": x[:, -1], "logits": table.attend(x.mean(axis=1))}


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.LSTMCell(4, **DOUBLE))(x)
        return nn.RNN(nn.GRUCell(3, **DOUBLE), reverse=True, keep_order=True)(x)[:, 0]


class RandomFunction:
    """A function of random operations, each of a kind that users write."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.params = {}
        self.steps = [self.step(i) for i in range(int(self.rng.integers(4, 9)))]

    def step(self, i):
        names = [name for name in dir(self) if name.startswith("op_")]
        return getattr(self, str(self.rng.choice(names))), i, int(self.rng.integers(1 << 30))

    def __call__(self, params, x):
        for function, i, seed in self.steps:
            # Axes: the records, and two more. Steps may permute them, and bring them back.
            x = function(params, f"p{i}", np.random.default_rng(seed), x)
        return x

    def parameter(self, params, name, *shape):
        if name not in self.params:
            self.params[name] = self.rng.normal(size=shape) * 0.5
        return params.get(name, self.params[name])

    def op_unary(self, params, name, rng, x):
        functions = [jnp.tanh, jax.nn.gelu, jax.nn.relu, jax.nn.silu, jax.nn.softplus, jax.nn.elu, jax.lax.erf,
                     lambda x: jax.lax.rsqrt(x * x + 1), lambda x: x**3 / 4,
                     lambda x: jnp.log1p(jnp.abs(x)), lambda x: jnp.exp(-x * x), jnp.sin, jax.nn.sigmoid, jnp.cbrt,
                     lambda x: jnp.where(x > 0.1, x, 0.2 * x), lambda x: jnp.clip(x, -0.5, 0.7), lambda x: jnp.remainder(x, 1.5),
                     lambda x: jnp.sqrt(jnp.square(x) + 1), lambda x: jnp.round(x * 4) / 4, lambda x: 1.0 - x,
                     lambda x: jnp.minimum(x, 0.3)]
        return functions[rng.integers(len(functions))](x)

    def op_matmul(self, params, name, rng, x):
        w = self.parameter(params, name, x.shape[2], int(rng.integers(2, 6)))
        return x @ w

    def op_einsum(self, params, name, rng, x):
        w = self.parameter(params, name, 3, x.shape[2], x.shape[1])
        return jnp.einsum("btc,hct->bht", x, w) if rng.integers(2) else jnp.einsum("hct,btc->bhc", w, x)

    def op_scores(self, params, name, rng, x):
        scores = jnp.einsum("bqc,bkc->bqk", x, x) / np.sqrt(x.shape[2])
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
        return jax.nn.softmax(scores, axis=-1) @ x

    def op_affine(self, params, name, rng, x):
        w = self.parameter(params, name, 2, x.shape[1] if rng.integers(2) else 1, x.shape[2])
        return x * w[0] + w[1]

    def op_transposed(self, params, name, rng, x):
        y = jnp.transpose(x, (2, 0, 1))
        return jnp.transpose(y / (1 + jnp.abs(y).sum(axis=0, keepdims=True)), (1, 2, 0))

    def op_swap(self, params, name, rng, x):
        return jnp.swapaxes(x, 1, 2)

    def op_reshape(self, params, name, rng, x):
        return x.reshape(x.shape[0] * x.shape[1], x.shape[2]).reshape(x.shape[0], x.shape[2], x.shape[1])

    def op_reduce(self, params, name, rng, x):
        function = [jnp.mean, jnp.max, jnp.std, jnp.min, jax.scipy.special.logsumexp][rng.integers(5)]
        axis = int(rng.integers(1, 3))
        return x - function(x, axis=axis, keepdims=True)

    def op_slices(self, params, name, rng, x):
        return jnp.concatenate([x[:, ::-1], x[:, :1] * 2, jnp.zeros((x.shape[0], 1, x.shape[2]))], axis=1)[:, :4]

    def op_pad(self, params, name, rng, x):
        return jnp.pad(x, ((0, 0), (1, 0), (0, 1)), constant_values=0.5)[:, 1:]

    def op_stack(self, params, name, rng, x):
        return jnp.stack([x[:, 0], x[:, -1], jnp.cumsum(x, axis=1)[:, -1]], axis=int(rng.integers(1, 3)))

    def op_take(self, params, name, rng, x):
        return x[:, jnp.array([0, -1, 0])]

    def op_along(self, params, name, rng, x):
        return jnp.take_along_axis(x, jnp.argmax(x, axis=2, keepdims=True), axis=2) + x

    def op_scan(self, params, name, rng, x):
        w = self.parameter(params, name, x.shape[2])

        def body(carry, row):
            carry = 0.5 * carry + w * row
            return carry, jnp.tanh(carry)

        return jnp.swapaxes(jax.lax.scan(body, jnp.zeros_like(x[:, 0]), jnp.swapaxes(x, 0, 1))[1], 0, 1)

    def op_vmap(self, params, name, rng, x):
        w = self.parameter(params, name, x.shape[2])
        return jax.vmap(lambda row: jnp.outer(row.sum(axis=1), w) + row)(x)


class JaxTraceTest(unittest.TestCase):
    def check(self, apply, params, *arguments, tolerance=TOLERANCE):
        graph = tracer.trace(apply, params, tuple(x[:2] for x in arguments))
        names = [layer["Input"]["name"] for layer in graph.layers if "Input" in layer]
        expected = jax.tree_util.tree_leaves(jax.jit(apply)(params, *arguments))
        actual = jax.jit(Interpreter(graph))(dict(zip(names, arguments)))
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)
        return graph

    def module(self, module, *arguments):
        params = module.init(jax.random.key(0), *arguments)
        graph = self.check(module.apply, params, *arguments)
        # Values of the graph that are assigned back give the parameters themselves.
        again = tracer.assign(graph, jax.tree.map(jnp.zeros_like, params), graph.values)
        jax.tree.map(np.testing.assert_array_equal, again, params)
        return graph

    def normal(self, *shape):
        return np.random.default_rng(3).normal(size=(RECORDS, *shape))

    def ids(self, *shape):
        return np.random.default_rng(4).integers(0, 11, (RECORDS, *shape))

    def test_perceptron(self):
        graph = self.module(Perceptron(), self.normal(6), self.ids(3))
        self.assertEqual([layer["Input"]["name"] for layer in graph.layers if "Input" in layer], ["x", "ids"])
        self.assertIn("params/Dense_0/kernel", graph.values)
        (table,) = [layer["Embedding"] for layer in graph.layers if "Embedding" in layer]
        self.assertEqual((table["name"], table["inputs"]), ("params/Embed_0/embedding", ["ids"]))

    def test_images(self):
        self.module(Images(), self.normal(9, 8, 3))

    def test_encoder_with_a_tied_table_and_named_outputs(self):
        graph = self.module(Encoder(), self.ids(6))
        self.assertEqual(graph.outputs, ["last", "logits"])
        self.assertFalse(any("Embedding" in layer for layer in graph.layers))

    def test_recurrent(self):
        self.module(Recurrent(), self.normal(4, 3))

    def test_dropout_is_a_layer(self):
        module = nn.Dropout(0.25, deterministic=False)
        graph = tracer.trace(lambda p, x: module.apply({}, x * p, rngs={"dropout": jax.random.key(1)}), np.ones(4), self.normal(4))
        (dropout,) = [layer["Dropout"] for layer in graph.layers if "Dropout" in layer]
        self.assertEqual(dropout["rate"], 0.25)
        (actual,) = Interpreter(graph)({"x": self.normal(4)})
        np.testing.assert_allclose(actual, self.normal(4), rtol=1e-6)

    def test_collections_beside_params_are_not_trained(self):
        params = {"params": {"w": np.ones(3)}, "batch_stats": {"mean": np.zeros(3)}}
        graph = tracer.trace(lambda p, x: (x - p["batch_stats"]["mean"]) * p["params"]["w"], params, self.normal(3))
        self.assertEqual({layer["Variable"]["name"]: layer["Variable"]["trainable"] for layer in graph.layers if "Variable" in layer},
                         {"batch_stats/mean": False, "params/w": True})

    def test_order(self):
        def function(p, x):
            y = x * p
            top, places = jax.lax.top_k(y, 2)
            order = jnp.argsort(-y, axis=1)
            pairs = jnp.lexsort((y[:, 0], jnp.round(y[:, 1])), axis=-1)
            keyed = jax.lax.sort((jnp.round(y), x, y), dimension=1, num_keys=2)
            parts = [jnp.sort(y, axis=1), jnp.sort(y, descending=True), top, places, order, pairs, *keyed, jnp.median(y, axis=2),
                     jnp.quantile(y, 0.3, axis=1)]
            return jnp.concatenate([part.reshape(x.shape[0], -1) for part in parts], axis=1)

        self.check(function, np.linspace(-1, 1, 4), self.normal(3, 4))

    def test_places(self):
        def one(y, v):
            places = jnp.argsort(y[0])
            return y[0].at[places].add(v) + y.at[:, 2].set(v[:3]) + y.at[places[0] % 3].add(v) + jnp.zeros(y.shape).at[places % 3].add(y[1])

        def function(p, x):
            y = x * p
            parts = [y.at[:, 0].set(1.0), y.at[:, 1:3, 2].add(y[:, :2, 0]),
                     y.at[:, jnp.array([2, 0, 2])].add(y * y), y.at[:, jnp.array([2, 0]), jnp.array([3, 1])].set(y[:, :2, 0]),
                     y.at[..., -1].set(y[..., 0]), jax.vmap(one)(y, y[:, 1]),
                     jnp.broadcast_to(jax.ops.segment_sum(p, jnp.array([1, 0, 1, 1]), 3), (x.shape[0], 3)),
                     jax.vmap(lambda row, at: row.at[at].set(5.0))(y[:, 0], jnp.argmax(y[:, 1], axis=-1)),
                     jax.lax.dynamic_update_slice(y, y[:, :2, :3] * 2, (0, 1, 1))]
            return jnp.concatenate([part.reshape(x.shape[0], -1) for part in parts], axis=1)

        self.check(function, np.linspace(-1, 1, 4), self.normal(3, 4))

    def test_angles_and_cumulative(self):
        def function(p, x):
            y = jnp.tanh(x * p)
            angles = jnp.arcsin(y) + jnp.arccos(y) + jnp.arctan2(y, x) + jnp.arcsinh(x) + jnp.arccosh(1 + x * x) + jnp.arctanh(y)
            cumulative = [jnp.cumprod(y, axis=1), jax.lax.cummax(y, axis=1), jax.lax.cummin(y, axis=1, reverse=True),
                          jax.lax.cumlogsumexp(y, axis=1), jax.lax.cumprod(y, axis=1, reverse=True)]
            return jnp.concatenate([angles, jnp.mod(x, 0.3), jnp.floor_divide(x, 0.3), jnp.fmod(x, y), *cumulative], axis=1)

        self.check(function, np.linspace(-0.7, 0.7, 5), self.normal(5))

    def test_random_functions(self):
        for seed in range(50):
            with self.subTest(seed=seed):
                function = RandomFunction(seed)
                x = self.normal(3, 4)
                jax.eval_shape(function, {}, x)  # makes the parameters
                self.check(function, function.params, x, tolerance=1e-5)

    def test_what_cannot_be_traced_is_named_with_its_line(self):
        @jax.custom_vjp
        def clipped(x):
            return x

        clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
        cases = {
            r"jax_trace_test.py:\d+ .*primitive cholesky is not supported.*external_step": lambda p, x: jnp.linalg.cholesky(x[:, :, None] * p),
            r"jax_trace_test.py:\d+ .*an order of the records": lambda p, x: jnp.sort(x * p, axis=0),
            r"jax_trace_test.py:\d+ .*sums over the records.*vmap": lambda p, x: x + p.at[jnp.argmax(x, axis=1)].add(1.0),
            r"jax_trace_test.py:\d+ .*over the records of a batch": lambda p, x: x - x.mean(axis=0) * p,
            r"jax_trace_test.py:\d+ .*clipped has a gradient of its own": lambda p, x: clipped(x * p),
            r"jax_trace_test.py:\d+ .*while": lambda p, x: jax.lax.while_loop(lambda x: x.max() > 1, lambda x: x * p, x),
            r"numbers that differ from record to record": lambda p, x: x * p + jax.random.normal(jax.random.key(0), x.shape),
            r"depends on the number of records": lambda p, x: x * p * x.shape[0],
            r"cannot be traced by jax.*external_step": lambda p, x: x if x.sum() > 0 else -x,
            r"no axis of records first": lambda p, x: (x * p).T,
        }
        for pattern, function in cases.items():
            with self.subTest(pattern=pattern), self.assertRaisesRegex(TraceError, pattern):
                tracer.trace(function, np.ones(4), self.normal(4))


if __name__ == "__main__":
    unittest.main()
