#!/usr/bin/env python3
"""`cohort local` with fake daemons: how it starts them, what dies, what is started again."""
import os
import re
import signal
import tempfile
import unittest

from fake_daemons import Launcher
from real_cluster import alive, program, run


class LauncherTest(unittest.TestCase):
    def test_a_job_that_ends_well(self):
        c = Launcher(self, ["--ps", "2", "--workers", "3", "--evaluator",
                            "--task_flag", "worker:1=--threads=7"],
                     chief="until('go'); print('epoch 1 done'); until('end')")
        tasks = ["ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "evaluator-0", "chief-0"]
        c.until(lambda: all(c.lives(t) for t in tasks))
        c.touch("go")
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        self.assertIn("epoch 1 done", c.text())
        life = c.lives("worker-1")[0]
        cluster = life["config"]["cluster"]
        self.assertEqual(life["config"]["task"], {"type": "worker", "index": 1})
        self.assertEqual((len(cluster["ps"]), len(cluster["worker"])), (2, 3))
        addresses = cluster["ps"] + cluster["worker"]
        self.assertEqual(len(set(addresses)), 5)
        self.assertTrue(all(re.fullmatch(r"127\.0\.0\.1:\d+", a) for a in addresses))
        self.assertIn("--threads=7", life["argv"])
        self.assertNotIn("--threads=7", c.lives("worker-0")[0]["argv"])
        self.assertIn(c.dir + "/job.yaml", c.lives("chief-0")[0]["argv"])
        for task in ("ps-0", "worker-0"):  # whose own default it is to meet on unix sockets
            self.assertFalse([a for a in c.lives(task)[0]["argv"] if "unix_socket_dir" in a])

    def test_tcp_has_no_sockets_of_one_host(self):
        c = Launcher(self, ["--transport", "tcp"])
        c.until(lambda: c.lives("ps-0") and c.lives("chief-0"))
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        self.assertIn("--unix_socket_dir=none", c.lives("ps-0")[0]["argv"])

    def test_the_chiefs_exit_code_is_the_launchers(self):
        c = Launcher(self, chief="sys.stderr.write('the reason\\n'); sys.exit(169)")
        self.assertEqual(c.wait(), 169)
        self.assertRegex(c.text(), r"chief:0 exited with 169 after .* s; the last lines of ")
        self.assertIn("    the reason\n", c.text())
        for task in ("ps-0", "worker-0"):
            self.assertFalse(any(alive(life["pid"]) for life in c.lives(task)))

    def test_a_dead_worker_is_reported_with_its_last_lines(self):
        c = Launcher(self, ["--workers", "2"],
                     worker="print('line one\\n\\x1b[2Jline two', flush=True)\n"
                            "if name == 'worker-1': os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: "worker:1 was killed by signal 9 (Killed)" in c.text())
        self.assertIn("    line one\n    \\x1b[2Jline two\n", c.text())
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        self.assertEqual(len(c.lives("worker-1")), 1)

    def test_what_nobody_starts_again_is_not_waited_for(self):
        dies = "print('the reason', flush=True)\nos.kill(os.getpid(), 9)"
        for task, do in (("ps:0", {"ps": dies}), ("worker:0", {"worker": dies})):
            c = Launcher(self, **do)
            self.assertEqual(c.wait(), 169, c.text())
            self.assertRegex(c.text(), task + r" was killed by signal 9 \(Killed\) after")
            self.assertIn("    the reason\n", c.text())
            self.assertRegex(c.text(), "%s has died, and nothing restarts it.*--restart restarts" % task)
            self.assertFalse(any(alive(life["pid"]) for life in c.lives("chief-0")))
        c = Launcher(self, ["--workers", "2"],
                     worker="until('go' + name)\nsys.exit(1)")
        c.until(lambda: c.lives("worker-0") and c.lives("worker-1") and c.lives("chief-0"))
        c.touch("goworker-1")
        c.until(lambda: "worker:1 exited with 1" in c.text())
        c.until(lambda: "the job continues with 1 of 2 workers\n" in c.text())
        self.assertNotIn("cannot continue", c.text())
        c.touch("goworker-0")
        self.assertEqual(c.wait(), 169, c.text())
        self.assertIn("worker:0 has died, and nothing restarts it", c.text())

    def test_a_task_that_stands_still_is_told(self):
        c = Launcher(self, ps="signal.signal(signal.SIGTERM, gone)\nuntil('end')")
        c.until(lambda: c.lives("worker-0") and c.lives("ps-0") and c.lives("chief-0"))
        worker, ps = (c.lives(task)[0]["pid"] for task in ("worker-0", "ps-0"))
        os.kill(worker, signal.SIGSTOP)
        c.until(lambda: "worker:0 is stopped and does nothing: `kill -CONT %d` lets it continue\n" % worker
                in c.text())
        os.kill(worker, signal.SIGCONT)
        c.until(lambda: "worker:0 continues\n" in c.text())
        os.kill(ps, signal.SIGSTOP)
        c.until(lambda: "ps:0 is stopped" in c.text())
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)
        self.assertTrue(os.path.exists(c.dir + "/ps-0.term"))  # it got SIGCONT, to end
        self.assertNotIn("ps:0 continues", c.text())

    def test_of_tasks_that_end_together_the_chief_counts_first(self):
        c = Launcher(self, ps="until('go')\nsys.exit(78)", chief="until('go')")
        c.until(lambda: c.lives("ps-0") and c.lives("worker-0") and c.lives("chief-0"))
        c.process.send_signal(signal.SIGSTOP)
        c.touch("go")
        c.until(lambda: not any(alive(c.lives(task)[0]["pid"]) for task in ("ps-0", "chief-0")))
        c.touch("end")
        c.process.send_signal(signal.SIGCONT)
        self.assertEqual(c.wait(), 0, c.text())

    def test_restart_brings_it_back_as_it_was(self):
        c = Launcher(self, ["--restart"],
                     worker="if life < 3: os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: len(c.lives("worker-0")) == 3)
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        lives = c.lives("worker-0")
        self.assertEqual(lives[0]["config"], lives[2]["config"])
        self.assertEqual(lives[0]["argv"], lives[2]["argv"])
        self.assertIn("restarting worker:0 in", c.text())

    def test_restart_of_the_chief(self):
        c = Launcher(self, ["--restart"], chief="if life == 1: os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: len(c.lives("chief-0")) == 2)
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        first, second = (life["argv"] for life in c.lives("chief-0"))
        self.assertEqual(first + ["--finished_ok"], second)

    def test_a_chief_that_is_started_again_does_not_begin_anew(self):
        c = Launcher(self, ["--restart", "--fresh"],
                     chief="if life == 1: os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: len(c.lives("chief-0")) == 2)
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        first, second = (life["argv"] for life in c.lives("chief-0"))
        self.assertEqual(1, first.count("--fresh"))
        self.assertEqual([a for a in first if a != "--fresh"], second)

    def test_what_would_end_the_same_way_again_is_final(self):
        c = Launcher(self, ["--restart"], ps="sys.exit(78)")
        self.assertEqual(c.wait(), 78)
        self.assertEqual(len(c.lives("ps-0")), 1)

    def test_what_is_no_file_in_the_place_of_a_log(self):
        places = {"a FIFO": os.mkfifo, "a directory": os.mkdir,
                  "a device": lambda path: os.symlink("/dev/zero", path)}
        for kind, make in places.items():
            c = Launcher(self, before=lambda tasks: make(tasks + "/ps-0.log"))
            self.assertEqual(c.wait(), 73, c.text())
            self.assertRegex(c.text(), r"ps:0: its log cannot be written: \S*/run/tasks/ps-0\.log is " +
                             kind + r", not a regular file\. Remove it, or give another")
            self.assertEqual(c.lives("chief-0"), [])
        c = Launcher(self, before=lambda tasks: os.mkfifo(tasks + "/../launcher.lock"))
        self.assertEqual(c.wait(), 73, c.text())
        self.assertRegex(c.text(), r"launcher\.lock is a FIFO, not a regular file\. Remove")

    def test_a_runs_directory_is_one_launchers(self):
        first = Launcher(self, worker="print('first', flush=True)\nuntil('end')")
        log = first.run_dir + "/tasks/worker-0.log"
        first.until(lambda: first.lives("chief-0") and os.path.exists(log) and os.path.getsize(log))
        second = Launcher(self, run_dir=first.run_dir)
        self.assertEqual(second.wait(), 73, second.text())
        self.assertRegex(second.text(), r"the run's directory \S*/run belongs to another `cohort local`, "
                         r"process %d: end that one, or give another --run_dir" % first.process.pid)
        self.assertEqual(second.lives("chief-0"), [])
        first.kill()
        third = Launcher(self, run_dir=first.run_dir)
        third.until(lambda: third.lives("chief-0"))
        third.touch("end")
        self.assertEqual(third.wait(), 0, third.text())
        fourth = Launcher(self, run_dir=first.run_dir)  # one that has ended is none either
        fourth.touch("end")
        self.assertEqual(fourth.wait(), 0, fourth.text())

    def test_a_missing_daemon_and_a_missing_job_are_said(self):
        def local(*arguments):
            return run([program("cohort"), "local", *arguments])

        with tempfile.NamedTemporaryFile() as job, tempfile.TemporaryDirectory() as empty:
            missing = local("--bin_dir", empty, job.name)
            self.assertEqual(missing.returncode, 71)
            self.assertIn("/cohort-worker does not exist", missing.stderr)
            flag = local("--task_flag", "worker:9=--x", "--bin_dir", empty, job.name)
            self.assertEqual(flag.returncode, 64)
            self.assertEqual(local("--workers", "0", job.name).returncode, 64)
        nothing = local("/nonexistent/job.yaml")
        self.assertEqual(nothing.returncode, 66)
        self.assertIn("/nonexistent/job.yaml", nothing.stderr)
        typo = local("--worker", "3", "x.yaml")
        self.assertEqual(typo.returncode, 64)
        self.assertIn('did you mean "--workers"?', typo.stderr)
        to_come = local("--replicas", "2", "x.yaml")
        self.assertEqual(to_come.returncode, 64)
        self.assertIn("--replicas: replicas of parameter servers are not supported yet", to_come.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
