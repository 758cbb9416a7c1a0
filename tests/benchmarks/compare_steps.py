#!/usr/bin/env python3
"""Training steps in one process beside PyTorch and TensorFlow, interleaved, with the same number of threads.

    tests/benchmarks/compare_steps.py --build build/release --python build/venv-steps/bin/python

`cohort profile --step_only` trains the models of steps/torch_steps.py and steps/tensorflow_steps.py on made-up batches,
optimizer included. Prints milliseconds and how many times as fast Cohort is as the faster of the two, as medians over
rounds. The interpreter needs torch and tensorflow.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps")
# name -> (job, aim on one thread, aim on two)
JOBS = {
    "recommender": ("batch_size: 32", "{RMSprop: {learning_rate: 0.1}}", "binary_crossentropy", (30, 30)),
    "mlp": ("batch_size: 32", "Adam", "sparse_categorical_crossentropy", (4, 4)),
    "cnn": ("batch_size: 64", "{SGD: {learning_rate: 0.01}}", "sparse_categorical_crossentropy", (0.95, 1.1)),
    "lstm": ("batch_size: 32", "{SGD: {learning_rate: 0.01}}", "sparse_categorical_crossentropy", (1.0, 1.0)),
    "gru": ("batch_size: 32", "{SGD: {learning_rate: 0.01}}", "sparse_categorical_crossentropy", (1.0, 1.0)),
    "transformer": ("batch_size: 32", "{SGD: {learning_rate: 0.01}}", "sparse_categorical_crossentropy", (1.0, 1.0)),
    "mobilenet_v2": ("batch_size: 16", "{SGD: {learning_rate: 0.01}}", "sparse_categorical_crossentropy", (1.0, 1.0)),
}
JOB = """name: {name}
model: {{keras_json: model.json}}
compile: {{optimizer: {optimizer}, loss: {loss}, from_logits: true}}
data: {{{batch}, train: {{csv: {{path: none.csv}}, label: label}}}}
fit: {{epochs: 1}}
"""


def output(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s ended with %d:\n%s\n%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def cohort(build, job, threads, steps):
    text = output([os.path.join(build, "bin", "cohort"), "profile", job, "--step_only", "--threads", str(threads),
                   "--steps", str(steps), "--warmup", "5"])
    return float(re.search(r"a step takes ([\d.]+) ms", text).group(1))


def peer(python, script, model, threads, seconds):
    return float(output([python, os.path.join(HERE, script), "--model", model, "--threads", str(threads), "--seconds",
                         str(seconds)]).split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", default="build/venv-steps/bin/python")
    parser.add_argument("--torch_python", help="an interpreter with torch; without it that of --python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--models", nargs="+", default=sorted(JOBS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        for name in args.models:
            batch, optimizer, loss, aims = JOBS[name]
            with open(job, "w", encoding="utf-8") as f:
                f.write(JOB.format(name=name, batch=batch, optimizer=optimizer, loss=loss))
            output([args.python, os.path.join(HERE, "tensorflow_steps.py"), "--model", name, "--write_json",
                    os.path.join(directory, "model.json")])
            for threads in args.threads:
                ours, torch, tensorflow = [], [], []
                steps = max(5, int(args.seconds * 1e3 / cohort(args.build, job, threads, 5)))
                for _ in range(args.rounds):
                    ours.append(cohort(args.build, job, threads, min(steps, 100000)))
                    torch.append(peer(args.torch_python or args.python, "torch_steps.py", name, threads, args.seconds))
                    tensorflow.append(peer(args.python, "tensorflow_steps.py", name, threads, args.seconds))
                ratios = [min(a, b) / c for a, b, c in zip(torch, tensorflow, ours)]
                aim = aims[min(threads, 2) - 1]
                print("%s, %d thread%s: %.4f ms; PyTorch %.4f, TensorFlow %.4f; %.2f x the faster of them "
                      "(%.2f to %.2f; aim %.2f)" % (
                          name, threads, "" if threads == 1 else "s", statistics.median(ours), statistics.median(torch),
                          statistics.median(tensorflow), statistics.median(ratios), min(ratios), max(ratios), aim),
                      flush=True)


if __name__ == "__main__":
    main()
