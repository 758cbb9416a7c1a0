#!/usr/bin/env python3
"""`cohort local` with fake daemons: in which order it ends them, and what it waits for."""
import ctypes
import os
import re
import signal
import time
import unittest

from fake_daemons import Launcher
from real_cluster import SCALE, alive


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class EndTest(unittest.TestCase):
    def test_a_chief_that_ends_well_while_it_is_ended_has_done_its_job(self):
        chief = ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                 "open(base + '/ready', 'w').close()\nuntil('never')")
        c = Launcher(self, ps="until('ready')\nsys.exit(1)", chief=chief)
        self.assertEqual(c.wait(), 0, c.text())
        self.assertIn("ps:0 has died, and nothing restarts it", c.text())
        c = Launcher(self, chief=chief)
        c.until(lambda: os.path.exists(c.dir + "/ready"))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)  # it was asked for

    def test_tasks_that_the_chief_has_told_to_end_wait_for_it(self):
        c = Launcher(self, ["--restart"], chief="until('end')\nuntil('reported')")
        c.until(lambda: c.lives("worker-0") and c.lives("ps-0") and c.lives("chief-0"))
        c.touch("end")
        c.until(lambda: not alive(c.lives("worker-0")[0]["pid"]))
        c.touch("reported")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertNotIn("worker:0", c.text())

    def test_tasks_that_the_chief_has_not_told_are_ended(self):
        # The worker is started again, and waits for a chief that is no more.
        c = Launcher(self, ["--restart"],
                     worker="if life == 1: until('go'); os.kill(os.getpid(), 9)\nuntil('never')")
        c.until(lambda: c.lives("worker-0") and c.lives("ps-0") and c.lives("chief-0"))
        c.touch("go")
        c.until(lambda: len(c.lives("worker-0")) == 2)
        began = time.monotonic()
        c.touch("end")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertLess(time.monotonic() - began, 30 * SCALE)
        self.assertRegex(c.text(), "the job is done: ending worker:0\n")
        self.assertEqual(len(c.lives("worker-0")), 2)

    def test_a_job_that_was_stopped_ends_all_tasks_and_nothing_is_restarted(self):
        c = Launcher(self, ["--restart", "--evaluator"], ps="until('never')", worker="until('never')",
                     evaluator="until('never')", chief="until('end')\nsys.exit(79)")
        tasks = ("worker-0", "ps-0", "evaluator-0", "chief-0")
        c.until(lambda: all(c.lives(task) for task in tasks))
        c.touch("end")
        self.assertEqual(c.wait(), 79, c.text())
        self.assertIn("the job was stopped: ending all tasks", c.text())
        self.assertEqual([len(c.lives(task)) for task in tasks], [1, 1, 1, 1])
        self.assertTrue(os.path.exists(c.dir + "/evaluator-0.term"))

    def test_an_evaluator_may_end_later_than_what_is_ended(self):
        c = Launcher(self, ["--evaluator"], ps="until('never')", chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\nuntil('ps-0.term')\nuntil('go')")
        c.until(lambda: os.path.exists(c.dir + "/ps-0.term"))
        c.touch("end")
        self.assertIsNone(c.process.poll())
        c.touch("go")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertFalse(os.path.exists(c.dir + "/evaluator-0.term"))
        self.assertNotIn("ps:0 exited", c.text())  # the chief had asked it to end

    def test_an_evaluator_that_a_signal_cuts_off_is_no_good_end(self):
        c = Launcher(self, ["--evaluator"], chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\nuntil('never')",
                     worker="until('never')", ps="until('never')")
        c.until(lambda: "the job is done: ending" in c.text())
        c.process.send_signal(signal.SIGINT)
        self.assertEqual(c.wait(), 130, c.text())
        self.assertTrue(os.path.exists(c.dir + "/evaluator-0.term"))

    def test_an_evaluator_that_fails_for_good_after_the_chiefs_end_is_no_good_end(self):
        for flags in ([], ["--restart"]):
            c = Launcher(self, ["--evaluator", *flags], chief="until('ready')",
                         evaluator="open(base + '/ready', 'w').close()\nuntil('go')\nsys.exit(65)",
                         worker="until('never')", ps="until('never')")
            c.until(lambda: "the job is done: ending" in c.text())
            c.touch("go")
            self.assertEqual(c.wait(), 65, c.text())
            self.assertIn("evaluator:0 exited with 65", c.text())

    def test_an_evaluator_that_dies_after_the_chiefs_end_is_started_again(self):
        c = Launcher(self, ["--evaluator", "--restart"], chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\n"
                               "if life == 1: until('go'); os.kill(os.getpid(), 9)",
                     worker="until('never')", ps="until('never')")
        c.until(lambda: "the job is done: ending" in c.text())
        c.touch("go")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertEqual(len(c.lives("evaluator-0")), 2)

    def test_an_evaluator_that_is_to_be_started_again_at_the_chiefs_end_is(self):
        # Each that dies young is started again later than the one before.
        c = Launcher(self, ["--evaluator", "--restart"],
                     evaluator="if not os.path.exists(base + '/end'): os.kill(os.getpid(), 9)")
        c.until(lambda: re.search(r"restarting evaluator:0 in [1-9]\.\d s", c.text()) and c.lives("chief-0"))
        lives = len(c.lives("evaluator-0"))
        c.touch("end")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertGreater(len(c.lives("evaluator-0")), lives)

    def test_a_task_that_stops_as_it_is_ended_goes_on_to_its_end(self):
        # More often than the launcher can look: what it sees is that it stands still, again and again.
        stops = ("def stop(*_):\n"
                 "    for _ in range(500): os.kill(os.getpid(), signal.SIGSTOP)\n"
                 "    gone()\n"
                 "signal.signal(signal.SIGTERM, stop)\n"
                 "open(base + '/ready', 'w').close()\nuntil('never')")
        c = Launcher(self, ["--grace_s", "50"], worker=stops)
        c.until(lambda: os.path.exists(c.dir + "/ready") and c.lives("ps-0") and c.lives("chief-0"))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)
        self.assertTrue(os.path.exists(c.dir + "/worker-0.term"))  # by itself, not killed

    def test_servers_are_ended_after_those_that_need_them(self):
        for flags, finished in (([], False), (["--evaluator"], True)):
            with self.subTest(finished=finished):
                self.check_servers_are_ended_after_workers(flags, finished)

    def check_servers_are_ended_after_workers(self, flags, finished):
        drains = ("def drain(*_):\n"
                  "    for _ in range(25):\n"
                  "        if os.path.exists(base + '/ps-0.term'): sys.exit(1)\n"
                  "        time.sleep(0.02)\n"
                  "    open(base + '/drained', 'w').close()\n"
                  "    sys.exit(143)\n"
                  "signal.signal(signal.SIGTERM, drain)\n"
                  "open(base + '/ready', 'w').close()\nuntil('never')")
        c = Launcher(self, flags, worker=drains, ps="until('never')", chief="until('end')",
                     evaluator="until('ps-0.term')")
        c.until(lambda: os.path.exists(c.dir + "/ready") and c.lives("ps-0") and c.lives("chief-0"))
        if finished:
            c.touch("end")
        else:
            c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 0 if finished else 143)
        self.assertTrue(os.path.exists(c.dir + "/drained"))
        self.assertTrue(os.path.exists(c.dir + "/ps-0.term"))

    def test_servers_do_not_wait_for_the_deaf(self):
        c = Launcher(self, ["--grace_s", "2"],
                     worker="signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                            "open(base + '/deaf', 'w').close()\nuntil('ps-0.term')")
        c.until(lambda: os.path.exists(c.dir + "/deaf") and c.lives("ps-0") and c.lives("chief-0"))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)
        self.assertTrue(os.path.exists(c.dir + "/ps-0.term"))

    def test_ctrl_c_ends_all(self):
        c = Launcher(self, ["--workers", "2"])
        tasks = ["ps-0", "worker-0", "worker-1", "chief-0"]
        c.until(lambda: all(c.lives(t) for t in tasks))
        c.process.send_signal(signal.SIGINT)
        self.assertEqual(c.wait(), 130)
        for task in tasks:
            self.assertFalse(alive(c.lives(task)[0]["pid"]))
        self.assertIn("Interrupt: ending all tasks", c.text())

    def test_sigterm_ends_all_with_143_and_kills_the_deaf(self):
        c = Launcher(self, ["--grace_s", "0.2"],
                     ps="signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                        "open(base + '/deaf', 'w').close()\nuntil('never')")
        c.until(lambda: os.path.exists(c.dir + "/deaf") and c.lives("worker-0") and
                c.lives("chief-0"))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)
        self.assertFalse(alive(c.lives("ps-0")[0]["pid"]))

    def test_ends_of_children_are_seen_where_whoever_started_it_ignores_them(self):
        default = "sys.exit(signal.getsignal(signal.SIGCHLD) != signal.SIG_DFL)"
        c = Launcher(self, ignored="CHLD", chief="until('end')\n" + default)
        c.touch("end")
        self.assertEqual(c.wait(), 0, c.text())

    def test_what_nohup_and_a_shells_background_ignore_stays_ignored(self):
        c = Launcher(self, ignored="HUP INT QUIT")
        c.until(lambda: all(c.lives(t) for t in ("ps-0", "worker-0", "chief-0")))
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            c.process.send_signal(ignored)
        c.touch("end")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertNotIn("ending all tasks", c.text())

    def test_sigterm_ends_all_whoever_ignores_it(self):
        c = Launcher(self, ignored="TERM HUP")
        c.until(lambda: all(c.lives(t) for t in ("ps-0", "worker-0", "chief-0")))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143, c.text())

    def test_a_task_that_cannot_be_reaped_costs_nothing(self):
        # As one whose storage hangs: a tracer that does not look at its end keeps it.
        c = Launcher(self, ["--grace_s", "1"], ps="time.sleep(3600)")
        c.until(lambda: all(c.lives(t) for t in ("ps-0", "worker-0", "chief-0")))
        held = c.lives("ps-0")[0]["pid"]
        ptrace_seize = 0x4206
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.assertEqual(libc.ptrace(ptrace_seize, held, None, None), 0,
                         os.strerror(ctypes.get_errno()))
        try:
            for _ in range(2):
                c.process.send_signal(signal.SIGTERM)
                c.until(lambda: "ending all tasks" in c.text())
            c.until(lambda: "killing the tasks that still run" in c.text())
            # Nothing happens any more, from half of the grace on too.
            time.sleep(0.6)
            # A launcher that spins gets ten times this even on a busy machine.
            used = processor_time(c.process.pid)
            time.sleep(1)
            self.assertLessEqual(processor_time(c.process.pid) - used, 0.02)
            self.assertIsNone(c.process.poll())
        finally:
            os.kill(held, signal.SIGKILL)
            os.waitpid(held, 0)  # as its tracer: now its parent may
        self.assertEqual(c.wait(), 143)

    def test_no_orphan_survives_a_killed_launcher(self):
        c = Launcher(self, ["--workers", "2"])
        tasks = ["ps-0", "worker-0", "worker-1", "chief-0"]
        c.until(lambda: all(c.lives(t) for t in tasks))
        pids = [c.lives(t)[0]["pid"] for t in tasks]
        c.process.kill()
        c.process.wait()
        c.until(lambda: not any(alive(pid) for pid in pids))


if __name__ == "__main__":
    unittest.main(verbosity=2)
