#!/usr/bin/env python3
"""Accuracy of jobs that a local cluster of 3 workers and 2 parameter servers, or one process, trains, beside Keras on the
same records.

    tests/accuracy/compare_accuracy.py --build build/release --python build/venv-keras/bin/python

Trains each job with several seeds in mode async, in mode sync and in one process, and the same model, records and epochs
with Keras in one process. Prints the validation accuracies of all seeds. Fails if the mean of a mode is more than the
margin of the job below that of Keras. The interpreter needs keras and tensorflow.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAMES = ["mnist_cnn", "mobilenet_folder", "mobilenet_tfrecord", "imdb_lstm", "imdb_lstm_few"]
LOCAL = ["local", "--ps", "2", "--workers", "3"]
# mode -> (command, strategy, closures in a step): a global batch of sync is about as large as Keras' batch.
MODES = {"async": (LOCAL, "{mode: async}", 1), "sync": (LOCAL, "{mode: sync, closures_per_step: 3}", 3),
         "one_device": (["train"], "{name: one_device}", 1)}


MOBILENET = """name: small_mobilenet
seed: 1
model: {{keras_json: model.json}}
compile: {{loss: sparse_categorical_crossentropy, optimizer: {{Adam: {{learning_rate: 0.001}}}}, metrics: [accuracy]}}
data:
  batch_size: 64
  visitation: exactly_once
  train:
    {train}
    label: label
  validation:
    {validation}
fit: {{epochs: 20}}

checkpoint: {{directory: ckpt}}
"""
FOLDER = "image_folder: {directory: IMAGES/folder, image_size: [32, 32], validation_split: 0.1, subset: %s, seed: 1}"
RECORDS = """tfrecord:
      files: [IMAGES/digits.tfrecord]
      features: {image: {image: {image_size: 32}}, label: {dtype: int64, shape: []}}
    """


def example(name):
    with open(os.path.join(ROOT, "deploy", "examples", name), encoding="utf-8") as f:
        return f.read()


def changed(job, changes):
    """The text of a job, in which the first place of each text is another one."""
    for old, new in changes.items():
        if old not in job:
            sys.exit("the job has no %r" % old)
        job = job.replace(old, new, 1)
    return job


def with_seed(job, seed, mode):
    """The text of a job, with another seed and mode."""
    _, strategy, closures = MODES[mode]
    batch = int(re.search(r"^  batch_size: (\d+)$", job, re.M).group(1))
    return changed(job, {"seed: 1\n": "seed: %d\n" % seed,
                         "batch_size: %d\n" % batch: "batch_size: %d\n" % (batch // closures),
                         "\ncheckpoint:": "\nstrategy: %s\n\ncheckpoint:" % strategy})


def train_cohort(build, directory, job, seed, mode):
    path, logs = os.path.join(directory, "job.yaml"), os.path.join(directory, "logs")
    with open(path, "w", encoding="utf-8") as f:
        f.write(with_seed(job, seed, mode))
    done = subprocess.run(
        [os.path.join(build, "bin", "cohort"), *MODES[mode][0], "--fresh", "--checkpoint_dir",
         os.path.join(directory, "ckpt"), "--log_dir", logs, "--run_dir", os.path.join(directory, "run"), path],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("cohort ended with %d:\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
    with open(os.path.join(logs, "metrics.jsonl"), encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return [r for r in records if r["set"] == "validation" and r["kind"] == "epoch"][-1]["accuracy"]


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s ended with %d:\n%s" % (" ".join(command), done.returncode, done.stderr))
    return done.stdout


def jobs_of(python, directory, names):
    """name -> (job, arguments of Keras' script, margin); makes the files that they need in the directory."""
    jobs = {}
    if "mnist_cnn" in names:
        jobs["mnist_cnn"] = (example("mnist_cnn.yaml"), ["keras_mnist_cnn.py"], 0.01)
    if "imdb_lstm" in names:
        jobs["imdb_lstm"] = (example("imdb_lstm.yaml"), ["keras_imdb_lstm.py"], 0.01)
    if "imdb_lstm_few" in names:  # so few reviews that no model becomes perfect
        text = changed(example("imdb_lstm.yaml"), {"records: 12800": "records: 1600", "epochs: 6": "epochs: 24"})
        jobs["imdb_lstm_few"] = (text, ["keras_imdb_lstm.py", "--records", "1600", "--epochs", "24"], 0.01)
    if "mobilenet_folder" in names or "mobilenet_tfrecord" in names:
        images = os.path.join(directory, "images")
        output([python, os.path.join(ROOT, "tests", "data", "make_image_files.py"), images, "--images", "10000"])
        keras = ["keras_small_mobilenet.py", "--images", images]
        output([python, os.path.join(HERE, keras[0]), "--write_json", os.path.join(directory, "model.json")])
        texts = {"mobilenet_folder": [FOLDER % "training", FOLDER % "validation"],
                 "mobilenet_tfrecord": [RECORDS + "take: 9000", "skip: 9000\n    take: 1000"]}
        for name, (train, validation) in texts.items():
            if name in names:
                text = MOBILENET.format(train=train, validation=validation).replace("IMAGES", images)
                jobs[name] = (text, keras, 0.02)
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", default="build/venv-keras/bin/python")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    args = parser.parse_args()
    failed = False
    known = {}  # accuracies of Keras by command
    with tempfile.TemporaryDirectory() as directory:
        for name, (job, script, margin) in jobs_of(args.python, directory, args.jobs).items():
            seeds = range(1, args.seeds + 1)
            command = " ".join(script)
            if command not in known:
                known[command] = [float(output([args.python, os.path.join(HERE, script[0]), *script[1:], "--seed",
                                                str(seed)]).split()[-1]) for seed in seeds]
            keras = known[command]
            print("%s: Keras %s" % (name, " ".join("%.4f" % a for a in keras)), flush=True)
            for mode in args.modes:
                ours = [train_cohort(args.build, directory, job, seed, mode) for seed in seeds]
                difference = statistics.mean(ours) - statistics.mean(keras)
                failed = failed or difference < -margin
                print("%s: %s %s; mean %.4f, %+.4f beside Keras" % (
                    name, mode, " ".join("%.4f" % a for a in ours), statistics.mean(ours), difference), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
