#!/usr/bin/env python3
"""The installed example of a plugin, built outside of the tree: a cluster trains with it, and every program refuses
one that does not suit it."""
import json
import os
import re
import subprocess
import unittest

import real_cluster
from real_cluster import Directory, DirectoryTestCase, LocalRun, RealCluster, program, run

ONE_OF_EACH = json.dumps({"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]})
# What plugins call, as the objects of libraries below the build tree. A worker calls only the first.
DATA_OBJECTS = {"common/base": ["status"], "common/schema": ["class_registry", "class_schema"],
                "common/tensor": ["tensor", "dtype"]}
MODEL_OBJECTS = {**DATA_OBJECTS, "common/graph": ["expr", "program_builder"], "common/metrics": ["finalizers"],
                 "common/model": ["layers/layer", "losses/loss", "metrics/metric", "activations"]}


def symbols(*arguments):
    """The names of global functions and objects that nm lists."""
    listed = run(["nm", "--defined-only", "--extern-only", "--format=posix", *arguments])
    assert listed.returncode == 0, listed.stderr
    return {line.split()[0] for line in listed.stdout.split("\n") if line[:1] == "_"}


class Plugin(DirectoryTestCase):
    @classmethod
    def setUpClass(cls):
        cls.built = cls.enterClassContext(Directory())
        prefix = os.path.join(cls.built, "prefix")
        source = os.path.join(prefix, "share", "cohort", "examples", "plugin")
        for command in (["cmake", "--install", real_cluster.BINARY, "--prefix", prefix],
                        ["cmake", "-G", "Ninja", "-S", source, "-B", cls.built, "-DCMAKE_PREFIX_PATH=" + prefix],
                        ["cmake", "--build", cls.built]):
            done = run(command, limit_s=300)
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        cls.plugin = os.path.join(cls.built, "waves.so")
        cls.job = os.path.join(source, "waves.yaml")

    def other_version(self):
        """A copy of the plugin that was built against another version."""
        with open(self.plugin, "rb") as f:
            data = f.read()
        version = re.search(rb"COHORT-PLUGIN-1:([0-9.]+)\0", data)
        changed = data.replace(version.group(0), version.group(0).replace(version.group(1), b"0.0.9"))
        self.assertEqual(len(changed), len(data))
        return self.write("other.so", changed), version.group(1).decode()

    def test_a_cluster_trains_with_its_classes(self):
        for how in ([], ["--in_process"]):
            with self.subTest(how), Directory() as directory:
                ran = LocalRun(directory, self.job, workers=2,
                               arguments=["--evaluator", "--plugin", self.plugin, *how])
                self.assertEqual(ran.code, 0, ran.out + ran.err)
                for kind in ("epoch", "checkpoint"):  # by closures, and by the evaluator
                    last = ran.metrics("validation", kind)[-1]
                    self.assertGreater(last["explained_variance"], 0.9)
                    self.assertLess(last["loss"], 0.05)
                tasks = {"chief": "source Waves, transform SinCos, finalizer ExplainedVariance, layer Scale, "
                                  "loss PseudoHuber, metric ExplainedVariance", "worker": "source Waves, transform SinCos"}
                for role in [] if how else sorted(tasks):
                    with open(os.path.join(directory, "tasks", role + "-0.log"), encoding="utf-8") as f:
                        self.assertIn('classes="%s"' % tasks[role], f.read())
                evaluated = run([program("cohort"), "evaluate", "--plugin", self.plugin,
                                 os.path.join(directory, "checkpoints")])
                self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
                self.assertIn("explained_variance", evaluated.stdout)

    def test_check_and_reference_know_its_classes(self):
        checked = run([program("cohort"), "check", "--plugin", self.plugin, self.job])
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertRegex(checked.stdout, r"scale \(Scale\)")
        self.assertIn("6,400 records", checked.stdout)
        reference = run([program("cohort"), "reference", "--plugin", self.plugin])
        for name in ("Waves", "SinCos", "Scale", "PseudoHuber", "ExplainedVariance"):
            self.assertIn("### %s\n" % name, reference.stdout)
        without = run([program("cohort"), "check", self.job])
        self.assertEqual(without.returncode, 65, without.stderr)
        self.assertRegex(without.stderr, r'waves\.yaml:\d+: .*there is no (layer|source) "(Scale|Waves)"')

    def test_every_program_refuses_a_plugin_of_another_version_by_name(self):
        other, version = self.other_version()
        why = "plugin %s was built against Cohort 0.0.9, this is %s: build it again" % (other, version)
        commands = [["cohort-chief", self.job], ["cohort-worker"], ["cohort-ps"],
                    ["cohort-evaluator", "--checkpoint_dir", self.directory], ["cohort-custom-loop"],
                    ["cohort", "local", self.job], ["cohort", "local", "--in_process", self.job],
                    ["cohort", "check", self.job], ["cohort", "run", self.job], ["cohort-in-process", "local", self.job],
                    ["cohort", "train", self.job]]
        for command in commands:
            with self.subTest(command):
                role = command[0].replace("custom-loop", "chief").split("-")[-1]
                task = {"type": role if role in ("worker", "ps", "evaluator") else "chief", "index": 0}
                tf_config = '{"cluster": %s, "task": %s}' % (ONE_OF_EACH, json.dumps(task))
                refused = run([program(command[0]), *command[1:], "--plugin", other],
                              environment={"TF_CONFIG": tf_config}, cwd=self.directory)
                self.assertEqual(refused.returncode, 78, refused.stdout + refused.stderr)
                self.assertIn(why, refused.stderr)

    def test_a_file_that_is_no_plugin_is_refused(self):
        cases = [(self.path("missing.so"), 66, "does not exist"),
                 (self.write("text.so", "no library"), 78, "is not a plugin of Cohort: it has no COHORT_PLUGIN"),
                 (self.library(), 78, "is not a plugin of Cohort: it has no COHORT_PLUGIN")]
        for path, code, why in cases:
            refused = run([program("cohort"), "check", "--plugin", path, self.job])
            self.assertEqual(refused.returncode, code, refused.stderr)
            self.assertIn("plugin %s %s" % (path, why), refused.stderr)

    def library(self):
        """A shared library that is no plugin."""
        source = self.write("other.c", "int other(void) { return 1; }\n")
        done = run(["cc", "-shared", "-fPIC", "-o", self.path("other.so"), source])
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path("other.so")

    def test_the_chief_names_the_worker_that_lacks_the_plugin(self):
        with RealCluster(self.directory, ps=1, workers=2) as cluster:
            cluster.start("ps")
            cluster.start("worker", 0, ["--plugin", self.plugin])
            cluster.start("worker", 1)
            cluster.start("chief", 0, [self.job, "--checkpoint_dir", self.path("checkpoints"), "--plugin", self.plugin])
            self.assertEqual(cluster.wait("chief"), 78, cluster.text("chief"))
            self.assertRegex(cluster.text("chief"),
                             r"worker:1 \(\S+\) has no source Waves, which the chief has from plugin %s: start the "
                             r"worker with --plugin, too" % re.escape(self.plugin))

    def test_a_chief_of_its_own_loads_it(self):
        with RealCluster(self.directory, ps=1, workers=1) as cluster:
            for role in ("ps", "worker"):
                cluster.start(role, 0, ["--plugin", self.plugin])
            cluster.start("chief", 0, ["--checkpoint_dir", self.path("checkpoints"), "--plugin", self.plugin],
                          name="cohort-custom-loop")
            self.assertEqual(set(cluster.wait_all().values()), {0}, cluster.text("chief"))

    def test_programs_export_what_plugins_call(self):
        for name, objects in [("cohort-worker", DATA_OBJECTS), ("cohort", MODEL_OBJECTS),
                              ("cohort-chief", MODEL_OBJECTS), ("cohort-evaluator", MODEL_OBJECTS),
                              ("cohort-in-process", MODEL_OBJECTS), ("cohort-custom-loop", MODEL_OBJECTS)]:
            exported = symbols("--dynamic", program(name))
            for folder, names in objects.items():
                needed = self.declared(folder, names)
                self.assertEqual(needed - exported, set(), (name, folder))

    def declared(self, folder, names):
        """The functions that the sources `names` of a library define, in an object of its own or a unity build's."""
        library = os.path.join(real_cluster.BINARY, folder, "libcohort_%s.a" % os.path.basename(folder))
        listed = subprocess.run(["ar", "t", library], check=True, capture_output=True, text=True).stdout.split()
        members = [m for m in listed if m.startswith("unity_") or
                   m.removesuffix(".cc.o") in {os.path.basename(n) for n in names}]
        self.assertTrue(members, library)
        for member in members:
            subprocess.run(["ar", "x", library, member], check=True, cwd=self.directory)
        return set().union(*(symbols(self.path(member)) for member in members))


if __name__ == "__main__":
    unittest.main(verbosity=2)
