#!/usr/bin/env python3
"""What a second copy of each tablet costs: steps per second, processor time and context switches of each role.

    tests/benchmarks/compare_copies.py --builds build/release [../before/build/release] --job recommender --rounds 5

Each build trains the job on 3 workers and 2 parameter servers of this machine with one copy and with two, in turn. The
clock and the counters run during the second epoch. Prints the medians of each
build and number of copies, and the ratio of steps per second (median of the rounds' ratios). Processor time and
switches depend less on what else the machine does. MNIST needs COHORT_DATA_DIR.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from compare_tensorflow import JOBS

LAYER = """name: benchmark-layer
model:
  sequential:
    - Input: {{shape: [4096], feature: x}}
    - Dense: {{units: 4096}}
    - Dense: {{units: 1}}
compile: {{loss: mean_squared_error, optimizer: {{SGD: {{learning_rate: 1.0e-9}}}}}}
data: {{batch_size: 8, visitation: independent, train: {{npy: {{files: [{directory}/x.npy, {directory}/y.npy]}}, label: y}}}}
fit: {{epochs: 2, steps_per_epoch: {steps}}}
strategy: {{pull_ahead: 0}}
"""
STEPS = {"recommender": 20000, "mnist_mlp": 4000, "layer": 60}
ROLES = {"cohort-ps": "server", "cohort-worker": "worker", "cohort-chief": "chief"}


def job_text(name, copies, mode, steps, directory):
    text = (LAYER if name == "layer" else JOBS[name]).format(steps=steps, directory=directory)
    text = re.sub(r"epochs: \d+", "epochs: %d" % 1000, text)
    return text.replace("strategy: {", "strategy: {replicas: %d, mode: %s, " % (copies, mode))


def write_npy(path, rows, columns):
    """A matrix of float32 zeros in the format of numpy.save."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4 * rows * columns))


def counters(launcher):
    """{role: (processor seconds, context switches)} of the processes that the launcher has started."""
    sums = {}
    pids = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True, check=False).stdout.split()
    for pid in pids:
        with open("/proc/%s/comm" % pid, encoding="utf-8") as f:
            role = ROLES.get(f.read().strip())
        if role is None:
            continue
        with open("/proc/%s/stat" % pid, encoding="utf-8") as f:
            seconds = sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")
        switches = 0
        for task in os.listdir("/proc/%s/task" % pid):
            with contextlib.suppress(OSError):  # the thread has ended
                with open("/proc/%s/task/%s/status" % (pid, task), encoding="utf-8") as f:
                    switches += sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", f.read()))
        before = sums.get(role, (0.0, 0))
        sums[role] = (before[0] + seconds, before[1] + switches)
    return sums


def epochs_so_far(logs):
    try:
        with open(os.path.join(logs, "metrics.jsonl"), encoding="utf-8") as f:
            return sum('"kind":"epoch"' in line.replace(" ", "") and '"set":"train"' in line.replace(" ", "") for line in f)
    except FileNotFoundError:
        return 0


def run(build, args, copies):
    """(steps per second, {role: (processor milliseconds, switches) per step})."""
    steps = args.steps or STEPS[args.job]
    with tempfile.TemporaryDirectory() as directory:
        logs = os.path.join(directory, "logs")
        with open(os.path.join(directory, "job.yaml"), "w", encoding="utf-8") as f:
            f.write(job_text(args.job, copies, args.mode, steps, directory))
        if args.job == "layer":
            write_npy(os.path.join(directory, "x.npy"), 64, 4096)
            write_npy(os.path.join(directory, "y.npy"), 64, 1)
        with open(os.path.join(directory, "out"), "w+", encoding="utf-8") as out:
            launcher = subprocess.Popen(
                [os.path.join(build, "bin", "cohort"), "local", "--ps", "2", "--workers", "3", "--transport", args.transport,
                 "--checkpoint_dir", os.path.join(directory, "ckpt"), "--log_dir", logs, "--run_dir",
                 os.path.join(directory, "run"), os.path.join(directory, "job.yaml")], stdout=out, stderr=out,
                cwd=directory)
            samples = []
            while launcher.poll() is None and len(samples) < 2:
                if epochs_so_far(logs) > len(samples):
                    samples.append((time.monotonic(), counters(launcher)))
                time.sleep(0.005)
            launcher.send_signal(signal.SIGTERM)
            launcher.wait()
            if len(samples) < 2:
                out.seek(0)
                sys.exit("%s ended with %d:\n%s" % (build, launcher.returncode, out.read()))
    (begin, first), (end, last) = samples
    return steps / (end - begin), {
        role: (1e3 * (last[role][0] - first[role][0]) / steps, (last[role][1] - first[role][1]) / steps) for role in first}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builds", nargs="+", default=["build/release"])
    parser.add_argument("--job", choices=sorted(STEPS), default="recommender")
    parser.add_argument("--mode", default="async")
    parser.add_argument("--transport", default="unix")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of an epoch")
    parser.add_argument("--least", type=float, default=0, help="fail if the ratio of a build is below")
    args = parser.parse_args()
    got = {}
    for _ in range(args.rounds):
        for build in args.builds:
            for copies in (1, 2):
                got.setdefault((build, copies), []).append(run(os.path.abspath(build), args, copies))
    for (build, copies), runs in got.items():
        line = "%s, %d cop%s: %.0f steps/s" % (build, copies, "y" if copies == 1 else "ies",
                                               statistics.median(rate for rate, _ in runs))
        for role in sorted(runs[0][1]):
            line += "; %s %.3f ms and %.1f switches a step" % (
                role, *(statistics.median(roles[role][i] for _, roles in runs) for i in (0, 1)))
        print(line)
    failed = False
    for build in args.builds:
        ratios = [two[0] / one[0] for one, two in zip(got[build, 1], got[build, 2])]
        print("%s: steps/s with two copies / with one: %.2f (%.2f to %.2f)" % (
            build, statistics.median(ratios), min(ratios), max(ratios)), flush=True)
        failed = failed or statistics.median(ratios) < args.least
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
