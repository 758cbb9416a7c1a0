#!/usr/bin/env python3
"""The Debian packages in a bare Debian 12: installation, a job of a user, and removal without leftovers.

package_test.py Installed   needs root, mounts and the network
package_test.py Lint        lintian's errors
"""
import glob
import os
import shutil
import subprocess
import sys
import unittest

from real_cluster import BINARY, SOURCE, Directory, run

CACHE = os.path.join(SOURCE, "build", "debian-root", "archives")
# Where the system keeps its own state, which changes with each package.
STATE = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/cache/", "/var/log/", "/var/backups/", "/proc/", "/dev/", "/sys/", "/run/",
         "/tmp/", "/packages/", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid",
         "/etc/subgid", "/etc/ld.so.cache")
SKIPPED = 77


def make_packages(directory):
    """{name: path} of the packages that cpack makes from the build tree."""
    done = run(["cpack", "-G", "DEB", "-B", directory, "--config", os.path.join(BINARY, "CPackConfig.cmake")],
               limit_s=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    shutil.rmtree(os.path.join(directory, "_CPack_Packages"), ignore_errors=True)
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(os.path.join(directory, "*.deb"))}


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


class Root:
    """A bare Debian 12 in a directory. Each command runs in mount and process namespaces of its own."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "root")
        made = run([os.path.join(SOURCE, "tests", "deploy", "debian_root.sh"), self.path], limit_s=300)
        if made.returncode == SKIPPED:
            skip(made.stderr.strip())
        assert made.returncode == 0, made.stderr
        os.chmod(self.path, 0o755)
        os.makedirs(CACHE, exist_ok=True)
        for archive in glob.glob(os.path.join(CACHE, "*.deb")):
            shutil.copy(archive, os.path.join(self.path, "var/cache/apt/archives"))

    def run(self, command, user="root", limit_s=120):
        """The CompletedProcess of a shell command. It sees the network of this host, and no other process."""
        inside = ('mount -t proc proc "$1/proc" && mount -t tmpfs shm "$1/dev/shm" || exit 99; '
                  'exec chroot --userspec="$2" "$1" /usr/bin/env -i HOME=/srv/"$2" USER="$2" LC_ALL=C.UTF-8 '
                  'DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin '
                  'sh -c "$3"')
        return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh", self.path, user,
                    command], limit_s=limit_s)

    def keep_archives(self):
        for archive in glob.glob(os.path.join(self.path, "var/cache/apt/archives/*.deb")):
            if not os.path.exists(os.path.join(CACHE, os.path.basename(archive))):
                shutil.copy(archive, CACHE)

    def files(self):
        """All paths of the root but those of the system's own state."""
        found = set()
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                path = os.path.join(folder, name).removeprefix(self.path)
                if not (path + "/").startswith(STATE) and not path.startswith(STATE):
                    found.add(path)
        return found

    def read(self, path):
        with open(self.path + path, encoding="utf-8") as f:
            return f.read()

    def write(self, path, text):
        with open(self.path + path, "w", encoding="utf-8") as f:
            f.write(text)


# A step of NumPy: Debian has no Keras.
STEP = """import cohort, numpy as np

def step(values, batch, training):
    error = batch["x"] @ values["w"] - batch["label"]
    return (error ** 2).mean(), {"w": 2 * batch["x"].T @ error / len(error)}, {}

if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(320, 2))
    model = cohort.external_step(step, {"w": np.zeros(2)})
    cohort.fit(model, x, x @ [1, 2], epochs=5, optimizer={"SGD": {"learning_rate": 0.1}}, workers=2, ps=1, mode="sync")
    print(cohort.__version__, model.variables["w"].round(1))
"""
CLUSTER = """name: lab
cluster:
  ps: ["127.0.0.1:4711", "127.0.0.1:4712"]
  worker: ["127.0.0.1:4701", "127.0.0.1:4702"]
"""


class Installed(unittest.TestCase):
    """One walk: the steps build on each other."""

    def ok(self, command, **keywords):
        done = self.root.run(command, **keywords)
        self.assertEqual(done.returncode, 0, "%s\n%s\n%s" % (command, done.stdout[-3000:], done.stderr[-3000:]))
        return done.stdout + done.stderr

    def test_a_user_trains_with_the_installed_packages_and_nothing_stays(self):
        directory = self.enterContext(Directory())
        self.root = Root(directory)
        if self.root.run("true").returncode == 99:
            skip("this machine refuses mounts in a namespace")
        packages = make_packages(self.root.path)
        os.makedirs(self.root.path + "/packages")
        for name, path in packages.items():
            os.rename(path, self.root.path + "/packages/%s.deb" % name)
        if self.root.run("apt-get update -qq -o APT::Update::Error-Mode=any", limit_s=200).returncode != 0:
            skip("Debian's package lists cannot be fetched")
        before = self.root.files()

        # A library that a program needs and its package does not name would be missing here.
        self.ok("apt-get install -y -qq --no-install-recommends /packages/cohort.deb", limit_s=400)
        self.root.keep_archives()
        self.assertRegex(self.ok("cohort-ps --version"), r"\d+\.\d+\.\d+")
        self.assertIn("/var/lib/cohort", self.ok("getent passwd cohort"))
        self.assertEqual(self.ok("stat -c '%U %a' /var/lib/cohort").strip(), "cohort 700")
        self.assertEqual(self.ok("dpkg --verify cohort"), self.ok("true"))
        self.check_units()

        self.train()

        # python3-cohort trains with these programs.
        self.ok("apt-get install -y -qq --no-install-recommends /packages/python3-cohort.deb", limit_s=400)
        self.root.keep_archives()
        self.root.write("/srv/step.py", STEP)
        self.ok("useradd -m -d /srv/trainer trainer")
        self.assertRegex(self.ok("cd && python3 /srv/step.py", user="trainer"), r"\n\d+\.\d+\.\d+ \[1\. +2\. *\]")
        self.ok("userdel trainer; rm -r /srv/trainer /srv/step.py; dpkg --purge python3-cohort")

        # cohort-dev: its files collide with none of the other package, and Debian has what it needs.
        self.ok("dpkg --force-depends -i /packages/cohort-dev.deb")
        simulated = self.ok("apt-get install -y -s --no-install-recommends --fix-broken")
        self.assertIn("libgrpc++-dev", simulated)
        self.assertNotIn("Remv cohort", simulated)
        self.ok("dpkg --purge cohort-dev")

        self.ok("apt-get remove -y -qq cohort")
        self.assertIn("/etc/cohort/README", self.ok("find /etc/cohort -type f").split())
        self.assertEqual(self.root.run("command -v cohort").stdout, "")
        self.root.write("/etc/cohort/ps-0.env", "TF_CONFIG={}\n")
        self.root.write("/var/lib/cohort/manifest.json", "{}\n")
        self.assertIn("/var/lib/cohort holds checkpoints and stays", self.ok("dpkg --purge cohort"))
        self.assertEqual(self.root.read("/var/lib/cohort/manifest.json"), "{}\n")
        self.assertNotIn("cohort", self.ok("dpkg-query -W -f '${Package}\\n'").split())
        self.ok("rm -r /var/lib/cohort; apt-get autoremove --purge -y -qq", limit_s=200)
        self.assertEqual(sorted(self.root.files() - before), [])

    def check_units(self):
        """The package has the units of the source."""
        units = os.path.join(SOURCE, "deploy", "systemd")
        names = [n for n in os.listdir(units) if n.endswith((".service", ".target"))] if os.path.isdir(units) else []
        for name in names:
            self.assertTrue(os.path.exists(self.root.path + "/usr/lib/systemd/system/" + name), name)

    def train(self):
        self.ok("useradd -m -d /srv/trainer trainer")
        self.root.write("/srv/cluster.yaml", CLUSTER)
        self.assertIn("worker-1", self.ok("cd && cohort certs /srv/cluster.yaml certs && ls certs", user="trainer"))
        flags = "--ps 2 --workers 2 --restart --run_dir run --transport tcp --tls_dir certs"
        trained = self.ok("cd && cohort local %s /usr/share/cohort/examples/recommender.yaml" % flags, user="trainer",
                          limit_s=100)
        self.assertRegex(trained, r"validation +loss \S+, accuracy 1\.0000")
        self.ok("cd && cohort inspect run/checkpoints && cohort evaluate run/checkpoints", user="trainer")
        self.assertEqual(self.ok("stat -c %U /srv/trainer/run/checkpoints").strip(), "trainer")
        # The tasks really read these files.
        broken = self.root.run("cd && cp -r certs broken && rm broken/worker-0/tls.key && cohort local --run_dir run2 "
                               "--transport tcp --tls_dir broken /usr/share/cohort/examples/recommender.yaml; "
                               "code=$?; cat run2/tasks/worker-0.log; exit $code", user="trainer")
        self.assertNotEqual(broken.returncode, 0)
        self.assertIn("tls.key", broken.stdout)
        self.ok("userdel trainer; rm -r /srv/trainer /srv/cluster.yaml")


class Lint(unittest.TestCase):
    def test_lintian_finds_no_error(self):
        if shutil.which("lintian") is None:
            skip("lintian is not installed")
        with Directory() as directory:
            packages = make_packages(directory)
            done = subprocess.run(["lintian", "--allow-root", "--no-cfg", "--fail-on", "error", *packages.values()],
                                  capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
