#!/usr/bin/env python3
"""Images per second that one core decodes and resizes, beside tf.data on the same files, interleaved.

    tests/benchmarks/compare_image_decoding.py --build build/release --python build/venv-tensorflow/bin/python

Makes JPEG files (--files, of about the size of photographs in cats_vs_dogs) in a temporary folder, or reads the
folder that --folder names. Both sides run on one core: `image_dataset_from_directory` of Keras with a thread
pool of one thread, and `image_folder` with one thread. Prints the median of the ratios.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

MAKE = """
import os, sys
import numpy as np
import tensorflow as tf
root, files, height, width = sys.argv[1], *map(int, sys.argv[2:])
for i in range(files):
    random = np.random.RandomState(i)
    rough = tf.image.resize(random.uniform(0, 255, [12, 16, 3]), [height, width], "bicubic")
    fine = tf.image.resize(random.uniform(-40, 40, [height // 4, width // 4, 3]), [height, width])
    image = tf.cast(tf.clip_by_value(rough + fine, 0, 255), tf.uint8)
    path = os.path.join(root, "ab"[i % 2])
    os.makedirs(path, exist_ok=True)
    tf.io.write_file(os.path.join(path, "%d.jpg" % i), tf.io.encode_jpeg(image, quality=90))
"""

READ = """
import sys, time
import keras
import tensorflow as tf
root, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
data = keras.utils.image_dataset_from_directory(root, image_size=(size, size), shuffle=False, verbose=False)
options = tf.data.Options()
options.threading.private_threadpool_size = 1
options.threading.max_intra_op_parallelism = 1
data = data.with_options(options)
images = sum(len(y) for _, y in data)  # traces and warms up
start = time.perf_counter()
for _ in range(rounds):
    for _ in data:
        pass
print("%.1f" % (images * rounds / (time.perf_counter() - start)))
"""


def on_one_core(core, command):
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(["taskset", "-c", str(core)] + command, capture_output=True, text=True, check=False,
                          env=environment)
    if done.returncode != 0:
        sys.exit("%s: %s" % (command[0], done.stderr[-2000:]))
    return float(done.stdout.split()[-1])


def compare(args, folder):
    core = max(os.sched_getaffinity(0))
    ours, theirs = [], []
    for number in range(args.rounds):
        sides = [(ours, [os.path.join(args.build, "bin", "image_bench"), folder, str(args.size), "1",
                         str(args.passes)]),
                 (theirs, [args.python, "-c", READ, folder, str(args.size), str(args.passes)])]
        for rates, command in sides if number % 2 == 0 else reversed(sides):
            rates.append(on_one_core(core, command))
    ratios = [a / b for a, b in zip(ours, theirs)]
    print("decode and resize to %d x %d on one core: %.2f of tf.data (%.2f to %.2f; %d rounds), medians %.0f and "
          "%.0f images/s" % (args.size, args.size, statistics.median(ratios), min(ratios), max(ratios),
                             args.rounds, statistics.median(ours), statistics.median(theirs)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", default="build/venv-tensorflow/bin/python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--pixels", type=int, nargs=2, default=[375, 500], metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if not args.folder:
            subprocess.run([args.python, "-c", MAKE, made, str(args.files)] + [str(p) for p in args.pixels], check=True,
                           env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES=""))
        compare(args, args.folder or made)


if __name__ == "__main__":
    main()
