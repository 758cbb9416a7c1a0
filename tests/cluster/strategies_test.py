#!/usr/bin/env python3
"""The same synchronous job under every strategy ends with the same bits, dropout included.

Usage: strategies_test.py [CLASS]
"""
import glob
import json
import os
import re

import real_cluster
from real_cluster import DirectoryTestCase, program, run
from safetensors_files import checkpoints, tensors

# What starts a job, after `cohort`, and how many tasks own its variables.
ONE_DEVICE = ("train --strategy one_device", 1)
OTHERS = [
    ("local --ps 2 --workers 3", 2),
    ("train --strategy central_storage --devices cpu:0,cpu:1", 1),
    ("train --strategy mirrored --devices cpu:0", 1),
    ("train --strategy mirrored --devices cpu:0,cpu:1", 2),
    ("train --strategy mirrored --devices cpu:0,cpu:1,cpu:2", 3),
    ("local --strategy multi_worker_mirrored --workers 2", 2),
    ("local --strategy multi_worker_mirrored --workers 3 --transport tcp", 3),
]
SYNC = "strategy:\n  mode: sync\n  closures_per_step: 4\n  deterministic: true\n"


def example(name, take, epochs):
    """An example as a synchronous job of the first `take` records."""
    text = real_cluster.example(name)
    for pattern, replacement in ((r"strategy:\n  mode: async\n", SYNC), (r"epochs: \d+", "epochs: %d" % epochs),
                                 (r"(take|records): \d+", r"\1: %d" % take)):
        text = re.sub(pattern, replacement, text, count=1)
    return text if "strategy:" in text else text.replace("\nfit:\n", "\n" + SYNC + "\nfit:\n")


class StrategiesCase(DirectoryTestCase):
    def train(self, command, owners, job, name):
        """The tensors of the last checkpoint, and what metrics.jsonl has of the epochs."""
        directory = self.path(name)
        done = run([program("cohort"), *command.split(), "--run_dir", directory, job], limit_s=120,
                   environment={"COHORT_DATA_DIR": real_cluster.generated_data()})
        self.assertEqual(done.returncode, 0, command + "\n" + done.stdout + done.stderr)
        checkpoint = checkpoints(os.path.join(directory, "checkpoints"))[-1]
        self.assertEqual(len(glob.glob(os.path.join(checkpoint, "*.safetensors"))), owners)
        with open(os.path.join(directory, "logs", "metrics.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return tensors(checkpoint), [{key: line[key] for key in ("set", "epoch", "step", "loss", "accuracy")}
                                     for line in lines if line["kind"] == "epoch"]

    def check(self, text, steps):
        """`steps`: of the whole job, four of which are one synchronous step."""
        job = self.write("job.yaml", text)
        expected, metrics = self.train(*ONE_DEVICE, job, "expected")
        self.assertEqual([m["step"] for m in metrics if m["set"] == "train"][-1], steps)
        self.assertTrue(any("@" in name for name in expected), sorted(expected))  # a slot
        for number, (command, owners) in enumerate(OTHERS):
            with self.subTest(command):
                found, found_metrics = self.train(command, owners, job, str(number))
                self.assertEqual(sorted(found), sorted(expected))
                self.assertEqual([name for name in expected if found[name] != expected[name]], [])
                self.assertEqual(found_metrics, metrics)


class Mnist(StrategiesCase):
    """A perceptron with dropout and Adam."""
    def test_strategies_agree(self):
        self.check(example("mnist_mlp.yaml", 2560, 2), 160)

    def test_replicas_share_a_large_variable(self):
        job = self.write("job.yaml", example("mnist_mlp.yaml", 256, 1))
        self.train("train --strategy mirrored --devices cpu:0,cpu:1", 2, job, "run")
        files = glob.glob(checkpoints(self.path("run/checkpoints"))[-1] + "/*.safetensors")
        sizes = sorted(os.path.getsize(path) for path in files)
        self.assertLess(sizes[1], 1.1 * sizes[0])


class Census(StrategiesCase):
    """Embeddings, words that are learned, and Adam."""
    def test_strategies_agree(self):
        self.check(example("census_csv.yaml", 5120, 2), 160)


class Recommender(StrategiesCase):
    """An embedding of two shards, and RMSprop."""

    def test_strategies_agree(self):
        self.check(example("recommender.yaml", 6400, 1), 200)

    def test_a_job_continues_under_other_strategies(self):
        expected, _ = self.train(*ONE_DEVICE, self.write("whole.yaml", example("recommender.yaml", 1600, 4)), "expected")
        commands = [("local --ps 2 --workers 2", 2), ("local --strategy multi_worker_mirrored --workers 3", 3),
                    ("train --strategy mirrored --devices cpu:0,cpu:1", 2), ONE_DEVICE]
        for epochs, (command, owners) in enumerate(commands, 1):
            job = self.write("job.yaml", example("recommender.yaml", 1600, epochs))
            found, metrics = self.train(command, owners, job, "continued")
            self.assertEqual([m["epoch"] for m in metrics if m["set"] == "train"], list(range(1, epochs + 1)))
        self.assertEqual(found, expected)

    def test_linear_scaling_is_a_larger_learning_rate(self):
        text = example("recommender.yaml", 1600, 1)
        self.assertIn("learning_rate: 0.1}", text)
        expected, _ = self.train(*ONE_DEVICE, self.write("job.yaml", text), "expected")
        scaled = text.replace("learning_rate: 0.1}", "learning_rate: 0.025}").replace(
            "mode: sync\n", "mode: sync\n  scale_learning_rate: linear\n")
        found, _ = self.train(*ONE_DEVICE, self.write("scaled.yaml", scaled), "scaled")
        self.assertEqual(found, expected)  # four closures of a step


if __name__ == "__main__":
    real_cluster.main(globals())
