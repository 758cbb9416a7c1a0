#!/usr/bin/env python3
"""AUC of DLRM on generated clicks: a local cluster of 3 workers and 2 parameter servers beside Keras on the same records, and
beside the hidden model that has drawn the labels.

    tests/accuracy/compare_clicks.py --build build/release --python build/venv-keras/bin/python

Trains deploy/examples/dlrm.yaml, with smaller tables, with several seeds in mode async and in mode sync, and the same model,
records, batches and epochs with Keras in one process. Prints a table in Markdown. Fails if the mean AUC of a mode differs by
more than the margin from that of Keras. The interpreter needs keras and tensorflow.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from compare_accuracy import HERE, changed, example, output

# mode -> (strategy, closures in a step): a global batch of sync is about as large as Keras' batch.
MODES = {"async": ("{mode: async}", 1), "sync": ("{mode: sync, closures_per_step: 3}", 3)}


def generate(build, directory, args):
    """Writes both files of records; returns the AUC of the hidden model on the validation data."""
    cohort = os.path.join(build, "bin", "cohort")
    common = [cohort, "generate", "criteo", "--vocabulary", str(args.vocabulary)]
    output(common + ["--records", str(args.records), "--output", os.path.join(directory, "criteo_train.csv")])
    text = output(common + ["--records", str(args.validation), "--begin", str(args.records), "--output",
                            os.path.join(directory, "criteo_validation.csv")])
    return float(re.search(r"hidden model reaches AUC ([0-9.]+)", text).group(1))


def job_of(args, seed, mode):
    strategy, closures = MODES[mode]
    job = changed(example("dlrm.yaml"), {
        "seed: 1\n": "seed: %d\n" % seed, "batch_size: 512\n": "batch_size: %d\n" % (args.batch_size // closures),
        "learning_rate: 0.2": "learning_rate: %g" % args.learning_rate, "epochs: 2": "epochs: %d" % args.epochs,
        "metrics: [AUC]": "metrics: [{AUC: {num_thresholds: 2000}}]",
        "\ncheckpoint:": "\nstrategy: %s\n\ncheckpoint:" % strategy})
    return job.replace("input_dim: 1000", "input_dim: %d" % args.vocabulary)


def train_cohort(args, directory, seed, mode):
    path, logs = os.path.join(directory, "job.yaml"), os.path.join(directory, "logs")
    with open(path, "w", encoding="utf-8") as f:
        f.write(job_of(args, seed, mode))
    output([os.path.join(args.build, "bin", "cohort"), "local", "--ps", "2", "--workers", "3", "--fresh", "--checkpoint_dir",
            os.path.join(directory, "ckpt"), "--log_dir", logs, "--run_dir", os.path.join(directory, "run"), path])
    with open(os.path.join(logs, "metrics.jsonl"), encoding="utf-8") as f:
        records = [json.loads(line) for line in f]
    return [r for r in records if r["set"] == "validation" and r["kind"] == "epoch"][-1]["auc"]


def train_keras(args, directory, seeds):
    text = output([args.python, os.path.join(HERE, "keras_dlrm.py"), "--seeds", *map(str, seeds),
                   "--train", os.path.join(directory, "criteo_train.csv"),
                   "--validation", os.path.join(directory, "criteo_validation.csv"), "--vocabulary", str(args.vocabulary),
                   "--batch_size", str(args.batch_size), "--epochs", str(args.epochs),
                   "--learning_rate", str(args.learning_rate)])
    return [float(line) for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", default="build/venv-keras/bin/python")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=400000)
    parser.add_argument("--validation", type=int, default=100000)
    parser.add_argument("--vocabulary", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=510)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--margin", type=float, default=0.001)
    args = parser.parse_args()
    seeds = range(1, args.seeds + 1)
    aucs = {}
    with tempfile.TemporaryDirectory(prefix="cohort-clicks-") as directory:
        os.environ["COHORT_DATA_DIR"] = directory
        ceiling = generate(args.build, directory, args)
        aucs["Keras, one machine"] = train_keras(args, directory, seeds)
        for mode in MODES:
            aucs["Cohort, " + mode] = [train_cohort(args, directory, seed, mode) for seed in seeds]
    keras = statistics.mean(aucs["Keras, one machine"])
    print("| | AUC of %d seeds | mean | beside Keras | below the ceiling of %.4f |\n|---|---|---|---|---|" % (
        args.seeds, ceiling))
    failed = False
    for name, values in aucs.items():
        mean = statistics.mean(values)
        failed = failed or abs(mean - keras) > args.margin
        print("| %s | %s | %.4f | %+.4f | %.4f |" % (name, ", ".join("%.4f" % a for a in values), mean, mean - keras,
                                                  ceiling - mean))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
