#!/usr/bin/env python3
"""One process trains with its variables in the memory of a simulated device.

A cluster whose parameter server has the variables in the host's memory ends with the same bits.
"""
import glob
import os
import random
import shutil
import subprocess

import real_cluster
from real_cluster import SCALE, DirectoryTestCase, dies_with_parent, program, run, until
from safetensors_files import checkpoints, tensors

# An embedding, dropout, statistics of BatchNormalization, and slots of Adam.
JOB = """
name: resident
seed: 3
model:
  functional:
    - Input: {name: a, shape: [1]}
    - Input: {name: b, shape: [1]}
    - Input: {name: place, shape: [1], dtype: int64}
    - Embedding: {name: table, inputs: place, input_dim: 20, output_dim: 8}
    - Flatten: {name: vector, inputs: table}
    - Concatenate: {inputs: [a, b, vector]}
    - Dense: {name: hidden, inputs: concatenate, units: 32, activation: relu}
    - BatchNormalization: {name: norm, inputs: hidden}
    - Dropout: {name: dropped, inputs: norm, rate: 0.2}
    - Dense: {name: answer, inputs: dropped, units: 1}
compile:
  loss: {BinaryCrossentropy: {from_logits: true}}
  optimizer: adam
  metrics: [{BinaryAccuracy: {threshold: 0}}]
data:
  batch_size: 32
  visitation: exactly_once
  train:
    csv: {path: points.csv}
    label: label
  validation:
    csv: {path: points.csv}
    label: label
strategy: {%s}
fit: {epochs: %d}
checkpoint: {directory: checkpoints, every_steps: 40}
"""
ASYNC = "mode: async"
SYNC = "mode: sync, closures_per_step: %d"



class ResidentTest(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        lines = ["a,b,place,label"]
        for _ in range(1000):
            a, b, place = draw.random() - 0.5, draw.random() - 0.5, draw.randrange(20)
            lines.append("%.4f,%.4f,%d,%d" % (a, b, place, (a * b > 0) == (place > 6)))
        self.write("points.csv", "\n".join(lines) + "\n")

    def arguments(self, command, name, strategy, epochs, job=JOB):
        job = self.write(name + ".yaml", job % (strategy, epochs))
        return [program("cohort"), *command.split(), "--run_dir", self.path(name), job]

    def train(self, command, name, strategy, epochs=3, job=JOB):
        """The tensors of the last checkpoint."""
        done = run(self.arguments(command, name, strategy, epochs, job), limit_s=100,
                   environment={"COHORT_DATA_DIR": self.directory})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return tensors(checkpoints(self.path(name + "/checkpoints"))[-1])

    def log(self, name):
        """What the tasks of a run have logged."""
        texts = []
        for path in sorted(glob.glob(self.path(name + "/tasks/*.log"))):
            with open(path, encoding="utf-8", errors="replace") as f:
                texts.append(f.read())
        return "".join(texts)

    def on_host(self, closures=1, epochs=3, job=JOB):
        shutil.rmtree(self.path("host"), ignore_errors=True)
        found = self.train("local --ps 1 --workers 1 --task_flag worker=--devices=simulated:0", "host", SYNC % closures,
                           epochs, job)
        self.assertNotIn("variables_on_device", self.log("host"))
        return found

    def check(self, found, expected):
        self.assertTrue(any("@" in name for name in expected), sorted(expected))  # a slot
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual([name for name in expected if found[name] != expected[name]], [])

    def test_variables_on_the_device_have_the_bits_of_those_on_a_server(self):
        expected = self.on_host()
        self.check(self.train("train --devices simulated:0", "device", ASYNC), expected)
        log = self.log("device")
        self.assertIn("variables_on_device", log)
        for name in ("train", "eval"):
            self.assertRegex(log, "program_compiled program=%s .*resident_variables=true" % name)
        self.assertNotIn("resident_variables=false", log)
        self.check(self.train("train --devices simulated:0 --host_variables", "kept", ASYNC), expected)
        self.assertNotIn("variables_on_device", self.log("kept"))

    def test_synchronous_steps_sum_their_gradients_on_the_device(self):
        expected = self.on_host(closures=4)
        for command in ("one_device --devices simulated:0", "mirrored --devices simulated:0",
                        "mirrored --devices simulated:0,simulated:1",
                        "mirrored --devices simulated:0,simulated:1,simulated:2"):
            with self.subTest(command):
                name = command.replace(" ", "-")
                self.check(self.train("train --strategy " + command, name, SYNC % 4), expected)
                log = self.log(name)
                self.assertEqual(log.count("variables_on_device"), command.count("simulated"))
                self.assertRegex(log, "program_compiled program=train .*resident_variables=true")
                self.assertNotIn("resident_variables=false", log)

    def test_clipped_gradients_have_the_same_bits(self):
        for clip in ("global_clipnorm: 0.01", "clipvalue: 0.001"):
            with self.subTest(clip):
                job = JOB.replace("optimizer: adam", "optimizer: {Adam: {%s}}" % clip)
                self.assertNotEqual(job, JOB)
                expected = self.on_host(closures=4, job=job)
                self.check(self.train("train --strategy mirrored --devices simulated:0,simulated:1", clip[:6], SYNC % 4,
                                      job=job), expected)

    def test_a_killed_process_continues_from_what_its_device_had(self):
        expected = self.on_host(epochs=8)
        arguments = self.arguments("train --devices simulated:0", "killed", ASYNC, 8)
        process = subprocess.Popen(dies_with_parent(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "COHORT_DATA_DIR": self.directory})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until("no checkpoint", lambda: len(checkpoints(self.path("killed/checkpoints"))) >= 2, 60 * SCALE)
        self.assertIsNone(process.poll())
        process.kill()
        process.wait()
        self.check(self.train("train --devices simulated:0", "killed", ASYNC, 8), expected)


if __name__ == "__main__":
    real_cluster.main(globals())
