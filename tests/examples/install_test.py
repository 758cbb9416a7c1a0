#!/usr/bin/env python3
"""The installed programs run the installed examples."""
import os
import unittest

import real_cluster
from real_cluster import Directory, run


class Install(unittest.TestCase):
    def test_the_installed_programs_train_the_installed_example(self):
        with Directory() as directory:
            prefix = os.path.join(directory, "prefix")
            installed = run(["cmake", "--install", real_cluster.BINARY, "--prefix", prefix])
            self.assertEqual(installed.returncode, 0, installed.stdout[-2000:] + installed.stderr)
            cohort = os.path.join(prefix, "bin", "cohort")
            job = os.path.join(prefix, "share", "cohort", "examples", "recommender.yaml")
            checked = run([cohort, "check", "--ps", "2", job])
            self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertRegex(checked.stdout, r"embedding/embeddings +2/2 ")
            run_dir = os.path.join(directory, "run")
            trained = run([cohort, "local", "--ps", "2", "--workers", "2", "--run_dir", run_dir, job], cwd=directory)
            self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
            self.assertRegex(trained.stdout, r"validation +loss \S+, accuracy 1\.0000")
            inspected = run([cohort, "inspect", os.path.join(run_dir, "checkpoints")])
            self.assertEqual(inspected.returncode, 0, inspected.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
