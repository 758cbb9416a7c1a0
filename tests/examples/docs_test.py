#!/usr/bin/env python3
"""Compares docs/ with the programs: exit codes, flags, metrics and the classes of job files, in both directions."""
import glob
import os
import re
import unittest
import urllib.request

import real_cluster
from real_cluster import SOURCE, Directory, RealCluster, program, run, until

DAEMONS = ("cohort-chief", "cohort-worker", "cohort-ps", "cohort-evaluator")
COMMANDS = ("train", "local", "ctl", "certs", "check", "tf-config", "inspect", "evaluate", "predict",
            "report", "compare", "generate")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as f:
        return f.read()


def section(page, heading):
    """The text below a heading of a page, up to the next heading of any level."""
    found = re.findall(r"^#+ %s$\n(.*?)(?=^#|\Z)" % re.escape(heading), page, re.M | re.S)
    assert len(found) == 1, (heading, len(found))
    return found[0]


def rows(text):
    """The rows of the table in a text, as lists of cells without backquotes; without its head."""
    lines = [line for line in text.split("\n") if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[2:]]


class Paths(unittest.TestCase):
    def test_a_path_in_backquotes_exists_unless_it_is_planned(self):
        folders = {name for name in os.listdir(SOURCE) if os.path.isdir(os.path.join(SOURCE, name))} - {"build"}
        pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] + sorted(
            glob.glob("docs/**/*.*", root_dir=SOURCE, recursive=True))
        missing = []
        for page in pages:
            lines = [line for line in read(page).split("\n") if "*(planned)*" not in line]
            for path in re.findall(r"`([\w./-]+/[\w./*-]*)[` ]", "\n".join(lines)):
                if path.split("/")[0] in folders and not glob.glob(os.path.join(SOURCE, path)):
                    missing.append((page, path))
        self.assertEqual(missing, [])


class ExitCodes(unittest.TestCase):
    def test_the_table_has_the_codes_of_the_header(self):
        body = re.search(r"enum class ExitCode : int \{(.*?)\};", read("common", "base", "exit_code.h"), re.S)
        declared = {(number, name) for name, number in re.findall(r"\b(k\w+) = (\d+)", body.group(1))}
        documented = {(cells[0], cells[1]) for cells in rows(section(read("docs", "failures.md"), "Exit codes"))}
        self.assertEqual(documented, declared)
        # 0, codes that are final, and codes that supervisors restart: sysexits' numbers plus 100.
        for number in (int(number) for number, _ in declared):
            self.assertTrue(number == 0 or 64 <= number < 80 or 164 <= number < 180, number)


class Flags(unittest.TestCase):
    # A flag that `--help` lists, and its default: "  --ps_timeout_s FLOAT=20  seconds ...".
    FLAG = re.compile(r"^ +(?:-\w,)?--(\w+)(?: [A-Z]+(?:=(\S+))?)?", re.M)
    UNDOCUMENTED = {"help", "version"}

    def documented(self, *headings):
        page = read("docs", "cluster.md")
        return {cells[0].removeprefix("--"): cells[1] for heading in headings
                for cells in rows(section(page, heading))}

    def served(self, *command):
        done = run([program(command[0]), *command[1:], "--help"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name: default for name, default in self.FLAG.findall(done.stdout) if name not in self.UNDOCUMENTED}

    def check(self, documented, served):
        self.assertEqual(sorted(documented), sorted(served))
        for name, default in served.items():
            if default and default != "[]":
                self.assertEqual(documented[name], default, "--" + name)

    def test_every_daemon_has_the_flags_of_its_table(self):
        for daemon in DAEMONS:
            with self.subTest(daemon):
                self.check(self.documented("All daemons", daemon), self.served(daemon))

    def test_every_command_has_the_flags_of_its_table(self):
        for command in COMMANDS:
            with self.subTest(command):
                self.check(self.documented("cohort " + command), self.served("cohort", command))

    def test_cohort_run_takes_the_flags_of_all_daemons(self):
        self.assertEqual(sorted(self.documented("All daemons", *DAEMONS, "cohort run")),
                         sorted(self.served("cohort", "run")))

    def test_a_replica_has_the_flags_of_a_worker_and_more(self):
        self.check(self.documented("All daemons", "cohort-worker", "cohort-replica"), self.served("cohort-replica"))


class Methods(unittest.TestCase):
    def test_the_table_of_methods_is_that_of_the_code(self):
        code = re.findall(r'\{"(/\S+)", ([\w |]+)\}', read("common", "cluster", "method_table.cc"))
        declared = {(method, role) for method, roles in code
                    for role in (("kChief", "kWorker", "kPs", "kEvaluator", "kClient") if roles == "kAll"
                                 else roles.split(" | "))}
        page = section(read("docs", "cluster.md"), "Who is who")
        roles = ["k" + cell.strip().capitalize() for cell in re.search(r"^\| method (.*)\|$", page, re.M).group(1)
                 .strip("| ").split("|")]
        documented = {(cells[0], role) for cells in rows(page) for role, cell in zip(roles, cells[1:]) if cell == "yes"}
        self.assertEqual(documented, declared)
        self.assertGreater(len(declared), 10)


class JobFile(unittest.TestCase):
    def test_the_page_has_the_classes_of_the_program(self):
        page = read("docs", "job_file.md")
        found = re.search(r"^<!-- begin of cohort reference -->\n(.*)^<!-- end of cohort reference -->$", page,
                          re.M | re.S)
        done = run([program("cohort"), "reference"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(found.group(1).strip(), done.stdout.strip(),
                         "write the output of `cohort reference` between the markers of docs/job_file.md")


class Ops(unittest.TestCase):
    def test_the_page_is_what_the_program_prints(self):
        done = run([program("cohort"), "reference", "--ops"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read("docs", "ops.md").strip(), done.stdout.strip(),
                         "write the output of `cohort reference --ops` to docs/ops.md")


class Metrics(unittest.TestCase):
    """A real cluster that trains; every daemon serves what its table lists, and nothing else."""

    def documented(self, daemon):
        page = read("docs", "metrics.md")
        return {tuple(cells[:3]) for heading in ("All daemons", daemon) for cells in rows(section(page, heading))}

    def served(self, cluster, role):
        port = re.search(r"admin_port=(\d+)", cluster.text(role)).group(1)
        with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % port, timeout=10) as answer:
            text = answer.read().decode()
        found = set()
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
            sample = re.search(r"^%s(?:_sum)?(?:\{(.*?)\})? " % name, text, re.M)
            labels = re.findall(r'(\w+)="', sample.group(1) or "")
            found.add((name, kind, ", ".join(labels)))
        return found

    def test_every_daemon_serves_the_metrics_of_its_table(self):
        with Directory() as directory, RealCluster(directory, ps=1, workers=1) as cluster:
            job = os.path.join(directory, "job.yaml")
            with open(job, "w", encoding="utf-8") as f:
                f.write(read("deploy", "examples", "recommender.yaml").replace("epochs: 4", "epochs: 100000"))
            checkpoints = os.path.join(directory, "checkpoints")
            admin = ["--admin_port", "0"]
            cluster.start_listening("ps", arguments=admin)
            cluster.start_listening("worker", arguments=admin)
            cluster.start("chief", 0, [*admin, "--checkpoint_dir", checkpoints, "--log_dir", directory + "/logs", job])
            cluster.start("evaluator", 0, [*admin, "--checkpoint_dir", checkpoints])
            until("no checkpoint", lambda: os.path.isdir(checkpoints) and
                  any(name.startswith("ckpt-") for name in os.listdir(checkpoints)))
            # Workers report their links with the first Pong.
            until("no link", lambda: "admin_port=" in cluster.text("chief") and
                  "cohort_chief_link_wait_seconds" in {name for name, _, _ in self.served(cluster, "chief")})
            for daemon in DAEMONS:
                role = daemon.removeprefix("cohort-")
                until(lambda role=role: cluster.text(role),
                      lambda role=role: "admin_port=" in cluster.text(role))
                with self.subTest(daemon):
                    self.assertEqual(sorted(self.documented(daemon)), sorted(self.served(cluster, role)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
