#!/usr/bin/env python3
"""Layers that run on devices of their own, also of another worker: the job ends with the same bits, kills included."""
import json
import os
import signal
import subprocess

import real_cluster
from real_cluster import SCALE, DirectoryTestCase, children, dies_with_parent, program, run, until
from safetensors_files import checkpoints, tensors

# A shared layer is called twice, and dropout draws random numbers.
JOB = """
name: parallel
seed: 3
model:
  functional:
    - Input: {name: words, shape: [3], dtype: int64, feature: features}
    - Embedding: {inputs: words, input_dim: 50, output_dim: 8}
    - Flatten: {inputs: embedding}
    - Dense: {name: wide, inputs: flatten, units: 24, activation: relu}
    - Dense: {name: twice, inputs: wide, units: 24, activation: tanh%(twice)s}
    - Dense: {name: again, inputs: twice, shares: twice}
    - Dropout: {inputs: again, rate: 0.2%(dropout)s}
    - Dense: {name: out, inputs: dropout, units: 1}
%(devices)s
compile: {loss: {BinaryCrossentropy: {from_logits: true}}, optimizer: {Adam: {learning_rate: 0.01}}, metrics: [accuracy]}
data:
  batch_size: 32
  train:
    generator: {name: recommender, records: 3200, seed: 1}
    transforms:
      - {column: features, lookup: string, vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]}
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: %(epochs)d}
strategy: {mode: sync, closures_per_step: 2, deterministic: true}
checkpoint: {every_steps: 40, max_to_keep: 3}
"""


def job(epochs, twice="", dropout="", devices=()):
    """The job with the device of two layers, and of layers by patterns."""
    def named(device):
        return ', device: "%s"' % device if device else ""
    choices = "".join('\n    - {layers: "%s", device: "%s"}' % choice for choice in devices)
    return JOB % {"twice": named(twice), "dropout": named(dropout), "epochs": epochs,
                  "devices": "  devices:" + choices if choices else ""}


class ModelParallelCase(DirectoryTestCase):
    def train(self, command, text, name):
        """The tensors of the last checkpoint, and the epochs in metrics.jsonl."""
        directory = self.path(name)
        done = run([program("cohort"), *command.split(), "--run_dir", directory, self.write(name + ".yaml", text)],
                   limit_s=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(directory, "logs", "metrics.jsonl"), encoding="utf-8") as f:
            epochs = [line for line in map(json.loads, f) if line["kind"] == "epoch"]
        return (tensors(checkpoints(os.path.join(directory, "checkpoints"))[-1]),
                [(line["loss"], line["accuracy"]) for line in epochs])

    def task_log(self, name, task):
        """What a task of `cohort local` has logged."""
        with open(self.path(os.path.join(name, "tasks", task + ".log")), encoding="utf-8", errors="replace") as f:
            return f.read()

    def refused(self, command, text, *words):
        done = run([program("cohort"), *command.split(), self.write("refused.yaml", text)], limit_s=60)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr + done.stdout)


class Weights(ModelParallelCase):
    def test_devices_do_not_change_a_bit(self):
        expected = self.train("train", job(1), "whole")
        two_workers = "local --ps 1 --workers 2"
        for number, (command, text) in enumerate((
                ("train", job(1, twice="cpu:1", dropout="cpu:2")),
                ("train --strategy mirrored --devices cpu:0,cpu:1", job(1, twice="worker:1/cpu:0")),
                (two_workers, job(1, twice="worker:1/cpu:0", dropout="worker:0/cpu:1")),
                (two_workers, job(1, devices=[("tw*", "/job:worker/task:1/device:CPU:1"), ("*", "cpu:1")])),
                ("local --strategy multi_worker_mirrored --workers 2", job(1, twice="worker:1/cpu:0")))):
            with self.subTest(command + text):
                self.assertEqual(self.train(command, text, str(number)), expected)
                if command == two_workers:  # worker 1 has run layers of worker 0
                    self.assertIn("segment_compiled", self.task_log(str(number), "worker-1"))

    def test_an_accelerator_beside_the_cpu(self):
        expected, _ = self.train("train", job(1), "whole")
        found, _ = self.train("train", job(1, twice="simulated:0"), "simulated")
        self.assertEqual(sorted(found), sorted(expected))
        self.refused("train --run_dir " + self.path("gone"), job(1, twice="cuda:900"), "cuda:900")

    def test_what_is_no_device_is_refused(self):
        self.refused("check", job(1, twice="cud:1"), "refused.yaml:10", '"cud:1" is not a device', "worker:1/cuda:0")
        self.refused("check", job(1, devices=[("nothing*", "cpu:1")]), 'no layer matches "nothing*"')
        worker_2 = job(1, twice="worker:2/cpu:0")
        self.refused("check --workers 2", worker_2, "refused.yaml:10", "worker:2", "worker:0, worker:1")
        self.refused("local --workers 2 --run_dir " + self.path("no"), worker_2, "refused.yaml:10", "worker:0, worker:1")
        done = run([program("cohort"), "check", self.write("shown.yaml", worker_2)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"again \(Dense\).*worker:2/cpu:0")


class Kills(ModelParallelCase):
    EPOCHS = 12

    def test_the_worker_of_a_layer_is_killed(self):
        expected, _ = self.train("train", job(self.EPOCHS), "whole")
        path = self.write("job.yaml", job(self.EPOCHS, twice="worker:1/cpu:0"))
        with open(self.path("out"), "ab") as out:
            local = subprocess.Popen(
                dies_with_parent([program("cohort"), "local", "--ps", "1", "--workers", "2", "--restart", "--run_dir",
                                  self.path("run"), path]), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.addCleanup(local.wait)
        self.addCleanup(local.kill)
        for _ in range(2):
            newest = max(self.cuts(), default=0)
            until(self.log, lambda: local.poll() is not None or max(self.cuts(), default=0) > newest)
            self.assertIsNone(local.poll(), self.log())
            # It may not be back from the last kill yet.
            worker = until(self.log, lambda: [pid for pid in children(local.pid, "cohort-worker") if self.is_worker(pid, 1)])
            os.kill(worker[0], signal.SIGKILL)
        self.assertEqual(local.wait(timeout=100 * SCALE), 0, self.log())
        self.assertRegex(self.log(), r"worker:1")
        self.assertEqual(tensors(checkpoints(self.path("run/checkpoints"))[-1]), expected)
        self.assertIn("peer_lost", self.task_log("run", "worker-0"))

    def log(self):
        with open(self.path("out"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def cuts(self):
        return [int(path.rsplit("-", 1)[1]) for path in checkpoints(self.path("run/checkpoints"))]

    @staticmethod
    def is_worker(pid, index):
        with open("/proc/%d/environ" % pid, encoding="utf-8") as f:
            config = [v for v in f.read().split("\0") if v.startswith("TF_CONFIG=")]
        return json.loads(config[0].split("=", 1)[1])["task"]["index"] == index


if __name__ == "__main__":
    real_cluster.main(globals())
