#!/usr/bin/env python3
"""TensorFlow's own ParameterServerStrategy on the examples, for comparison.

    TF_USE_LEGACY_KERAS=1 python tensorflow_ps.py --example recommender --steps 1000
    TF_USE_LEGACY_KERAS=1 python tensorflow_ps.py --example mnist_mlp --steps 500 --data DIR
    TF_USE_LEGACY_KERAS=1 python tensorflow_ps.py --example large_layer --steps 60 --workers 1 --ps 1

Starts the workers (3) and parameter servers (2) as processes on loopback and is the chief itself. Needs
tensorflow-cpu and tf_keras. Prints one JSON line: steps per second after warm-up, and the seconds from
launch to the first finished step.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import time
import traceback

LAUNCHED = time.time()
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from real_cluster import free_ports  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["GRPC_FAIL_FAST"] = "use_caller"


def serve():
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type,
                                  task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()


def start_cluster(workers, servers):
    chief, *ports = free_ports(1 + workers + servers)
    cluster = {"worker": [f"127.0.0.1:{p}" for p in ports[:workers]],
               "ps": [f"127.0.0.1:{p}" for p in ports[workers:]]}
    cluster["chief"] = [f"127.0.0.1:{chief}"]
    children = []
    for kind, count in (("worker", workers), ("ps", servers)):
        for index in range(count):
            env = dict(os.environ, TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": kind, "index": index}}))
            children.append(subprocess.Popen([sys.executable, __file__, "--serve"], env=env,
                                             stderr=subprocess.DEVNULL))
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
    return children


def recommender(tf, strategy, coordinator, args):
    """The tutorial's custom training loop: StringLookup, Embedding, mean, Dense, RMSprop(0.1)."""
    import random

    import tf_keras as keras

    vocabulary = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
    with strategy.scope():
        feature_lookup = keras.layers.StringLookup(vocabulary=vocabulary, mask_token=None)
        label_lookup = keras.layers.StringLookup(vocabulary=["no", "yes"], num_oov_indices=0,
                                                 mask_token=None)
        raw_input = keras.layers.Input(shape=(3,), dtype=tf.string)
        preprocess = keras.Model({"features": raw_input}, feature_lookup(raw_input))
        raw_label = keras.layers.Input(shape=(1,), dtype=tf.string)
        label_model = keras.Model({"label": raw_label}, label_lookup(raw_label))
        model_input = keras.layers.Input(shape=(3,), dtype=tf.int64)
        embedded = keras.layers.Embedding(input_dim=len(feature_lookup.get_vocabulary()),
                                          output_dim=20)(model_input)
        output = keras.layers.Dense(1, activation="sigmoid")(tf.reduce_mean(embedded, axis=1))
        model = keras.Model({"features": model_input}, output)
        optimizer = keras.optimizers.legacy.RMSprop(learning_rate=0.1)
        accuracy = keras.metrics.Accuracy()

    def examples(n):
        rng = random.Random(1)
        features, labels = [], []
        for _ in range(n):
            f = rng.sample(vocabulary, 3)
            features.append(f)
            labels.append(["yes"] if "avenger" in f else ["no"])
        return features, labels

    def dataset_fn(_):
        features, labels = examples(200)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        dataset = dataset.map(lambda f, l: ({"features": preprocess({"features": f})},
                                            tf.cast(label_model({"label": l}), tf.float32)))
        return dataset.shuffle(200).batch(32, drop_remainder=True).repeat().prefetch(2)

    @tf.function
    def step_fn(iterator):
        def replica_fn(batch, labels):
            with tf.GradientTape() as tape:
                pred = model(batch, training=True)
                loss = tf.nn.compute_average_loss(keras.losses.BinaryCrossentropy(
                    reduction=keras.losses.Reduction.NONE)(labels, pred))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            accuracy.update_state(labels, tf.cast(tf.greater(pred, 0.5), tf.int64))
            return loss

        batch, labels = next(iterator)
        return strategy.reduce(tf.distribute.ReduceOp.SUM,
                               strategy.run(replica_fn, args=(batch, labels)), axis=None)

    @tf.function
    def per_worker_dataset_fn():
        return strategy.distribute_datasets_from_function(dataset_fn)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
    return lambda: coordinator.schedule(step_fn, args=(iterator,))


def schedule_steps(tf, strategy, coordinator, dataset_fn, model, optimizer, loss_fn):
    """A function that schedules one training step on one batch of a worker's own dataset."""
    @tf.function
    def step_fn(iterator):
        def replica_fn(x, y):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(loss_fn(y, model(x, training=True)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        x, y = next(iterator)
        return strategy.run(replica_fn, args=(x, y))

    @tf.function
    def per_worker_dataset_fn():
        return strategy.distribute_datasets_from_function(dataset_fn)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
    return lambda: coordinator.schedule(step_fn, args=(iterator,))


def mnist_mlp(tf, strategy, coordinator, args):
    import numpy as np
    import tf_keras as keras

    with gzip.open(os.path.join(args.data, "mnist/t10k-images-idx3-ubyte.gz")) as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 28, 28)[:9000]
    with gzip.open(os.path.join(args.data, "mnist/t10k-labels-idx1-ubyte.gz")) as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8)[:9000].astype(np.int64)
    with strategy.scope():
        model = keras.Sequential([
            keras.layers.Flatten(input_shape=(28, 28)), keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.2), keras.layers.Dense(10, activation="softmax")])
        optimizer = keras.optimizers.legacy.Adam()

    def dataset_fn(_):
        d = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(9000).repeat().batch(32)
        return d.map(lambda x, y: (tf.cast(x, tf.float32) / 255.0, y)).prefetch(2)

    return schedule_steps(tf, strategy, coordinator, dataset_fn, model, optimizer,
                          keras.losses.sparse_categorical_crossentropy)


def large_layer(tf, strategy, coordinator, args):
    """The model of in_place/in_place.py: one dense layer of --megabytes, a head of one unit, SGD, a batch of 8."""
    import math

    import tf_keras as keras

    side = math.isqrt((args.megabytes << 20) // 4)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(side, input_shape=(side,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.legacy.SGD(1e-9)

    def dataset_fn(_):
        d = tf.data.Dataset.from_tensor_slices((tf.fill([64, side], 0.5), tf.ones([64, 1])))
        return d.repeat().batch(8, drop_remainder=True).prefetch(2)

    return schedule_steps(tf, strategy, coordinator, dataset_fn, model, optimizer, keras.losses.mean_squared_error)


def dlrm(tf, strategy, coordinator, args):
    """deploy/examples/dlrm.yaml with 100,000 rows in each table, on the records of the CSV file --data."""
    import numpy as np
    import tf_keras as keras

    with open(args.data, encoding="utf-8") as f:
        names = f.readline().strip().split(",")
        table = np.loadtxt(f, np.int64, delimiter=",")
    columns = {name: table[:, i] for i, name in enumerate(names)}
    numbers = np.stack([columns[f"I{i}"] for i in range(1, 14)], 1).astype(np.float32)
    ids = np.stack([columns[f"C{i}"] for i in range(1, 27)], 1)
    with strategy.scope():
        number_input = keras.layers.Input(shape=(13,))
        id_input = keras.layers.Input(shape=(26,), dtype=tf.int64)
        bottom = keras.layers.Dense(64, activation="relu")(tf.math.log1p(number_input))
        bottom = keras.layers.Dense(16, activation="relu")(bottom)
        vectors = tf.stack([bottom] + [keras.layers.Embedding(100000, 16)(id_input[:, i]) for i in range(26)], 1)
        products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [-1, 27 * 27])
        pairs = tf.gather(products, [27 * i + j for i in range(27) for j in range(i)], axis=1)
        top = keras.layers.Dense(64, activation="relu")(tf.concat([bottom, pairs], 1))
        top = keras.layers.Dense(32, activation="relu")(top)
        model = keras.Model([number_input, id_input], keras.layers.Dense(1, activation="sigmoid")(top))
        optimizer = keras.optimizers.legacy.Adagrad(0.2)

    def dataset_fn(_):
        d = tf.data.Dataset.from_tensor_slices(((numbers, ids), columns["label"].astype(np.float32)[:, None]))
        return d.repeat().batch(512, drop_remainder=True).prefetch(2)

    return schedule_steps(tf, strategy, coordinator, dataset_fn, model, optimizer,
                          keras.losses.binary_crossentropy)


def cpu_seconds(children):
    """Processor seconds so far of this process and its children, which are alive."""
    ticks = 0
    for pid in [os.getpid()] + [child.pid for child in children]:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--example", choices=["recommender", "mnist_mlp", "large_layer", "dlrm"],
                        default="recommender")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--ps", type=int, default=2)
    parser.add_argument("--megabytes", type=int, default=64, help="weights of large_layer")
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    args = parser.parse_args()
    if args.serve:
        return serve()
    children = start_cluster(args.workers, args.ps)
    try:
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.experimental.ParameterServerStrategy(
            resolver, variable_partitioner=tf.distribute.experimental.partitioners
            .FixedShardsPartitioner(num_shards=args.ps) if args.example == "recommender" else None)
        coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
        schedule = {"recommender": recommender, "mnist_mlp": mnist_mlp, "large_layer": large_layer,
                    "dlrm": dlrm}[args.example](
            tf, strategy, coordinator, args)
        schedule().fetch()
        first = time.time() - LAUNCHED
        for _ in range(args.warmup):
            schedule()
        coordinator.join()
        cpu = cpu_seconds(children)
        start = time.time()
        for _ in range(args.steps):
            schedule()
        coordinator.join()
        seconds = time.time() - start
        cpu = cpu_seconds(children) - cpu
        print(json.dumps({"system": "tensorflow " + tf.__version__, "example": args.example,
                          "steps": args.steps, "steps_per_closure": 1,
                          "steps_per_second": args.steps / seconds,
                          "cpu_ms_per_step": round(1000 * cpu / args.steps, 2),
                          "launch_to_first_step_s": first}), flush=True)
        code = 0
    except Exception:  # os._exit() below would leave it untold
        traceback.print_exc()
        code = 1
    finally:
        for child in children:
            child.kill()
    os._exit(code)  # threads of the coordinator would wait for the children


if __name__ == "__main__":
    main()
