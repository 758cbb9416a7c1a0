#!/usr/bin/env python3
"""Strangers on the host of a task: other users, processes without the secret, and connections that use it up.

Each method of the method table is tried, at a server and at a worker.
"""
import hashlib
import json
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import time
import unittest
import urllib.request

import real_cluster
from real_cluster import SCALE, DirectoryTestCase, LocalRun, dies_with_parent, free_ports, program, run, until

SOURCE = real_cluster.SOURCE
NOBODY = 65534
ANSWERED, OPEN, UNAVAILABLE, NO_SECRET = 0, 4, 14, 16  # codes of tls_probe
HEALTH = "/grpc.health.v1.Health/Check"
CONTROL = "/cohort.v1.ParameterServer/Control"


def methods():
    with open(os.path.join(SOURCE, "common/cluster/method_table.cc"), encoding="utf-8") as f:
        found = re.findall(r'\{"(/[\w./]+)", k', f.read())
    assert len(found) >= 7, found
    return found


class Tasks(DirectoryTestCase):
    """One server and one worker, which no chief has dialed."""

    def start(self, *arguments, environment=None):
        ports = free_ports(4)  # two calls may return the same one
        cluster = {"ps": ["127.0.0.1:%d" % ports[0]], "worker": ["127.0.0.1:%d" % ports[1]]}
        self.address = dict(zip(("ps", "worker"), ("127.0.0.1:%d" % port for port in ports)))
        self.admin = dict(zip(("ps", "worker"), ports[2:]))
        self.process = {}
        for role in ("ps", "worker"):
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
            argv = [program("cohort-" + role), "--admin_port", str(self.admin[role]), "--unix_socket_dir",
                    self.path("sockets") if role == "ps" else "none", *arguments]
            os.makedirs(self.path("sockets"), exist_ok=True)
            with open(self.path(role + ".log"), "ab") as out:
                self.process[role] = subprocess.Popen(
                    dies_with_parent(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    env={**os.environ, "TF_CONFIG": config, **(environment or {})})
            self.addCleanup(self.process[role].wait)
            self.addCleanup(self.process[role].kill)
        for role in ("ps", "worker"):
            until(lambda role=role: self.log(role), lambda role=role: " listening " in self.log(role))

    def log(self, role):
        with open(self.path(role + ".log"), encoding="utf-8") as f:
            return f.read()

    def refused(self, role, reason):
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.admin[role], timeout=10 * SCALE) as page:
            text = page.read().decode()
        return float(re.search(r'^cohort_refused_peers_total\{reason="%s"\} (\S+)$' % reason, text, re.M).group(1))

    def probe(self, address, method, *token, probe=None, **options):
        done = subprocess.run([probe or program("tls_probe"), address, method, "plaintext", *token], timeout=60 * SCALE,
                              capture_output=True, text=True, check=True, **options)
        code, message = done.stdout.split(" ", 1)
        return int(code), message

    def check_health(self):
        """A new client gets an answer within a second."""
        begin = time.monotonic()
        self.assertEqual(self.probe(self.address["ps"], HEALTH)[0], ANSWERED)
        self.assertLess(time.monotonic() - begin, 1 * SCALE)


class Strangers(Tasks):
    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_another_user_gets_nowhere(self):
        self.start()
        # The build tree may be closed to others.
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            probe = shutil.copy(program("tls_probe"), directory)
            for role in ("ps", "worker"):
                for count, method in enumerate(methods(), 1):
                    with self.subTest(role=role, method=method):
                        code, message = self.probe(self.address[role], method, probe=probe, user=NOBODY)
                        self.assertEqual(code, UNAVAILABLE, message)
                        self.assertGreaterEqual(self.refused(role, "user"), count)
                self.assertRegex(self.log(role), r'peer_refused reason=user address=ipv4:127\.0\.0\.1:\d+ '
                                                 r'identity="user %d"' % NOBODY)
        self.check_health()

    def test_without_the_secret_no_method_can_be_called(self):
        secret = self.write("secret", os.urandom(32).hex() + "\n")
        os.chmod(secret, 0o600)
        with open(secret, encoding="utf-8") as f:
            token = hashlib.sha256(f.read().strip().encode()).hexdigest()
        self.start("--secret_file", secret)
        sockets = ["unix:" + os.path.join(self.path("sockets"), name) for name in os.listdir(self.path("sockets"))]
        self.assertEqual(len(sockets), 1)
        for role, address in (("ps", self.address["ps"]), ("ps", sockets[0]), ("worker", self.address["worker"])):
            before = self.refused(role, "secret")
            wrong = [(method,) for method in methods()] + [(HEALTH, "0" * 64), (HEALTH, token[:-1])]
            for call in wrong:
                with self.subTest(address=address, call=call):
                    code, message = self.probe(address, *call)
                    self.assertEqual(code, NO_SECRET, message)
                    self.assertIn("--secret_file", message)
            self.assertEqual(self.refused(role, "secret"), before + len(wrong))
            self.assertEqual(self.probe(address, HEALTH, token)[0], ANSWERED)
        self.assertEqual(self.probe(self.address["ps"], CONTROL, token)[0], OPEN)
        self.assertNotIn(token, self.log("ps") + self.log("worker"))

    def test_a_secret_that_others_can_read_is_refused(self):
        secret = self.write("secret", os.urandom(32).hex())
        for mode, text, why in ((0o644, None, "chmod 600"), (0o600, "short", "has 5 bytes")):
            if text is not None:
                secret = self.write("secret", text)
            os.chmod(secret, mode)
            done = run([program("cohort-ps"), "--secret_file", secret],
                       {"TF_CONFIG": json.dumps({"cluster": {"ps": ["127.0.0.1:1"]}, "task": {"type": "ps"}})})
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(why, done.stderr)
            self.assertIn(secret, done.stderr)

    def test_a_socket_directory_that_somebody_else_has_made_ends_the_server(self):
        os.chmod(self.directory, 0o700)
        os.mkdir(self.path("cohort"), 0o700)
        os.chmod(self.path("cohort"), 0o777)
        done = run([program("cohort-ps")],
                   {"TF_CONFIG": json.dumps({"cluster": {"ps": ["127.0.0.1:%d" % free_ports(1)[0]]},
                                             "task": {"type": "ps"}}), "XDG_RUNTIME_DIR": self.directory})
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("is open to other users", done.stderr)


class Exhaustion(Tasks):
    def test_a_moment_without_descriptors_only_delays(self):
        self.start()
        pid = self.process["ps"].pid
        open_now = len(os.listdir("/proc/%d/fd" % pid))
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now + 20, most))
        host, port = self.address["ps"].split(":")
        held = [socket.create_connection((host, int(port))) for _ in range(100)]
        until("the server still has descriptors", lambda: len(os.listdir("/proc/%d/fd" % pid)) >= open_now + 20)
        for connection in held:
            connection.close()
        until("the server does not answer", lambda: self.probe(self.address["ps"], HEALTH)[0] == ANSWERED)
        self.check_health()


class LocalCluster(DirectoryTestCase):
    def test_cohort_local_makes_a_secret_of_its_own(self):
        with open(os.path.join(real_cluster.EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            text = f.read()
        for arguments in (["--transport", "tcp"], ["--strategy", "multi_worker_mirrored", "--transport", "tcp"]):
            with self.subTest(arguments):
                if "--strategy" in arguments:
                    text = text.replace("mode: async", "mode: sync")
                directory = self.path("run-%d" % len(arguments))
                job = LocalRun(directory, self.write("job.yaml", text), workers=2, arguments=arguments)
                self.assertEqual(job.code, 0, job.err)
                secret = os.stat(os.path.join(directory, "secret"))
                self.assertEqual(stat.S_IMODE(secret.st_mode), 0o600)
                self.assertGreaterEqual(secret.st_size, 32)
                for name in os.listdir(os.path.join(directory, "tasks")):
                    with open(os.path.join(directory, "tasks", name), encoding="utf-8") as f:
                        self.assertNotIn("peer_refused", f.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
