#!/usr/bin/env python3
"""Jobs that are well written and go wrong while they run: what is told, and whether training goes on."""
import re
import unittest

import bad_input_test as cases
from real_cluster import DirectoryTestCase, LocalRun, program, run

OS = 71


class BadRun(DirectoryTestCase):
    def local(self, name, job, *arguments, **keywords):
        """`cohort local` of one server and one worker on a job whose data lies in the test's directory."""
        environment = {"COHORT_DATA_DIR": self.directory}
        return LocalRun(self.path(name), self.write(name + ".yaml", job), ps=1, workers=1, arguments=arguments,
                        environment=environment, **keywords)

    def test_labels(self):
        """As Keras: a class must be one of the prediction's; the label of a binary cross-entropy may be any number."""
        self.write("images.idx", cases.IMAGES)
        self.write("labels.idx", cases.LABELS[:-1] + b"\7")
        ran = self.local("classes", cases.IDX_JOB)
        self.assertEqual(ran.code, cases.DATA, ran.err)
        self.assertRegex(ran.err, r"label 7 of example \d+ does not lie in \[0, 2\)")
        self.write("a.csv", b"age,word,income\n1,a,2.5\n2,b,-1\n")
        soft = cases.CSV_JOB.replace("loss: mse", "loss: binary_crossentropy").replace(", equals: yes", "")
        ran = self.local("soft", soft.replace("units: 1", "units: 1, activation: sigmoid"))
        self.assertEqual(ran.code, 0, ran.err)

    def test_a_loss_that_is_no_number_is_told_once(self):
        self.write("a.csv", b"age,word,income\n" + b"1e30,a,yes\n-1e30,b,no\n" * 20)
        job = cases.CSV_JOB.replace("data:\n", "data:\n  batch_size: 4\n")
        ran = self.local("run", job + "fit: {epochs: 3}\n")
        self.assertEqual(ran.code, 0, ran.err)  # training goes on, as Keras' does
        warnings = [line for line in ran.out.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1, ran.out)
        self.assertRegex(warnings[0], r"loss is infinite or no number at step \d+, epoch 1,.* smaller learning rate")
        with open(self.path("run/tasks/chief-0.log"), encoding="utf-8") as f:
            self.assertEqual(len(re.findall(r" warning chief:0 not_finite metric=loss epoch=1 step=\d+", f.read())), 1)

    def test_a_limit_on_memory(self):
        """Too little for the threads, or for anything: a message and 71, no abort."""
        config, codes = {"TF_CONFIG": cases.CHIEF}, []
        for kilobytes in range(150_000, 400_000, 50_000):
            ended = run(["bash", "-c", "ulimit -v %d; exec \"$0\" \"$@\"" % kilobytes, program("cohort-chief"),
                         cases.RECOMMENDER, "--checkpoint_dir", self.path("c"), "--log_dir", self.path("l"),
                         "--task_timeout_s", "0.2"], config)
            codes.append(ended.returncode)
            with self.subTest(kilobytes):
                self.assertIn(ended.returncode, (OS, cases.UNAVAILABLE), ended.stderr)
                self.assertIn("cohort-chief: error: ", ended.stderr)
        self.assertIn(OS, codes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
