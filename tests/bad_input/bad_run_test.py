#!/usr/bin/env python3
"""Valid jobs that go wrong while they run: what they report, and whether training continues."""
import os
import re
import unittest

import bad_input_test as cases
from real_cluster import DirectoryTestCase, LocalRun, program, run

NO_MEMORY = 171


class BadRun(DirectoryTestCase):
    def local(self, name, job, *arguments, **keywords):
        """`cohort local` of one server and one worker on a job whose data lies in the test's directory."""
        environment = {"COHORT_DATA_DIR": self.directory}
        return LocalRun(self.path(name), self.write(name + ".yaml", job), ps=1, workers=1, arguments=arguments,
                        environment=environment, **keywords)

    def test_labels(self):
        """As in Keras, a class label must be a class of the prediction, and a binary label may be any number."""
        # cohort check finds it, too (column_types_test.py).
        self.write("images.idx", cases.IMAGES)
        self.write("labels.idx", cases.LABELS[:-1] + b"\7")
        ran = self.local("classes", cases.IDX_JOB)
        self.assertEqual(ran.code, cases.DATA, ran.err)
        self.assertRegex(ran.err, r'labels.idx: record 2: column "label": 7 does not lie in \[0, 2\)')
        self.write("a.csv", b"age,word,income\n1,a,2.5\n2,b,-1\n")
        soft = cases.CSV_JOB.replace("loss: mse", "loss: binary_crossentropy").replace(", equals: yes", "")
        ran = self.local("soft", soft.replace("units: 1", "units: 1, activation: sigmoid"))
        self.assertEqual(ran.code, 0, ran.err)

    def test_a_loss_that_is_not_a_number_is_reported_once(self):
        self.write("a.csv", b"age,word,income\n" + b"1e30,a,yes\n-1e30,b,no\n" * 20)
        job = cases.CSV_JOB.replace("data:\n", "data:\n  batch_size: 4\n")
        ran = self.local("run", job + "fit: {epochs: 3}\n")
        self.assertEqual(ran.code, 0, ran.err)  # training continues, as it does in Keras
        warnings = [line for line in ran.out.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 2, ran.out)
        self.assertRegex(warnings[1], "the loss is infinite or NaN, and the weights probably, too")
        self.assertRegex(warnings[0], r"loss is infinite or NaN at step \d+, epoch 1\..* smaller learning rate")
        with open(self.path("run/tasks/chief-0.log"), encoding="utf-8") as f:
            self.assertEqual(len(re.findall(r" warning chief:0 not_finite metric=loss epoch=1 step=\d+", f.read())), 1)

    def reported(self, name, **keywords):
        """A run that reports at every step, with what its chief has logged."""
        self.write("a.csv", b"age,word,income\n" + b"1,a,yes\n-1,b,no\n" * 1000)
        job = cases.CSV_JOB.replace("data:\n", "data:\n  batch_size: 4\n")
        ran = self.local(name, job + "fit: {epochs: 3}\nreport: {every_steps: 1}\n", **keywords)
        log = self.path(name + "/tasks/chief-0.log")
        if not os.path.exists(log):
            return ran, ""
        with open(log, encoding="utf-8") as f:
            return ran, f.read()

    def test_a_fifo_named_like_the_metrics_file(self):
        os.makedirs(self.path("run/logs"))
        os.mkfifo(self.path("run/logs/metrics.jsonl"))
        ran, _ = self.reported("run")
        self.assertEqual(ran.code, 73, ran.out + ran.err)
        self.assertRegex(ran.err, r"error: \S+/metrics\.jsonl is a FIFO, not a regular file\. Remove what stands there")

    def test_metrics_that_cannot_be_stored_are_reported_once(self):
        def check(name, why, **keywords):
            ran, log = self.reported(name, **keywords)
            self.assertEqual(ran.code, 0, ran.err)  # the job continues without metrics
            warnings = [line for line in ran.out.splitlines() if "warning" in line]
            self.assertEqual(len(warnings), 1, ran.out)
            self.assertRegex(warnings[0], "warning: metrics are not stored: " + why + "; training continues")
            self.assertEqual(len(re.findall(r" warning chief:0 report_failed ", log)), 1, log)
            told = re.search(r"(?m)^logs +incomplete in \S+: (\d+) of (\d+) records of metrics failed, first: " + why,
                             ran.out)
            self.assertTrue(told, ran.out)
            self.assertGreater(int(told[1]), 2)
            self.assertEqual(told[1], told[2])
            self.assertNotIn("tensorboard --logdir", ran.out)

        os.makedirs(self.path("fifo/logs"))
        os.mkfifo(self.path("fifo/logs/train"))
        check("fifo", r"the directory \S+/logs/train\S* cannot be created: Not a directory")
        # A file of the largest allowed size stands for a full disk.
        os.makedirs(self.path("full/logs"))
        with open(self.path("full/logs/metrics.jsonl"), "wb") as f:
            f.seek((1 << 30) - 1)
            f.write(b"\n")
        check("full", r"cannot write \S+/metrics\.jsonl: File too large", under=["prlimit", "--fsize=%d" % (1 << 30)])

    def test_a_limit_on_memory(self):
        """Too little memory for the threads, or for anything: an error and 171, not an abort."""
        config, codes = {"TF_CONFIG": cases.CHIEF}, []
        for kilobytes in range(150_000, 400_000, 50_000):
            ended = run(["bash", "-c", "ulimit -v %d; exec \"$0\" \"$@\"" % kilobytes, program("cohort-chief"),
                         cases.RECOMMENDER, "--checkpoint_dir", self.path("c"), "--log_dir", self.path("l"),
                         "--task_timeout_s", "0.2"], config)
            codes.append(ended.returncode)
            with self.subTest(kilobytes):
                self.assertIn(ended.returncode, (NO_MEMORY, cases.UNAVAILABLE), ended.stderr)
                self.assertIn("cohort-chief: error: ", ended.stderr)
        self.assertIn(NO_MEMORY, codes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
