#!/usr/bin/env python3
"""Tests of `cohort local` with fake daemons: small scripts that do what a case needs.

Usage: launcher_test.py COHORT_BINARY
"""
import ctypes
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

COHORT = ""
SCALE = float(os.environ.get("COHORT_TEST_TIME_SCALE", "1"))

# Every fake daemon writes its pid and TF_CONFIG, then does what $DO_<ROLE> says.
FAKE = r'''#!/usr/bin/env python3
import json, os, signal, sys, time
role = os.path.basename(sys.argv[0])[len("cohort-"):]
config = json.loads(os.environ["TF_CONFIG"])
name = "%s-%d" % (role, config["task"]["index"])
base = os.environ["FAKE_DIR"]
lives = os.path.join(base, name + ".lives")
with open(lives, "a") as f:
    f.write(json.dumps({"pid": os.getpid(), "config": config, "argv": sys.argv[1:]}) + "\n")
life = len(open(lives).read().splitlines())
def gone(*_):
    open(os.path.join(base, name + ".term"), "w").close()
    sys.exit(143)
signal.signal(signal.SIGTERM, gone)
def until(path):
    while not os.path.exists(os.path.join(base, path)):
        time.sleep(0.02)
exec(os.environ.get("DO_" + role.upper(), "until('end')"))
'''
MISSED_SOON = ["--missed_s", "0.2"]


class Launcher:
    def __init__(self, case, flags=(), run_dir=None, before=None, **do):
        self.dir = tempfile.mkdtemp(prefix="launcher_test.")
        case.addCleanup(subprocess.call, ["rm", "-rf", self.dir])
        for role in ("ps", "worker", "chief", "evaluator"):
            path = os.path.join(self.dir, "cohort-" + role)
            with open(path, "w") as f:
                f.write(FAKE)
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        open(os.path.join(self.dir, "job.yaml"), "w").close()
        self.run_dir = run_dir or self.dir + "/run"
        if before:
            os.makedirs(self.run_dir + "/tasks")
            before(self.run_dir + "/tasks")
        env = dict(os.environ, FAKE_DIR=self.dir)
        env.update({"DO_" + role.upper(): code for role, code in do.items()})
        self.out = open(os.path.join(self.dir, "out"), "w+")
        self.process = subprocess.Popen(
            [COHORT, "local", "--bin_dir", self.dir, "--run_dir", self.run_dir, *flags,
             self.dir + "/job.yaml"], env=env, stdout=self.out, stderr=subprocess.STDOUT)
        case.addCleanup(self.kill)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()

    def wait(self):
        return self.process.wait(timeout=60 * SCALE)

    def text(self):
        with open(self.dir + "/out") as f:
            return f.read()

    def lives(self, task):
        try:
            with open("%s/%s.lives" % (self.dir, task)) as f:
                return [json.loads(line) for line in f.read().splitlines()]
        except FileNotFoundError:
            return []

    def touch(self, name):
        open(os.path.join(self.dir, name), "w").close()

    def until(self, what):
        deadline = time.monotonic() + 60 * SCALE
        while not what():
            if time.monotonic() > deadline:
                raise AssertionError("waited in vain; the launcher said:\n" + self.text())
            time.sleep(0.02)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processor_time(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
        c = Launcher(self, chief="sys.stderr.write('the reason\\n'); sys.exit(69)")
        self.assertEqual(c.wait(), 69)
        self.assertRegex(c.text(), r"chief:0 exited with 69 after .* s; the last lines of ")
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
            c = Launcher(self, MISSED_SOON, **do)
            self.assertEqual(c.wait(), 69, c.text())
            self.assertRegex(c.text(), task + r" was killed by signal 9 \(Killed\) after")
            self.assertIn("    the reason\n", c.text())
            self.assertRegex(c.text(), "cannot go on without %s.*--restart brings back" % task)
            self.assertFalse(any(alive(life["pid"]) for life in c.lives("chief-0")))
        c = Launcher(self, ["--workers", "2", *MISSED_SOON],
                     worker="until('go' + name)\nsys.exit(1)")
        c.until(lambda: c.lives("worker-0") and c.lives("worker-1") and c.lives("chief-0"))
        c.touch("goworker-1")
        c.until(lambda: "worker:1 exited with 1" in c.text())
        self.assertNotIn("cannot go on", c.text())
        c.touch("goworker-0")
        self.assertEqual(c.wait(), 69, c.text())
        self.assertIn("cannot go on without worker:0", c.text())

    def test_a_chief_that_needs_no_more_what_is_gone_may_end(self):
        for role in ("ps", "worker"):
            task = role + ":0"
            c = Launcher(self, ["--missed_s", "100"], chief="until('saved')", **{role: "until('go')\nsys.exit(1)"})
            c.until(lambda: c.lives("chief-0"))
            c.touch("go")
            c.until(lambda: task + " exited with 1" in c.text())
            c.touch("saved")
            c.touch("end")
            self.assertEqual(c.wait(), 0, c.text())
            self.assertNotIn("cannot go on", c.text())

    def test_a_chief_that_ends_well_while_it_is_ended_has_done_its_job(self):
        chief = ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                 "open(base + '/ready', 'w').close()\nuntil('never')")
        c = Launcher(self, MISSED_SOON, ps="until('ready')\nsys.exit(1)", chief=chief)
        self.assertEqual(c.wait(), 0, c.text())
        self.assertIn("cannot go on without ps:0", c.text())
        c = Launcher(self, chief=chief)
        c.until(lambda: os.path.exists(c.dir + "/ready"))
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)  # it was asked for

    def test_a_task_that_ends_well_before_the_job_is_lost(self):
        lost = r"worker:0 exited with 0 after \d+\.\d s, and the job is not done; the last lines of "
        help_ = "print('usage', flush=True)\nif life == 1 and name == 'worker-0': sys.exit(0)\nuntil('end')"
        c = Launcher(self, ["--chief_end_s", "0.2"], worker=help_)
        self.assertEqual(c.wait(), 69, c.text())
        self.assertRegex(c.text(), lost)
        self.assertIn("    usage\n", c.text())
        self.assertIn("cannot go on without worker:0", c.text())
        for flags, lives in ((["--workers", "2"], 1), (["--restart"], 2)):
            c = Launcher(self, ["--chief_end_s", "0.2", *flags], worker=help_)
            c.until(lambda: "not done" in c.text() and len(c.lives("worker-0")) == lives)
            c.touch("end")
            self.assertEqual(c.wait(), 0, c.text())
            self.assertRegex(c.text(), lost)
            self.assertEqual(len(c.lives("worker-0")), lives)
        # The chief may find that out first.
        c = Launcher(self, worker=help_, chief="until('gone')\nsys.exit(69)")
        c.until(lambda: c.lives("worker-0") and not alive(c.lives("worker-0")[0]["pid"]))
        c.touch("gone")
        self.assertEqual(c.wait(), 69, c.text())
        self.assertRegex(c.text(), lost)

    def test_tasks_that_the_chief_has_told_to_end_wait_for_it(self):
        c = Launcher(self, ["--restart"], chief="until('end')\nuntil('reported')")
        c.until(lambda: c.lives("worker-0") and c.lives("ps-0") and c.lives("chief-0"))
        c.touch("end")
        c.until(lambda: not alive(c.lives("worker-0")[0]["pid"]))
        c.touch("reported")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertNotIn("worker:0", c.text())

    def test_a_task_that_stands_still_is_told(self):
        c = Launcher(self, ps="signal.signal(signal.SIGTERM, gone)\nuntil('end')")
        c.until(lambda: c.lives("worker-0") and c.lives("ps-0") and c.lives("chief-0"))
        worker, ps = (c.lives(task)[0]["pid"] for task in ("worker-0", "ps-0"))
        os.kill(worker, signal.SIGSTOP)
        c.until(lambda: "worker:0 is stopped and does nothing: `kill -CONT %d` lets it go on\n" % worker
                in c.text())
        os.kill(worker, signal.SIGCONT)
        c.until(lambda: "worker:0 goes on\n" in c.text())
        os.kill(ps, signal.SIGSTOP)
        c.until(lambda: "ps:0 is stopped" in c.text())
        c.process.send_signal(signal.SIGTERM)
        self.assertEqual(c.wait(), 143)
        self.assertTrue(os.path.exists(c.dir + "/ps-0.term"))  # it was let go on, to end
        self.assertNotIn("ps:0 goes on", c.text())

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
        self.assertIn("worker:0 is started again", c.text())

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

    def test_an_evaluator_may_end_later_than_what_is_ended(self):
        c = Launcher(self, ["--evaluator"], ps="until('never')", chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\nuntil('ps-0.term')\nuntil('go')")
        c.until(lambda: os.path.exists(c.dir + "/ps-0.term"))
        c.touch("end")
        self.assertIsNone(c.process.poll())
        c.touch("go")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertFalse(os.path.exists(c.dir + "/evaluator-0.term"))
        self.assertNotIn("ps:0 exited", c.text())  # it was told to

    def test_an_evaluator_that_a_signal_cuts_off_is_no_good_end(self):
        c = Launcher(self, ["--evaluator"], chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\nuntil('never')",
                     worker="until('never')", ps="until('never')")
        c.until(lambda: "the job is done: ending" in c.text())
        c.process.send_signal(signal.SIGINT)
        self.assertEqual(c.wait(), 130, c.text())
        self.assertTrue(os.path.exists(c.dir + "/evaluator-0.term"))

    def test_an_evaluator_that_dies_after_the_chiefs_end_is_started_again(self):
        c = Launcher(self, ["--evaluator", "--restart"], chief="until('ready')",
                     evaluator="open(base + '/ready', 'w').close()\n"
                               "if life == 1: until('go'); os.kill(os.getpid(), 9)",
                     worker="until('never')", ps="until('never')")
        c.until(lambda: "the job is done: ending" in c.text())
        c.touch("go")
        self.assertEqual(c.wait(), 0, c.text())
        self.assertEqual(len(c.lives("evaluator-0")), 2)

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

    def test_restart_of_the_chief(self):
        c = Launcher(self, ["--restart"], chief="if life == 1: os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: len(c.lives("chief-0")) == 2)
        c.touch("end")
        self.assertEqual(c.wait(), 0)

    def test_a_chief_that_is_started_again_does_not_begin_anew(self):
        c = Launcher(self, ["--restart", "--fresh"],
                     chief="if life == 1: os.kill(os.getpid(), 9)\nuntil('end')")
        c.until(lambda: len(c.lives("chief-0")) == 2)
        c.touch("end")
        self.assertEqual(c.wait(), 0)
        first, second = (life["argv"] for life in c.lives("chief-0"))
        self.assertIn("--fresh", first)
        # One that was killed before it had deleted the former run's files must do so yet.
        self.assertEqual(1, len([a for a in first if re.fullmatch("--fresh_id=[0-9a-f]{16}", a)]))
        self.assertEqual(first + ["--finished_ok"], second)

    def test_what_would_end_the_same_way_again_is_final(self):
        c = Launcher(self, ["--restart"], ps="sys.exit(78)")
        self.assertEqual(c.wait(), 78)
        self.assertEqual(len(c.lives("ps-0")), 1)

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
            c.until(lambda: "killing what is left" in c.text())
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

    def test_what_is_no_file_in_the_place_of_a_log(self):
        places = {"a FIFO": os.mkfifo, "a directory": os.mkdir,
                  "a device": lambda path: os.symlink("/dev/zero", path)}
        for kind, make in places.items():
            c = Launcher(self, before=lambda tasks: make(tasks + "/ps-0.log"))
            self.assertEqual(c.wait(), 73, c.text())
            self.assertRegex(c.text(), r"ps:0: its log cannot be written: \S*/run/tasks/ps-0\.log is " +
                             kind + r", not a regular file\. Remove what stands there, or give another")
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
        def run(*arguments):
            return subprocess.run([COHORT, "local", *arguments], capture_output=True, text=True,
                                  timeout=60 * SCALE)
        with tempfile.NamedTemporaryFile() as job, tempfile.TemporaryDirectory() as empty:
            missing = run("--bin_dir", empty, job.name)
            self.assertEqual(missing.returncode, 71)
            self.assertIn("/cohort-worker is not there", missing.stderr)
            flag = run("--task_flag", "worker:9=--x", "--bin_dir", empty, job.name)
            self.assertEqual(flag.returncode, 64)
            self.assertEqual(run("--workers", "0", job.name).returncode, 64)
        nothing = run("/nonexistent/job.yaml")
        self.assertEqual(nothing.returncode, 66)
        self.assertIn("/nonexistent/job.yaml", nothing.stderr)
        typo = run("--worker", "3", "x.yaml")
        self.assertEqual(typo.returncode, 64)
        self.assertIn('did you mean "--workers"?', typo.stderr)


# One epoch: the chief commits before it, and at its end.
JOB = """name: short
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 8, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {SGD: {learning_rate: 0.1}}, metrics: [accuracy]}
data:
  batch_size: 32
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 640, seed: 1}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: 1}
strategy: {mode: async, closure_timeout_s: 1}
"""


def children(pid, program):
    listed = subprocess.run(["pgrep", "-P", str(pid), "-x", program], capture_output=True, text=True)
    return [int(p) for p in listed.stdout.split() if alive(int(p))]


class RealDaemonsTest(unittest.TestCase):
    def command(self, directory, *flags):
        job = directory + "/job.yaml"
        with open(job, "w") as f:
            f.write(JOB)
        return [COHORT, "local", "--run_dir", directory + "/run", *flags, job]

    def run_job(self, directory, *flags):
        return subprocess.run(self.command(directory, *flags), capture_output=True, text=True,
                              timeout=100 * SCALE)

    def test_a_chief_that_is_ended_when_all_is_committed_has_done_its_job(self):
        # The chief waits for a worker that has been told to end and is held by its step.
        with tempfile.TemporaryDirectory() as directory:
            held = ["--workers", "2", "--grace_s", "1",
                    "--task_flag", "worker:1=--crash_point=worker.closure.received:1:hold"]
            with open(directory + "/out", "w+") as out:
                local = subprocess.Popen(self.command(directory, *held), stdout=out,
                                         stderr=subprocess.STDOUT)
                self.addCleanup(local.kill)
                deadline = time.monotonic() + 60 * SCALE
                committed = directory + "/run/checkpoints/ckpt-1-1-1/manifest.json"
                while not os.path.exists(committed) or children(local.pid, "cohort-ps"):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                chief, = children(local.pid, "cohort-chief")
                os.kill(chief, signal.SIGTERM)
                code = local.wait(timeout=60 * SCALE)
                out.seek(0)
                text = out.read()
            self.assertEqual(code, 0, text)
            self.assertIn("steps       20 in all", text)

    def test_a_chief_that_dies_when_all_is_committed_has_done_its_job(self):
        crash = ["--task_flag", "chief=--crash_point=chief.cut.manifest_written:2"]
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_job(directory, "--restart", *crash)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stderr, "chief:0 was killed by signal 9")
            self.assertRegex(done.stdout,
                             r"this job is finished: \S*/ckpt-1-1-1 has its last checkpoint \(step 20\)")
            self.assertIn("the job is done: ending ", done.stderr)
            again = self.run_job(directory, "--restart")
            self.assertEqual(again.returncode, 78, again.stdout + again.stderr)
            self.assertIn("give another directory", again.stderr)


if __name__ == "__main__":
    COHORT = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
