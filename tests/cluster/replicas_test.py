#!/usr/bin/env python3
"""Replicas of multi_worker_mirrored that are killed, stopped and restarted: the job ends with the same bits."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request

import real_cluster
from real_cluster import SCALE, DirectoryTestCase, alive, children, dies_with_parent, free_ports, program, run, until
from safetensors_files import checkpoints, tensors

EPOCHS = 15  # each has 200 closures
ENDLESS = 1000000  # the test stops a job with this number of epochs, and continues it with fewer
BACK = r"\) (?:is|are) back; .*continuing on %d replicas\n"


class ReplicasCase(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        with open(os.path.join(real_cluster.EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            text = f.read()
        for old, new in (("mode: async", "mode: sync\n  closures_per_step: 4\n  deterministic: true"),
                         ("epochs: 4", "epochs: %d" % EPOCHS),
                         ("every_epochs: 1", "every_epochs: 1\n  every_steps: 100\n  max_to_keep: 3")):
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        self.job = self.write("job.yaml", text)
        self.started = []

    def elastic_job(self):
        with open(self.job, encoding="utf-8") as f:
            return self.write("elastic.yaml", f.read().replace("deterministic: true", "deterministic: true\n  elastic: true"))

    def endless(self, job):
        """The same job without an end: it lasts as long as the test needs it."""
        with open(job, encoding="utf-8") as f:
            return self.write("endless.yaml", f.read().replace("epochs: %d" % EPOCHS, "epochs: %d" % ENDLESS))

    def stop(self, process, name):
        """Stops an endless job. Returns a job that ends an epoch later."""
        self.await_cuts(process, name, 1)  # it trains
        stopped = run([program("cohort"), "ctl", self.path("checkpoints"), "stop"])
        self.assertEqual(stopped.returncode, 0, stopped.stdout + stopped.stderr)
        self.assertEqual(process.wait(timeout=60 * SCALE), 79, self.text(name))
        # The last one may have been begun and not committed.
        manifests = [os.path.join(path, "manifest.json") for path in checkpoints(self.path("checkpoints"))]
        with open([path for path in manifests if os.path.exists(path)][-1], encoding="utf-8") as f:
            epoch = int(json.load(f).get("epoch", 0))
        for job in (self.job, self.path("endless.yaml")):
            with open(job, encoding="utf-8") as f:
                text = f.read()
            for epochs in (EPOCHS, ENDLESS):
                text = text.replace("epochs: %d\n" % epochs, "epochs: %d\n" % (epoch + 2))
            self.write(os.path.basename(job), text)
        return self.path("endless.yaml")

    def await_text(self, process, name, pattern, count=1):
        """Waits until a job that still runs has printed `count` matches of a pattern."""
        until(lambda: "no %d of %s:\n%s" % (count, pattern, self.text(name)), lambda: process.poll() is not None or
              len(re.findall(pattern, self.text(name))) >= count)
        self.assertIsNone(process.poll(), self.text(name))

    def replicas_left(self):
        """The addresses in use, if the job has lost a replica."""
        try:
            with open(self.path("checkpoints/replicas_left"), encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return None

    def start(self, name, arguments, **environment):
        """Starts `cohort`; what it and its children print is in the file `name`."""
        inherited = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        with open(self.path(name), "ab") as out:
            process = subprocess.Popen(dies_with_parent([program("cohort"), *arguments]), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out,
                                       env={**inherited, "COHORT_DATA_DIR": real_cluster.generated_data(), **environment})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def cut(self, directory="checkpoints"):
        """The number of the newest checkpoint, over all timelines; 0 without one."""
        numbers = [int(path.rsplit("-", 1)[1]) for path in checkpoints(self.path(directory))]
        return max(numbers, default=0)

    def await_cuts(self, process, name, more, directory="checkpoints"):
        """Waits for more checkpoints of a job that still runs."""
        wanted = self.cut(directory) + more
        until(lambda: self.text(name), lambda: process.poll() is not None or self.cut(directory) >= wanted)
        self.assertIsNone(process.poll(), self.text(name))

    def ended(self, process, name):
        try:
            code = process.wait(timeout=100 * SCALE)
        except subprocess.TimeoutExpired:
            self.fail("it has not ended:\n" + self.text(name))
        self.assertEqual(code, 0, self.text(name))

    def check_weights(self, directory="checkpoints"):
        """Compares with a run that nothing has disturbed."""
        calm = self.path("calm")
        done = run([program("cohort"), "train", "--run_dir", calm, self.job], limit_s=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = tensors(checkpoints(calm + "/checkpoints")[-1])
        found = tensors(checkpoints(self.path(directory))[-1])
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual([name for name in expected if found[name] != expected[name]], [])


class LocalCase(ReplicasCase):

    def local(self, *flags, job=None):
        return self.start("out", ["local", "--strategy", "multi_worker_mirrored", "--run_dir", self.path("run"),
                                  "--checkpoint_dir", self.path("checkpoints"), *flags, job or self.job])

    def replica(self, local, index):
        """(process, address) of a replica that the job uses; None if it is away."""
        for process in children(local.pid, "cohort-replica"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open("/proc/%d/environ" % process, encoding="utf-8") as f:
                    config = json.loads(dict(e.split("=", 1) for e in f.read().split("\0") if "=" in e)["TF_CONFIG"])
                if config["task"]["index"] != index:
                    continue
                left, address = self.replicas_left(), config["cluster"]["worker"][index]
                return process if left is None or address in left else None
        return None

    def kill(self, local, index):
        process = until(lambda: self.text("out"), lambda: self.replica(local, index))
        os.kill(process, signal.SIGKILL)
        until(lambda: self.text("out"), lambda: not alive(process))
        self.assertIsNone(local.poll(), self.text("out"))

    def await_all(self, local):
        """Waits until the job trains on all replicas."""
        self.await_cuts(local, "out", 2)  # it has noticed the last loss
        until(lambda: self.text("out"), lambda: local.poll() is not None or self.replicas_left() is None)
        self.await_cuts(local, "out", 1)

    def stop_replicas(self, seconds):
        """Stops one after the other for this time, in which the limits of the other replicas pass."""
        local = self.local("--workers", "2", "--task_flag", "worker=--chief_timeout_s=1", "--task_flag",
                           "worker=--ps_timeout_s=1")
        for number in range(2):
            self.await_cuts(local, "out", 2)
            replica = children(local.pid, "cohort-replica")[number]
            os.kill(replica, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(replica, signal.SIGCONT)
        self.ended(local, "out")
        self.check_weights()


class Local(LocalCase):
    """`cohort local`."""

    def test_killed_replicas_come_back(self):
        local = self.local("--workers", "3", "--restart")
        for _ in range(3):  # each of them once: the first one in the list is the oldest process
            self.await_cuts(local, "out", 2)
            os.kill(children(local.pid, "cohort-replica")[0], signal.SIGKILL)
        self.await_cuts(local, "out", 2)
        os.kill(children(local.pid, "cohort-chief")[0], signal.SIGKILL)
        self.ended(local, "out")
        self.assertRegex(self.text("out"), r"[1-9] rollbacks?, 1 chief restart")
        self.check_weights()

    def test_stopped_replicas_wake(self):
        self.stop_replicas(4)
        for number in range(2):  # the launcher has seen both
            self.assertIn("worker:%d is stopped and does nothing" % number, self.text("out"))

    def test_a_lost_replica_ends_the_run_without_restart(self):
        local = self.local("--workers", "2")
        self.await_cuts(local, "out", 2)
        os.kill(children(local.pid, "cohort-replica")[1], signal.SIGKILL)
        self.assertEqual(local.wait(timeout=60 * SCALE), 169)
        self.assertIn("worker:1 has died, and nothing restarts it", self.text("out"))


    def test_an_elastic_job_continues_without_lost_replicas(self):
        local = self.local("--workers", "3", job=self.elastic_job())
        for left in (2, 1):
            self.await_cuts(local, "out", 2)
            os.kill(children(local.pid, "cohort-replica")[1], signal.SIGKILL)
            until(lambda: self.text("out"),
                  lambda: local.poll() is not None or "on %d replica%s\n" % (left, "s"[:left - 1]) in self.text("out"))
        self.ended(local, "out")
        self.check_weights()


    def test_a_lost_replica_comes_back_with_certificates(self):
        description = self.write("cluster.yaml", json.dumps({"name": "lab", "cluster": {"worker": ["a:2", "b:1", "c:1"]}}))
        made = run([program("cohort"), "certs", description, self.path("certs"), "--by_role"])
        self.assertEqual(made.returncode, 0, made.stderr)
        local = self.local("--workers", "3", "--restart", "--transport", "tcp", "--tls_dir", self.path("certs"),
                           job=self.endless(self.elastic_job()))
        for _ in range(2):  # the first loss is a rollback
            self.await_all(local)
            self.kill(local, 1)
        self.await_text(local, "out", "; continuing without .*, on 2 replicas\n")
        self.await_text(local, "out", BACK % 3)
        self.await_all(local)
        with open(self.path("run/tasks/worker-1.log"), encoding="utf-8") as f:
            self.assertNotIn("peer_refused", f.read())
        self.ended(self.local("--workers", "3", job=self.stop(local, "out")), "out")
        self.check_weights()


    def test_a_replica_that_is_ended_costs_no_work(self):
        local = self.local("--workers", "3", "--restart", job=self.endless(self.elastic_job()))
        self.await_all(local)
        process = self.replica(local, 1)
        os.kill(process, signal.SIGTERM)
        self.await_text(local, "out", r"worker:1 \(.*\) is gone; continuing on 2 replicas\n")
        self.await_text(local, "out", BACK % 3)
        self.await_all(local)
        self.ended(self.local("--workers", "3", job=self.stop(local, "out")), "out")
        self.check_weights()


class Storm(LocalCase):
    """Replicas of an elastic job are killed again and again, and come back while it runs."""

    def test_many_losses_and_returns(self):
        seed = int(os.environ.get("COHORT_SEED") or random.randrange(1 << 32))
        print("COHORT_SEED=%d" % seed, flush=True)
        draw = random.Random(seed)
        victims = [0, 1, 1, 1, 2, 2, 3, 3]
        draw.shuffle(victims)
        local = self.local("--workers", "4", "--restart", job=self.endless(self.elastic_job()))
        self.await_cuts(local, "out", 1)
        for victim in victims:
            if draw.random() < 0.75:
                self.await_cuts(local, "out", 1)  # else: perhaps in the middle of a change
            self.kill(local, victim)
        # The storm is over. At most one of two losses in a calm time is a rollback in the same cluster.
        for _ in range(2):
            self.await_all(local)
            self.kill(local, 1)
        self.await_all(local)
        returns = len(re.findall(r"\) (?:is|are) back; ", self.text("out")))
        self.assertGreater(returns, 0, self.text("out"))
        print("%d returns" % returns)
        self.ended(self.local("--workers", "4", job=self.stop(local, "out")), "out")
        self.check_weights()


class Independent(LocalCase):
    """TensorFlow's issue 33531: two workers that read a repeated data set on their own hang there."""
    def test_epochs_of_independent_readers_end(self):
        text = real_cluster.example("mnist_cnn.yaml")
        for old, new in (("visitation: exactly_once", "visitation: independent"), ("take: 9000", "take: 960"),
                         ("epochs: 5", "epochs: 3\n  steps_per_epoch: 140"),  # 70 of both workers
                         ("batch_size: 64", "batch_size: 16"), ("take: 1000", "take: 100")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.job = self.write("job.yaml", text)
        self.ended(self.local("--workers", "2"), "out")
        self.assertRegex(self.text("out"), r"steps +420 in all, 210 synchronous, 3 epochs")


class Silent(LocalCase):
    """A replica that is silent for 20 s is lost, even if it wakes later."""

    def test_stopped_replicas_wake(self):
        self.stop_replicas(23)
        self.assertIn(" 2 rollbacks", self.text("out"))

    def test_a_stopped_replica_of_an_elastic_job_comes_back(self):
        local = self.local("--workers", "3", job=self.endless(self.elastic_job()))
        self.await_cuts(local, "out", 2)
        stopped = children(local.pid, "cohort-replica")[1]
        os.kill(stopped, signal.SIGSTOP)
        self.await_text(local, "out", "; continuing without .*, on 2 replicas\n")
        self.await_cuts(local, "out", 1)
        os.kill(stopped, signal.SIGCONT)
        self.await_text(local, "out", BACK % 3)
        self.assertTrue(alive(stopped))
        self.ended(self.local("--workers", "3", job=self.stop(local, "out")), "out")
        self.check_weights()


class ByHand(ReplicasCase):
    """`cohort run` on every task of a TF_CONFIG."""

    def tasks(self, *roles):
        """{(role, index): TF_CONFIG} of tasks without a ps."""
        addresses = ["127.0.0.1:%d" % port for port in free_ports(len(roles))]
        cluster = {}
        for role, address in zip(roles, addresses):
            cluster.setdefault(role, []).append(address)
        return [json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
                for role in cluster for index in range(len(cluster[role]))]

    def run_task(self, number, config, job=None, flags=()):
        first = ["--checkpoint_dir", self.path("checkpoints"), "--log_dir", self.path("logs")]
        return self.start("task-%d" % number, ["run", job or self.job, *first, *flags], TF_CONFIG=config)

    def test_a_replica_and_its_chief_answer_probes_beyond_loopback(self):
        """Without the other replica: readiness does not wait for it."""
        ports = free_ports(2)
        self.start("task-0", ["run", self.job, "--checkpoint_dir", self.path("checkpoints"), "--log_dir", self.path("logs"),
                              "--admin_bind", "0.0.0.0", "--admin_port", str(ports[0]),
                              "--chief_admin_port", str(ports[1])], TF_CONFIG=self.tasks("worker", "worker")[0])

        def answers(port, path):
            try:
                # Another address of loopback than the default of --admin_bind.
                with urllib.request.urlopen("http://127.0.0.2:%d%s" % (port, path), timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False
        for port in ports:
            for path in ("/healthz", "/readyz", "/metrics", "/statusz"):
                until(lambda: self.text("task-0"), lambda port=port, path=path: answers(port, path))

    def end_early(self, processes, configs):
        """Stops an endless job; all tasks start again and end it."""
        job = self.stop(processes[0], "task-0")
        for process in processes[1:]:
            process.kill()
            process.wait()
        for number, process in enumerate([self.run_task(n, config, job) for n, config in enumerate(configs)]):
            self.ended(process, "task-%d" % number)
        self.check_weights()

    def test_a_lost_replica_comes_back_while_the_job_runs(self):
        job = self.endless(self.elastic_job())
        configs = self.tasks("worker", "worker", "worker")
        processes = [self.run_task(number, config, job) for number, config in enumerate(configs)]
        self.await_cuts(processes[0], "task-0", 2)
        for count, (number, by) in enumerate(((1, signal.SIGKILL), (2, signal.SIGTERM), (1, signal.SIGTERM)), start=1):
            processes[number].send_signal(by)
            processes[number].wait()
            left = r"; continuing (?:without .*, )?on 2 replicas\n"
            self.await_text(processes[0], "task-0", left, count)
            gone = re.findall(r"worker:%d \S+ is gone" % number + left, self.text("task-0"))
            self.assertEqual(by == signal.SIGTERM, len(gone) > 0)
            self.assertEqual(len(self.replicas_left()), 2)
            self.await_cuts(processes[0], "task-0", 1)
            processes[number] = self.run_task(number, configs[number], job)
            self.await_text(processes[0], "task-0", BACK % 3, count)
            self.await_cuts(processes[0], "task-0", 1)
            self.assertIsNone(self.replicas_left())
        self.end_early(processes, configs)

    def test_a_restarted_chief_knows_which_replicas_are_left(self):
        job = self.endless(self.elastic_job())
        configs = self.tasks("worker", "worker", "worker")
        processes = [self.run_task(number, config, job) for number, config in enumerate(configs)]
        self.await_cuts(processes[0], "task-0", 2)
        processes[1].kill()
        self.await_text(processes[0], "task-0", "on 2 replicas\n")
        self.await_cuts(processes[0], "task-0", 1)
        os.kill(children(processes[0].pid, "cohort-chief")[0], signal.SIGKILL)
        self.await_text(processes[0], "task-0", "continuing on the 2 of 3 replicas that were left\n")
        self.await_cuts(processes[0], "task-0", 1)
        processes[1] = self.run_task(1, configs[1], job)
        self.await_text(processes[0], "task-0", BACK % 3)
        self.end_early(processes, configs)

    def test_a_chief_and_a_replica_are_lost_together(self):
        job = self.endless(self.elastic_job())
        configs = self.tasks("worker", "worker", "worker")
        flags = ["--task_timeout_s", str(5 * SCALE)]
        processes = [self.run_task(number, config, job, flags) for number, config in enumerate(configs)]
        self.await_cuts(processes[0], "task-0", 2)
        for lost in (processes[2].pid, children(processes[0].pid, "cohort-chief")[0]):
            os.kill(lost, signal.SIGKILL)
        self.await_text(processes[0], "task-0", "; continuing without .*, on 2 replicas\n")
        self.await_cuts(processes[0], "task-0", 1)
        processes[2] = self.run_task(2, configs[2], job)
        self.await_text(processes[0], "task-0", BACK % 3)
        self.end_early(processes, configs)

    def first_task_dies(self, *roles):
        configs = self.tasks(*roles)
        processes = [self.run_task(number, config) for number, config in enumerate(configs)]
        for _ in range(2):
            self.await_cuts(processes[0], "task-0", 3)
            daemons = children(processes[0].pid, "cohort-replica") + children(processes[0].pid, "cohort-chief")
            self.assertEqual(len(daemons), 2)
            processes[0].kill()
            processes[0].wait()
            until("they outlive `cohort run`", lambda: not any(alive(daemon) for daemon in daemons))
            processes[0] = self.run_task(0, configs[0])
        self.await_cuts(processes[0], "task-0", 3)
        processes[1].kill()
        processes[1].wait()
        processes[1] = self.run_task(1, configs[1])
        for number, process in enumerate(processes):
            self.ended(process, "task-%d" % number)
        self.check_weights()

    def test_the_start_names_who_is_missing(self):
        configs = self.tasks("chief", "worker")
        addresses = [json.loads(configs[0])["cluster"][role][0] for role in ("chief", "worker")]
        first = self.start("first", ["run", self.job, "--checkpoint_dir", self.path("checkpoints"), "--task_timeout_s",
                                     "2"], TF_CONFIG=configs[0])
        self.assertEqual(first.wait(timeout=60 * SCALE), 169)
        self.assertIn("waiting for worker:1 (%s), 1 s: connection refused" % addresses[1], self.text("first"))
        second = self.start("second", ["run", self.job, "--chief_wait_s", "2"], TF_CONFIG=configs[1])
        self.assertEqual(second.wait(timeout=60 * SCALE), 169)
        self.assertIn("no chief dialed %s in 2 s; start the chief (%s)" % (addresses[1], addresses[0]),
                      self.text("second"))

    def test_first_of_two_workers(self):
        self.first_task_dies("worker", "worker")

    def test_chief_that_trains(self):
        self.first_task_dies("chief", "worker")


if __name__ == "__main__":
    real_cluster.main(globals())
