#!/usr/bin/env python3
"""Milliseconds of a training step in TensorFlow, as a graph, on the CPU: median and best of many steps.

    tensorflow_steps.py --model mobilenet_v2 --threads 1 --seconds 5

Prints one line: MEDIAN BEST. The models are those of compare_steps.py. --write_json FILE writes the JSON of the model
that Cohort trains.
"""
import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

L = keras.layers


def model_of(name):
    if name == "recommender":
        return keras.Sequential([L.Input((3,), dtype="int64"), L.Embedding(20, 8), L.GlobalAveragePooling1D(), L.Dense(1)])
    if name == "mlp":
        return keras.Sequential([L.Input((784,)), L.Dense(128, "relu"), L.Dropout(0.2), L.Dense(10)])
    if name == "cnn":
        return keras.Sequential([L.Input((28, 28, 1)), L.Conv2D(32, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                                 L.Dense(128, "relu"), L.Dense(10)])
    if name in ("lstm", "gru"):
        return keras.Sequential([L.Input((80, 128)), L.LSTM(128) if name == "lstm" else L.GRU(128), L.Dense(10)])
    if name == "transformer":
        inputs = L.Input((64, 128))
        x = L.LayerNormalization()(inputs + L.MultiHeadAttention(4, 32)(inputs, inputs))
        x = L.LayerNormalization()(x + L.Dense(128)(L.Dense(512, "relu")(x)))
        return keras.Model(inputs, L.Dense(10)(L.GlobalAveragePooling1D()(x)))
    return keras.applications.MobileNetV2((96, 96, 3), weights=None, classes=10, classifier_activation=None)


def setting(name):
    """(model, batch, labels, loss, optimizer)"""
    model = model_of(name)
    labels = tf.random.uniform((16 if name == "mobilenet_v2" else 64,), 0, 10, tf.int32)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if name == "recommender":
        return (model, tf.random.uniform((32, 3), 0, 20, tf.int64), tf.zeros((32, 1)),
                keras.losses.BinaryCrossentropy(from_logits=True), keras.optimizers.RMSprop(0.1))
    if name == "mlp":
        return model, tf.random.uniform((32, 784)), labels[:32], cross_entropy, keras.optimizers.Adam()
    if name in ("lstm", "gru", "transformer"):
        return (model, tf.random.uniform((32, 64 if name == "transformer" else 80, 128)), labels[:32], cross_entropy,
                keras.optimizers.SGD(0.01))
    shape = (64, 28, 28, 1) if name == "cnn" else (16, 96, 96, 3)
    return model, tf.random.uniform(shape), labels, cross_entropy, keras.optimizers.SGD(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--write_json")
    args = parser.parse_args()
    if args.write_json:
        with open(args.write_json, "w", encoding="utf-8") as f:
            f.write(model_of(args.model).to_json())
        return
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model, x, y, loss_of, optimizer = setting(args.model)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    for _ in range(5):
        step()
    times = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step().numpy()
        times.append(time.perf_counter() - begin)
    print("%.5f %.5f" % (statistics.median(times) * 1e3, min(times) * 1e3))


if __name__ == "__main__":
    main()
