#!/usr/bin/env python3
"""`cohort cluster-check` as processes on loopback: all there, one missing, another program, the wrong task."""
import contextlib
import json
import os
import socket
import subprocess
import unittest

from real_cluster import SCALE, DirectoryTestCase, dies_with_parent, free_ports, program


class ClusterCheckTest(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        self.ports = free_ports(4)
        self.addresses = ["127.0.0.1:%d" % port for port in self.ports]

    def config(self, role, index, workers=3):
        return json.dumps({"cluster": {"worker": self.addresses[:workers], "ps": self.addresses[3:]},
                           "task": {"type": role, "index": index}})

    def start(self, config, *flags):
        environment = dict(os.environ, TF_CONFIG=config, XDG_RUNTIME_DIR=self.directory)
        process = subprocess.Popen(dies_with_parent([program("cohort"), "cluster-check", *flags]),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def finish(self, *processes):
        """[(exit code, stdout, stderr)]."""
        done = []
        for process in processes:
            out, err = process.communicate(timeout=60 * SCALE)
            done.append((process.returncode, out, err))
        return done

    def test_all_tasks_reach_each_other(self):
        chief = self.start(self.config("chief", 0))
        others = [self.start(self.config("worker", index)) for index in range(3)] + [self.start(self.config("ps", 0))]
        for code, out, err in self.finish(chief, *others):
            self.assertEqual(code, 0, out + err)
            self.assertRegex(out, r"worker:1 +ok, unix +- +ok, unix +ok, unix\n")
            self.assertRegex(out, r"(12 of 12|16 of 16) pairs work\n")

    def test_over_tcp_alone(self):
        for code, out, err in self.finish(*(self.start(self.config("worker", index, workers=2), "--unix_socket_dir=none")
                                            for index in range(2)), self.start(self.config("ps", 0, workers=2))):
            self.assertEqual(code, 0, out + err)
            self.assertIn("same host, but without unix sockets: it has no unix socket", out)
            self.assertRegex(out, r"worker:1 +ok, TCP only +- +ok, unix\n")

    def test_a_missing_task_is_named(self):
        limit = "--timeout_s=%g" % (6 * SCALE)
        for code, out, err in self.finish(*(self.start(self.config("worker", index), limit) for index in range(3))):
            self.assertEqual(code, 169, out + err)
            self.assertIn("ps:0 (%s) has not reported: start" % self.addresses[3], out)
            self.assertRegex(out, r"worker:2 +ok, unix +ok, unix +- +refused\nps:0 +\? +\? +\? +-\n")
            self.assertIn("6 of 12 pairs work", out)
            self.assertEqual(err.splitlines()[0], "cohort: waiting for ps:0 (%s)" % self.addresses[3])

    def test_another_program_and_another_task_are_named(self):
        with socket.socket() as mute:  # accepts connections, and says nothing
            mute.bind(("127.0.0.1", self.ports[3]))
            mute.listen()
            limit = "--timeout_s=%g" % (6 * SCALE)
            first = self.start(self.config("worker", 0), limit)
            # Two tasks of the same TF_CONFIG: worker:2 believes that it is worker:1 at another address.
            self.addresses[1], self.addresses[2] = self.addresses[2], self.addresses[1]
            wrong = self.start(self.config("worker", 1), limit)
            (code, out, err), _ = self.finish(first, wrong)
        self.assertEqual(code, 169, out + err)
        self.assertRegex(out, r"worker:0 -> worker:2 \(\S+\): worker:1 answers there: correct task.index")
        self.assertRegex(out, r"worker:0 -> ps:0 \(\S+\): a program accepts the connection, and does not answer")

    def test_dropped_packets_are_named(self):
        # The system drops packets to a socket whose queue of connections is full, as a firewall does.
        with socket.socket() as full, contextlib.ExitStack() as clients:
            full.bind(("127.0.0.1", self.ports[3]))
            full.listen(0)
            for _ in range(3):
                client = clients.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", self.ports[3]))
            limit = "--timeout_s=%g" % (5 * SCALE)
            (code, out, err), = self.finish(self.start(self.config("worker", 0, workers=1), limit))
        self.assertEqual(code, 169, out + err)
        self.assertRegex(out, r"worker:0 -> ps:0 \(\S+\): timed out: a firewall drops the packets")

    def test_a_cohort_task_that_runs_is_another_program(self):
        worker = subprocess.Popen(dies_with_parent([program("cohort-worker")]), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=dict(os.environ, TF_CONFIG=self.config("worker", 1, workers=2)))
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        self.assertIn("listening", worker.stdout.readline())
        (code, out, err), = self.finish(self.start(self.config("worker", 0, workers=2), "--timeout_s=2"))
        self.assertEqual(code, 169, out + err)
        self.assertRegex(out, r"worker:0 -> worker:1 \(\S+\): another gRPC server answers, perhaps a task of Cohort")

    def test_the_port_of_the_task_is_taken(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.ports[0]))
            other.listen()
            (code, out, err), = self.finish(self.start(self.config("worker", 0)))
        self.assertNotEqual(code, 0)
        self.assertIn(self.addresses[0], err)

    def test_what_cannot_take_part_is_refused(self):
        for config, flags, code, words in ((self.config("evaluator", 0), [], 78, "an evaluator reaches no task"),
                                           ("", [], 78, "TF_CONFIG"),
                                           (self.config("worker", 0).replace("127.0.0.1", "10.0.0.1"), [], 78,
                                            "--allow_insecure")):
            (found, out, err), = self.finish(self.start(config, *flags))
            self.assertEqual(found, code, out + err)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
