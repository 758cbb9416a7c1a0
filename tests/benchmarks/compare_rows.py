#!/usr/bin/env python3
"""Rows per second that one thread reads from a CSV, a Parquet and a TFRecord file of 13 numbers and a label, beside tf.data,
pandas and pyarrow, interleaved; prints medians and ratios as a table in Markdown.

  compare_rows.py BUILD [--rows 200000] [--rounds 5]

Every reader opens the file and makes batches of 1024 records as float32 arrays. It needs numpy, and tensorflow, pandas,
pyarrow for the peers that are installed.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

NUMBERS = 13
BATCH = 1024
NAMES = ["f%d" % i for i in range(NUMBERS)] + ["label"]

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")


def tensorflow():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


def drain(dataset):
    tf = tensorflow()
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    count = 0
    for batch in dataset.with_options(options):
        count += int(tf.shape(tf.nest.flatten(batch)[0])[0])
    return count


def tf_csv(path):
    tf = tensorflow()
    return drain(tf.data.experimental.CsvDataset(path, [tf.float32] * len(NAMES), header=True).batch(BATCH))


def tf_tfrecord(path):
    tf = tensorflow()
    features = {name: tf.io.FixedLenFeature([], tf.float32) for name in NAMES}
    return drain(tf.data.TFRecordDataset(path).batch(BATCH).map(lambda x: tf.io.parse_example(x, features)))


def pandas_csv(path):
    import numpy as np
    import pandas
    count = 0
    for block in pandas.read_csv(path, dtype=np.float32, chunksize=BATCH * 16):
        for begin in range(0, len(block), BATCH):
            count += len(block.iloc[begin:begin + BATCH].to_numpy())
    return count


def arrow_csv(path):
    import pyarrow
    from pyarrow import csv
    pyarrow.set_cpu_count(1)
    table = csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False),
                         convert_options=csv.ConvertOptions(column_types={name: pyarrow.float32() for name in NAMES}))
    return sum(len([column.to_numpy() for column in batch]) and batch.num_rows for batch in table.to_batches(BATCH))


def arrow_parquet(path):
    from pyarrow import parquet
    count = 0
    for batch in parquet.ParquetFile(path).iter_batches(BATCH, use_threads=False):
        count += len([column.to_numpy() for column in batch]) and batch.num_rows
    return count


PEERS = {"csv": {"tf.data": tf_csv, "pandas": pandas_csv, "pyarrow": arrow_csv}, "parquet": {"pyarrow": arrow_parquet},
         "tfrecord": {"tf.data": tf_tfrecord}}


def write(folder, rows):
    import numpy as np
    values = np.random.default_rng(1).normal(size=(rows, len(NAMES))).astype(np.float32).round(4)
    files = {"csv": os.path.join(folder, "rows.csv")}
    np.savetxt(files["csv"], values, fmt="%.4f", delimiter=",", header=",".join(NAMES), comments="")
    try:
        import pyarrow
        from pyarrow import parquet
        files["parquet"] = os.path.join(folder, "rows.parquet")
        parquet.write_table(pyarrow.table({name: values[:, i] for i, name in enumerate(NAMES)}), files["parquet"])
    except ImportError:
        pass
    try:
        tf = tensorflow()
        files["tfrecord"] = os.path.join(folder, "rows.tfrecord")
        with tf.io.TFRecordWriter(files["tfrecord"]) as writer:
            for row in values:
                features = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[x])) for name, x in zip(NAMES, row)}
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    except ImportError:
        pass
    return files


def of_peer(name, kind, path):
    """The rows per second of a peer, in a process of its own."""
    code = "import sys, time; sys.path.insert(0, %r); import compare_rows as c; f = c.PEERS[%r][%r]\n" % (
        os.path.dirname(os.path.abspath(__file__)), kind, name)
    code += "import importlib; [importlib.import_module(m) for m in {'tf.data': ['tensorflow'], 'pandas': ['pandas'], " \
            "'pyarrow': ['pyarrow.csv', 'pyarrow.parquet']}[%r]]\n" % name
    # The first pass loads and traces what the peer needs; Cohort's process has one pass alone.
    code += "f(%r); t = time.perf_counter(); n = f(%r); print(n / (time.perf_counter() - t))" % (path, path)
    done = subprocess.run(["taskset", "-c", "0", sys.executable, "-c", code], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def of_cohort(build, kind, path):
    command = ["taskset", "-c", "0", os.path.join(build, "bin", "rows_bench"), kind, path, str(NUMBERS)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print("%s: %s" % (kind, done.stderr.strip()), file=sys.stderr)
        return None
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print("| file | Cohort, rows/s | " + " | ".join(["peer, rows/s", "ratio"]) + " |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="cohort-rows-") as folder:
        for kind, path in write(folder, args.rows).items():
            for peer in PEERS[kind]:
                ours, theirs = [], []
                for _ in range(args.rounds):
                    ours.append(of_cohort(args.build, kind, path))
                    theirs.append(of_peer(peer, kind, path))
                if None in ours or None in theirs:
                    continue
                ratio = statistics.median(a / b for a, b in zip(ours, theirs))
                print("| %s | %s | %s: %s | **%.2f** |" % (kind, "{:,.0f}".format(statistics.median(ours)), peer,
                                                       "{:,.0f}".format(statistics.median(theirs)), ratio))


if __name__ == "__main__":
    main()
