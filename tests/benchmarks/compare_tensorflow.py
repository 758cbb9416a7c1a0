#!/usr/bin/env python3
"""Steps per second beside TensorFlow's own ParameterServerStrategy, interleaved on this machine.

    build/venv-tensorflow/bin/python tests/benchmarks/compare_tensorflow.py --build build/release

Both sides: 3 workers, 2 parameter servers, the same model, optimizer and batch, one step per closure, the
next pull of a worker after its push is acknowledged (Cohort: each server serves the pull after it has
applied the push that travels with it; pull_ahead 0). Prints each run with its terms, then the ratio of the
medians.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

LOOKUP = """
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}"""

JOBS = {
    "recommender": """name: benchmark-recommender
model:
  sequential:
    - Input: {{shape: [3], dtype: int64, feature: features}}
    - Embedding: {{input_dim: 8, output_dim: 20}}
    - GlobalAveragePooling1D
    - Dense: {{units: 1, activation: sigmoid}}
compile: {{loss: binary_crossentropy, optimizer: {{RMSprop: {{learning_rate: 0.1}}}}, metrics: [accuracy]}}
data:
  batch_size: 32
  visitation: independent
  train:
    generator: {{name: recommender, records: 200, seed: 1}}
    shuffle: true
    label: label
    transforms:""" + LOOKUP.replace("{", "{{").replace("}", "}}") + """
fit: {{epochs: 1, steps_per_epoch: {steps}}}
strategy: {{partitioner: {{FixedShards: {{num_shards: 2}}}}, pull_ahead: 0}}
""",
    "mnist_mlp": """name: benchmark-mnist
model:
  sequential:
    - Input: {{shape: [28, 28], feature: image}}
    - Flatten
    - Dense: {{units: 128, activation: relu}}
    - Dropout: {{rate: 0.2}}
    - Dense: {{units: 10, activation: softmax}}
compile: {{loss: sparse_categorical_crossentropy, optimizer: adam, metrics: [accuracy]}}
data:
  batch_size: 32
  visitation: independent
  train:
    idx: {{images: mnist/t10k-images-idx3-ubyte.gz, labels: mnist/t10k-labels-idx1-ubyte.gz}}
    take: 9000
    shuffle: true
    label: label
    transforms:
      - {{column: image, scale: 0.00392156862745098}}
fit: {{epochs: 1, steps_per_epoch: {steps}}}
strategy: {{pull_ahead: 0}}
""",
}


def run_cohort(build, example, steps):
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        with open(job, "w") as f:
            f.write(JOBS[example].format(steps=steps))
        start = time.time()
        done = subprocess.run(
            [os.path.join(build, "bin", "cohort"), "local", "--ps", "2", "--workers", "3",
             "--checkpoint_dir", os.path.join(directory, "ckpt"), "--log_dir",
             os.path.join(directory, "logs"), "--run_dir", os.path.join(directory, "run"), job],
            capture_output=True, text=True)
        wall = time.time() - start
    if done.returncode != 0:
        sys.exit(f"cohort local ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    rate = re.search(r"in all, (\d+) in ([\d.]+) s of training", done.stdout)
    sections = re.search(r"(\d+) push sections applied, (\d+) refused", done.stdout)
    fsyncs = re.search(r"(\d+) fsyncs", done.stdout)
    first = re.search(r"first step after ([\d.]+) s", done.stdout)
    return {"system": "cohort", "example": example, "steps": int(rate.group(1)),
            "steps_per_closure": 1, "pull_ahead": 0,
            "steps_per_second": int(rate.group(1)) / float(rate.group(2)),
            "push_sections_applied": int(sections.group(1)),
            "fsyncs": int(fsyncs.group(1)) if fsyncs else None,
            "launch_to_first_step_s": float(first.group(1)) if first else None,
            "launch_to_exit_s": round(wall, 2)}


def run_tensorflow(python, example, steps, data):
    done = subprocess.run(
        [python, os.path.join(HERE, "tensorflow", "tensorflow_ps.py"), "--example", example, "--steps",
         str(steps), "--data", data], capture_output=True, text=True,
        env=dict(os.environ, TF_USE_LEGACY_KERAS="1"))
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"tensorflow_ps.py printed no result:\n{done.stdout}\n{done.stderr[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"))
    parser.add_argument("--tensorflow_python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--examples", nargs="+", default=["recommender", "mnist_mlp"])
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    parser.add_argument("--least", type=float, default=20.0, help="fail below this ratio")
    args = parser.parse_args()
    failed = False
    for example in args.examples:
        if example == "mnist_mlp" and not args.data:
            print("mnist_mlp: skipped, COHORT_DATA_DIR is not set")
            continue
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(run_cohort(args.build, example, 20000 if example == "recommender" else 5000))
            print(json.dumps(ours[-1]), flush=True)
            theirs.append(run_tensorflow(args.tensorflow_python, example,
                                         1000 if example == "recommender" else 400, args.data))
            print(json.dumps(theirs[-1]), flush=True)
        a = statistics.median(r["steps_per_second"] for r in ours)
        b = statistics.median(r["steps_per_second"] for r in theirs)
        print(f"{example}: cohort {a:.0f} steps/s, tensorflow {b:.0f} steps/s, ratio {a / b:.1f}", flush=True)
        failed = failed or a / b < args.least
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
