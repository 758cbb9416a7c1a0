"""Random small Keras models: functional, nested, with shared and custom layers and functions of keras.ops."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops


class Affine(layers.Layer):
    """A custom layer with variables in a list."""

    def build(self, shape):
        self.parts = [self.add_weight(shape=(shape[-1],)), self.add_weight(shape=())]

    def call(self, x):
        return ops.multiply(x, self.parts[0]) + self.parts[1]


class Gate(layers.Layer):
    """A custom layer of layers, which changes no shape."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.inner = layers.Dense(width, activation="sigmoid")
        self.norm = layers.LayerNormalization()
        self.dropout = layers.Dropout(0.3)

    def call(self, x, training=None):
        return self.dropout(self.norm(x), training=training) * self.inner(x)


class Around(keras.Model):
    """A subclassed model around another one."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.affine = Affine()

    def call(self, inputs, training=None):
        y = self.affine(self.inner(inputs, training=training))
        batch, width = ops.shape(y)
        return ops.reshape(ops.stack([y, ops.tanh(y)], axis=1), (batch, 2 * width))


class Maker:
    """Makes models of one seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def model(self) -> tuple[keras.Model, list[np.ndarray]]:
        """A model of float inputs and [records, n] outputs, and inputs for it."""
        inputs, arrays, values = [], [], []
        for i in range(self.rng.integers(1, 3)):
            shape = [(5,), (6, 4), (6, 6, 2)][self.rng.integers(0, 3)]
            inputs.append(keras.Input(shape, name=f"x{i}"))
            arrays.append(self.rng.normal(size=(3, *shape)))
            values.append(inputs[-1])
        if self.one_in(4):
            inputs.append(keras.Input((4,), dtype="int32", name="ids"))
            arrays.append(self.rng.integers(0, 9, (3, 4)))
            values.append(layers.Embedding(9, 3, mask_zero=self.one_in(2))(inputs[-1]))
        for _ in range(self.rng.integers(2, 7)):
            i = self.rng.integers(0, len(values))
            values[i] = self.step(values[i])
        flat = [self.flat(x) for x in values]
        y = layers.Concatenate()(flat) if len(flat) > 1 else flat[0]
        model = keras.Model(inputs if len(inputs) > 1 else inputs[0], layers.Dense(2)(y))
        if self.one_in(3):
            model = Around(model)
            model(arrays if len(arrays) > 1 else arrays[0])
        for w in model.weights:
            if "seed" not in w.path:
                w.assign(self.rng.uniform(0.2, 0.8, w.shape))
        return model, arrays

    def one_in(self, n: int) -> bool:
        return bool(self.rng.integers(0, n) == 0)

    def pick(self, choices):
        return choices[self.rng.integers(0, len(choices))]()

    def step(self, x):
        width = x.shape[-1]
        common = [
            lambda: layers.Dense(width + 1, activation="elu")(x), lambda: Affine()(x), lambda: Gate(width)(x),
            lambda: layers.LayerNormalization(center=False)(x), lambda: layers.BatchNormalization(scale=False)(x),
            lambda: layers.Dropout(0.4)(x), lambda: ops.where(x > 0, x, ops.exp(ops.minimum(x, 0.0)) - 1.0),
            lambda: x * ops.sigmoid(x) + 0.5,
            lambda: ops.maximum(x, 0.1) / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-3), lambda: ops.flip(x, axis=-1) - x,
            lambda: ops.softmax(x * 2), lambda: ops.clip(x, -0.5, 0.5), lambda: ops.roll(x, 1, axis=-1), lambda: self.shared(x),
            lambda: ops.concatenate([x[..., 1:], ops.abs(x[..., :1])], axis=-1), lambda: ops.cumsum(x, axis=-1),
            lambda: ops.power(ops.abs(x) + 0.1, 1.5),
            lambda: ops.expand_dims(ops.max(x, axis=-1), -1) * x, lambda: ops.logsumexp(ops.stack([x, -x], axis=1), axis=1),
        ]
        return self.pick(common + {2: self.of_vectors, 3: self.of_sequences, 4: self.of_images}[len(x.shape)](x))

    def of_vectors(self, x):
        width = x.shape[-1]
        return [
            lambda: layers.Reshape((width, 1))(x), lambda: layers.RepeatVector(3)(x), lambda: ops.einsum("bi,bj->bij", x, x),
            lambda: keras.Sequential([layers.Dense(3), layers.ReLU(), Affine()])(x), lambda: ops.tile(x, (1, 2)),
        ]

    def of_sequences(self, x):
        steps, width = x.shape[1:]
        return [
            lambda: layers.Conv1D(3, 2, padding="causal")(x), lambda: layers.LSTM(3, return_sequences=True)(x), lambda: layers.GRU(3)(x),
            lambda: layers.Bidirectional(layers.LSTM(2, return_sequences=True))(x), lambda: layers.MultiHeadAttention(2, 3)(x, x),
            lambda: layers.GlobalAveragePooling1D()(x), lambda: ops.mean(x, axis=1), lambda: ops.transpose(x, (0, 2, 1)),
            lambda: layers.TimeDistributed(layers.Dense(2))(x), lambda: ops.matmul(x, ops.swapaxes(x, 1, 2)), lambda: x[:, -1],
            lambda: ops.reshape(x, (-1, steps * width)), lambda: layers.Permute((2, 1))(x),
            lambda: layers.SimpleRNN(2, return_sequences=True)(x),
        ]

    def of_images(self, x):
        return [
            lambda: layers.Conv2D(3, 2, padding="same", activation="relu")(x), lambda: layers.MaxPooling2D(padding="same")(x),
            lambda: layers.GlobalAveragePooling2D()(x), lambda: layers.DepthwiseConv2D(2, padding="same")(x),
            lambda: layers.UpSampling2D()(x),
            lambda: ops.sum(x, axis=2), lambda: layers.SeparableConv2D(2, 2, padding="same")(x), lambda: ops.transpose(x, (0, 2, 1, 3)),
            lambda: layers.Conv2DTranspose(2, 2, strides=2)(x), lambda: layers.AveragePooling2D(2, padding="same")(x),
        ]

    def shared(self, x):
        layer = layers.Dense(x.shape[-1], activation="tanh")
        return layer(layer(x)) + layer(x * 0.5)

    def flat(self, x):
        return x if len(x.shape) == 2 else layers.Flatten()(x)
