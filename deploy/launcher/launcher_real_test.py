#!/usr/bin/env python3
"""`cohort local` with the real daemons: a chief that ends when all is committed."""
import os
import signal
import subprocess
import tempfile
import unittest

from real_cluster import SCALE, children, program, run, until

# One epoch: the chief commits before it, and at its end.
JOB = """name: short
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 8, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {SGD: {learning_rate: 0.1}}, metrics: [accuracy]}
data:
  batch_size: 32
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 640, seed: 1}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: 1}
strategy: {mode: async, closure_timeout_s: 1}
"""


class RealDaemonsTest(unittest.TestCase):
    def command(self, directory, *flags):
        job = directory + "/job.yaml"
        with open(job, "w") as f:
            f.write(JOB)
        return [program("cohort"), "local", "--run_dir", directory + "/run", *flags, job]

    def run_job(self, directory, *flags):
        return run(self.command(directory, *flags), limit_s=100)

    def test_a_chief_that_is_ended_when_all_is_committed_has_done_its_job(self):
        # The chief waits for a worker that it has asked to end and that its step holds.
        with tempfile.TemporaryDirectory() as directory:
            held = ["--workers", "2", "--grace_s", "1",
                    "--task_flag", "worker:1=--crash_point=worker.closure.received:1:hold"]
            with open(directory + "/out", "w+") as out:
                local = subprocess.Popen(self.command(directory, *held), stdout=out,
                                         stderr=subprocess.STDOUT)
                self.addCleanup(local.kill)
                committed = directory + "/run/checkpoints/ckpt-1-1-1/manifest.json"
                until("not committed, or a server is there yet",
                      lambda: os.path.exists(committed) and not children(local.pid, "cohort-ps"))
                chief, = children(local.pid, "cohort-chief")
                os.kill(chief, signal.SIGTERM)
                code = local.wait(timeout=60 * SCALE)
                out.seek(0)
                text = out.read()
            self.assertEqual(code, 0, text)
            self.assertIn("steps       20 in all", text)

    def test_a_chief_that_dies_when_all_is_committed_has_done_its_job(self):
        crash = ["--task_flag", "chief=--crash_point=chief.cut.manifest_written:2"]
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_job(directory, "--restart", *crash)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stderr, "chief:0 was killed by signal 9")
            self.assertRegex(done.stdout,
                             r"this job is finished: \S*/ckpt-1-1-1 has its last checkpoint \(step 20\)")
            self.assertIn("the job is done: ending ", done.stderr)
            again = self.run_job(directory, "--restart")
            self.assertEqual(again.returncode, 78, again.stdout + again.stderr)
            self.assertIn("give another directory", again.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
