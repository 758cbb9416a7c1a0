#!/usr/bin/env python3
"""Mutual TLS between hosts (network namespaces): a job, certificates that rotate while it trains, refused peers."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import namespaces
import real_cluster
from real_cluster import SCALE, DirectoryTestCase, LocalRun, dies_with_parent, program, run, until

PS, WORKERS = 2, 3
EPOCHS = 100000  # `cohort ctl` ends the job
STOPPED = 79
PORT = 4700
CONTROL = "/cohort.v1.ParameterServer/Control"
PUSH_PULL = "/cohort.v1.ParameterServer/PushPull"
# Codes of tls_probe: DEADLINE_EXCEEDED, PERMISSION_DENIED, UNAVAILABLE.
ACCEPTED, REFUSED, CLOSED = 4, 7, 14
METRICS = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


def make_certificates(cluster, directory, *flags):
    done = run([program("cohort"), "certs", cluster, directory, *flags])
    assert done.returncode == 0, done.stderr


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Certificates:
    """The directories of --tls_dir. Like a secret of Kubernetes each is a link, which a rotation replaces."""

    def __init__(self, root, names):
        self.root, self.names, self.version = root, names, 0
        os.makedirs(root)

    def __getitem__(self, name):
        return os.path.join(self.root, name)

    def put(self, identities, authorities):
        """Certificate and key of DIRECTORIES/<name>, and the CAs of the directories `authorities`."""
        self.version += 1
        for name in self.names:
            made = os.path.join(self.root, "%s.%d" % (name, self.version))
            os.mkdir(made, 0o700)
            for file in ("tls.crt", "tls.key"):
                shutil.copy(os.path.join(identities, name, file), made)  # with its mode
            with open(os.path.join(made, "ca.crt"), "w", encoding="utf-8") as f:
                f.write("".join(read(os.path.join(ca, "ca", "ca.crt")) for ca in authorities))
            os.symlink(made, made + ".link")
            os.replace(made + ".link", self[name])


class Training(DirectoryTestCase):
    """Chief, 2 ps and 3 workers on hosts of their own."""

    def setUp(self):
        super().setUp()
        self.tasks = ([("ps", i) for i in range(PS)] + [("worker", i) for i in range(WORKERS)] + [("chief", 0)])
        self.names = ["%s-%d" % task for task in self.tasks]
        self.hosts = self.enterContext(namespaces.Hosts(self.names))
        self.cluster = {"ps": ["ps-%d:%d" % (i, PORT) for i in range(PS)],
                        "worker": ["worker-%d:%d" % (i, PORT) for i in range(WORKERS)],
                        "chief": ["chief-0:%d" % PORT]}
        description = self.write("cluster.yaml", json.dumps({"name": "lab", "cluster": self.cluster}))
        self.old, self.new, self.foreign = (self.path(name) for name in ("old", "new", "foreign"))
        make_certificates(description, self.old, "--days", "1")
        make_certificates(description, self.new, "--days", "2")
        make_certificates(description, self.foreign)
        self.certificates = Certificates(self.path("tls"), self.names)
        self.certificates.put(self.old, [self.old])
        text = read(os.path.join(real_cluster.EXAMPLES, "recommender.yaml"))
        self.assertIn("epochs: 4\n", text)
        self.job = self.write("job.yaml", text.replace("epochs: 4\n", "epochs: %d\n" % EPOCHS))
        self.processes = {}

    def log(self, name):
        return read(self.path(name + ".log"))

    def end_of_log(self, name):
        return self.log(name)[-3000:]

    def check_log(self, name, pattern):
        self.assertTrue(re.search(pattern, self.log(name)), pattern + " is not in:\n" + self.end_of_log(name))

    def start(self, role, index, *arguments):
        name = "%s-%d" % (role, index)
        environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": self.cluster,
                                                              "task": {"type": role, "index": index}})}
        argv = [program("cohort-" + role), "--tls_dir", self.certificates[name], *arguments]
        with open(self.path(name + ".log"), "ab") as out:
            process = subprocess.Popen(dies_with_parent(self.hosts.command(name, argv)), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.processes[name] = process

    def start_daemon(self, role, index):
        """The machine is one host, so tasks would find each other's unix sockets."""
        arguments = [] if role == "chief" else ["--unix_socket_dir", "none"]
        if role == "chief":
            arguments = ["--checkpoint_dir", self.path("checkpoints"), "--log_dir", self.path("logs"), self.job]
        self.start(role, index, "--admin_port", "4790", *arguments)

    def metric(self, name, text):
        """The value of a metric at a task's admin port, which is on the loopback device of its host."""
        done = self.hosts.run(name, [sys.executable, "-c", METRICS, "http://127.0.0.1:4790/metrics"],
                              capture_output=True, text=True)
        found = re.search("^" + re.escape(text) + r" (\S+)$", done.stdout, re.M)
        return float(found.group(1)) if found else None

    def steps(self):
        return self.metric("chief-0", "cohort_chief_steps") or 0

    def probe(self, peer, method, address="ps-0:%d" % PORT):
        """The code and message of ps:0 for a peer that comes from the host of worker:2."""
        done = self.hosts.run("worker-2", [program("tls_probe"), address, method, peer],
                              capture_output=True, text=True, timeout=30 * SCALE)
        code, message = done.stdout.split(" ", 1)
        return int(code), message

    def refused(self, reason):
        return self.metric("ps-0", 'cohort_refused_peers_total{reason="%s"}' % reason)

    def check_refused(self, peer, method, reason, message, code=CLOSED):
        """`message` is for the client if it gets a stream, and else for the log of the server alone."""
        with self.subTest(reason):
            before = self.refused(reason)
            got, said = self.probe(peer, method)
            self.assertEqual(got, code, said)
            if code == REFUSED:
                self.assertRegex(said, message)
            self.assertGreater(self.refused(reason), before)
            self.check_log("ps-0", r"peer_refused reason=%s address=ipv4:%s:\d+ .*%s" % (
                reason, re.escape(self.hosts.address["worker-2"]), message))

    def check_refusals(self):
        worker = os.path.join(self.old, "worker-2")
        self.assertEqual(self.probe(worker, PUSH_PULL)[0], ACCEPTED)
        self.check_refused("plaintext", PUSH_PULL, "plaintext", "takes only TLS")
        self.check_refused("anonymous", PUSH_PULL, "no_certificate", "no certificate")
        self.check_refused(os.path.join(self.foreign, "worker-2"), PUSH_PULL, "untrusted", "not signed by the CA")
        self.check_refused(worker, CONTROL, "method", "cohort://lab/worker/2 may not call " + CONTROL, REFUSED)
        self.check_refused(self.expired_certificate(), PUSH_PULL, "expired", "expired")

    def expired_certificate(self):
        """A directory with a certificate of worker:2 that expired a day ago. `cohort certs` makes none."""
        made = self.path("expired")
        os.mkdir(made)
        request, key = made + "/request.pem", made + "/tls.key"
        for command in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                         "/CN=expired", "-addext", "subjectAltName=URI:cohort://lab/worker/2", "-keyout", key,
                         "-out", request],
                        ["x509", "-req", "-in", request, "-CA", self.old + "/ca/ca.crt", "-CAkey",
                         self.old + "/ca/ca.key", "-days", "-1", "-copy_extensions", "copyall", "-out",
                         made + "/tls.crt"]):
            done = subprocess.run(["openssl", *command], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(made + "/ca.crt", "w", encoding="utf-8") as f:
            f.write(read(self.old + "/ca/ca.crt"))
        return made

    def rotate(self):
        """Both CAs are trusted before the certificates change, and until all have changed."""
        both = [self.old, self.new]
        for identities, authorities in ((self.old, both), (self.new, both), (self.new, [self.new])):
            self.certificates.put(identities, authorities)
            # A served metric reads the files, and gRPC reads them each second.
            expiry = {name: self.metric(name, "cohort_certificate_expires_seconds") for name in self.names}
            self.assertTrue(all(expiry.values()), expiry)
            days = {name: round((at - time.time()) / 86400) for name, at in expiry.items()}
            self.assertEqual(set(days.values()), {1 if identities == self.old else 2}, days)
            self.await_served(identities)

    def await_served(self, identities):
        """Until each server shows its new certificate in a handshake."""
        for task in self.names[:-1]:
            wanted = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", f"{identities}/{task}/tls.crt"],
                                    check=True, capture_output=True, text=True).stdout
            shown = ("openssl s_client -connect %s:%d </dev/null 2>/dev/null | openssl x509 -noout -serial" %
                     (task, PORT))
            until(task + " does not use its new certificate", lambda shown=shown, wanted=wanted: self.hosts.run(
                "chief-0", ["sh", "-c", shown], capture_output=True, text=True).stdout == wanted)

    def test_a_job_trains_while_certificates_rotate_and_strangers_are_refused(self):
        for task in self.tasks:
            self.start_daemon(*task)
        until(lambda: self.end_of_log("chief-0"), lambda: self.steps() > 200)
        self.check_refusals()
        self.rotate()
        for name in self.names:
            self.assertIsNone(self.processes[name].poll(), self.end_of_log(name))
            self.check_log(name, " certificates_changed ")
        self.assertFalse("task_lost" in self.log("chief-0"), self.end_of_log("chief-0"))

        # All streams of a new worker are new.
        self.processes["worker-1"].kill()
        self.processes["worker-1"].wait()
        before = self.log("worker-1").count(" adopted ")
        self.start_daemon("worker", 1)
        until(lambda: self.end_of_log("worker-1"), lambda: self.log("worker-1").count(" adopted ") > before)
        trained = self.metric("worker-1", "cohort_worker_steps_total")
        until(lambda: self.end_of_log("chief-0"), lambda: self.metric("worker-1", "cohort_worker_steps_total") > trained)
        self.check_refused(os.path.join(self.old, "worker-2"), PUSH_PULL, "untrusted", "not signed by the CA")

        stopped = run([program("cohort"), "ctl", self.path("checkpoints"), "stop"])
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertEqual(self.processes["chief-0"].wait(timeout=60 * SCALE), STOPPED, self.end_of_log("chief-0"))
        self.check_log("chief-0", r"the job was stopped; \S+ is its checkpoint")


class Local(DirectoryTestCase):
    """Without namespaces."""

    def setUp(self):
        super().setUp()
        description = self.write("cluster.yaml", json.dumps(
            {"name": "lab", "cluster": {"ps": ["a:1"], "worker": ["a:2", "b:1"]}}))
        make_certificates(description, self.path("certs"))

    def test_a_task_refuses_to_start_with_the_certificate_of_another_one(self):
        config = json.dumps({"cluster": {"ps": ["127.0.0.1:4711"], "worker": ["127.0.0.1:4712"]},
                             "task": {"type": "worker", "index": 0}})
        for name, said in (("ps-0", "cohort://lab/ps/0, but this task is worker:0"),
                           ("worker-1", "cohort://lab/worker/1, but"), ("ca", "ca/tls.crt: cannot be read")):
            with self.subTest(name):
                done = run([program("cohort-worker"), "--tls_dir", os.path.join(self.path("certs"), name)],
                           {"TF_CONFIG": config})
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn(said, done.stderr)

    def test_a_key_that_others_can_read_is_refused(self):
        directory = os.path.join(self.path("certs"), "ps-0")
        key = os.path.join(directory, "tls.key")
        self.assertEqual(os.stat(key).st_mode & 0o777, 0o600)
        os.chmod(key, 0o644)
        done = run([program("cohort-ps"), "--tls_dir", directory],
                   {"TF_CONFIG": json.dumps({"cluster": {"ps": ["127.0.0.1:4711"]}, "task": {"type": "ps"}})})
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertIn(key + ": has the mode 0644", done.stderr)
        self.assertIn("chmod 600", done.stderr)

    def test_replicas_train_with_certificates(self):
        text = read(os.path.join(real_cluster.EXAMPLES, "recommender.yaml")).replace("mode: async", "mode: sync")
        job = LocalRun(self.path("run"), self.write("job.yaml", text), workers=2,
                       arguments=["--strategy", "multi_worker_mirrored", "--transport", "tcp", "--tls_dir",
                                  self.path("certs")])
        self.assertEqual(job.code, 0, job.err)
        for name in ("worker-0", "worker-1", "chief-0"):
            self.assertNotIn("peer_refused", read(self.path("run/tasks/%s.log" % name)))


if __name__ == "__main__":
    missing = namespaces.why_not()
    if missing is not None:
        print("skipped: " + missing)
        sys.exit(77)
    unittest.main(verbosity=2)
