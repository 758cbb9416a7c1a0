#!/usr/bin/env python3
"""A chief on a disk that has room for some files only: whatever it cannot make is worth another try.

The disk is a mount of the test's own. Exit code 77, which ctest takes for "skipped", where there may be none.
"""
import os
import re
import subprocess
import sys
import unittest

from real_cluster import EXAMPLES, Directory, program, run

OWN_MOUNTS = ["unshare", "--map-root-user", "--mount"]
TF_CONFIG = ('{"cluster": {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}, '
             '"task": {"type": "chief", "index": 0}}')


class SmallDisk(unittest.TestCase):
    def start(self, directory, files):
        """A chief that finds nobody, on a disk of so many files."""
        mount = 'mount -t tmpfs -o nr_inodes=%d none "$0" && exec "$@"' % files
        return run([*OWN_MOUNTS, "sh", "-c", mount, directory, program("cohort-chief"),
                    os.path.join(EXAMPLES, "recommender.yaml"), "--task_timeout_s", "0.2",
                    "--checkpoint_dir", directory + "/c", "--log_dir", directory + "/l"],
                   {"TF_CONFIG": TF_CONFIG})

    def test_no_room_for_one_more_name(self):
        lacks = set()
        with Directory() as directory:
            for files in range(1, 20):
                ended = self.start(directory, files)
                if ended.returncode == 69:  # it had all that it needs, and waited for the others
                    break
                self.assertEqual(ended.returncode, 75, ended.stderr)
                lacks.add(re.search(r'cohort-chief: error: .*/([^/ ]+?)"?: No space left', ended.stderr)[1])
        self.assertEqual(ended.returncode, 69, ended.stderr)
        self.assertLessEqual({"c", "chief.lock", "l", "metrics.jsonl", "journal"}, lacks)


if __name__ == "__main__":
    if subprocess.call([*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"]) != 0:
        print("skipped: this process may not mount a disk of its own")
        sys.exit(77)
    unittest.main()
