#!/usr/bin/env python3
"""Steps per second over mutual TLS beside those over plaintext TCP, interleaved on this machine.

    tests/benchmarks/compare_tls.py --build build/release

Trains the jobs of compare_tensorflow.py on 3 workers and 2 parameter servers over TCP on loopback. Prints the median
of the ratios TLS / plaintext of each job. The aim is 0.6 for mnist_mlp.
"""
import argparse
import os
import statistics
import subprocess
import tempfile

import compare_builds
from compare_tensorflow import JOBS

CLUSTER = """name: benchmark
cluster:
  ps: ["127.0.0.1:1", "127.0.0.1:2"]
  worker: ["127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"]
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--examples", nargs="+", default=sorted(JOBS))
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        cluster, certificates = os.path.join(directory, "cluster.yaml"), os.path.join(directory, "certs")
        with open(cluster, "w", encoding="utf-8") as f:
            f.write(CLUSTER)
        subprocess.run([os.path.join(args.build, "bin", "cohort"), "certs", cluster, certificates], check=True,
                       stdout=subprocess.DEVNULL)
        flags = {"plaintext": [], "TLS": ["--tls_dir", certificates]}
        for example in args.examples:
            rates = {kind: [] for kind in flags}
            for number in range(args.rounds):
                for kind in sorted(flags, reverse=number % 2 == 0):
                    rates[kind].append(compare_builds.run(args.build, example, "tcp", args.steps, flags=flags[kind])[0])
            ratios = [tls / plain for tls, plain in zip(rates["TLS"], rates["plaintext"])]
            print("%s over TCP: TLS at %.2f of plaintext (%.2f to %.2f; %d rounds), medians %d and %d steps/s" % (
                example, statistics.median(ratios), min(ratios), max(ratios), args.rounds,
                statistics.median(rates["TLS"]), statistics.median(rates["plaintext"])), flush=True)


if __name__ == "__main__":
    main()
