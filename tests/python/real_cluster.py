"""Real processes of the build tree under a test's control, for the tests in Python.

    with Directory() as directory:
        cluster = RealCluster(directory, ps=2, workers=3)
        with cluster:
            cluster.start_all()
            code = cluster.wait("chief", 0)

No process outlives the test: each one gets SIGKILL when its parent ends.
"""
import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ.get("COHORT_SOURCE_DIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("COHORT_BINARY_DIR") or os.path.join(SOURCE, "build", "dev")
EXAMPLES = os.path.join(SOURCE, "deploy", "examples")
SCALE = float(os.environ.get("COHORT_TEST_TIME_SCALE", "1"))


def program(name):
    """The path of a program of the build tree: "cohort-ps"."""
    return os.path.join(BINARY, "bin", name)


def data_dir():
    """The directory of the public data sets, or None."""
    named = os.environ.get("COHORT_DATA_DIR")
    beside = os.path.join(os.path.dirname(SOURCE), "shared", "data")
    for directory in (named, beside):
        if directory and os.path.isdir(directory):
            return os.path.abspath(directory)
    return None


def generated_data():
    """The directory of the data sets that the build made (tests/data/make_data.py)."""
    return os.path.join(BINARY, "tests", "data")


def example(name):
    """The text of an example, for the generated data: without the checksums of the real data."""
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as f:
        return re.sub(r"\n *sha256\w*: \w+(?=\n)", "", f.read())


def free_ports(count):
    """Ports of loopback that are free now, below the range that the system uses for outgoing connections.

    Each process first tries a hundred ports of its own, so that parallel tests rarely choose the same port.
    """
    ports, tries = [], 0
    while len(ports) < count:
        first = 15000 + os.getpid() % 170 * 100
        port = random.randrange(first, first + 100) if tries < 200 else random.randrange(15000, 32000)
        tries += 1
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                if port not in ports:
                    ports.append(port)
    return ports


def until(what, condition, limit_s=60.0):
    """Polls until `condition()` is true; returns what it returned. AssertionError with what() at the limit."""
    deadline = time.monotonic() + limit_s * SCALE
    while True:
        held = condition()
        if held:
            return held
        if time.monotonic() > deadline:
            raise AssertionError("timed out: " + (what() if callable(what) else what))
        time.sleep(0.01)


def dies_with_parent(arguments):
    """The command line of a program that is killed when this process ends.

    No preexec_fn: Python then forks with gRPC's handlers, which a process that has called gRPC does not survive.
    """
    return ["setpriv", "--pdeathsig", "KILL", *arguments]


def alive(pid):
    """Returns whether a process exists and has not ended."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the two calls
        return False


def children(pid, name):
    """The ids of a process's children that run the program `name` and have not ended."""
    listed = subprocess.run(["pgrep", "-P", str(pid), "-x", name], check=False, capture_output=True, text=True)
    return [int(child) for child in listed.stdout.split() if alive(int(child))]


def run(arguments, environment=None, limit_s=60.0, **keywords):
    """A program's CompletedProcess, with its output as text. It sees a TF_CONFIG only if `environment` has one."""
    inherited = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    keywords.setdefault("stdin", None if "input" in keywords else subprocess.DEVNULL)
    return subprocess.run(dies_with_parent(arguments), capture_output=True, text=True, errors="replace", check=False,
                          timeout=limit_s * SCALE, env={**inherited, **(environment or {})}, **keywords)


class Directory(contextlib.AbstractContextManager):
    """A new directory that is removed with the context."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="cohort-test.")

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class DirectoryTestCase(unittest.TestCase):
    """A test case with a directory of its own."""

    def setUp(self):
        self.directory = self.enterContext(Directory())

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)


def main(classes):
    """Runs the test classes on the command line, or all. Exits with 77 if data that one NEEDS is missing: a folder."""
    for name in sys.argv[1:]:
        needs = getattr(classes.get(name.split(".")[0]), "NEEDS", None)
        data = data_dir()
        if needs and not (data and os.path.isdir(os.path.join(data, needs))):
            print("skipped: no folder %s/ in COHORT_DATA_DIR or ../shared/data" % needs)
            sys.exit(77)
    unittest.main(verbosity=2)


class RealCluster(contextlib.AbstractContextManager):
    """The daemons of a cluster, one TF_CONFIG each; every task logs to DIRECTORY/<role>-<index>.log."""

    def __init__(self, directory, ps=2, workers=3, environment=None):
        self.directory = directory
        ports = free_ports(ps + workers)
        self.cluster = {"ps": ["127.0.0.1:%d" % p for p in ports[:ps]],
                        "worker": ["127.0.0.1:%d" % p for p in ports[ps:]]}
        self.environment = environment or {}
        self.processes = {}

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def tf_config(self, role, index):
        return json.dumps({"cluster": self.cluster, "task": {"type": role, "index": index}})

    def log(self, role, index=0):
        return os.path.join(self.directory, "%s-%d.log" % (role, index))

    def text(self, role, index=0):
        """What a task has written, on both streams."""
        with open(self.log(role, index), encoding="utf-8", errors="replace") as f:
            return f.read()

    def apply_log(self, index):
        return os.path.join(self.directory, "apply-%d.log" % index)

    def start(self, role, index=0, arguments=(), name=None):
        """Starts a task with the daemon of its role, or with the program `name`."""
        environment = dict(os.environ, TF_CONFIG=self.tf_config(role, index), **self.environment)
        with open(self.log(role, index), "ab") as log:
            self.processes[role, index] = subprocess.Popen(
                dies_with_parent([program(name or "cohort-" + role), *arguments]), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=environment)

    def start_servers_and_workers(self):
        for index in range(len(self.cluster["ps"])):
            self.start("ps", index, ["--apply_log", self.apply_log(index)])
        for index in range(len(self.cluster["worker"])):
            self.start("worker", index)

    def start_listening(self, role, index=0, arguments=()):
        """Starts a task and waits until it listens; tries another port if the first one is taken."""
        for _ in range(5):
            self.start(role, index, arguments)
            until(lambda: self.text(role, index), lambda: not self.running(role, index) or
                  " listening port=" in self.text(role, index))
            if self.running(role, index):
                return
            if "is taken" not in self.text(role, index):
                break
            self.cluster[role][index] = "127.0.0.1:%d" % free_ports(1)[0]
        raise AssertionError("%s:%d did not start:\n%s" % (role, index, self.text(role, index)))

    def running(self, role, index=0):
        return self.processes[role, index].poll() is None

    def wait(self, role, index=0, limit_s=60.0):
        """A task's exit code; AssertionError with its log if it does not end."""
        try:
            return self.processes[role, index].wait(timeout=limit_s * SCALE)
        except subprocess.TimeoutExpired:
            raise AssertionError("%s:%d still runs; its log:\n%s" %
                                 (role, index, self.text(role, index)[-3000:])) from None

    def wait_all(self, limit_s=60.0):
        """{(role, index): exit code} of everything that was started."""
        return {task: self.wait(*task, limit_s=limit_s) for task in list(self.processes)}

    def verdicts(self):
        """[(ps, closure, ordinal, tablet, verdict)] of the servers' apply logs, in order."""
        found = []
        for index in range(len(self.cluster["ps"])):
            with open(self.apply_log(index), encoding="utf-8") as f:
                for line in f:
                    words = line.split()
                    if len(words) == 8 and words[0] != "#":
                        found.append((index, int(words[0]), int(words[1]), int(words[6]), words[7]))
        return found


class LocalRun:
    """One `cohort local` of a job: its exit code, what it printed, and its metrics.jsonl."""

    def __init__(self, directory, job, ps=2, workers=3, arguments=(), environment=None, limit_s=120.0, under=()):
        self.directory = directory
        done = run([*under, program("cohort"), "local", "--ps", str(ps), "--workers", str(workers), "--run_dir",
                    directory, *arguments, job], environment=environment, limit_s=limit_s)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def metrics(self, dataset, kind):
        """The lines of metrics.jsonl of this set ("train", "validation") and kind ("epoch", "checkpoint")."""
        path = os.path.join(self.directory, "logs", "metrics.jsonl")
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        return [line for line in lines if line["set"] == dataset and line["kind"] == kind]
