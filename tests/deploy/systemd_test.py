#!/usr/bin/env python3
"""The units of deploy/systemd: systemd-analyze accepts them, and their commands run a job under a service manager.

The service manager of service_manager.py plays systemd. systemd_nspawn_test.py boots the real one.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import real_cluster
from real_cluster import EXAMPLES, SCALE, SOURCE, DirectoryTestCase, free_ports, program, run
from service_manager import Host
from unit_files import NAMES, UNITS, Unit, read_environment

CHIEF, EVALUATOR = "cohort-chief.service", "cohort-evaluator.service"


def exit_codes():
    """The numbers of common/base/exit_code.h."""
    with open(os.path.join(SOURCE, "common", "base", "exit_code.h"), encoding="utf-8") as f:
        return {int(number) for number in re.findall(r"^  k\w+ = (\d+),", f.read(), re.M)}


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed: apt-get install systemd")
class Analyze(DirectoryTestCase):
    """systemd's own checks. A root of the test has the programs, so that they are found."""

    MOST_EXPOSURE = 2.5

    def setUp(self):
        super().setUp()
        self.units = self.path("etc/systemd/system")
        shutil.copytree(UNITS, self.units)
        os.makedirs(self.path("usr/bin"))
        for name in ("ps", "worker", "chief", "evaluator"):
            target = self.path("usr/bin/cohort-" + name)
            self.write("usr/bin/cohort-" + name, "#!/bin/sh\n")
            os.chmod(target, 0o755)

    def analyze(self, *arguments):
        return run(["systemd-analyze", "--no-pager", "--root=" + self.directory, *arguments])

    def test_verify_has_nothing_to_say(self):
        shutil.copytree("/lib/systemd/system", self.path("lib/systemd/system"), symlinks=True)
        for name in (*NAMES, "cohort.target"):
            done = self.analyze("verify", "--man=no", name.replace("@", "@0"))
            said = [line for line in (done.stdout + done.stderr).splitlines() if "cohort" in line]
            self.assertEqual((done.returncode, said), (0, []), done.stderr)

    def exposure(self, name):
        done = self.analyze("security", "--offline=true", name.replace("@", "@0"))
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        return float(found[1])

    def test_every_unit_exposes_little(self):
        for name in NAMES:
            level = self.exposure(name)
            print("exposure of %s: %.1f" % (name, level))
            self.assertLessEqual(level, self.MOST_EXPOSURE)

    def test_the_drop_in_for_gpus(self):
        os.makedirs(os.path.join(self.units, "cohort-worker@.service.d"))
        shutil.copy(os.path.join(UNITS, "gpu.conf"), os.path.join(self.units, "cohort-worker@.service.d"))
        level = self.exposure("cohort-worker@.service")
        print("exposure of a worker with GPUs: %.1f" % level)
        self.assertLessEqual(level, self.MOST_EXPOSURE)


class Settings(DirectoryTestCase):
    def test_units_restart_what_is_worth_another_try(self):
        final = {code for code in exit_codes() if 0 < code < 128}
        for name in NAMES:
            unit = Unit(name, Host(self.path(name)))
            self.assertEqual(unit.codes("RestartPreventExitStatus"), final, name)
            self.assertEqual(unit.get("Restart"), "on-failure")
            self.assertLessEqual({128 + signal.SIGTERM}, unit.codes("SuccessExitStatus"))

    def test_the_tasks_of_a_host_share_user_and_runtime_directory(self):
        units = [Unit(name, Host(self.path(name))) for name in NAMES]
        for key in ("User", "Group", "RuntimeDirectory", "StateDirectory"):
            self.assertEqual({unit.get(key) for unit in units}, {"cohort"}, key)
        for unit in units:  # each would keep tasks from reading each other's memory
            self.assertNotIn("yes", (unit.get("PrivateUsers"), unit.get("DynamicUser"), unit.get("PrivateNetwork")))
            self.assertEqual(unit.get("RuntimeDirectoryPreserve"), "yes")


class Job(DirectoryTestCase):
    """A job under the units' commands."""

    def setUp(self):
        super().setUp()
        self.host = Host(self.path("host"))
        self.addCleanup(self.host.close)

    def configure(self, ps=2, workers=2, epochs=4, records=6400, options=""):
        """Writes /etc/cohort: the job, the TF_CONFIG files of `cohort tf-config`, cohort.env."""
        with open(os.path.join(EXAMPLES, "recommender.yaml"), encoding="utf-8") as f:
            job = re.sub(r"epochs: \d+", "epochs: %d" % epochs, f.read(), count=1)
        job = job.replace("records: 6400", "records: %d" % records)
        ports = free_ports(ps + workers)
        address = ["127.0.0.1:%d" % port for port in ports]
        self.write("lab.yaml", "name: lab\ncluster:\n  ps: [%s]\n  worker: [%s]\n  evaluator: [127.0.0.1:1]\n" % (
            ", ".join(address[:ps]), ", ".join(address[ps:])))
        written = run([program("cohort"), "tf-config", self.path("lab.yaml"), self.host.path("etc")])
        self.assertEqual(written.returncode, 0, written.stderr)
        with open(self.host.path("etc/job.yaml"), "w", encoding="utf-8") as f:
            f.write(job)
        shutil.copy(os.path.join(UNITS, "cohort.env"), self.host.path("etc/cohort.env"))
        with open(self.host.path("etc/cohort.env"), "a", encoding="utf-8") as f:
            f.write(options)
        self.servers = ["cohort-ps@%d.service" % i for i in range(ps)]
        self.workers = ["cohort-worker@%d.service" % i for i in range(workers)]

    def start_all(self, **keywords):
        """The chief comes first: it waits for the others, which do not wait for it."""
        chief = self.host.start(CHIEF, **keywords)
        self.host.until("the chief does not wait", lambda: "waiting for " in chief.status())
        for name in (*self.servers, *self.workers):
            self.host.start(name, **keywords)
        self.host.start(EVALUATOR, **keywords)

    def until_inactive(self):
        services = self.host.services
        self.host.until("the job has not ended", lambda: all(s.state in ("inactive", "failed") for s in services.values()),
                        limit_s=120)
        self.assertEqual({name: s.state for name, s in services.items()}, {name: "inactive" for name in services},
                         self.host.describe())

    def test_environment_files_hold_tf_config(self):
        self.configure()
        variables = read_environment(self.host.path("etc/ps-1.env"))
        self.assertEqual(list(variables), ["TF_CONFIG"])
        self.assertIn('"task":{"index":1,"type":"ps"}', variables["TF_CONFIG"])

    def test_a_job_ends_with_no_unit_failed_although_tasks_are_killed(self):
        self.configure(epochs=200)  # all three come back before the job ends
        self.start_all(watchdog_s=4.0)
        services = self.host.services
        self.host.until_ready(CHIEF)
        self.host.until("no step", lambda: re.search(r"step [1-9]\d*", services[CHIEF].status()))
        for victim in (self.workers[1], self.servers[0], CHIEF):
            before = services[victim].ready_count
            services[victim].process.kill()
            self.host.until_ready(victim, before + 1)
        self.until_inactive()
        self.assertEqual(services[CHIEF].exits[-1], 0)
        self.assertIn(-signal.SIGKILL, services[self.workers[1]].exits)
        self.assertRegex(services[CHIEF].text(), r"finished")
        # STATUS has step and loss, and READY came after the restore.
        said = [message for _, message in services[CHIEF].messages]
        self.assertTrue(any(re.match(r"STATUS=epoch \d+/200, step \d+, .*loss \d", m) for m in said), said[-30:])
        self.assertTrue(any(m.startswith("EXTEND_TIMEOUT_USEC=") for m in said[:said.index("READY=1")]), said[:10])
        self.assertTrue(any(re.search(r"evaluated ckpt-\S+, step \d+.* loss \d", m)
                            for _, m in services[EVALUATOR].messages), services[EVALUATOR].messages[-5:])
        for name, service in services.items():
            self.assertIn("STOPPING=1", [message for _, message in service.messages], name)

    def test_keep_alives_come_from_the_work(self):
        self.configure(epochs=100000)
        self.start_all(watchdog_s=2.0)
        services = self.host.services
        self.host.until_ready(CHIEF)
        for name, service in services.items():
            def count(service=service):
                return sum(message == "WATCHDOG=1" for _, message in service.messages)
            self.host.until(name + " sends no keep-alives", lambda count=count: count() >= 6)
        for name, service in services.items():
            times = [at for at, message in service.messages if message == "WATCHDOG=1"]
            self.assertLess(max(b - a for a, b in zip(times, times[1:])), 2.0 * SCALE, name)
            self.assertEqual(service.exits, [], name)

    def check_that_a_hang_is_noticed(self, unit, variable, point):
        """A thread of one task hangs while its main thread runs: the manager restarts the task."""
        self.configure(ps=1, workers=1, epochs=40, options="%s=--crash_point %s:hold\n" % (variable, point))
        service = self.host.start(unit, watchdog_s=2.0)
        for name in (*self.servers, *self.workers):
            if name != unit:
                self.host.start(name)
        if unit != CHIEF:
            self.host.start(CHIEF)
        self.host.until(unit + " was not killed", lambda: service.exits)
        self.assertEqual(service.exits[0], -signal.SIGABRT, self.host.describe())

    def test_a_hung_step_thread(self):
        self.check_that_a_hang_is_noticed("cohort-worker@0.service", "COHORT_WORKER_OPTIONS", "worker.push.sent:1")

    def test_a_hung_server_thread(self):
        self.check_that_a_hang_is_noticed("cohort-ps@0.service", "COHORT_PS_OPTIONS", "ps.push.received:1")

    def test_a_hung_protocol(self):
        self.check_that_a_hang_is_noticed(CHIEF, "COHORT_CHIEF_OPTIONS", "chief.result.folded:1")

    def test_a_wrong_job_is_not_tried_again(self):
        self.configure(ps=1, workers=1)
        with open(self.host.path("etc/job.yaml"), "w", encoding="utf-8") as f:
            f.write("nonsense: 1\n")
        chief = self.host.start(CHIEF)
        self.host.until("the chief ends", lambda: chief.state == "failed")
        self.assertEqual(chief.exits, [65], chief.text())

    def test_a_finished_job_is_a_success(self):
        self.configure(ps=1, workers=1, epochs=1)
        for name in (*self.servers, *self.workers):
            self.host.start(name)
        for name in (*self.servers, *self.workers):  # they do not wait for the chief
            self.host.until_ready(name)
            self.host.until("no status", lambda name=name: self.host.services[name].status() == "waiting for the chief")
        self.host.start(CHIEF)
        self.until_inactive()
        again = self.host.start(CHIEF)
        self.host.until("the chief ends", lambda: again.state in ("inactive", "failed"))
        self.assertEqual((again.state, again.exits), ("inactive", [0]), again.text())


if __name__ == "__main__":
    unittest.main()
