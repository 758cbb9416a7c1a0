#!/usr/bin/env python3
"""Runs what README.md and docs/ show: their shell blocks, line by line, and the job of the README.

Every fenced shell block must be known here: run, or listed with the reason for which no test runs it.
"""
import glob
import os
import re
import subprocess
import unittest

import real_cluster
from real_cluster import BINARY, SCALE, SOURCE, Directory

# A block's first command -> why no test runs it.
NOT_RUN = {
    "systemd-sysusers ": "tests/deploy/systemd_nspawn_test.py boots a systemd for it",
    "cohort certs ": "tests/cluster/tls_test.py makes certificates and starts tasks with them",
    "COHORT_PS=2 sbatch ": "tests/deploy/slurm_test.py starts a Slurm for it",
    "tests/run.sh": "it is what runs this test",
    "cmake --preset release && cmake --build --preset release":
        "a full build takes minutes; deploy/quickstart.sh does the same in this test, on this tree",
    "cd build/release && cpack": "package_test.py makes and installs the packages",
    "cohort train job.yaml": "strategies_test.py and replicas_test.py run these commands on jobs of their own",
    "cohort run JOB.yaml --join_bind": "elastic_test.cc starts such a chief and workers that join it",
    "cohort ctl RUN": "launcher_real_test.py runs these commands on a job of its own",
    "cohort export run/checkpoints --changed_since": "increments_test.py runs it on the checkpoints of a job of its own",
    "srun --ntasks=4 sh -c 'cohort predict": "needs Slurm; predict_test.py predicts and joins parts",
    "cohort reference --plugin": "plugin_test.py runs these commands with the plugin that it builds",
}
RUN = ("deploy/quickstart.sh", "cluster=", "cohort check", "cohort local")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def pages():
    """The documents whose blocks are checked."""
    return [os.path.join(SOURCE, "README.md"), *sorted(glob.glob(os.path.join(SOURCE, "docs", "*.md")))]


def blocks(language):
    """The fenced blocks of all pages in this language."""
    found = []
    for page in pages():
        with open(page, encoding="utf-8") as f:
            found += [text for name, text in BLOCK.findall(f.read()) if name == language]
    return found


def begins_with(block, keys):
    return any(block.startswith(key) for key in keys)


def with_free_ports(block):
    """The block with each of its addresses on a port that is free here."""
    addresses = sorted(set(re.findall(r"127\.0\.0\.1:47\d\d", block)))
    assert len(addresses) == 3, addresses
    for address, port in zip(addresses, real_cluster.free_ports(len(addresses))):
        block = block.replace(address, "127.0.0.1:%d" % port)
    return block


class Readme(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(Directory())
        os.symlink(os.path.join(SOURCE, "deploy"), os.path.join(self.directory, "deploy"))

    def shell(self, script, cwd=None, limit_s=120.0):
        """Runs a script in a directory of its own, with the tree's programs in PATH; returns its output."""
        done = subprocess.run(
            real_cluster.dies_with_parent(["bash", "-euo", "pipefail", "-c", script]),
            cwd=cwd or self.directory, capture_output=True, text=True, timeout=limit_s * SCALE,
            stdin=subprocess.DEVNULL, check=False,
            env=dict(os.environ, PATH=os.path.join(BINARY, "bin") + ":" + os.environ["PATH"]))
        self.assertEqual(done.returncode, 0, script + "\n" + done.stdout + done.stderr)
        return done.stdout

    def block(self, key):
        return next(b for b in blocks("sh") if b.startswith(key))

    def test_every_shell_block_is_known(self):
        unknown = [b for b in blocks("sh") if not begins_with(b, [*RUN, *NOT_RUN])]
        self.assertEqual(unknown, [])
        self.assertEqual(len(blocks("sh")), len(RUN) + len(NOT_RUN))
        for key, why in NOT_RUN.items():
            print("not run: %s: %s" % (key, why))

    def test_the_quickstart(self):
        run = os.path.join(self.directory, "quick")
        command = self.block("deploy/quickstart.sh").strip()
        out = self.shell("%s --no-install --preset %s --run_dir %s" %
                         (command, os.path.basename(BINARY), run), cwd=SOURCE)
        order = ["== building", "no work to do", "== training", "epoch 4/4", "\ntraining ", "\nvalidation ",
                 "Where the variables were", "embedding/embeddings", "== what the evaluator found",
                 "step 800: loss", "accuracy 1.0", "== where things are", "TensorBoard",
                 "== what to try next"]
        at = 0
        for words in order:
            found = out.find(words, at)
            self.assertGreaterEqual(found, 0, "no %r after %r in\n%s" % (words, out[:at][-80:], out))
            at = found
        self.assertTrue(os.path.isdir(os.path.join(run, "checkpoints")))

    def test_what_the_quickstart_says_to_try_next(self):
        with open(os.path.join(SOURCE, "deploy", "quickstart.sh"), encoding="utf-8") as f:
            tail = f.read().split('say "what to try next"')[1]
        commands = re.findall(r"^\$bin/(cohort .*)$", tail, re.M)
        self.assertEqual([c.split()[1] for c in commands], ["check", "local", "evaluate", "evaluate", "--help"])
        script = "\n".join(commands).replace("$job", "deploy/examples/recommender.yaml")
        self.shell(script.replace("$run/checkpoints", "next/checkpoints").replace("$run-restart", "next"))

    def test_the_tasks_launched_one_by_one(self):
        out = self.shell(with_free_ports(self.block("cluster=")))
        self.assertRegex(out, r"training +loss .*accuracy 1\.0000")
        self.assertIn("ckpt-1-1-4", os.listdir(os.path.join(self.directory, "ckpt")))

    def test_the_launchers_commands(self):
        out = self.shell(self.block("cohort check"))
        for words in ("shard plan for 2 ps:", "Total params: 181", "training    loss", "ckpt-1-1-4",
                      '"kind":"checkpoint"'):
            self.assertIn(words, out)

    def test_the_commands_about_checkpoints(self):
        out = self.shell(self.block("cohort local"))
        for words in ("training    loss", "ckpt-1-1-4", '"kind":"checkpoint"'):
            self.assertIn(words, out)

    def test_the_readme_fits_three_screens_and_its_links_lead_somewhere(self):
        with open(pages()[0], encoding="utf-8") as f:
            text = f.read()
        self.assertLessEqual(text.count("\n"), 130)
        for page in pages():
            with open(page, encoding="utf-8") as f:
                for target in re.findall(r"\]\(([^)#:]+)\)", BLOCK.sub("", f.read())):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(page), target)),
                                    "%s: there is no %s" % (page, target))

    def test_the_job_is_a_whole_one(self):
        job = blocks("yaml")[0]
        with open(os.path.join(self.directory, "job.yaml"), "w", encoding="utf-8") as f:
            f.write(job)
        self.assertIn("Total params: 181", self.shell("cohort check job.yaml"))
        self.assertRegex(self.shell("cohort local --ps 2 --workers 2 --run_dir run job.yaml"),
                         r"training +loss .*accuracy 1\.0000")


if __name__ == "__main__":
    unittest.main(verbosity=2)
