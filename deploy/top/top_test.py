#!/usr/bin/env python3
"""`cohort top` on real clusters: in a terminal, without one, by path and by address."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import unittest

from real_cluster import EXAMPLES, SOURCE, RealCluster, DirectoryTestCase, dies_with_parent, program, run, until


def exit_code(name):
    """The number of an exit code by its name."""
    with open(os.path.join(SOURCE, "common", "base", "exit_code.h"), encoding="utf-8") as f:
        return int(re.search(r"\b%s = (\d+)" % name, f.read()).group(1))


class Terminal(contextlib.AbstractContextManager):
    """A program in a terminal of this size; `text` is what it has written so far."""

    def __init__(self, arguments, columns):
        self.master, slave = pty.openpty()
        self.resize(columns)
        self.process = subprocess.Popen(dies_with_parent(arguments), stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True)
        os.close(slave)
        self.text = ""

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:  # the program has ended
                return

    def screens(self):
        """What each drawing shows, as rows without colors."""
        self.read()
        return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).split("\r\n")
                for drawn in self.text.split("\x1b[H")[1:] if drawn.endswith("\x1b[J")]


class Top(DirectoryTestCase):
    def start(self):
        """A cluster that trains until the test ends."""
        cluster = self.enterContext(RealCluster(self.directory, ps=1, workers=2))
        with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            job = self.write("job.yaml", f.read().replace("epochs: 4", "epochs: 100000").replace(
                "records: 6400", "records: 640000"))
        cluster.start_listening("ps")
        for index in range(2):
            cluster.start_listening("worker", index, ["--admin_port", "0"])
        cluster.start("chief", 0, ["--admin_port", "0", "--checkpoint_dir", self.path("checkpoints"),
                                   "--log_dir", self.path("logs"), "--task_timeout_s", "60", job])
        until(lambda: cluster.text("chief"), lambda: "first_step" in cluster.text("chief") or
              os.path.exists(self.path("checkpoints/control/chief.sock")))
        return cluster

    def top(self, *arguments, code=0):
        done = run([program("cohort"), "top", *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def admin_address(self, cluster, role, index=0):
        return "127.0.0.1:" + until(lambda: cluster.text(role, index), lambda: re.search(
            r"admin_port=(\d+)", cluster.text(role, index))).group(1)

    def test_the_table_of_a_run_and_that_of_an_address_have_all_tasks_at_work(self):
        cluster = self.start()

        worker = r"(?m)^worker:%d  %s +(?:runs|idle) +[1-9]\S* +[1-9]\S* +[1-9]\d* +\d+\.\d +%s +%s +%s +[0-4]\.\d s$"
        server = r"(?m)^ps:0 +%s +serves +- +[1-9]\S* +- +- +%s +%s +%s +[0-4]\.\d s$"
        some = (r"[1-9][\d.]* [KM]?i?B",) * 2 + (r"[1-9][\d.]* MiB",)
        addresses = cluster.cluster
        wanted = [r"(?m)^job +recommender, training$",
                  r"(?m)^progress +epoch \d+ of 100000, step [1-9]\d* of \d+, [1-9][\d.]* steps/s$",
                  r"(?m)^metrics .*loss 0\.\d+",
                  r"(?m)^checkpoint +%s/ckpt-\S+, \S+ s ago$" % self.path("checkpoints"),
                  r"(?m)^TASK +ADDRESS +STATE +STEPS/S +PUSHES/S +CLOSURES +STALENESS +SENT/S",
                  worker % (0, addresses["worker"][0], *some), worker % (1, addresses["worker"][1], *some),
                  server % (addresses["ps"][0], *some)]
        for arguments in ([self.path("checkpoints")], ["--once", self.admin_address(cluster, "chief")]):
            printed = [""]

            def all_at_work(arguments=arguments, printed=printed):
                printed[0] = self.top(*arguments)
                return all(re.search(pattern, printed[0]) for pattern in wanted)

            until(lambda printed=printed: printed[0], all_at_work)
            self.assertNotIn("\x1b", printed[0])

    def test_a_terminal_is_redrawn_and_fits_its_width_until_ctrl_c(self):
        cluster = self.start()
        with Terminal([program("cohort"), "top", self.path("checkpoints")], columns=60) as terminal:
            until("no table", lambda: any("TASK" in row for screen in terminal.screens() for row in screen))
            self.assertLessEqual(max(len(row) for screen in terminal.screens() for row in screen), 60)
            self.assertNotIn("ADDRESS", terminal.text)
            terminal.resize(150)
            until("not wider", lambda: any("ADDRESS" in row for row in terminal.screens()[-1]))
            cluster.processes["worker", 1].kill()
            until(lambda: terminal.text[-2000:], lambda: any(
                re.match(r"worker:1 .* lost ", row) for row in terminal.screens()[-1]))
            terminal.process.send_signal(signal.SIGINT)
            self.assertEqual(terminal.process.wait(timeout=30), 0)
            terminal.read()
            self.assertTrue(terminal.text.endswith("\r\n\x1b[?25h"), repr(terminal.text[-50:]))

    def test_what_does_not_answer_is_an_error_that_says_what_to_give(self):
        self.assertRegex(self.top(self.path("nothing"), code=exit_code("kNoInput")), "no running job in .*Give the run directory")
        self.assertRegex(self.top("127.0.0.1:1", code=exit_code("kUnavailable")), "nothing answers on 127.0.0.1:1: Connection refused")
        cluster = self.start()
        worker = self.admin_address(cluster, "worker")
        self.assertRegex(self.top(worker, code=exit_code("kNoInput")), worker + " is not the admin port of a chief")
        cluster.processes["chief", 0].send_signal(signal.SIGSTOP)
        self.assertRegex(self.top(self.path("checkpoints"), code=exit_code("kUnavailable")), "it does not answer")


if __name__ == "__main__":
    unittest.main(verbosity=2)
