#!/usr/bin/env python3
"""A local cluster on a full disk, as its user sees it. A limit on file sizes stands for the full disk."""
import os
import re
import resource
import signal
import subprocess
import threading
import unittest
import urllib.request

from real_cluster import EXAMPLES, SCALE, Directory, children, dies_with_parent, free_ports, program, until

NO_FILES = ["prlimit", "--fsize=0:0"]
WAITS = r"waiting for the journal: cannot write \S+/checkpoints/journal/journal-1: File too large, \d+ s"


def command(directory, limit=(), flags=()):
    job = os.path.join(directory, "job.yaml")
    with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
        text = re.sub(r"epochs: \d+", "epochs: 100000", f.read())
    with open(job, "w", encoding="utf-8") as f:
        f.write(text)
    return dies_with_parent([*limit, program("cohort"), "local", "--ps", "1", "--workers", "1", "--run_dir",
                             os.path.join(directory, "run"), *flags, job])


class Local:
    """`cohort local` of a long job, its console on pipes, which no limit on files stops.

    It never kills a process that a test waits for.
    """

    def __init__(self, case, directory, limit=(), flags=()):
        self.admin = free_ports(1)[0]
        self.text = ""
        self.process = subprocess.Popen(
            command(directory, limit, ["--task_flag=chief=--admin_port=%d" % self.admin,
                                       "--task_flag=chief=--log_file=/dev/stdout", "--grace_s=%d" % (600 * SCALE), *flags]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        case.addCleanup(self.end)

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60 * SCALE)
        self.reader.join()
        self.process.stdout.close()

    def says(self, pattern, begin=0):
        until(lambda: "%s in:\n%s" % (pattern, self.text[begin:]), lambda: re.search(pattern, self.text[begin:]))

    def page(self, name):
        with urllib.request.urlopen("http://127.0.0.1:%d/%s" % (self.admin, name), timeout=30 * SCALE) as page:
            return page.read().decode()

    def chief(self):
        chief, = children(self.process.pid, "cohort-chief")
        return chief

    def limit_files(self, size):
        resource.prlimit(self.chief(), resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class FullDisk(unittest.TestCase):
    def test_the_journal_waits_for_room_and_says_so(self):
        with Directory() as directory:
            local = Local(self, directory)
            local.says(r"epoch [2-9]\d*/100000")
            local.limit_files(1)
            local.says(WAITS)
            self.assertRegex(local.page("statusz"), WAITS)
            until("the metric", lambda: float(re.search(r"^cohort_chief_journal_stalled_seconds (\S+)$",
                                                        local.page("metrics"), re.M).group(1)) > 3)
            self.assertRegex(local.page("metrics"), r"(?m)^cohort_chief_journal_refusals_total [1-9]\d*$")
            # When there is space again, training continues.
            begin = len(local.text)
            local.limit_files(resource.RLIM_INFINITY)
            local.says(r"epoch \d+/100000", begin)
            # An epoch may end before the first record is durable again.
            until("the journal to catch up", lambda: "waiting for the journal" not in local.page("statusz"))
            # The disk is full again, and the run gets SIGTERM.
            local.limit_files(1)
            begin = len(local.text)
            local.says(WAITS, begin)
            local.process.send_signal(signal.SIGTERM)
            self.assertEqual(local.process.wait(timeout=60 * SCALE), 143)
            local.reader.join()
            self.assertRegex(local.text, r"(?m) info chief:0 ended_by_signal signal=15$")

    def test_a_chief_without_room_to_begin_is_started_again_until_there_is(self):
        with Directory() as directory:
            local = Local(self, directory, flags=["--restart"])
            local.says(r"epoch [2-9]\d*/100000")
            # The launcher's next chief inherits this limit.
            resource.prlimit(local.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            begin = len(local.text)
            os.kill(local.chief(), signal.SIGKILL)
            refused = r"chief:0 exited with 175 [\s\S]*cannot write \S+/chief\.lock: File too large[\s\S]*"
            local.says(refused * 2 + r"restarting chief:0 in \S+ s", begin)
            resource.prlimit(local.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            begin = len(local.text)
            local.says(r"epoch \d+/100000", begin)

    def test_a_run_that_cannot_write_at_all_says_why(self):
        with Directory() as directory:
            local = Local(self, directory, limit=NO_FILES)
            self.assertEqual(local.process.wait(timeout=60 * SCALE), 175)
            local.reader.join()
            self.assertRegex(local.text, r"cohort: error: cannot write \S+/secret: File too large")

    def test_the_launcher_outlives_what_it_cannot_write(self):
        with Directory() as directory, open(os.path.join(directory, "out"), "w", encoding="utf-8") as out:
            code = subprocess.call(command(directory, NO_FILES), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   timeout=60 * SCALE)
            self.assertEqual(code, 175)  # and not by SIGXFSZ


if __name__ == "__main__":
    unittest.main()
