#!/usr/bin/env python3
"""A job on a disk with space for a few files: whatever it cannot create, it ends with 175.

The test mounts the disk itself. If it may not, it exits with 77, which ctest reports as skipped.
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
        """A chief that finds no other task, on a disk that takes `files` files."""
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
                if ended.returncode == 169:  # it had created all its files, and waited for the other tasks
                    break
                self.assertEqual(ended.returncode, 175, ended.stderr)
                lacks.add(re.search(r'cohort-chief: error: .*/([^/ ]+?)"?: No space left', ended.stderr)[1])
        self.assertEqual(ended.returncode, 169, ended.stderr)
        self.assertLessEqual({"c", "chief.lock", "l", "metrics.jsonl", "journal"}, lacks)

    def test_the_last_checkpoint_waits_for_room(self):
        """The launcher restarts the chief until there is space, and no training is lost."""
        with Directory() as directory, Directory() as beside:
            job, out = os.path.join(beside, "job.yaml"), os.path.join(beside, "out")
            with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
                text = f.read()
            with open(job, "w", encoding="utf-8") as f:
                f.write(text.split("\ncheckpoint:")[0] + "\n")
            script = """
                mount -t tmpfs -o nr_inodes=$1 none "$0" && : >"$4/out" || exit 1
                XDG_RUNTIME_DIR="$4" "$2" local --restart --ps 1 --workers 1 --run_dir "$4/run.$1" --checkpoint_dir "$0/c" "$3" >"$4/out" 2>&1 &
                until grep -q "exited with 175" "$4/out" || ! kill -0 $!; do sleep 0.1; done 2>/dev/null
                mount -o remount,nr_inodes=1000 none "$0"
                wait $!"""
            for files in range(12, 42):
                ended = run([*OWN_MOUNTS, "sh", "-c", script, directory, str(files), program("cohort"), job, beside])
                with open(out, encoding="utf-8") as f:
                    said = f.read()
                self.assertEqual(ended.returncode, 0, said)
                if "cohort-chief: error: the last checkpoint: " in said:
                    break
        self.assertRegex(said, r"the last checkpoint: .*: No space left on device")
        self.assertRegex(said, r"continuing recommender at step (\d+) of \1\n")
        self.assertRegex(said, r"failures +0 workers lost, 0 parameter servers lost, 0 rollbacks, "
                               r"[1-9][0-9]* chief restarts?")


if __name__ == "__main__":
    if subprocess.call([*OWN_MOUNTS, "mount", "-t", "tmpfs", "none", "/mnt"]) != 0:
        print("skipped: this process may not mount a disk of its own")
        sys.exit(77)
    unittest.main()
