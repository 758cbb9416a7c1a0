#!/usr/bin/env python3
"""Steps per second with values pulled ahead over those without, interleaved on this machine.

    tests/benchmarks/compare_pull_ahead.py --build build/release

Trains the jobs of compare_tensorflow.py on 3 workers and 2 parameter servers with each `pull_ahead`. Prints the
median ratio of each job and transport.
"""
import argparse
import statistics

import compare_builds
from compare_tensorflow import JOBS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ahead", type=int, nargs="+", default=[1])
    parser.add_argument("--examples", nargs="+", default=sorted(JOBS))
    parser.add_argument("--transports", nargs="+", default=["unix", "tcp"])
    args = parser.parse_args()
    for example in args.examples:
        steps = 20000 if example == "recommender" else 5000
        for transport in args.transports:
            rates = {ahead: [] for ahead in [0] + args.ahead}
            for number in range(args.rounds):
                for ahead in sorted(rates, reverse=number % 2 == 0):
                    job = JOBS[example].replace("pull_ahead: 0", "pull_ahead: %d" % ahead)
                    rates[ahead].append(compare_builds.run(args.build, example, transport, steps, job)[0])
            for ahead in args.ahead:
                ratios = [with_it / without for with_it, without in zip(rates[ahead], rates[0])]
                print("%s over %s: pull_ahead %d at %.2f of 0 (%.2f to %.2f; %d rounds), medians %d and %d "
                      "steps/s" % (example, transport, ahead, statistics.median(ratios), min(ratios), max(ratios),
                                   args.rounds, statistics.median(rates[ahead]), statistics.median(rates[0])),
                      flush=True)


if __name__ == "__main__":
    main()
