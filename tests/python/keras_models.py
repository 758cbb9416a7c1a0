"""Keras models of the kinds that users write, with data for them. Tests train them.

Their constants are exact in float32: Keras on TensorFlow rounds the scale of Rescaling, the factor of a regularizer, the root of
key_dim in attention and that of 2 in gelu to float32 also in float64 models.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops


class Scale(layers.Layer):
    """A custom layer: factors and a penalty of them."""

    def build(self, shape):
        self.factors = self.add_weight(shape=(shape[-1],), initializer="ones", name="factors", regularizer=keras.regularizers.L2(0.25))
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x):
        return ops.tanh(x * self.factors) + self.calls


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = [layers.Dense(16, activation="relu"), layers.Dense(8)]
        self.scale = Scale()
        self.dropout = layers.Dropout(0.0)
        self.answer = layers.Dense(3)

    def call(self, x, training=None):
        for layer in self.hidden:
            x = layer(x)
        return self.answer(self.dropout(self.scale(x), training=training))


class TokenAndPosition(layers.Layer):
    def __init__(self, steps, words, width, **kwargs):
        super().__init__(**kwargs)
        self.steps = steps
        self.tokens = layers.Embedding(words, width, mask_zero=True)
        self.positions = layers.Embedding(steps, width)

    def call(self, ids):
        return self.tokens(ids) + self.positions(ops.arange(self.steps))

    def compute_mask(self, ids, mask=None):
        return self.tokens.compute_mask(ids)


class TransformerBlock(layers.Layer):
    """A block of an encoder as in keras_hub.layers.TransformerEncoder, with a padding mask."""

    def __init__(self, width, heads, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.attention = layers.MultiHeadAttention(heads, width // heads, dropout=0.0)
        self.inner = layers.Dense(2 * width, activation="relu")
        self.outer = layers.Dense(width)
        self.norms = [layers.LayerNormalization(epsilon=2.0**-17) for _ in range(2)]
        self.dropout = layers.Dropout(0.0)

    def call(self, x, padding_mask=None, training=None):
        mask = None if padding_mask is None else ops.expand_dims(ops.cast(padding_mask, "bool"), 1)
        y = self.attention(query=x, value=x, attention_mask=mask, training=training)
        x = self.norms[0](x + self.dropout(y, training=training))
        return self.norms[1](x + self.outer(self.inner(x)))


class TransformerClassifier(keras.Model):
    def __init__(self, steps=12, words=40, width=16):
        super().__init__()
        self.embedding = TokenAndPosition(steps, words, width)
        self.blocks = [TransformerBlock(width, width // 4) for _ in range(2)]
        self.answer = layers.Dense(2, activation="softmax")

    def call(self, ids, training=None):
        mask = ops.not_equal(ids, 0)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, padding_mask=mask, training=training)
        weights = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        return self.answer(ops.sum(x * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0))


class TextClassifier(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = layers.Embedding(40, 8, mask_zero=True)
        self.lstm = layers.Bidirectional(layers.LSTM(6, return_sequences=True))
        self.last = layers.LSTM(5)
        self.answer = layers.Dense(1)

    def call(self, ids):
        return self.answer(self.last(self.lstm(self.embedding(ids))))


class Ordered(keras.Model):
    """What sorts, and what reads and writes by places."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(12)
        self.answer = layers.Dense(2)

    def build(self, shape):
        self.steps = self.add_weight(shape=(6,), initializer="ones", name="steps")
        super().build(shape)

    def call(self, x):
        y = ops.reshape(self.hidden(x), (-1, 4, 3))
        top, places = ops.top_k(y, 2)
        order = ops.argsort(y, axis=1)
        triangle = ops.scatter(np.array([[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]), self.steps, (3, 3))
        segments = ops.segment_sum(self.steps * 0.5, np.array([0, 2, 2, 1, 0, 2]), 3)
        angles = ops.arctan2(y, 1.0 + y * y) + ops.arcsinh(y) + ops.arctanh(ops.tanh(y) * 0.5) + ops.arcsin(ops.tanh(y) * 0.5)
        parts = [ops.sort(y, axis=1), top, ops.take_along_axis(y, order, axis=1), ops.sum(ops.one_hot(places, 3), axis=2) * y,
                 y @ triangle * segments, ops.cumprod(y, axis=1), angles + ops.arccos(ops.tanh(y) * 0.5) + ops.arccosh(1.5 + y * y)]
        return self.answer(ops.concatenate([ops.reshape(part, (ops.shape(x)[0], -1)) for part in parts], axis=1))


class TwoModes(keras.Model):
    """Computes something else in training: a second path there, and other numbers in inference."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(8)
        self.norm = layers.BatchNormalization()
        self.auxiliary = layers.Dense(8, activation="tanh")
        self.answer = layers.Dense(2)

    def build(self, shape):
        self.temperature = self.add_weight(shape=(), initializer=keras.initializers.Constant(0.75), name="temperature")
        super().build(shape)

    def call(self, x, training=False):
        y = self.norm(self.hidden(x), training=training)
        if training:
            return self.answer(y * 0.5 + self.auxiliary(x))
        return self.answer(y) * self.temperature


def two_modes_and_outputs() -> keras.Model:
    """Two outputs with names, of which one differs in training."""

    class Last(layers.Layer):
        def call(self, x, training=False):
            return x * 2.0 if training else ops.tanh(x)

    x = keras.Input((6,), name="numbers")
    h = layers.Dense(5, activation="tanh")(x)
    return keras.Model(x, {"price": layers.Dense(1, name="price_0")(h), "rest": Last()(layers.Dense(3, name="rest")(h))})


def functional_with_ops() -> keras.Model:
    x = keras.Input((8,), name="x")
    y = layers.Dense(12)(x)
    y = ops.where(y > 0, y, ops.exp(ops.minimum(y, 0.0)) - 1.0)
    gate = ops.sigmoid(layers.Dense(12)(x[:, 2:6]))
    y = ops.concatenate([y * gate, ops.square(x)], axis=-1)
    y = y / ops.sqrt(ops.mean(ops.square(y), axis=-1, keepdims=True) + 1e-6)
    return keras.Model(x, layers.Dense(1)(y), name="functional_with_ops")


def cnn(augment: bool = False) -> keras.Model:
    augmentation = [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)] if augment else [layers.RandomBrightness(0.0)]
    return keras.Sequential([
        keras.Input((10, 10, 3)), *augmentation, layers.Rescaling(1 / 256.0),
        layers.Conv2D(6, 3, padding="same", use_bias=False), layers.BatchNormalization(momentum=0.9), layers.ReLU(), layers.MaxPooling2D(),
        layers.Conv2D(8, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(4, activation="softmax")], name="cnn")


def two_outputs() -> keras.Model:
    numbers, kind = keras.Input((6,), name="numbers"), keras.Input((), dtype="int32", name="kind")
    x = layers.Concatenate()([numbers, layers.Flatten()(layers.Embedding(5, 4)(layers.Reshape((1,))(kind)))])
    x = layers.Dense(10, activation="tanh")(x)
    return keras.Model({"numbers": numbers, "kind": kind},
                       {"price": layers.Dense(1, name="price")(x), "sold": layers.Dense(2, activation="softmax", name="sold")(x)})


def ids_and_labels(records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    ids = rng.integers(1, 40, (records, 12))
    ids[np.arange(12) >= rng.integers(3, 13, (records, 1))] = 0
    return ids, (ids % 3 == 0).sum(1) % 2
