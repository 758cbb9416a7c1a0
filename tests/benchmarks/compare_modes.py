#!/usr/bin/env python3
"""Gradients per second in mode sync over those in mode async, interleaved on this machine.

    tests/benchmarks/compare_modes.py --build build/release

Both modes train the jobs of compare_tensorflow.py on 3 workers and 2 parameter servers, sync with closures_per_step 3 and
with 12. Prints the median ratios of each job. Aims with 3: 0.5 for the recommender, 0.8 for MNIST.
"""
import argparse
import statistics

import compare_builds
from compare_tensorflow import JOBS

MODES = {"async": "mode: async", "sync, 3 closures": "mode: sync, closures_per_step: 3",
         "sync, 12 closures": "mode: sync, closures_per_step: 12"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transport", default="unix")
    args = parser.parse_args()
    for example in sorted(JOBS):
        steps = 20000 if example == "recommender" else 5000
        rates = {mode: [] for mode in MODES}
        for number in range(args.rounds):
            for mode in sorted(MODES, reverse=number % 2 == 0):
                job = JOBS[example].replace("strategy: {{", "strategy: {{%s, " % MODES[mode])
                rates[mode].append(compare_builds.run(args.build, example, args.transport, steps, job)[0])
        for mode in sorted(MODES)[1:]:
            ratios = [sync / anew for sync, anew in zip(rates[mode], rates["async"])]
            print("%s over %s: %s in a step, at %.2f of async (%.2f to %.2f; %d rounds), medians %d and %d gradients/s" % (
                example, args.transport, mode, statistics.median(ratios), min(ratios), max(ratios), args.rounds,
                statistics.median(rates[mode]), statistics.median(rates["async"])), flush=True)


if __name__ == "__main__":
    main()
