#!/usr/bin/env python3
"""`cohort local` with the real daemons: a chief that ends when all is committed."""
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest

from real_cluster import SCALE, children, program, run, until

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


class RealDaemonsTest(unittest.TestCase):
    def command(self, directory, *flags):
        job = directory + "/job.yaml"
        with open(job, "w") as f:
            f.write(JOB)
        return [program("cohort"), "local", "--run_dir", directory + "/run", *flags, job]

    def run_job(self, directory, *flags):
        return run(self.command(directory, *flags), limit_s=100)

    def test_a_finished_job_leaves_its_report(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_job(directory, "--workers", "2")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            logs = directory + "/run/logs"
            self.assertIn("page        %s/report.html\n" % logs, done.stdout)
            with open(logs + "/report.json", encoding="utf-8") as f:
                report = json.load(f)
            self.assertEqual((report["job"], report["outcome"], report["steps"]), ("short", "finished", 20))
            self.assertEqual(sum(worker["steps"] for worker in report["workers"]), 20)
            self.assertEqual(report["keys"]["compile.optimizer.learning_rate"], "0.1")
            with open(logs + "/report.html", encoding="utf-8") as f:
                self.assertIn("<h3>loss</h3>", f.read())
            said = run([program("cohort"), "report", directory + "/run"])
            self.assertRegex(said.stdout, r"outcome +finished\n")
            self.assertRegex(said.stdout, r"accuracy +training +[01]\.\d+ ")
            alone = run([program("cohort"), "compare", directory + "/run"])
            self.assertEqual(alone.returncode, 64, alone.stderr)
            # The report of an earlier end does not stay beside the records of a job that trains again.
            crash = ["--fresh", "--task_flag", "chief=--crash_point=chief.cut.manifest_written:1"]
            self.assertNotEqual(self.run_job(directory, *crash).returncode, 0)
            self.assertFalse(os.path.exists(logs + "/report.json"))

    def test_check_with_strict_ends_for_a_warning(self):
        with tempfile.TemporaryDirectory() as directory:
            *_, job = self.command(directory)
            with open(job, "w", encoding="utf-8") as f:
                f.write(JOB.replace("activation: sigmoid", "activation: relu"))
            check = run([program("cohort"), "check", job])
            self.assertEqual(check.returncode, 0, check.stderr)
            self.assertIn("BinaryCrossentropy needs probabilities, and the activation is relu", check.stdout)
            strict = run([program("cohort"), "check", "--strict", job])
            self.assertEqual(strict.returncode, 65)
            self.assertIn("--strict: there is 1 warning, see above", strict.stderr)

    def test_a_chief_that_is_ended_when_all_is_committed_has_done_its_job(self):
        # The chief waits for a worker that it has asked to end and that its step holds.
        with tempfile.TemporaryDirectory() as directory:
            held = ["--workers", "2", "--grace_s", "1",
                    "--task_flag", "worker:1=--crash_point=worker.closure.received:1:hold"]
            with open(directory + "/out", "w+") as out:
                local = subprocess.Popen(self.command(directory, *held), stdout=out,
                                         stderr=subprocess.STDOUT)
                self.addCleanup(local.kill)
                committed = directory + "/run/checkpoints/ckpt-1-1-1/manifest.json"
                until("not committed, or a server is there yet",
                      lambda: os.path.exists(committed) and not children(local.pid, "cohort-ps"))
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
            self.assertIn("give more epochs (`fit.epochs`). For another training, give another checkpoint directory",
                          again.stderr)

    def test_one_process_runs_the_whole_job_with_the_same_result(self):
        tasks = ["--ps", "2", "--workers", "2", "--evaluator"]
        with tempfile.TemporaryDirectory() as directory:
            job = JOB.replace("  train:", "  validation: {take: 64}\n  train:")
            with open(directory + "/job.yaml", "w") as f:
                f.write(job)
            outputs = []
            for name, flags in (("many", []), ("one", ["--in_process"])):
                done = run([program("cohort"), "local", *tasks, *flags, "--run_dir", directory + "/" + name,
                            directory + "/job.yaml"], limit_s=100)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                outputs.append([self.shape_of(text, name) for text in (done.stdout.split("\n\n", 1)[1], done.stderr)])
                self.assertEqual(sorted(os.listdir(directory + "/" + name + "/tasks")),
                                 ["chief-0.log", "evaluator-0.log", "ps-0.log", "ps-1.log", "worker-0.log",
                                  "worker-1.log"])
            self.assertEqual(outputs[0], outputs[1])

    def shape_of(self, text, run_dir):
        """The words of an output, without its numbers and the run's directory."""
        lines = re.sub(r"\d+(\.\d+)?(e-\d+)?", "N", text.replace("/" + run_dir + "/", "/RUN/")).split("\n")
        return [re.sub(r" +", " ", line) for line in lines]

    def test_one_process_cannot_restart_its_tasks(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.run_job(directory, "--in_process", "--restart")
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn("--restart: the tasks of --in_process end with their process", done.stderr)
            done = self.run_job(directory, "--in_process", "--task_flag", "worker=--crash_point=worker.step.pushed")
            self.assertIn("--crash_point", done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_one_process_has_the_exit_code_of_a_wrong_job(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(directory + "/job.yaml", "w") as f:
                f.write(JOB.replace("Dense", "Danse"))
            for flags in ([], ["--in_process"]):
                done = run([program("cohort"), "local", *flags, "--run_dir", directory + "/run",
                            directory + "/job.yaml"])
                self.assertEqual(done.returncode, 65, done.stderr)
                self.assertIn("Danse", done.stderr)

    def test_a_signal_ends_one_process_with_its_code(self):
        with tempfile.TemporaryDirectory() as directory:
            command = self.command(directory, "--in_process")
            with open(directory + "/job.yaml", "w") as f:
                f.write(JOB.replace("epochs: 1", "epochs: 100000"))
            metrics = directory + "/run/logs/metrics.jsonl"
            local = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(local.kill)
            until("no epoch has ended", lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
            local.send_signal(signal.SIGTERM)
            self.assertEqual(local.wait(timeout=60 * SCALE), 143)

    def ctl(self, directory, *arguments):
        return run([program("cohort"), "ctl", directory + "/run", *arguments])

    def status(self, directory):
        """What `cohort ctl RUN status --json` prints, or {}."""
        done = self.ctl(directory, "status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def start_endless(self, directory, *flags):
        command = self.command(directory, *flags)
        with open(directory + "/job.yaml", "w") as f:
            f.write(JOB.replace("epochs: 1", "epochs: 100000").replace("  train:", "  validation: {take: 64}\n  train:"))
        with open(directory + "/out", "w") as out:
            local = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(local.kill)
        return local

    def stop_and_continue(self, *flags):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(self.ctl(directory, "status").returncode, 66)
            step = 0
            for _ in range(2):
                local = self.start_endless(directory, *flags)
                trained = until("no step", lambda: (s := self.status(directory)).get("step", 0) > step and s)
                self.assertEqual(trained["strategy"], {"mode": "async"})
                self.assertEqual([w["connected"] for w in trained["workers"]], [True, True])
                self.assertEqual([server["connected"] for server in trained["servers"]], [True])
                self.assertRegex(self.ctl(directory, "status").stdout, r"progress +epoch \d+ of 100000, step \d+ of ")
                taken = self.ctl(directory, "checkpoint").stdout.strip()
                self.assertTrue(os.path.exists(taken + "/manifest.json"), taken)
                refused = self.ctl(directory, "set-mode", "bounded_staleness", "--backup_work", "drop")
                self.assertEqual(refused.returncode, 65, refused.stderr)
                stopped = self.ctl(directory, "stop", "--json")
                self.assertEqual(stopped.returncode, 0, stopped.stderr)
                last = json.loads(stopped.stdout)["checkpoint"]
                self.assertEqual(local.wait(timeout=60 * SCALE), 79)
                with open(directory + "/out", encoding="utf-8") as f:
                    text = f.read()
                self.assertIn("the job was stopped; %s is its checkpoint" % last, text)
                self.assertNotIn("killing", text)
                self.assertFalse(os.listdir(directory + "/run/checkpoints/control"))
                if step > 0:
                    self.assertGreaterEqual(int(re.search(r"continuing short at step (\d+) of", text).group(1)), step)
                step = trained["step"]

    def test_ctl_stops_a_run_and_the_same_command_continues_it(self):
        self.stop_and_continue("--workers", "2", "--restart", "--evaluator")

    def test_ctl_stops_a_run_in_one_process(self):
        self.stop_and_continue("--workers", "2", "--in_process")


if __name__ == "__main__":
    unittest.main(verbosity=2)
