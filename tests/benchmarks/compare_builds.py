#!/usr/bin/env python3
"""Steps per second of two builds, interleaved on this machine: did a change cost speed?

    tests/benchmarks/compare_builds.py --before ../before/build/release --after build/release

Both builds train the jobs of compare_tensorflow.py on 3 workers and 2 parameter servers, in turn. Each round
starts with the other build. Prints the median of the ratios after / before of each job and transport, for
steps per second and for the time from launch to the first step. Fails if a ratio of steps per second is below
--least.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

from compare_tensorflow import JOBS, epoch_rates


def run(build, example, transport, steps, text=None, flags=()):
    """(steps per second after the warm-up, seconds from launch to the first step). `text`: of the job."""
    with tempfile.TemporaryDirectory() as directory:
        job, logs = os.path.join(directory, "job.yaml"), os.path.join(directory, "logs")
        with open(job, "w", encoding="utf-8") as f:
            f.write((text or JOBS[example]).format(steps=steps))
        done = subprocess.run(
            [os.path.join(build, "bin", "cohort"), "local", "--ps", "2", "--workers", "3", "--transport",
             transport, "--checkpoint_dir", os.path.join(directory, "ckpt"), "--log_dir", logs, "--run_dir",
             os.path.join(directory, "run"), *flags, job], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit("%s ended with %d:\n%s\n%s" % (build, done.returncode, done.stdout, done.stderr))
        first = re.search(r"first step after ([\d.]+) s", done.stdout)
        if first is None:
            sys.exit("%s: the report does not say when the first step was:\n%s" % (build, done.stdout))
        return epoch_rates(logs)[1], float(first.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--examples", nargs="+", default=sorted(JOBS))
    parser.add_argument("--transports", nargs="+", default=["unix", "tcp"])
    parser.add_argument("--least", type=float, default=0.95)
    args = parser.parse_args()
    failed = False
    for example in args.examples:
        steps = 20000 if example == "recommender" else 5000
        for transport in args.transports:
            rates, firsts = [], []
            for number in range(args.rounds):
                builds = [args.before, args.after] if number % 2 == 0 else [args.after, args.before]
                got = {build: run(build, example, transport, steps) for build in builds}
                rates.append(got[args.after][0] / got[args.before][0])
                firsts.append(got[args.after][1] / got[args.before][1])
            median = statistics.median(rates)
            failed = failed or median < args.least
            print("%s over %s: steps per second %.3f (%.3f to %.3f), first step after launch %.2f (%.2f to %.2f), "
                  "after / before, %d rounds" % (example, transport, median, min(rates), max(rates),
                                                 statistics.median(firsts), min(firsts), max(firsts),
                                                 args.rounds), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
