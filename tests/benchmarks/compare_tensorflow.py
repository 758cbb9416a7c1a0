#!/usr/bin/env python3
"""Steps per second beside TensorFlow's own ParameterServerStrategy, interleaved on this machine.

    build/venv-tensorflow/bin/python tests/benchmarks/compare_tensorflow.py --build build/release

Both sides: 3 workers, 2 parameter servers, the same model, optimizer and batch, one step per closure, the
next pull of a worker after its push is acknowledged (Cohort: each server serves the pull after it has
applied the push that travels with it; pull_ahead 0). The timed part is the same on both sides: after a
warm-up nothing is in flight; closures are scheduled, and the clock stops when all have finished. No
evaluation and no checkpoint falls into it. Cohort's warm-up is the first of two equal epochs.

Both are given TCP addresses of one host in TF_CONFIG. TensorFlow's tasks meet there. Cohort is run with each of
--transports: as its tasks do with such addresses by themselves (unix: workers find the servers of their own host by
a unix socket, and share memory with them), and made to do without (tcp). Prints each run with its terms, then
the ratios of the medians; those of the first transport are held to --least, the others are only told.
"""
import argparse
import json
import os
import re
import resource
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
    drop_remainder: true
    label: label
    transforms:""" + LOOKUP.replace("{", "{{").replace("}", "}}") + """
fit: {{epochs: 2, steps_per_epoch: {steps}}}
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
    drop_remainder: true
    label: label
    transforms:
      - {{column: image, scale: 0.00392156862745098}}
fit: {{epochs: 2, steps_per_epoch: {steps}}}
strategy: {{pull_ahead: 0}}
""",
}


def find(pattern, text):
    """The groups of the one match, as numbers. The report must have it."""
    match = re.search(pattern, text)
    if match is None:
        sys.exit(f"cohort's report has no line like {pattern!r}:\n{text}")
    return [float(g) if "." in g else int(g) for g in match.groups()]


def children_cpu():
    """Processor seconds of all processes that have ended below this one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def epoch_rates(logs):
    """Steps per second of each training epoch, as metrics.jsonl has them."""
    with open(os.path.join(logs, "metrics.jsonl")) as f:
        records = [json.loads(line) for line in f]
    return [r["steps_per_second"] for r in records if r["set"] == "train" and r["kind"] == "epoch"]


def run_cohort(build, example, transport, steps, data):
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        logs = os.path.join(directory, "logs")
        with open(job, "w") as f:
            f.write(JOBS[example].format(steps=steps))
        cpu = children_cpu()
        start = time.time()
        done = subprocess.run(
            [os.path.join(build, "bin", "cohort"), "local", "--ps", "2", "--workers", "3",
             "--transport", transport, "--checkpoint_dir", os.path.join(directory, "ckpt"), "--log_dir", logs,
             "--run_dir", os.path.join(directory, "run"), job],
            capture_output=True, text=True, env=dict(os.environ, COHORT_DATA_DIR=data))
        wall = time.time() - start
        cpu = children_cpu() - cpu
        if done.returncode != 0:
            sys.exit(f"cohort local ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        rates = epoch_rates(logs)
    total, = find(r"steps +(\d+) in all", done.stdout)
    sections, refused = find(r"pushes +(\d+) sections? applied, (\d+) duplicates? refused", done.stdout)
    per_closure, = find(r"settings +(\d+) steps? per closure", done.stdout)
    checkpoints, fsyncs = find(r"storage +(\d+) checkpoints? committed, (\d+) fsyncs? of the chief", done.stdout)
    updates, tablets = find(r"updates +(\d+), the sum of the versions of (\d+) tablets?", done.stdout)
    first, = find(r"first step after ([\d.]+) s", done.stdout)
    if updates != total * tablets or sections != updates or len(rates) != 2:
        sys.exit(f"{total} steps, {tablets} tablets, {updates} updates: they do not agree")
    return {"system": "cohort", "example": example, "transport": transport, "steps": steps,
            "warm_up_steps": steps, "steps_per_closure": per_closure, "pull_ahead": 0,
            "cpu_ms_per_step": round(1000 * cpu / total, 2),  # with the start of all processes
            "steps_per_second": round(rates[1], 1), "steps_per_second_of_the_warm_up": round(rates[0], 1),
            "fsyncs_of_the_chief": fsyncs, "checkpoints": checkpoints,
            "updates_counted_by_the_servers": updates, "tablets": tablets,
            "launch_to_first_step_s": first, "launch_to_exit_s": round(wall, 2)}


def run_tensorflow(python, example, steps, data):
    done = subprocess.run(
        [python, os.path.join(HERE, "tensorflow", "tensorflow_ps.py"), "--example", example, "--steps",
         str(steps), "--data", data], capture_output=True, text=True,
        env=dict(os.environ, TF_USE_LEGACY_KERAS="1"))
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"tensorflow_ps.py printed no result:\n{done.stdout}\n{done.stderr[-2000:]}")


def compare(example, transport, ours, theirs):
    """Prints the medians side by side. The ratio of steps per second."""
    def medians(key):
        return [statistics.median(run[key] for run in side) for side in (ours, theirs)]
    name = f"{example} over {transport}"
    cpu, first, rate = medians("cpu_ms_per_step"), medians("launch_to_first_step_s"), medians("steps_per_second")
    print(f"{name}: {cpu[0]:.2f} and {cpu[1]:.2f} ms of processor time per step, ratio {cpu[1] / cpu[0]:.1f}")
    print(f"{name}: ratio {rate[0] / rate[1]:.1f} (cohort {rate[0]:.0f} steps/s, tensorflow over tcp "
          f"{rate[1]:.0f} steps/s, medians of {len(ours)} rounds, interleaved); first step {first[0]:.2f} s and "
          f"{first[1]:.2f} s after launch", flush=True)
    return rate[0] / rate[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"))
    parser.add_argument("--tensorflow_python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--examples", nargs="+", default=["recommender", "mnist_mlp"])
    parser.add_argument("--transports", nargs="+", default=["unix", "tcp"], choices=["unix", "tcp"])
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    parser.add_argument("--least", type=float, default=20.0, help="fail below this ratio")
    args = parser.parse_args()
    failed = False
    for example in args.examples:
        if example == "mnist_mlp" and not args.data:
            print("mnist_mlp: skipped, neither --data nor COHORT_DATA_DIR is given")
            continue
        ours, theirs = {transport: [] for transport in args.transports}, []
        for _ in range(args.rounds):
            for transport in args.transports:
                ours[transport].append(run_cohort(args.build, example, transport,
                                                  20000 if example == "recommender" else 5000, args.data))
                print(json.dumps(ours[transport][-1]), flush=True)
            theirs.append(run_tensorflow(args.tensorflow_python, example,
                                         1000 if example == "recommender" else 400, args.data))
            print(json.dumps(theirs[-1]), flush=True)
        ratios = [compare(example, transport, runs, theirs) for transport, runs in ours.items()]
        failed = failed or ratios[0] < args.least
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
