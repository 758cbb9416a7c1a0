#!/usr/bin/env python3
"""deploy/slurm/cohort.sbatch on a Slurm of one machine: munged, slurmctld and slurmd of Debian's slurm-wlm.

Skipped (77) without root or these programs: apt-get install slurm-wlm munge.
"""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest

from real_cluster import BINARY, EXAMPLES, SOURCE, DirectoryTestCase, alive, dies_with_parent, free_ports, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
TASKS = 5  # chief, 2 ps, 2 workers

CONFIGURATION = """
ClusterName=cohort
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={tasks} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def next_to_each_other(count):
    """The first of `count` free ports: the tasks of a host have one after another."""
    while True:
        first, = free_ports(1)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("0.0.0.0", port))
            return first


class Slurm(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        self.daemons = []
        self.addCleanup(self.end_daemons)
        self.host = socket.gethostname().split(".")[0]
        controller, node = free_ports(2)
        for name in ("state", "spool"):
            os.mkdir(self.path(name))
        self.write("munge.key", os.urandom(128))
        os.chmod(self.path("munge.key"), 0o400)
        self.write("slurm.conf", CONFIGURATION.format(host=self.host, controller=controller, node=node, tasks=TASKS,
                                                      directory=self.directory))
        self.environment = {**os.environ, "SLURM_CONF": self.path("slurm.conf"),
                            "PATH": os.path.join(BINARY, "bin") + ":/usr/sbin:" + os.environ["PATH"]}
        self.environment.pop("TF_CONFIG", None)
        os.chmod(self.directory, 0o755)  # munge refuses a socket that others cannot reach
        self.start("munged", "--foreground", "--force", "--key-file", self.path("munge.key"),
                   "--socket", self.path("munge.socket"), "--pid-file", self.path("munge.pid"),
                   "--log-file", self.path("munge.log"), "--seed-file", self.path("munge.seed"))
        until(lambda: "no munge: " + self.logs(), lambda: os.path.exists(self.path("munge.socket")))
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", self.host)
        until(lambda: "the node is not idle: " + self.logs(),
              lambda: "State=IDLE " in self.call("scontrol", "show", "node", self.host).stdout + " ")

    def start(self, *command):
        with open(self.path(command[0] + ".out"), "w", encoding="utf-8") as out:
            self.daemons.append(subprocess.Popen(dies_with_parent(list(command)), stdin=subprocess.DEVNULL, stdout=out,
                                                 stderr=out, env=self.environment))

    def end_daemons(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(timeout=30)

    def call(self, *command, **variables):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                              env={**self.environment, **variables})

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.directory)):
            if name.endswith((".log", ".out", ".txt")):
                with open(self.path(name), encoding="utf-8", errors="replace") as f:
                    text += "== %s\n%s" % (name, f.read()[-2500:])
        return text

    def submit(self, job):
        self.write("job.yaml", job)
        port = next_to_each_other(5)
        done = self.call("sbatch", "--parsable", "--nodes=1", "--ntasks=%d" % TASKS, "--ntasks-per-node=%d" % TASKS,
                         "--output", self.path("job.txt"), "--chdir", self.directory,
                         os.path.join(SOURCE, "deploy", "slurm", "cohort.sbatch"), self.path("job.yaml"),
                         "--allow_insecure", COHORT_PS="2", COHORT_PORT=str(port), COHORT_RUN_DIR=self.path("run"))
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())
        return done.stdout.strip()

    def field(self, job, name):
        found = re.search(r"\b%s=(\S+)" % name, self.call("scontrol", "show", "job", job).stdout)
        return found[1] if found else ""

    def until_state(self, job, *states):
        until(lambda: "job %s is %s: %s" % (job, self.field(job, "JobState"), self.logs()),
              lambda: self.field(job, "JobState") in states, 120)

    def text(self):
        if not os.path.exists(self.path("job.txt")):
            return ""
        with open(self.path("job.txt"), encoding="utf-8") as f:
            return f.read()

    def pids(self, name):
        """The processes of the job that run a program."""
        listed = subprocess.run(["pgrep", "-f", "bin/" + name], capture_output=True, text=True, check=False)
        return [int(pid) for pid in listed.stdout.split() if alive(int(pid)) and self.is_of_job(int(pid))]

    def is_of_job(self, pid):
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                return ("COHORT_RUN_DIR=" + self.path("run")).encode() in f.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_a_job_ends_although_a_worker_is_killed(self):
        with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            job = self.submit(re.sub(r"epochs: \d+", "epochs: 300", f.read(), count=1))
        until(lambda: "no epoch: " + self.logs(), lambda: re.search(r"epoch \d+/300", self.text()))
        workers = self.pids("cohort-worker")
        self.assertEqual(len(workers), 2)
        self.assertEqual(len(self.pids("cohort-ps")), 2)
        os.kill(workers[0], 9)
        until(lambda: "it is not started again: " + self.logs(),
              lambda: "ended with 137; it is started again" in self.text())
        self.until_state(job, "COMPLETED", "FAILED", "CANCELLED")
        self.assertEqual((self.field(job, "JobState"), self.field(job, "ExitCode")), ("COMPLETED", "0:0"), self.logs())
        self.assertTrue(os.path.isdir(self.path("run/checkpoints")))
        self.assertIn("finished", self.text())

    def test_a_wrong_job_ends_the_step_with_the_code_of_the_chief(self):
        job = self.submit("nonsense: 1\n")
        self.until_state(job, "COMPLETED", "FAILED", "CANCELLED")
        self.assertEqual(self.field(job, "ExitCode"), "65:0", self.logs())
        self.assertNotIn("started again", self.text())


if __name__ == "__main__":
    lacks = [name for name in PROGRAMS if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    if os.geteuid() != 0 or lacks:
        print("skipped: it needs root and slurm-wlm and munge; not found: %s" % ", ".join(lacks))
        sys.exit(77)
    unittest.main()
