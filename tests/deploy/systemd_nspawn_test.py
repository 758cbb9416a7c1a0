#!/usr/bin/env python3
"""The units of deploy/systemd under a real systemd, which systemd-nspawn boots in a Debian root.

The target starts, tasks of the host share memory, killed tasks come back, the job ends with no unit failed. The
programs and libraries are those of this host. Skipped (77) without root, debootstrap or systemd-nspawn.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

from real_cluster import EXAMPLES, SCALE, Directory, program, run, until
from unit_files import UNITS

MACHINE = "cohort-test-%d" % os.getpid()
PACKAGES = "systemd,systemd-sysv,dbus"
PROGRAMS = ("cohort", "cohort-ps", "cohort-worker", "cohort-chief", "cohort-evaluator")
PS, WORKERS = 2, 2
CPU_GROUPS = "/sys/fs/cgroup/cpu"  # cgroups of version 1
LEAST_RATIO = 0.9  # steps/s under the units over those of `cohort local`
ROUNDS = 5


def missing():
    """Why the test cannot run here; "" if it can."""
    if os.geteuid() != 0:
        return "it needs root"
    for tool, package in (("debootstrap", "debootstrap"), ("systemd-nspawn", "systemd-container")):
        if not shutil.which(tool):
            return "%s is not installed: apt-get install %s" % (tool, package)
    return ""


def make_root(directory):
    """A Debian root with systemd. COHORT_DEBIAN_ROOT names one to copy, so that a second run is quick."""
    root = os.path.join(directory, "root")
    ready = os.environ.get("COHORT_DEBIAN_ROOT")
    if ready:
        subprocess.run(["cp", "-a", ready, root], check=True)
    else:
        subprocess.run(["debootstrap", "--variant=minbase", "--include=" + PACKAGES, "bookworm", root], check=True,
                       stdout=subprocess.DEVNULL, timeout=600 * SCALE)
    return root


def remove_group(path):
    """Removes a cgroup. Returns False while it has processes."""
    try:
        os.rmdir(path)
        return True
    except OSError:
        return False


class Machine:
    """A booted Debian root, with the programs of the build tree in /usr/bin."""

    def __init__(self, directory):
        self.root = make_root(directory)
        self.log = open(os.path.join(directory, "console"), "w+", encoding="utf-8", errors="replace")
        units = os.path.join(self.root, "etc/systemd/system")
        for name in os.listdir(UNITS):
            if name.endswith((".service", ".slice", ".target")):
                shutil.copy(os.path.join(UNITS, name), units)
        with open(os.path.join(UNITS, "cohort.sysusers"), encoding="utf-8") as f:
            self.write("etc/sysusers.d/cohort.conf", f.read())
        for name in PROGRAMS:
            shutil.copy(program(name), os.path.join(self.root, "usr/bin", name))
        self.copy_libraries()
        self.process = None

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def copy_libraries(self):
        """The libraries that the programs need and the root lacks."""
        needed = set()
        for name in PROGRAMS:
            listed = run(["ldd", program(name)])
            needed |= set(re.findall(r"=> (/\S+)", listed.stdout))
        for path in needed:
            inside = self.root + os.path.realpath(path)
            if not os.path.exists(self.root + path):
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                shutil.copy(os.path.realpath(path), os.path.join(self.root, "usr/lib", os.path.basename(path)))

    def in_cpu_group(self, command):
        """The command, which begins in a CPU group of this machine.

        The machine cannot make CPU groups if this host has version 1 of cgroups. This group stands for cohort.slice.
        """
        if not os.path.isdir(CPU_GROUPS):
            return command
        os.makedirs(os.path.join(CPU_GROUPS, MACHINE), exist_ok=True)
        return ["sh", "-c", "echo $$ > %s/%s/tasks; exec \"$@\"" % (CPU_GROUPS, MACHINE), "sh", *command]

    def boot(self):
        self.process = subprocess.Popen(self.in_cpu_group(
            ["systemd-nspawn", "-D", self.root, "-M", MACHINE, "--register=no", "--keep-unit", "--private-network",
             "--quiet", "-b"]), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        until(lambda: "the machine does not boot: " + self.console(),
              lambda: self.leader() and self.run("systemctl", "is-system-running").stdout.strip() in
              ("running", "degraded"), 90)

    def console(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()[-3000:]

    def leader(self):
        """The process of systemd in the machine, as this host sees it; None before it exists."""
        listed = run(["pgrep", "-P", str(self.process.pid)])
        return listed.stdout.split()[0] if listed.stdout.split() else None

    def run(self, *arguments, check=False):
        done = run(self.in_cpu_group(["nsenter", "-t", self.leader(), "-a", *arguments]))
        if check and done.returncode != 0:
            raise AssertionError("%s: %s%s" % (arguments, done.stdout, done.stderr))
        return done

    def show(self, unit, name):
        return self.run("systemctl", "show", "-P", name, unit).stdout.strip()

    def close(self):
        if self.process is not None:
            leader = self.leader()
            if leader:
                run(["kill", "-KILL", leader])
            self.process.terminate()
            self.process.wait(timeout=60)
        self.log.close()
        group = os.path.join(CPU_GROUPS, MACHINE)
        if os.path.isdir(group):
            until("the CPU group is in use", lambda: remove_group(group))


class Nspawn(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(Directory())
        self.machine = Machine(self.directory)
        self.addCleanup(self.machine.close)
        self.units = ["cohort-ps@%d.service" % i for i in range(PS)]
        self.units += ["cohort-worker@%d.service" % i for i in range(WORKERS)]
        self.units += ["cohort-chief.service", "cohort-evaluator.service"]

    def configure(self, epochs, dense=()):
        """Writes job and cluster. `dense`: units of further layers."""
        machine = self.machine
        with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            job = re.sub(r"epochs: \d+", "epochs: %d" % epochs, f.read(), count=1)
        if dense:  # whole variables, which are read in place
            job = re.sub(r"  partitioner: .*\n", "", job)
        layers = "".join("    - Dense: {units: %d, activation: relu}\n" % units for units in dense)
        job = job.replace("    - Dense: {units: 1,", layers + "    - Dense: {units: 1,")
        machine.write("etc/cohort/job.yaml", job)
        machine.write("etc/cohort/lab.yaml", "name: lab\ncluster:\n  ps: [%s]\n  worker: [%s]\n" % (
            ", ".join("127.0.0.1:%d" % (4711 + i) for i in range(PS)),
            ", ".join("127.0.0.1:%d" % (4701 + i) for i in range(WORKERS))))

    def states(self):
        return {unit: self.machine.show(unit, "ActiveState") for unit in self.units}

    def describe(self):
        logs = self.machine.run("journalctl", "--no-pager", "-n", "60", "-o", "cat", "-u", "cohort-*").stdout
        return "%s\n%s" % (self.states(), logs)

    def logs_of(self, unit):
        return self.machine.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout

    def boot(self, **keywords):
        self.configure(**keywords)
        self.machine.boot()
        self.machine.run("cohort", "tf-config", "/etc/cohort/lab.yaml", "/etc/cohort", check=True)

    def speeds(self, text):
        return [float(rate) for rate in re.findall(r"\(([\d.]+) steps/s\)", text)]

    def test_speed_and_shared_memory(self):
        """The units are as fast as `cohort local`, whose tasks have no sandbox."""
        machine = self.machine
        self.boot(epochs=4, dense=(1024, 1024))
        units = [unit for unit in self.units if "evaluator" not in unit]
        ratios = []
        for number in range(ROUNDS):
            local = machine.run("runuser", "-u", "cohort", "--", "cohort", "local", "--ps", str(PS), "--workers",
                                str(WORKERS), "--run_dir", "/var/tmp/local-%d" % number, "/etc/cohort/job.yaml", check=True)
            machine.run("rm", "-rf", "/var/lib/cohort/checkpoints", "/var/lib/cohort/logs", check=True)
            # Asking for the states again and again would take processor time from the tasks.
            machine.run("systemctl", "start", "--wait", *units)
            self.assertEqual({self.states()[unit] for unit in units}, {"inactive"}, self.describe())
            of_units, of_local = self.speeds(self.logs_of("cohort-chief.service"))[-1], self.speeds(local.stdout)[-1]
            ratios.append(of_units / of_local)
            print("steps/s: units %.0f, cohort local %.0f, ratio %.2f" % (of_units, of_local, ratios[-1]), flush=True)
        for i in range(WORKERS):
            logs = self.logs_of("cohort-worker@%d.service" % i)
            self.assertIn("reads_weights_in_place", logs)
            self.assertNotIn("memory_not_shared", logs)
        print("median of %d rounds: %.2f" % (ROUNDS, sorted(ratios)[ROUNDS // 2]))
        self.assertGreaterEqual(sorted(ratios)[ROUNDS // 2], LEAST_RATIO)

    def test_the_target(self):
        machine = self.machine
        self.boot(epochs=1000)
        machine.run("systemctl", "enable", *self.units, check=True)
        machine.run("systemctl", "start", "cohort.target", check=True)
        until(lambda: "not all units are active: " + self.describe(),
              lambda: set(self.states().values()) == {"active"}, 60)
        status = until(lambda: "no step: " + self.describe(),
                       lambda: re.search(r"step [1-9]\d*.*loss", machine.show("cohort-chief.service", "StatusText")))
        print("chief:", machine.show("cohort-chief.service", "StatusText"), status[0])
        self.assertNotIn("no unix socket", self.describe())
        sockets = machine.run("ls", "/run/cohort/cohort").stdout.split()
        self.assertEqual(len(sockets), PS, sockets)
        for victim in ("cohort-worker@1.service", "cohort-ps@0.service", "cohort-chief.service"):
            before = machine.show(victim, "MainPID")
            machine.run("systemctl", "kill", "-s", "KILL", victim, check=True)
            until(lambda v=victim: v + " does not come back: " + self.describe(),
                  lambda v=victim, b=before: machine.show(v, "ActiveState") == "active" and
                  machine.show(v, "MainPID") not in ("0", b))
        self.assertEqual(machine.run("systemctl", "--failed", "--plain", "--no-legend").stdout.count("cohort"), 0)
        # A stop and a start of the target: the job continues.
        machine.run("systemctl", "stop", "cohort.target", check=True)
        until(lambda: "it does not stop: " + self.describe(), lambda: set(self.states().values()) == {"inactive"}, 120)
        machine.run("systemctl", "start", "cohort.target", check=True)
        until(lambda: "the job does not end: " + self.describe(),
              lambda: set(self.states().values()) <= {"inactive", "failed"}, 300)
        self.assertEqual(set(self.states().values()), {"inactive"}, self.describe())
        self.assertEqual(machine.show("cohort-chief.service", "ExecMainStatus"), "0")


if __name__ == "__main__":
    reason = missing()
    if reason:
        print("skipped: " + reason)
        sys.exit(77)
    unittest.main()
