#!/usr/bin/env python3
"""Writes tensorflow_models.json.gz with the real tf_keras: models with functions of TensorFlow on tensors of Keras 2.

    build/venv-tensorflow/bin/python tests/golden/make_tensorflow_golden.py     (`tests/run.sh --all` makes that venv)

Each case is one as make_keras_json_golden.py writes it, with two training steps in float64.
"""
import argparse
import gzip
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tensorflow as tf  # noqa: E402
import tf_keras as keras  # noqa: E402

import make_keras_json_golden  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 2
RATE = 0.0078125  # exact in float32, which tf_keras rounds it to
layers = keras.layers

# By the name of the case: a function of a tensor [batch, 4, 6].
FUNCTIONS = {
    "arithmetic": lambda x: (1 - x) * 2.0 + x / (2.0 + tf.abs(x)) - (-x) ** 2 + 3.0 // (2.0 + x) + x % 0.7,
    "add": lambda x: tf.add(x, 1.0) + tf.add_n([x, x * x]) + tf.nn.bias_add(x, tf.range(6, dtype=x.dtype)),
    "comparisons": lambda x: tf.where(tf.logical_and(x > 0.1, tf.logical_not(x >= 0.5)), x, 0.3 * x)
                   + tf.where(tf.logical_or(x < 0, x <= -1), x, tf.zeros_like(x)),
    "elementwise": lambda x: tf.exp(x) + tf.math.log(2 + x * x) + tf.sqrt(1 + x * x) + tf.square(x) + tf.sin(x)
                   + tf.cos(x) + tf.math.log1p(x * x) + tf.math.expm1(x) + tf.math.rsqrt(1 + x * x)
                   + tf.math.erf(x) + tf.tanh(x) + tf.sigmoid(x) + tf.math.softplus(x) + tf.sign(x) + tf.floor(x),
    "activations": lambda x: tf.nn.relu(x) + tf.nn.relu6(x) + tf.nn.elu(x) + tf.nn.selu(x) + tf.nn.silu(x)
                   + tf.nn.gelu(x, approximate=True)  # the other form rounds sqrt(2) to float32
                   + tf.nn.leaky_relu(x, alpha=0.125)
                   + tf.nn.softmax(x) + tf.nn.log_softmax(x, axis=1) + keras.activations.relu(x),
    "bounds": lambda x: tf.maximum(x, -0.2) + tf.minimum(x, 0.4) + tf.clip_by_value(x, -0.3, 0.3),
    "reductions": lambda x: tf.reduce_mean(x, axis=1) + tf.reduce_sum(x, axis=[1, 2], keepdims=True)[:, 0]
                  + tf.reduce_max(x, 1) + tf.reduce_min(x, axis=1) + tf.math.reduce_std(x, axis=1)
                  + tf.math.reduce_variance(x, 1) + tf.reduce_logsumexp(x, axis=1) + tf.reduce_prod(x, axis=1),
    "reshape": lambda x: tf.reshape(x, (-1, 3, 8)),
    "transpose": lambda x: tf.transpose(x, [0, 2, 1]),
    "axes": lambda x: tf.squeeze(tf.expand_dims(x, 1), axis=1) + tf.squeeze(x[:, :1], 1)[:, tf.newaxis],
    "slices": lambda x: x[:, 0] + x[:, -1] + x[:, 1:3, ...][:, 1] + x[..., ::-1][:, 2],
    "slice": lambda x: tf.slice(x, [0, 1, 2], [-1, 2, 3]),
    "parts": lambda x: tf.concat([x, x * x], axis=-1) + tf.tile(x, [1, 1, 2]) + tf.repeat(x, 2, axis=2),
    "split": lambda x: tf.split(x, 2, axis=-1)[1] * tf.split(x, [3, 3], axis=2)[0],
    "stack": lambda x: tf.stack(tf.unstack(x, axis=1)[1:3], axis=1),
    "pad": lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1]]) + tf.pad(x, [[0, 0], [2, 1], [1, 0]], "CONSTANT", 0.5),
    "pad_mirrored": lambda x: tf.pad(x, [[0, 0], [2, 1], [1, 2]], "REFLECT"),
    "moved": lambda x: tf.reverse(x, [1]) + tf.roll(x, 2, axis=2) + tf.cumsum(x, axis=1),
    "matmul": lambda x: tf.matmul(x, x, transpose_b=True) + tf.matmul(x[..., :4], x[..., :4], transpose_a=True)
              + tf.matmul(x, tf.transpose(x, [0, 2, 1])),
    "matmul_both": lambda x: tf.matmul(x, x[..., :4], transpose_a=True, transpose_b=True),
    "matmul_constant": lambda x: tf.matmul(x, tf.constant([[0.1 * i * j for j in range(2)] for i in range(6)], x.dtype)),
    "gather": lambda x: tf.gather(x, [0, 2, 3], axis=1),
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, axis=-1), 6, dtype=x.dtype) * x,
    "l2_normalize": lambda x: tf.math.l2_normalize(x, axis=-1) + tf.nn.l2_normalize(x, axis=1),
    "cast": lambda x: tf.cast(x > 0, x.dtype) * x + tf.identity(x) + tf.stop_gradient(x) * 0.1 + tf.ones_like(x),
    "backend": lambda x: keras.backend.mean(x, axis=1) + keras.backend.sum(x, axis=1)
               + keras.backend.l2_normalize(x, axis=-1)[:, 0],
}


def case_of(number, name, function):
    keras.backend.clear_session()
    tensor = keras.Input((4, 6), name="column_0")
    made = function(layers.Dense(6, name="hidden")(tensor))
    end = layers.Dense(2, name="answer")(layers.Flatten()(made) if len(made.shape) > 2 else made)
    columns = [{"column": "column_0", "kind": "real", "dims": [4, 6], "bound": 0, "position": 0}]
    labels = [{"column": "label_0", "kind": "real", "dims": [2], "bound": 0, "position": 9}]
    case = make_keras_json_golden.trained_case(
        name, 5000 + number, keras.Model(tensor, end), columns, labels, {"loss": "mean_squared_error"},
        keras.optimizers.SGD(RATE), STEPS)
    case["compile"] = {"loss": "mean_squared_error",
                       "optimizer": {"class_name": "SGD", "config": {"learning_rate": RATE}}}
    print(name, case["logs"], flush=True)
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(HERE, "tensorflow_models.json.gz"))
    args = parser.parse_args()
    keras.backend.set_floatx("float64")
    cases = [case_of(i, name, function) for i, (name, function) in enumerate(FUNCTIONS.items())]
    text = '{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n"
    with gzip.GzipFile(args.out, "wb", mtime=0) as f:
        f.write(text.encode())


if __name__ == "__main__":
    main()
