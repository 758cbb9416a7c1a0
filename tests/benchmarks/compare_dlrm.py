#!/usr/bin/env python3
"""Steps per second of deploy/examples/dlrm.yaml beside TensorFlow and PyTorch, interleaved on this machine.

    tests/benchmarks/compare_dlrm.py --build build/release --tensorflow_python VENV/bin/python \\
        --torch_python VENV/bin/python

26 tables of 100,000 rows with 16 floats, batches of 512, Adagrad, on clicks of `cohort generate criteo` (ids by a
power law). With TensorFlow: 3 workers and 2 parameter servers on each side. With PyTorch: one process on one thread,
and on two (`strategy: {name: one_device}`; a thread of its own reads the CSV file). Prints each round and the ratios
of the medians. A peer without an interpreter is left out.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

from compare_tensorflow import HERE, SOURCE, epoch_rates, run_tensorflow

ROWS = 100000


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s ended with %d:\n%s\n%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def job_text(data, epochs, strategy):
    with open(os.path.join(SOURCE, "deploy", "examples", "dlrm.yaml"), encoding="utf-8") as f:
        text = f.read()
    text = text.replace("input_dim: 1000,", "input_dim: %d," % ROWS).replace("criteo_train.csv", data)
    text = re.sub(r"  validation:\n    csv:.*\n", "", text).replace("epochs: 2", "epochs: %d" % epochs)
    return re.sub(r"checkpoint:\n(  .*\n)*", "", text) + strategy


def cohort(build, data, command, strategy=""):
    """Steps per second: the median of the epochs after the first."""
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(job_text(data, 6, strategy))
        output([os.path.join(build, "bin", "cohort"), *command, "--checkpoint_dir", os.path.join(directory, "ckpt"),
                "--log_dir", os.path.join(directory, "logs"), job])
        return statistics.median(epoch_rates(os.path.join(directory, "logs"))[1:])


def tell(what, ours, theirs, peer):
    print("%s: %.0f steps/s, %s %.1f: ratio %.1f (medians of %d rounds)" % (
        what, statistics.median(ours), peer, statistics.median(theirs),
        statistics.median(ours) / statistics.median(theirs), len(ours)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"))
    parser.add_argument("--tensorflow_python", default="")
    parser.add_argument("--torch_python", default="")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400, help="of TensorFlow, after 100 to warm up")
    args = parser.parse_args()
    rates = {}

    def note(name, rate):
        rates.setdefault(name, []).append(rate)
        print("%s: %.1f" % (name, rate), flush=True)

    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "clicks.csv")
        output([os.path.join(args.build, "bin", "cohort"), "generate", "criteo", "--records", "200000", "--vocabulary",
                str(ROWS), "--output", data])
        for _ in range(args.rounds):
            if args.tensorflow_python:
                for transport in ("unix", "tcp"):
                    note(transport, cohort(args.build, data, ["local", "--ps", "2", "--workers", "3", "--transport",
                                                              transport]))
                note("TensorFlow", run_tensorflow(args.tensorflow_python, "dlrm", args.steps, data)["steps_per_second"])
            for threads in ("1", "2") if args.torch_python else ():
                note("threads " + threads, cohort(args.build, data, ["train", "--threads", threads],
                                                  "strategy: {name: one_device}\n"))
                note("PyTorch, threads " + threads, float(output(
                    [args.torch_python, os.path.join(HERE, "steps", "torch_dlrm.py"), "--data", data, "--rows", str(ROWS),
                     "--threads", threads])))
    for transport in ("unix", "tcp") if args.tensorflow_python else ():
        tell("3 workers and 2 servers over " + transport, rates[transport], rates["TensorFlow"], "TensorFlow")
    for threads in ("1", "2") if args.torch_python else ():
        tell("one process, threads: " + threads, rates["threads " + threads], rates["PyTorch, threads " + threads],
             "PyTorch")


if __name__ == "__main__":
    main()
