"""`cohort local` with fake daemons: small scripts that do what a case needs."""
import json
import os
import stat
import subprocess
import tempfile

from real_cluster import SCALE, program, until

# Every fake daemon writes its pid and TF_CONFIG, then does what $DO_<ROLE> says.
FAKE = r'''#!/usr/bin/env python3
import json, os, signal, sys, time
role = os.path.basename(sys.argv[0])[len("cohort-"):]
config = json.loads(os.environ["TF_CONFIG"])
name = "%s-%d" % (role, config["task"]["index"])
base = os.environ["FAKE_DIR"]
lives = os.path.join(base, name + ".lives")
with open(lives, "a") as f:
    f.write(json.dumps({"pid": os.getpid(), "config": config, "argv": sys.argv[1:]}) + "\n")
life = len(open(lives).read().splitlines())
def gone(*_):
    open(os.path.join(base, name + ".term"), "w").close()
    sys.exit(143)
signal.signal(signal.SIGTERM, gone)
def until(path):
    while not os.path.exists(os.path.join(base, path)):
        time.sleep(0.02)
exec(os.environ.get("DO_" + role.upper(), "until('end')"))
'''


class Launcher:
    """A `cohort local` with fake daemons: `do` says in Python what those of a role do, until it is killed.

    before(DIRECTORY) may put something into the tasks' directory. `ignored` signals ("HUP") are so from its start.
    """

    def __init__(self, case, flags=(), run_dir=None, before=None, ignored="", **do):
        self.dir = tempfile.mkdtemp(prefix="launcher_test.")
        case.addCleanup(subprocess.call, ["rm", "-rf", self.dir])
        for role in ("ps", "worker", "chief", "evaluator"):
            path = os.path.join(self.dir, "cohort-" + role)
            with open(path, "w") as f:
                f.write(FAKE)
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        open(os.path.join(self.dir, "job.yaml"), "w").close()
        self.run_dir = run_dir or self.dir + "/run"
        if before:
            os.makedirs(self.run_dir + "/tasks")
            before(self.run_dir + "/tasks")
        env = dict(os.environ, FAKE_DIR=self.dir)
        env.update({"DO_" + role.upper(): code for role, code in do.items()})
        self.out = open(os.path.join(self.dir, "out"), "w+")
        ignores = ["bash", "-c", "trap '' %s; exec \"$@\"" % ignored, "bash"] if ignored else []
        self.process = subprocess.Popen(
            [*ignores, program("cohort"), "local", "--bin_dir", self.dir, "--run_dir", self.run_dir, *flags,
             self.dir + "/job.yaml"], env=env, stdout=self.out, stderr=subprocess.STDOUT)
        case.addCleanup(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()

    def wait(self):
        return self.process.wait(timeout=60 * SCALE)

    def text(self):
        with open(self.dir + "/out") as f:
            return f.read()

    def lives(self, task):
        try:
            with open("%s/%s.lives" % (self.dir, task)) as f:
                return [json.loads(line) for line in f.read().splitlines()]
        except FileNotFoundError:
            return []

    def touch(self, name):
        open(os.path.join(self.dir, name), "w").close()

    def until(self, what):
        until(lambda: "the launcher said:\n" + self.text(), what)
