#!/usr/bin/env python3
"""Traces Keras models of many kinds and evaluates the graphs with Keras: the same outputs as the models themselves."""

import os
import sys
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers, ops  # noqa: E402

from cohort import TraceError  # noqa: E402
from cohort import keras as tracer  # noqa: E402
from graph_interpreter import Interpreter  # noqa: E402
from random_keras_models import Maker  # noqa: E402

keras.config.set_floatx("float64")
RECORDS = 5


class Scaled(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units))
        self.factors = [self.add_weight(shape=(self.units,), initializer="ones") for _ in range(2)]
        self.limit = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, x):
        y = ops.tanh(x @ self.w * self.factors[0]) + self.factors[1]
        return ops.minimum(y, self.limit) + 1e-3 * ops.sum(ops.square(self.w))


class Block(layers.Layer):
    def __init__(self, width, heads, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, width // heads)
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.inner = keras.Sequential([layers.Dense(2 * width, "gelu"), layers.Dense(width)])
        self.dropout = layers.Dropout(0.0)

    def call(self, x, training=None):
        x = self.norms[0](x + self.dropout(self.attention(x, x), training=training))
        return self.norms[1](x + self.inner(x))


class Encoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.tokens = layers.Embedding(50, 16)
        self.positions = layers.Embedding(10, 16)
        self.blocks = [Block(16, 2), Block(16, 4)]
        self.head = Scaled(8)
        self.out = layers.Dense(1, activation="sigmoid")

    def call(self, ids, training=None):
        x = self.tokens(ids) + self.positions(ops.arange(ops.shape(ids)[1]))
        for block in self.blocks:
            x = block(x, training=training)
        x = ops.reshape(x, (ops.shape(x)[0], -1))[:, :80]
        return self.out(self.head(x))


class HandWrittenAttention(keras.Model):
    def __init__(self):
        super().__init__()
        self.qkv = layers.Dense(24)
        self.out = layers.Dense(3)

    def call(self, x):
        batch, steps, _ = ops.shape(x)
        q, k, v = ops.split(self.qkv(x), 3, axis=-1)
        q, k, v = (ops.transpose(ops.reshape(t, (batch, steps, 2, 4)), (0, 2, 1, 3)) for t in (q, k, v))
        mask = ops.tril(ops.ones((steps, steps)))
        scores = ops.einsum("bhqd,bhkd->bhqk", q, k) / 2.0 + (1.0 - mask) * -1e9
        y = ops.einsum("bhqk,bhkd->bhqd", ops.softmax(scores), v)
        return self.out(ops.mean(ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (batch, steps, 8)), axis=1))


class ByValue(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x):
        if float(ops.sum(x)) > 0:
            x = -x
        return self.dense(x)


def functional_with_ops():
    x = keras.Input((8,), name="a")
    z = keras.Input((3,), name="b")
    y = layers.Dense(4)(x)
    y = ops.where(y > 0, y, ops.exp(y) - 1.0)
    y = ops.concatenate([y, ops.abs(z), x[:, 2:4]], axis=-1)
    shared = layers.Dense(5, "relu")
    return keras.Model([x, z], layers.Dense(2)(shared(y) + shared(ops.flip(y, axis=-1))))


class Order(keras.Model):
    """What sorts, and what reads and writes by places."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(5)

    def build(self, shape):
        self.steps = self.add_weight(shape=(6,))
        super().build(shape)

    def call(self, x):
        y = self.dense(x)
        top, places = ops.top_k(y, 2)
        order = ops.argsort(y, axis=1)
        triangle = ops.scatter(np.array([[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]), self.steps, (3, 3))
        segments = ops.segment_sum(self.steps, np.array([0, 2, 2, 1, 0, 2]), 3)
        hot = ops.sum(ops.one_hot(places, 5), axis=2)
        parts = [ops.sort(y, axis=1), ops.sort(y), top, ops.take_along_axis(y, order, axis=1), hot * y, ops.cast(ops.argmin(y, axis=1), "float64"),
                 y[:, :3, :3] @ triangle * segments, ops.cumprod(y, axis=1)]
        return ops.concatenate([ops.reshape(part, (ops.shape(x)[0], -1)) for part in parts], axis=1)


class Angles(keras.Model):
    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.RandomUniform(0.1, 0.9, seed=1))
        super().build(shape)

    def call(self, x):
        y = ops.tanh(x * self.scale)
        parts = [ops.arcsin(y), ops.arccos(y), ops.arctan2(y, x), ops.arctan2(-x, -y), ops.arcsinh(x), ops.arccosh(1.0 + x * x), ops.arctanh(y),
                 ops.mod(x, 0.3), ops.floor_divide(x, 0.3), ops.tan(y), ops.sinh(y), ops.cosh(y), ops.cumsum(x, axis=1)]
        return ops.concatenate(parts, axis=1)


def convolutions():
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(),
                             layers.MaxPooling2D(), layers.Conv2D(6, 3), layers.GlobalAveragePooling2D(), layers.Dense(3, "softmax")])


def recurrence():
    return keras.Sequential([keras.Input((12,), dtype="int32"), layers.Embedding(30, 8, mask_zero=True),
                             layers.Bidirectional(layers.LSTM(6, return_sequences=True)), layers.GRU(5), layers.Dense(1)])


class TwoModes(keras.Model):
    """Another activation and another layer in training; a variable of its own in inference; an embedding in both."""

    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(7, 4)
        self.dense = layers.Dense(4)
        self.norm = layers.BatchNormalization()
        self.only_training = layers.Dense(4)
        self.answer = Scaled(3)

    def build(self, shape):
        self.bias = self.add_weight(shape=(4,), initializer="ones")
        super().build(shape)

    def call(self, ids, training=False):
        x = self.norm(self.dense(self.table(ids)), training=training)
        x = self.only_training(ops.sin(x)) + self.table(ids[:, ::-1]) if training else x + self.bias
        return self.answer(ops.mean(x, axis=1))


class KerasTraceTest(unittest.TestCase):
    def check(self, model, inputs, modes=(False,)):
        arrays = inputs if isinstance(inputs, list) else [inputs]
        expected = {mode: model(inputs, training=mode) for mode in modes[::-1]}
        graph = tracer.trace(model, None if getattr(model, "inputs", None) else inputs)
        names = [body["name"] for layer in graph.layers for key, body in layer.items() if key == "Input"]
        for mode in modes:
            (actual,) = Interpreter(graph)(dict(zip(names, arrays)), training=mode)
            np.testing.assert_allclose(ops.convert_to_numpy(actual), ops.convert_to_numpy(expected[mode]), rtol=0, atol=1e-12)
        return graph

    def test_training_and_inference_may_differ(self):
        model = TwoModes()
        graph = self.check(model, np.random.default_rng(3).integers(0, 7, (RECORDS, 6)), modes=(False, True))
        kinds = [next(iter(layer)) for layer in graph.layers]
        # What comes before the difference, and what has variables, is there once.
        self.assertEqual([kinds.count(kind) for kind in ("ops.in_training", "Embedding", "Dense", "BatchNormalization")], [1, 2, 2, 1])
        self.assertEqual({id(v) for v in graph.variables.values()}, {id(v) for v in model.weights})

        class OtherShape(layers.Layer):
            def call(self, x, training=False):
                return ops.concatenate([x, x], axis=1) if training else x

        x = keras.Input((3,))
        with self.assertRaisesRegex(TraceError, r"outputs have the shapes \[\(6,\)\] in training and \[\(3,\)\] in inference"):
            tracer.trace(keras.Model(x, OtherShape()(x)))

    def test_kinds(self):
        rng = np.random.default_rng(1)
        self.check(functional_with_ops(), [rng.normal(size=(RECORDS, 8)), rng.normal(size=(RECORDS, 3))])
        self.check(convolutions(), rng.normal(size=(RECORDS, 8, 8, 3)))
        self.check(recurrence(), rng.integers(0, 30, (RECORDS, 12)))
        self.check(HandWrittenAttention(), rng.normal(size=(RECORDS, 6, 8)))
        self.check(Order(), rng.normal(size=(RECORDS, 4, 3)))
        self.check(Angles(), rng.normal(size=(RECORDS, 4)))

    def test_subclassed_model_with_custom_layers(self):
        model = Encoder()
        graph = self.check(model, np.random.default_rng(2).integers(0, 50, (RECORDS, 10)))
        # Every variable of the model is one of the graph, also that of positions, which reads no input.
        kept = {id(v) for v in graph.variables.values()}
        self.assertEqual([v.path for v in model.weights if id(v) not in kept and "seed" not in v.path], [])

    def test_random_models(self):
        for seed in range(100):
            with self.subTest(seed=seed):
                keras.backend.clear_session()
                model, arrays = Maker(seed).model()
                self.check(model, arrays if len(arrays) > 1 else arrays[0])

    def test_decisions_on_values_are_refused_with_the_line(self):
        with self.assertRaisesRegex(TraceError, r"keras_trace_test.py:\d+: if float\(ops.sum\(x\)\) > 0.*external_step"):
            tracer.trace(ByValue(), np.zeros((2, 3)))

    def test_arguments_that_are_functions(self):
        x = keras.Input((6, 8))
        y = layers.GroupQueryAttention(4, 4, 2)(x, x)
        y = layers.Dense(5, activation=lambda z: ops.sin(z) * 2, kernel_initializer=lambda shape, dtype=None: ops.ones(shape, dtype) / 8)(y)
        y = layers.TimeDistributed(layers.Dense(3, activation=keras.activations.relu))(layers.Activation(ops.tanh)(y))
        y = layers.Lambda(lambda z: keras.activations.relu(z, negative_slope=0.1, max_value=0.5))(y)
        graph = self.check(keras.Model(x, y), np.random.default_rng(4).normal(size=(RECORDS, 6, 8)))
        self.assertIn("GroupQueryAttention", {kind for layer in graph.layers for kind in layer})
        for layer, text in ((layers.LSTM(2, activation=lambda z: z), "an argument of LSTM is a function of your own"),
                            (layers.Dense(2, kernel_regularizer=lambda w: ops.sum(w)), "a function of your own is not supported")):
            with self.assertRaisesRegex(TraceError, text):
                tracer.trace(keras.Sequential([keras.Input((6, 8)), layer]))

    def test_types_of_layers(self):
        def model(**last):
            recurrence = layers.Bidirectional(layers.LSTM(2, **last))
            return keras.Sequential([keras.Input((6, 8)), recurrence, layers.Dense(2), layers.Softmax(**last)])

        before = keras.config.dtype_policy()
        try:
            keras.config.set_dtype_policy("mixed_bfloat16")
            found = [body.get("dtype") for layer in tracer.trace(model(dtype="float32")).layers for body in layer.values()]
            self.assertEqual(found[1:], ["float32", None, "float32"])
            with self.assertRaisesRegex(TraceError, "its dtype is mixed_float16, and the model computes in bfloat16"):
                tracer.trace(model(dtype="mixed_float16"))
        finally:
            keras.config.set_dtype_policy(before)
        with self.assertRaisesRegex(TraceError, "its dtype is float32, and the model computes in float64"):
            tracer.trace(model(dtype="float32"))

    def test_the_model_is_as_before(self):
        model = Encoder()
        ids = np.random.default_rng(3).integers(0, 50, (RECORDS, 10))
        before = ops.convert_to_numpy(model(ids))
        tracer.trace(model, ids)
        np.testing.assert_array_equal(ops.convert_to_numpy(model(ids)), before)
        self.assertIsInstance(model.head.w, keras.Variable)


if __name__ == "__main__":
    unittest.main()
