#!/usr/bin/env python3
"""The installed programs run the installed examples, and the installed package builds them from their source."""
import os
import re
import shutil
import unittest

import real_cluster
from real_cluster import Directory, RealCluster, run

PUBLIC_HEADERS = {"cohort.h", "in_process.h", "plugin.h", "strategy.h"}
MOST_HEADERS = 25
# What the headers may include besides each other: the standard library's have no folder.
LIBRARIES = ("absl/", "fmt/", "google/protobuf/")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(Directory())
        cls.prefix = os.path.join(cls.directory, "prefix")
        installed = run(["cmake", "--install", real_cluster.BINARY, "--prefix", cls.prefix])
        assert installed.returncode == 0, installed.stdout[-2000:] + installed.stderr

    def test_the_installed_programs_train_the_installed_example(self):
        cohort = os.path.join(self.prefix, "bin", "cohort")
        job = os.path.join(self.prefix, "share", "cohort", "examples", "recommender.yaml")
        checked = run([cohort, "check", "--ps", "2", job])
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertRegex(checked.stdout, r"embedding/embeddings +2/2 ")
        run_dir = os.path.join(self.directory, "run")
        trained = run([cohort, "local", "--ps", "2", "--workers", "2", "--run_dir", run_dir, job], cwd=self.directory)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        self.assertRegex(trained.stdout, r"validation +loss \S+, accuracy 1\.0000")
        inspected = run([cohort, "inspect", os.path.join(run_dir, "checkpoints")])
        self.assertEqual(inspected.returncode, 0, inspected.stderr)

    def test_the_installed_headers_are_few_and_include_only_each_other(self):
        include = os.path.join(self.prefix, "include")
        self.assertEqual(os.listdir(include), ["cohort"])
        names = set(os.listdir(os.path.join(include, "cohort")))
        self.assertLessEqual(PUBLIC_HEADERS, names)
        self.assertLessEqual(len(names), MOST_HEADERS)
        for name in names:
            with open(os.path.join(include, "cohort", name), encoding="utf-8") as f:
                for kind, included in re.findall(r'^ *# *include *([<"])([^>"]*)', f.read(), re.M):
                    if kind == '"':
                        self.assertIn(included, {"cohort/" + n for n in names}, name)
                    else:
                        self.assertTrue("/" not in included or included.startswith(LIBRARIES), (name, included))

    def test_the_loops_build_outside_of_the_tree_and_train(self):
        source = os.path.join(self.directory, "custom_loop")
        shutil.copytree(os.path.join(self.prefix, "share", "cohort", "examples", "custom_loop"), source)
        # The program of the guide, too.
        with open(os.path.join(real_cluster.SOURCE, "docs", "cpp_api.md"), encoding="utf-8") as f:
            guide = re.search(r"```cpp\n(.*?)```", f.read(), re.S).group(1)
        with open(os.path.join(source, "guide.cc"), "w", encoding="utf-8") as f:
            f.write(guide)
        with open(os.path.join(source, "CMakeLists.txt"), "a", encoding="utf-8") as f:
            f.write("add_executable(guide guide.cc)\ntarget_link_libraries(guide PRIVATE Cohort::in_process)\n")
        build = os.path.join(source, "build")
        configured = run(["cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix])
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        built = run(["cmake", "--build", build, "-j2"], limit_s=400)
        self.assertEqual(built.returncode, 0, built.stdout[-4000:] + built.stderr)
        guide = run([os.path.join(build, "guide")], limit_s=100)
        self.assertEqual(guide.returncode, 0, guide.stdout + guide.stderr)
        self.assertRegex(guide.stdout, r"(?m)^binary_accuracy 1\.000$")
        tutorial = run([os.path.join(build, "cohort-tutorial")], limit_s=100)
        self.assertEqual(tutorial.returncode, 0, tutorial.stdout + tutorial.stderr)
        self.assertIn("and the loop continues", tutorial.stdout)
        strategies = [run([os.path.join(build, "cohort-strategies"), *flags.split()], limit_s=60)
                      for flags in ("--devices cpu", "--strategy mirrored --devices cpu:0,cpu:1")]
        for done in strategies:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(re.findall(r"(?m)^loss 0\.\d+$", done.stdout)), 8, done.stdout)
        self.assertIn("mirrored, 2 replicas in sync", strategies[1].stdout)
        with Directory() as directory, RealCluster(directory) as cluster:
            cluster.start_servers_and_workers()
            cluster.start("chief", 0, ["--checkpoint_dir", os.path.join(directory, "checkpoints")],
                          name=os.path.join(build, "cohort-custom-loop"))
            codes = cluster.wait_all()
            self.assertEqual(set(codes.values()), {0}, "%s\n%s" % (codes, cluster.text("chief")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
