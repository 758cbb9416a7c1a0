#!/usr/bin/env python3
"""One worker of TensorFlow's MultiWorkerMirroredStrategy with RING, for compare_strategies.py.

    tensorflow_peer.py RANK PORT,PORT... [--batch 64] [--learning_rate 0.01] [--data DIR]

Prints "ok" when all workers are there. "steps COUNT" on standard input is answered by the seconds of one training step
of the MNIST CNN of compare_strategies.py, after a warm-up.

Needs tensorflow-cpu and tf_keras. One thread calculates.
"""
import argparse
import gzip
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

WARM_UP_STEPS = 50


def batches(tf, args, rank):
    """Batches of shuffled images of one channel, without end."""
    import numpy as np

    with gzip.open(os.path.join(args.data, "mnist/t10k-images-idx3-ubyte.gz")) as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)[:9000]
    with gzip.open(os.path.join(args.data, "mnist/t10k-labels-idx1-ubyte.gz")) as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8)[:9000].astype(np.int64)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(9000, seed=rank).repeat()
    return data.batch(args.batch).map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).prefetch(2)


def training(tf, strategy, args, rank):
    """A function that runs one step."""
    import tf_keras as keras

    with strategy.scope():
        model = keras.Sequential([
            keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)), keras.layers.MaxPooling2D(),
            keras.layers.Flatten(), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
        optimizer = keras.optimizers.legacy.SGD(args.learning_rate)
    global_batch = args.batch * strategy.num_replicas_in_sync

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def step(iterator):
        return strategy.run(replica_step, args=next(iterator))

    iterator = iter(strategy.distribute_datasets_from_function(lambda _: batches(tf, args, rank)))
    return lambda: step(iterator)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rank", type=int)
    parser.add_argument("ports")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    args = parser.parse_args()
    workers = ["127.0.0.1:" + port for port in args.ports.split(",")]
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": args.rank}})
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring))
    print("ok", flush=True)
    step = training(tf, strategy, args, args.rank)
    for line in sys.stdin:
        count = int(line.split()[1])
        for _ in range(WARM_UP_STEPS):
            loss = step()
        loss.numpy()
        begin = time.perf_counter()
        for _ in range(count):
            loss = step()
        loss.numpy()
        print("%.9f" % ((time.perf_counter() - begin) / count), flush=True)
    os._exit(0)  # else it waits for the other workers


main()
