#!/usr/bin/env python3
"""The Containerfile: its steps are run in a bare Debian root, and its programs train there as its user.

The stage that compiles is not run, because a compiler needs many minutes for it: the build tree of this test is
installed by the same command. The stage cuda is only read: NVIDIA's repository is not Debian's.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import containerfile
import real_cluster
from real_cluster import BINARY, SOURCE, Directory

PATH = os.path.join(SOURCE, "deploy", "container", "Containerfile")
# A build step: configure, build, install.
BUILD = re.compile(r"cmake --preset (\S+) (.*?) && cmake --build --preset (\S+) && (cmake --install (\S+) --prefix (\S+) --strip)")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stages = containerfile.read(PATH)
        cls.directory = cls.enterClassContext(Directory())
        root = os.path.join(cls.directory, "root")
        made = subprocess.run([os.path.join(SOURCE, "tests", "deploy", "debian_root.sh"), root], check=False,
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.image = containerfile.Image(root, SOURCE, {"build-cpu": cls.installed()})
        cls.image.build(containerfile.instructions(cls.stages, "cpu"))

    @classmethod
    def build_step(cls, stage):
        (step,) = [text for instruction, text in cls.stages[stage].instructions
                   if instruction == "RUN" and "cmake" in text]
        return BUILD.fullmatch(step)

    @classmethod
    def installed(cls):
        """The root of the stage build-cpu, with what its last command installs."""
        step = cls.build_step("build-cpu")
        root = os.path.join(cls.directory, "build-cpu")
        command = shlex.split(step.group(4).replace(step.group(5), BINARY, 1))
        command[command.index("--prefix") + 1] = root + step.group(6)
        subprocess.run(command, check=True, capture_output=True)
        return root

    def succeeds(self, *arguments, **keywords):
        done = self.image.run([*self.image.entrypoint, *arguments], **keywords)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def test_a_cluster_trains_as_the_user_of_the_image(self):
        self.assertEqual(self.image.user, "10001:10001")
        self.assertRegex(self.succeeds("--version"), r"cohort \d+\.\d+\.\d+")
        self.assertIn("--version", self.succeeds(*self.image.command))
        self.assertEqual(self.image.run(["id", "-u"]).stdout, "10001\n")
        said = self.succeeds("local", "--ps", "2", "--workers", "2", "--run_dir", "/tmp/run",
                             "/usr/local/share/cohort/examples/recommender.yaml")
        self.assertRegex(said, r"validation +loss \S+, accuracy 1\.0000")
        owner = os.stat(os.path.join(self.image.root, "tmp", "run")).st_uid
        self.assertEqual(owner, 10001)

    def test_the_image_has_all_that_the_manifests_run(self):
        users, commands = set(), {"cohort-replica"}
        for folder, _, names in os.walk(os.path.join(SOURCE, "deploy", "kubernetes")):
            for name in names:
                text = read(folder, name)
                users |= set(re.findall(r"runAsUser: (\d+)", text))
                for command in re.findall(r"command: \[([^]]*)\]", text):
                    words = re.split(r", *", command)
                    commands |= {words[0], *(word for word in words if re.fullmatch(r"cohort\S*", word))}
        self.assertEqual(users, {self.image.user.split(":", maxsplit=1)[0]})
        self.assertLessEqual({"cohort-ps", "timeout", "sleep", "cohort"}, commands)
        for command in sorted(commands):
            found = self.image.run(["sh", "-c", "command -v " + command])
            self.assertEqual(found.returncode, 0, command)

    def test_no_library_is_missing(self):
        for name in sorted(os.listdir(os.path.join(self.image.root, "usr", "local", "bin"))):
            linked = self.image.run(["ldd", "/usr/local/bin/" + name])
            self.assertEqual(linked.returncode, 0, name + linked.stderr)
            self.assertNotIn("not found", linked.stdout, name)

    def test_both_variants_install_what_their_images_copy(self):
        presets = read("CMakePresets.json")
        options = read("deploy", "cmake", "CohortCuda.cmake")
        for variant, cuda in (("cpu", "OFF"), ("cuda", "ON")):
            step = self.build_step("build-" + variant)
            self.assertIn('"name": "%s"' % step.group(1), presets)
            self.assertEqual(step.group(3), step.group(1))
            self.assertEqual(step.group(5), "build/" + step.group(1))
            self.assertIn("-DCOHORT_CUDA=" + cuda, step.group(2))
            for name in re.findall(r"-D(COHORT_\w+)=", step.group(2)):
                self.assertIn("set(%s " % name, options)
            copied = [text for instruction, text in self.stages[variant].instructions
                      if instruction == "COPY" and "--from" in text]
            self.assertEqual(copied, ["--from=build-%s %s/%s /usr/local/%s" % (variant, step.group(6), folder, folder)
                                      for folder in ("bin", "libexec", "share")])
        self.assertEqual(list(self.stages)[-1], "cpu")
        self.assertIn("/build\n", read(".dockerignore"))


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("skipped: this needs root and debootstrap")
        sys.exit(77)
    unittest.main(verbosity=2)
