#!/usr/bin/env python3
"""Reads the files of common/report with TensorBoard itself.

Usage: event_file_test.py REPORT_TEST_BINARY
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from tensorboard.backend.event_processing import event_accumulator

BINARY = ""


class EventFileTest(unittest.TestCase):
    def scalars(self, directory, tag):
        accumulator = event_accumulator.EventAccumulator(directory)
        accumulator.Reload()
        return [(e.step, e.value) for e in accumulator.Scalars(tag)], accumulator.Tags()["scalars"]

    def test_tensorboard_reads_every_scalar(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([BINARY, "files for TensorBoard"], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, COHORT_TEST_OUTPUT=directory))
            steps, tags = self.scalars(directory + "/train", "step_loss")
            self.assertEqual([s for s, _ in steps], [100, 200, 300])
            for (_, value), expected in zip(steps, (1, 1 / 2, 1 / 3)):
                self.assertAlmostEqual(value, expected, places=6)
            self.assertEqual(sorted(tags), ["epoch_accuracy", "epoch_loss", "step_loss"])
            self.assertEqual(self.scalars(directory + "/train", "epoch_loss")[0],
                             [(300, 0.5), (1 << 40, -1.0)])
            self.assertEqual(self.scalars(directory + "/validation", "epoch_loss")[0],
                             [(300, 0.625)])
            with open(directory + "/metrics.jsonl") as f:
                lines = [json.loads(line) for line in f]
            self.assertEqual(len(lines), 6)
            self.assertEqual((lines[3]["set"], lines[3]["epoch"], lines[3]["accuracy"]),
                             ("train", 1, 0.75))


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
