#!/usr/bin/env python3
"""Converts Keras models of many kinds to ONNX, and compares what onnxruntime and Keras compute."""

import os
import sys
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from keras import layers, ops  # noqa: E402

from cohort import ExportError, _export_keras  # noqa: E402
from cohort import _export_onnx as converter  # noqa: E402

RECORDS = 3


def with_random_weights(model, rng):
    for v in model.weights:
        if v.dtype == "float32" and "seed" not in v.path:
            v.assign(rng.uniform(0.1, 0.8, size=v.shape))
    return model


def session_of(model):
    proto = converter.convert(model)
    onnx.checker.check_model(proto, full_check=True)
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


class Onnx(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(0)

    def compare(self, name, function, *shapes, integers=0):
        """`function` makes a tensor of inputs of these shapes of a record; integers: they are numbers below this one."""
        inputs = [keras.Input(shape, dtype="int64" if integers else "float32") for shape in shapes]
        model = with_random_weights(keras.Model(inputs, function(*inputs)), self.rng)
        session = session_of(model)
        arrays = [self.rng.integers(0, integers, (RECORDS, *s)) if integers else self.rng.normal(size=(RECORDS, *s)).astype(np.float32)
                  for s in shapes]
        got = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays)})
        want = keras.tree.flatten(model(arrays, training=False))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, np.asarray(b), rtol=1e-5, atol=1e-5, err_msg=name)
            self.assertEqual(a.dtype, np.asarray(b).dtype, name)

    def layer(self, layer, shape, **kwargs):
        with self.subTest(layer.name):
            self.compare(f"{layer.name} of {shape}", layer, shape, **kwargs)

    def test_activations(self):
        for name in ("relu gelu silu elu selu leaky_relu relu6 softmax softplus softsign hard_sigmoid hard_silu log_sigmoid mish tanh "
                     "tanh_shrink soft_shrink hard_shrink hard_tanh squareplus log_softmax celu exponential "
                     "sparse_plus sparse_sigmoid").split():
            self.layer(layers.Dense(4, activation=name, name=name), (6,))
        self.layer(layers.ReLU(max_value=6, negative_slope=0.1, threshold=0.2), (6,))
        self.layer(layers.PReLU(), (6,))

    def test_convolutions_and_pools(self):
        for padding in ("same", "valid"):
            self.layer(layers.Conv2D(4, 3, padding=padding, strides=2), (8, 9, 3))
            self.layer(layers.Conv2D(4, 3, padding=padding, dilation_rate=2, activation="relu"), (8, 9, 3))
            self.layer(layers.Conv1D(4, 3, padding=padding), (8, 3))
            self.layer(layers.Conv3D(2, 2, padding=padding), (4, 4, 4, 2))
            self.layer(layers.DepthwiseConv2D(3, padding=padding, depth_multiplier=2, strides=2), (8, 8, 3))
            self.layer(layers.SeparableConv2D(4, 3, padding=padding), (8, 8, 3))
            for strides in (1, 2, 3):
                self.layer(layers.Conv2DTranspose(4, 3, padding=padding, strides=strides), (5, 6, 3))
                self.layer(layers.Conv1DTranspose(4, 2, padding=padding, strides=strides), (5, 3))
            self.layer(layers.MaxPooling2D(3, strides=2, padding=padding), (8, 9, 3))
            self.layer(layers.AveragePooling2D(3, strides=2, padding=padding), (8, 9, 3))
        self.layer(layers.Conv1D(4, 3, padding="causal", dilation_rate=2), (8, 3))
        self.layer(layers.Conv2DTranspose(4, 3, padding="same", strides=2, output_padding=1), (5, 6, 3))
        for layer in (layers.UpSampling2D(2), layers.UpSampling2D(2, interpolation="bilinear"), layers.ZeroPadding2D(1),
                      layers.Cropping2D(1), layers.GlobalAveragePooling2D(), layers.Resizing(4, 5)):
            self.layer(layer, (6, 4, 2))

    def test_normalization_and_layers_of_training(self):
        for layer in (layers.BatchNormalization(), layers.BatchNormalization(scale=False), layers.LayerNormalization(),
                      layers.GroupNormalization(2), layers.RMSNormalization(), layers.UnitNormalization(),
                      layers.SpectralNormalization(layers.Dense(3)), layers.Dropout(0.5), layers.GaussianNoise(0.5), layers.RandomFlip(),
                      layers.Rescaling(0.5, 1)):
            self.layer(layer, (3, 4, 4))
        self.layer(layers.Normalization(mean=[1.0, 2, 3], variance=[1.0, 4, 9]), (3,))

    def test_recurrences(self):
        for layer in (layers.LSTM(4), layers.GRU(4), layers.GRU(4, reset_after=False, return_sequences=True), layers.SimpleRNN(4),
                      layers.LSTM(4, return_sequences=True, return_state=True, go_backwards=True), layers.Bidirectional(layers.GRU(4)),
                      layers.RNN([layers.LSTMCell(3), layers.GRUCell(4)]), layers.TimeDistributed(layers.Dense(3))):
            self.layer(layer, (5, 3))

    def test_masks(self):
        def masked(make):
            return lambda x: make(layers.Embedding(4, 5, mask_zero=True)(x))

        for make in (lambda e: layers.LSTM(4)(layers.Bidirectional(layers.LSTM(3, return_sequences=True))(e)),
                     lambda e: layers.GRU(4, return_sequences=True)(e), layers.GlobalAveragePooling1D(),
                     lambda e: layers.MultiHeadAttention(2, 3)(e, e)):
            self.compare("masked", masked(make), (6,), integers=4)

    def test_attention(self):
        self.compare("multi-head", lambda a, b: layers.MultiHeadAttention(2, 3)(a, b), (4, 6), (5, 6))
        self.compare("causal", lambda a: layers.MultiHeadAttention(2, 3, dropout=0.1)(a, a, use_causal_mask=True), (4, 6))
        self.compare("grouped", lambda a, b: layers.GroupQueryAttention(4, 4, 2)(a, b), (4, 6), (5, 6))
        self.compare("dot product", lambda a, b: layers.Attention()([a, b]), (4, 6), (5, 6))

    def test_categories(self):
        for layer in (layers.CategoryEncoding(5, output_mode="one_hot"), layers.IntegerLookup(vocabulary=[1, 3])):
            self.layer(layer, (1,), integers=5)
        for layer in (layers.CategoryEncoding(5), layers.CategoryEncoding(5, output_mode="count"), layers.Embedding(5, 3)):
            self.layer(layer, (4,), integers=5)
        self.layer(layers.Discretization([-0.5, 0.0, 0.5]), (4,))

    def test_operations(self):
        for name in ("abs negative exp square sin cos tan sinh cosh tanh arctan ceil floor sign sigmoid erf reciprocal round expm1 exp2 "
                     "isfinite isnan trunc zeros_like ones_like").split():
            self.compare(name, getattr(ops, name), (3, 4))
        for name in "sum mean max min prod var std logsumexp any all argmax argmin".split():
            self.compare(name, lambda a, f=getattr(ops, name): f(a, axis=1), (3, 4))
            self.compare(name, lambda a, f=getattr(ops, name): f(a, axis=-1, keepdims=True), (3, 4))
        for name in ("add subtract multiply divide maximum minimum mod floor_divide equal greater less_equal not_equal divide_no_nan "
                     "logaddexp logical_and").split():
            self.compare(name, getattr(ops, name), (3, 4), (3, 4))
            self.compare(name, lambda a, f=getattr(ops, name): f(a, 2.0), (3, 4))
        self.compare("floor_divide", lambda a: (a - 3) // 2, (3,), integers=9)
        self.compare("mixed", lambda a: a + 1.5, (3,), integers=9)

    def test_shapes_and_products(self):
        cases = [
            lambda a, b: ops.matmul(a, ops.transpose(b, (0, 2, 1))), lambda a, b: ops.einsum("bij,bkj->bik", a, b),
            lambda a, b: ops.tensordot(a, ops.ones((4, 2, 5)), axes=1) + ops.sum(b), lambda a, b: a[:, 1:, ::2] + b[:, -1:, 1:3],
            lambda a, b: a[..., 0, None] * b[:, None, 1, :1], lambda a, b: ops.stack([a, b], axis=1),
            lambda a, b: ops.concatenate([a, b], axis=1),
            lambda a, b: ops.split(a, 2, axis=-1)[1] + ops.unstack(b, axis=-1)[1][:, :, None], lambda a, b: ops.tile(a, (1, 2, 1)),
            lambda a, b: ops.repeat(a, 2, axis=1), lambda a, b: ops.pad(a, ((0, 0), (1, 2), (0, 0)), constant_values=2),
            lambda a, b: ops.roll(ops.flip(a, axis=1), 1, axis=2), lambda a, b: ops.take(a, ops.array([1, 0, 2]), axis=1),
            lambda a, b: ops.take_along_axis(a, ops.expand_dims(ops.argmax(b, axis=-1), -1), axis=-1), lambda a, b: ops.where(a > 0, a, b),
            lambda a, b: ops.clip(a, -0.5, 0.5), lambda a, b: ops.tril(a, 1), lambda a, b: ops.cast(a, "int32"),
            lambda a, b: ops.top_k(a, 2)[1], lambda a, b: ops.sort(a, axis=1), lambda a, b: ops.argsort(a, axis=-1), lambda a, b: ops.cumprod(a, axis=1),
            lambda a, b: ops.arctan2(a, b) + ops.arctan2(-a, ops.round(b)), lambda a, b: ops.arcsin(ops.tanh(a)) + ops.arctanh(ops.tanh(b)),
            lambda a, b: a[:, :, :3] @ ops.scatter(ops.array([[0, 0], [2, 1], [0, 0]]), a[0, 0, :3], (3, 2)),
            lambda a, b: a[:, :, :3] * ops.segment_sum(a[0, 0, :3], ops.array([2, 0, 2]), 3),
            lambda a, b: ops.moments(a, axes=[1])[1], lambda a, b: ops.swapaxes(ops.moveaxis(a, 1, -1), 1, 2),
            lambda a, b: ops.normalize(a, axis=-1), lambda a, b: ops.reshape(a, (-1, 2)), lambda a, b: ops.cumsum(a, axis=1),
            lambda a, b: layers.Dot(axes=2, normalize=True)([a, b]), lambda a, b: layers.Permute((2, 1))(a)]
        for i, case in enumerate(cases):
            self.compare(f"case {i}", case, (3, 4), (3, 4))
        self.compare("one_hot", lambda a: ops.one_hot(a, 5), (3,), integers=5)

    def test_sums_along_an_axis(self):
        """What an exported model has for ops.add_along_axis, which Keras lacks."""
        rng = np.random.default_rng(2)
        x, values, index = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 5, 3)), rng.integers(-4, 4, (2, 5, 3))
        expected = x.copy()
        np.add.at(expected, (np.arange(2)[:, None, None], index, np.arange(3)), values)
        actual = _export_keras._add_along_axis(*map(ops.convert_to_tensor, (x, index, values)), 1)
        np.testing.assert_allclose(ops.convert_to_numpy(actual), expected, rtol=0, atol=1e-6)
        self.compare("sums", lambda a, b: _export_keras._add_along_axis(a, ops.argsort(b, axis=-1), b, -1), (3, 4), (3, 4))

    def test_the_batch_is_dynamic_and_training_leaves_nothing(self):
        x = keras.Input((4,), name="x")
        model = keras.Model(x, layers.Dense(2)(layers.Dropout(0.5)(layers.BatchNormalization()(x))))
        session = session_of(model)
        self.assertEqual(session.get_inputs()[0].shape, ["batch", 4])
        self.assertEqual({n.op_type for n in converter.convert(model).graph.node}, {"Mul", "Add", "MatMul", "Identity"})
        for records in (1, 7):
            self.assertEqual(session.run(None, {"x": np.zeros((records, 4), np.float32)})[0].shape, (records, 2))

    def test_what_onnx_lacks_is_named(self):
        x = keras.Input((6, 6, 2))
        with self.assertRaisesRegex(ExportError, r"keras.ops.sparsemax .*odd.*keras.ops.erfinv"):
            y = layers.Activation(ops.sparsemax, name="odd")(x)
            converter.convert(keras.Model(x, ops.erfinv(y)))
        with self.assertRaisesRegex(ExportError, "pool_of_any.*adaptive"):
            converter.convert(keras.Model(x, layers.AdaptiveAveragePooling2D(2, name="pool_of_any")(x)))


if __name__ == "__main__":
    unittest.main()
