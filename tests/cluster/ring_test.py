#!/usr/bin/env python3
"""Replicas that sum gradients in a ring end with the weights of replicas that send them to their owners.

Usage: ring_test.py [CLASS]
"""
import array
import os
import re
import signal
import time

import replicas_test
import real_cluster
from real_cluster import DirectoryTestCase, children, program, run, until
from safetensors_files import checkpoints, tensors


def values(checkpoint):
    """{name: numbers} of a checkpoint in float64."""
    found = {}
    for name, (dtype, data) in tensors(checkpoint).items():
        if dtype == "F64":
            found[name] = array.array("d", data)
    return found


def difference(a, b):
    """The largest difference between the values of two checkpoints, and its tensor."""
    assert sorted(a) == sorted(b)
    return max((max((abs(x - y) for x, y in zip(a[name], b[name])), default=0.0), name) for name in a)


def example(name, epochs, **replaced):
    text = real_cluster.example(name)
    text = re.sub(r"strategy:\n  mode: async\n", "strategy:\n", text)
    if "strategy:\n" not in text:
        text = text.replace("\nfit:\n", "\nstrategy:\n\nfit:\n", 1)
    text = re.sub(r"epochs: \d+", "epochs: %d" % epochs, text, count=1)
    for key, value in replaced.items():
        assert re.search(r"%s: \d+" % key, text), key
        text = re.sub(r"%s: \d+" % key, "%s: %d" % (key, value), text, count=1)
    text = text.replace("\nmodel:\n", "\nmodel:\n  dtype: float64\n", 1)
    return text.replace("strategy:\n", "strategy:\n  closures_per_step: 4\n  communication: direct\n", 1)


class RingCase(DirectoryTestCase):
    def train(self, text, workers, name):
        """The values of the last checkpoint, and the logs of the replicas."""
        directory = self.path(name)
        job = self.write(name + ".yaml", text)
        done = run([program("cohort"), "local", "--strategy", "multi_worker_mirrored", "--workers", str(workers),
                    "--run_dir", directory, job], limit_s=120,
                   environment={"COHORT_DATA_DIR": real_cluster.generated_data()})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        logs = ""
        for task in range(workers):
            with open(os.path.join(directory, "tasks", "worker-%d.log" % task), encoding="utf-8") as f:
                logs += f.read()
        return values(checkpoints(os.path.join(directory, "checkpoints"))[-1]), logs

    def check(self, text, replicas=(2, 3, 4)):
        expected, logs = self.train(text, 2, "direct")
        self.assertNotIn("ring_entered", logs)
        ring = text.replace("communication: direct", "communication: RING")
        for workers in replicas:
            with self.subTest(workers=workers):
                found, logs = self.train(ring, workers, "ring-%d" % workers)
                self.assertEqual(logs.count("ring_entered"), workers)
                most, name = difference(expected, found)
                self.assertLess(most, 1e-9, name)
                self.assertGreater(most, 0)  # the sums have another order


class Mnist(RingCase):
    def test_perceptron(self):
        # 83 closures in an epoch: the last step is short, and too short for four replicas.
        self.check(example("mnist_mlp.yaml", 5, take=2656))

    def test_convolutions(self):
        self.check(example("mnist_cnn.yaml", 2, take=800, batch_size=16), replicas=(2, 4))

    def test_bytes_and_overlap(self):
        """A replica sends its part of each gradient once per step, and begins before the backward pass ends."""
        text = example("mnist_mlp.yaml", 1, take=1280).replace("units: 128", "units: 256")
        ring = text.replace("communication: direct", "communication: ring")
        found, logs = self.train(ring, 2, "ring")
        gradients = sum(8 * len(numbers) for name, numbers in found.items() if "@" not in name)
        counts = [{key: int(re.search(r" %s=(\d+)" % key, line).group(1))
                   for key in ("sums", "early_sums", "bytes_sent", "bytes_received")}
                  for line in logs.splitlines() if " ring_left " in line]
        self.assertEqual([(c["sums"], c["early_sums"]) for c in counts], 2 * [(20, 10)])  # two buckets of ten steps
        for key in ("bytes_sent", "bytes_received"):  # direct: four closures send half of it, 20 * gradients in all
            self.assertEqual(sum(c[key] for c in counts), 10 * gradients)


class Census(RingCase):
    def test_census(self):
        self.check(example("census_csv.yaml", 3, take=4480))


class Recommender(RingCase):
    def test_recommender(self):
        self.check(example("recommender.yaml", 2, records=6400))


class Faults(replicas_test.LocalCase):
    """Replicas and the chief are killed and stopped in the middle of a ring."""

    def setUp(self):
        super().setUp()
        with open(self.job, encoding="utf-8") as f:
            text = f.read()
        for old, new in (("deterministic: true", "communication: ring"), ("\nmodel:\n", "\nmodel:\n  dtype: float64\n")):
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        self.job = self.write("job.yaml", text)

    def check_weights(self, directory="checkpoints"):
        calm = self.path("calm")
        done = run([program("cohort"), "train", "--run_dir", calm, self.job], limit_s=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        most, name = difference(values(checkpoints(calm + "/checkpoints")[-1]),
                                values(checkpoints(self.path(directory))[-1]))
        self.assertLess(most, 1e-9, name)

    def test_killed_and_stopped_replicas(self):
        local = self.local("--workers", "3", "--restart")
        for _ in range(2):
            self.await_cuts(local, "out", 2)
            os.kill(children(local.pid, "cohort-replica")[0], signal.SIGKILL)
        self.await_cuts(local, "out", 2)
        stopped = children(local.pid, "cohort-replica")[1]
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(3)
        os.kill(stopped, signal.SIGCONT)
        self.await_cuts(local, "out", 1)
        os.kill(children(local.pid, "cohort-chief")[0], signal.SIGKILL)
        self.ended(local, "out")
        self.assertRegex(self.text("out"), r"2 rollbacks, 1 chief restart")
        self.check_weights()

    def test_an_elastic_job_continues_without_lost_replicas(self):
        with open(self.job, encoding="utf-8") as f:
            job = self.write("elastic.yaml", f.read().replace("communication: ring", "communication: ring\n  elastic: true"))
        local = self.local("--workers", "3", job=job)
        self.await_cuts(local, "out", 2)
        os.kill(children(local.pid, "cohort-replica")[1], signal.SIGKILL)
        until(lambda: self.text("out"), lambda: local.poll() is not None or "on 2 replicas\n" in self.text("out"))
        self.ended(local, "out")
        self.check_weights()


    def test_a_lost_replica_comes_back_while_the_job_runs(self):
        with open(self.job, encoding="utf-8") as f:
            job = self.write("elastic.yaml", f.read().replace("communication: ring", "communication: ring\n  elastic: true"))
        local = self.local("--workers", "3", "--restart", job=self.endless(job))
        self.await_cuts(local, "out", 2)
        # The first loss of a replica that is back at once is a rollback in the same cluster.
        for line in ("going back to the newest checkpoint\n", r"; continuing without .*, on 2 replicas\n"):
            youngest = children(local.pid, "cohort-replica")[-1]
            os.kill(youngest, signal.SIGKILL)
            self.await_text(local, "out", line)
            if "on 2" not in line:
                self.await_cuts(local, "out", 1)
        self.await_text(local, "out", replicas_test.BACK % 3)
        until(lambda: self.text("out"), lambda: self.replicas_left() is None)
        self.await_cuts(local, "out", 2)
        self.assertIn("3 replicas sum dense gradients in a ring", self.text("out").rsplit(" back; ", 1)[1])
        self.ended(self.local("--workers", "3", job=self.stop(local, "out")), "out")
        self.check_weights()


if __name__ == "__main__":
    real_cluster.main(globals())
