#!/usr/bin/env python3
"""The wheel of Cohort: it trains the example of its README without any other package of Cohort.

wheel_test.py Venv       in a fresh virtual environment of this machine
wheel_test.py BareRoot   in a bare Debian 12, as a user; needs root, mounts and the network
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

from package_test import SKIPPED, Root, skip
from real_cluster import BINARY, SOURCE, Directory, run

PACKAGES = ["keras", "jax"]  # a small backend of Keras, with which models are traced
ENVIRONMENT = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "LD_LIBRARY_PATH": "", "LC_ALL": "C.UTF-8"}


def make_wheel(directory):
    """The path of the wheel of the build tree."""
    tools = os.path.join(SOURCE, "build", "venv-wheel")
    if os.path.exists(os.path.join(tools, "bin", "auditwheel")):
        os.environ.setdefault("COHORT_WHEEL_TOOLS", tools)
    made = run([os.path.join(SOURCE, "deploy", "python", "build_wheel.sh"), BINARY, directory], limit_s=1000)
    if made.returncode == SKIPPED:
        skip("the tools that build a wheel cannot be fetched")
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = glob.glob(os.path.join(directory, "cohort-*.whl"))
    return wheel


def example(path):
    """Writes the program of the package's README."""
    with open(os.path.join(SOURCE, "deploy", "python", "README.md"), encoding="utf-8") as f:
        (program,) = re.findall(r"```python\n(.*?)```", f.read(), re.DOTALL)
    with open(path, "w", encoding="utf-8") as f:
        f.write(program)


class Venv(unittest.TestCase):
    def test_it_trains_and_compares_versions(self):
        directory = self.enterContext(Directory())
        wheel = make_wheel(directory)
        self.assertRegex(os.path.basename(wheel), r"^cohort-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_")
        venv = os.path.join(directory, "venv")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        if run([venv + "/bin/pip", "install", "--quiet", *PACKAGES], limit_s=600).returncode != 0:
            skip("PyPI cannot be reached")
        installed = run([venv + "/bin/pip", "install", "--quiet", wheel], limit_s=600)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        example(directory + "/example.py")

        def python(*arguments, **environment):
            return subprocess.run([venv + "/bin/" + arguments[0], *arguments[1:]], cwd=directory, capture_output=True, text=True, timeout=200,
                                  check=False, env={"HOME": directory, "PATH": "/usr/bin:/bin", **ENVIRONMENT, **environment})

        trained = python("python", "example.py")
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        self.assertRegex(trained.stdout.split("\n")[-2], r"^\[0\.\d+, ")
        version = python("python", "-c", "import cohort; print(cohort.__version__)").stdout.strip()
        self.assertIn(version, python("cohort", "--version").stdout)
        # The programs find the libraries of the wheel, and not those of this machine.
        for program in glob.glob(venv + "/lib/python3*/site-packages/cohort/bin/cohort*"):
            with self.subTest(program=os.path.basename(program)):
                needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
                self.assertNotIn("not found", needed)
                self.assertEqual([line for line in needed.split("\n") if re.search(r"grpc|absl|protobuf", line) and "cohort.libs" not in line], [])
        # Programs of another release are refused by the names of both versions.
        other = os.path.join(directory, "other")
        os.mkdir(other)
        with open(other + "/cohort", "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho cohort 99.0.0\n")
        os.chmod(other + "/cohort", 0o755)
        refused = python("python", "example.py", COHORT_BIN_DIR=other)
        self.assertRegex(refused.stderr, r"ProgramError: the program .*other/cohort has the version 99\.0\.0, and the package .* version "
                         + re.escape(version))


class BareRoot(unittest.TestCase):
    def test_a_user_trains(self):
        directory = self.enterContext(Directory())
        root = Root(directory)
        if root.run("true").returncode == 99:
            skip("this machine refuses mounts in a namespace")
        wheel = make_wheel(directory)
        if root.run("apt-get update -qq -o APT::Update::Error-Mode=any", limit_s=200).returncode != 0:
            skip("Debian's package lists cannot be fetched")

        def ok(command, **keywords):
            done = root.run(command, **keywords)
            self.assertEqual(done.returncode, 0, "%s\n%s\n%s" % (command, done.stdout[-3000:], done.stderr[-3000:]))
            return done.stdout

        ok("apt-get install -y -qq --no-install-recommends python3-venv ca-certificates", limit_s=400)
        root.keep_archives()
        ok("useradd -m -d /srv/trainer trainer")
        for path in (wheel, directory + "/example.py"):
            if path.endswith(".py"):
                example(path)
            shutil.copy(path, root.path + "/srv/trainer")
        # The authorities of a network with certificates of its own.
        authorities = os.environ.get("PIP_CERT", "")
        if authorities:
            shutil.copy(authorities, root.path + "/srv/trainer/authorities.pem")
            authorities = "export PIP_CERT=/srv/trainer/authorities.pem && "
        ok("cd && python3 -m venv venv", user="trainer")
        if root.run("cd && %svenv/bin/pip install --quiet %s" % (authorities, " ".join(PACKAGES)), user="trainer", limit_s=600).returncode != 0:
            skip("PyPI cannot be reached")
        ok("cd && %svenv/bin/pip install --quiet ./cohort-*.whl" % authorities, user="trainer", limit_s=600)
        self.assertRegex(ok("cd && KERAS_BACKEND=jax venv/bin/python example.py", user="trainer", limit_s=200), r"\n\[0\.\d+, ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
