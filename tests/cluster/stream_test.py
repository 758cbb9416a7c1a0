#!/usr/bin/env python3
"""A job trains on files that appear while it runs, and reads each record once, whatever dies.

The model counts the records: each one adds exactly 1 to the row of its id, because the loss is the absolute error of
a label that no prediction reaches, and the optimizer is SGD with rate 1. A synchronous step has the mean of its
closures, and the rate is their number. The last checkpoint shows the counts.
"""
import collections
import gzip
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

import real_cluster
from real_cluster import SCALE, SOURCE, DirectoryTestCase, children, dies_with_parent, program, run, until
from safetensors_files import checkpoints, tensors

sys.path.insert(0, os.path.join(SOURCE, "tests", "data"))
from make_image_files import field, tf_record  # noqa: E402

IDS = 6000
JOB = """
name: endless
seed: 1
model:
  sequential:
%s
compile:
  loss: {MeanAbsoluteError: {reduction: sum}}
  optimizer: {SGD: {learning_rate: %d}}
data:
  batch_size: 8
  visitation: stream
  stream: {poll_s: 0.1, end: in/END%s}
  train:
    %s
    label: far
fit: {steps_per_epoch: 52%s}
strategy: {%s}
checkpoint: {directory: checkpoints, every_steps: 30, full_every: 3}
"""
ONE = """    - Input: {shape: [1], dtype: int64, feature: id}
    - Embedding: {name: seen, input_dim: %d, output_dim: 1, embeddings_initializer: zeros}
    - Flatten""" % IDS
BAG = """    - Input: {dtype: int64, ragged: true, max_length: 3, feature: id}
    - EmbeddingBag: {name: seen, input_dim: %d, output_dim: 1, embeddings_initializer: zeros, combiner: sum}""" % IDS
CSV = 'csv: {path: "in/*.csv"}'
SHARDS = "partitioner: {FixedShards: {num_shards: 2}}"


class StreamCase(DirectoryTestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("in"))
        self.records = 0
        self.files = 0
        self.steps = 0  # those that the complete files have
        self.process = None

    def rows(self, count):
        first, self.records = self.records, self.records + count
        self.assertLessEqual(self.records, IDS)
        return "id,far\n" + "".join("%d,1000000\n" % i for i in range(first, first + count))

    def name(self):
        self.files += 1
        return "in/part-%04d.csv" % self.files

    def add(self, count, name=None):
        """A complete file that appears by rename."""
        path = self.path(name or self.name())
        self.write("in/.new", self.rows(count))
        os.rename(self.path("in/.new"), path)
        self.steps += -(-count // 8)
        return path

    def end(self):
        self.write("in/END", "")

    def start(self, command, strategy=SHARDS, stream="", fit="", rate=1, source=CSV, model=ONE):
        job = self.write("job.yaml", JOB % (model, rate, stream, source, fit, strategy))
        with open(self.path("out"), "a") as out:
            self.process = subprocess.Popen(
                dies_with_parent([program("cohort"), *command.split(), "--run_dir", self.path("run"), job]),
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "COHORT_DATA_DIR": self.directory})
        self.addCleanup(self.process.kill)

    def out(self):
        with open(self.path("out"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def log(self):
        found = []
        for folder, _, names in os.walk(self.path("run")):
            for name in names:
                if name.endswith(".log"):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                        found.append(f.read())
        return "\n".join(found) + self.out()

    def ctl(self, *arguments):
        return run([program("cohort"), "ctl", self.path("run"), *arguments])

    def status(self):
        done = self.ctl("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def until(self, condition):
        def held():
            self.assertIsNone(self.process.poll(), self.out())
            return condition(self.status())
        return until(lambda: json.dumps(self.status()) + self.out()[-3000:], held)

    def read_all(self, closures_per_step=1):
        """Waits until the workers wait for files; returns the status."""
        last = self.steps - (closures_per_step - 1)
        return self.until(lambda s: s.get("activity", "").startswith("waiting for files") and s.get("step", -1) >= last and s)

    def ended(self, code=0):
        self.assertEqual(self.process.wait(timeout=90 * SCALE), code, self.out())

    def counts(self):
        found = tensors(checkpoints(self.path("run/checkpoints"))[-1])
        (_, data), = [value for name, value in found.items() if name.startswith("seen/embeddings")]
        return struct.unpack("<%df" % IDS, data)

    def check_counts(self, short=0, rate=1, left_out=range(0)):
        """Each record was read once, of those that were left out at most once. The last step has `short` closures, 0: all, so
        its mean is of fewer records."""
        self.assertGreater(self.records, 0)
        counts = self.counts()
        self.assertEqual(set(counts[self.records:]), {0.0})
        found = collections.Counter(round(counts[i], 5) for i in range(self.records) if i not in left_out)
        last = {round(rate / short, 5): 8 * short} if short else {}
        self.assertEqual(found, {1.0: self.records - len(left_out) - 8 * short, **last})
        self.assertLessEqual({counts[i] for i in left_out}, {0.0, 1.0})


class Kills(StreamCase):
    """Real processes: each kind of task is killed while files are added."""

    def kill(self, name):
        os.kill(children(self.process.pid, name)[0], signal.SIGKILL)

    def storm(self, strategy, closures_per_step=1):
        # A synchronous step weighs its closures by their records: whole batches count records.
        whole = 8 if closures_per_step > 1 else 1
        for count in (100, 3, 41):
            self.add(-(-count // whole) * whole)
        self.start("local --ps 2 --workers 2 --restart", strategy, rate=closures_per_step)
        self.until(lambda s: s.get("step", 0) > 3)
        left_out = range(0)
        if closures_per_step == 1:
            # Some of its records may be read before the marker is seen.
            name, left_out = self.name(), range(self.records, self.records + 160)
            self.add(160, name)
            until(self.log, lambda: "path=" + name in self.log())
            self.write(name + ".skip", "")
        # A file that is being written under another name, while later ones appear.
        late = self.path("in/part-0000.csv.tmp")
        rows = self.rows(120)
        with open(late, "w") as f:
            f.write(rows[:500])
            f.flush()
            for task in ("cohort-worker", "cohort-ps", "cohort-chief", "cohort-worker", "cohort-ps", "cohort-chief"):
                before = self.until(lambda s: s.get("step"))
                self.add(-(-150 // whole) * whole)
                self.add(-(-4 // whole) * whole)
                self.until(lambda s: s.get("step", 0) >= before + 6)
                self.kill(task)
                self.add(-(-170 // whole) * whole)
            self.read_all(closures_per_step)
            f.write(rows[500:])
        os.rename(late, late[:-len(".tmp")])
        self.steps += 15
        self.read_all(closures_per_step)
        self.end()
        self.ended()
        self.check_counts(short=self.steps % closures_per_step, rate=closures_per_step, left_out=left_out)
        self.assertRegex(self.out(), r"[1-9][0-9]* rollbacks?")
        self.assertRegex(self.out(), "2 chief restarts")

    def test_async(self):
        self.storm(SHARDS)

    def test_sync(self):
        self.storm(SHARDS + ", mode: sync, closures_per_step: 4", 4)


class Files(StreamCase):
    """One process."""

    def test_status_and_continuation(self):
        self.start("local --ps 1 --workers 2")
        # No file is there: the job waits for the first one.
        until(self.out, lambda: "waiting for files in in/*.csv" in self.out())
        first = [self.add(100), self.add(37)]
        status = self.read_all()
        self.assertEqual(status["stream"]["place"], "in/*.csv")
        self.assertEqual(status["stream"]["files_done"] + status["stream"]["files_in_work"], 2)
        text = self.ctl("status").stdout
        self.assertRegex(text, r"activity +waiting for files in in/\*\.csv")
        self.assertRegex(text, r"progress +window 1, step 18, ")
        self.assertRegex(text, r"files +0 done, 2 in work, 0 waiting in in/\*\.csv\nlag +0 records, 0 bytes")
        self.assertEqual(self.ctl("checkpoint").returncode, 0)
        self.assertRegex(self.ctl("status").stdout, r"files +2 done, 0 in work, 0 waiting")
        self.assertEqual(self.ctl("stop").returncode, 0)
        self.ended(79)
        # What is done may be removed. The job continues with the next file.
        for path in first:
            os.remove(path)
        self.add(500)
        self.start("local --ps 1 --workers 2")
        self.read_all()
        self.end()
        self.ended()
        self.check_counts()
        out = self.out()
        self.assertIn("continuing endless at step 18", out)
        self.assertRegex(out, r"(?m)^window 1 \[=+\] 52/52, ")
        with open(self.path("run/logs/metrics.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        windows = [line for line in lines if line["set"] == "train" and line["kind"] == "epoch"]
        self.assertEqual([(line["epoch"], line["step"]) for line in windows], [(1, 52), (2, 81)])

    def test_json_lines_and_tfrecord(self):
        def example(i):
            numbers = bytes([i & 127 | 128, i >> 7])
            features = {"id": field(3, field(1, numbers)), "far": field(2, field(1, struct.pack("<f", 1e6)))}
            return tf_record(field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature))
                                               for name, feature in features.items())))
        for source, suffix, record in (
                ("json_lines: {path: 'in/*.jsonl', columns: {id: {dtype: int64, shape: [1]}, far: {}}}", ".jsonl",
                 lambda i: b'{"id": [%d], "far": 1e6}\n' % i),
                ("tfrecord: {path: 'in/*.tfrecord', features: {id: {dtype: int64, shape: [1]}, far: {}}}", ".tfrecord",
                 example)):
            with self.subTest(source):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                for file in range(3):
                    data = b"".join(record(i) for i in range(200 * file, 200 * file + 200))
                    self.write("in/.new", gzip.compress(data) if file == 1 else data)
                    os.rename(self.path("in/.new"), self.path("in/part-%d%s" % (file, suffix)))
                self.records = 600
                self.end()
                self.start("train", "", source=source)
                self.ended()
                self.check_counts()

    def test_parquet_with_lists_of_different_lengths(self):
        python = os.environ.get("COHORT_ARROW_PYTHON")
        if python is None:
            self.skipTest("this build has no Arrow: COHORT_ARROW_ROOT gives it one")
        write = """
import sys, pyarrow as pa, pyarrow.parquet as pq
for file in range(3):
    rows = range(200 * file, 200 * file + 200)
    lists = [[3 * r, 3 * r + 1, 3 * r + 2][:r % 4] for r in rows]
    table = pa.table({"id": pa.array(lists, pa.list_(pa.int64())), "far": pa.array([1e6] * 200, pa.float32())})
    pq.write_table(table, "%s/part-%d.parquet" % (sys.argv[1], file), row_group_size=64)
"""
        subprocess.run([python, "-c", write, self.path("in")], check=True)
        self.end()
        self.start("train", "", source='parquet: {path: "in/*.parquet"}', model=BAG)
        self.ended()
        counts = self.counts()
        self.assertEqual([i for i in range(1800) if counts[i] != float(i % 3 < i // 3 % 4)], [])
        self.assertEqual(set(counts[1800:]), {0.0})

    def test_max_steps_ends_the_training(self):
        self.add(800)
        self.start("train", "", fit=", max_steps: 60, steps_per_execution: 7")
        self.ended()
        self.assertEqual(sum(self.counts()), 480)
        self.assertEqual(set(self.counts()), {0.0, 1.0})

    def test_a_done_marker_completes_a_file(self):
        self.add(40)
        self.write("in/part-0001.csv.done", "")
        self.start("train", "", stream=", done_marker: true")
        growing = self.path("in/part-0002.csv")
        rows = self.rows(80)
        with open(growing, "w") as f:
            f.write(rows[:300])
            f.flush()
            self.assertEqual(self.read_all()["step"], 5)
            f.write(rows[300:])
        self.write("in/part-0002.csv.done", "")
        self.until(lambda s: s.get("step", 0) == 15)
        self.end()
        self.ended()
        self.check_counts()

    def test_files_that_were_read_may_change_and_go(self):
        changed, gone = self.add(40), self.add(40)
        self.start("train", "")
        self.read_all()
        with open(changed, "a") as f:
            f.write("1,1000000\n")
        os.remove(gone)
        until(self.log, lambda: self.log().count("stream_file_not_as_read") == 2)
        self.add(40)
        self.read_all()
        self.end()
        self.ended()
        self.check_counts()
        self.assertIn("%s: has changed since the stream took it" % changed, self.log())
        self.assertIn("%s: was removed before a checkpoint had all of its records" % gone, self.log())

    def test_a_file_that_changes_or_goes_before_it_is_read_is_an_error_that_names_it(self):
        for change, error in ((lambda path: os.truncate(path, 40), "has changed since the stream took it"),
                              (os.remove, "was removed before a checkpoint had all of its records|cannot be read|No such")):
            with self.subTest(error):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                path = self.add(40)
                # The last batches wait: they do not fill a closure.
                self.start("train", "", fit=", steps_per_execution: 50")
                self.until(lambda s: s.get("activity", "").startswith("waiting for files"))
                change(path)
                self.ended(66)
                self.assertRegex(self.out(), "%s: (%s)" % (path, error))
                self.assertIn("put it back as it was, or make %s.skip, and the job leaves out" % path, self.out())
                shutil.rmtree(self.path("in"))
                os.mkdir(self.path("in"))

    def spoil(self, path, line):
        with open(path, encoding="utf-8") as f:
            lines = f.readlines()
        lines[line] = "seven,1000000\n"
        with open(path + ".tmp", "w", encoding="utf-8") as f:
            f.writelines(lines)
        os.rename(path + ".tmp", path)

    def skip_bad_file(self, strategy, closures_per_step=1, command="local --ps 2 --workers 2"):
        """Of a file with a bad record, the rest is left out; all other records are read once."""
        good = self.add(224)  # whole steps
        bad = self.path("in/part-0002.csv")
        self.write("in/.new", self.rows(800))
        self.spoil(self.path("in/.new"), 500)
        os.rename(self.path("in/.new"), bad)
        self.files, self.steps = 2, self.steps + 100
        later = self.add(256)
        self.start(command, strategy, rate=closures_per_step)
        self.ended(65)
        self.assertIn('error: closure', self.out())
        self.assertRegex(self.out(), r"'train': in/part-0002\.csv: line 501: .*is not a number; make %s\.skip, and the job leaves out "
                                     "what it has not read of the file" % re.escape(bad))
        # A start without the marker ends with the same error.
        self.start(command, strategy, rate=closures_per_step)
        self.ended(65)
        self.write("in/part-0002.csv.skip", "")
        self.start(command, strategy, rate=closures_per_step)
        self.read_all(closures_per_step)
        self.assertEqual(self.status()["stream"]["files_left_out"], 1)
        self.assertRegex(self.ctl("status").stdout, r"in/\*\.csv; 1 with a \.skip")
        # The marker makes the file free.
        os.remove(bad)
        newest = self.add(96)
        self.read_all(closures_per_step)
        self.end()
        self.ended()
        counts = self.counts()
        for first, end, path in ((0, 224, good), (1024, 1280, later), (1280, 1376, newest)):
            self.assertEqual(set(counts[first:end]), {1.0}, path)
        self.assertEqual(set(counts[224:1024]) - {0.0, 1.0}, set())
        self.assertIn("stream_file_left_out", self.log())

    def test_the_rest_of_a_bad_file_is_left_out(self):
        self.skip_bad_file(SHARDS)

    def test_the_rest_of_a_bad_file_is_left_out_in_sync(self):
        self.skip_bad_file(SHARDS + ", mode: sync, closures_per_step: 4", 4)

    def test_a_bad_file_that_is_not_taken_can_be_left_out(self):
        self.add(40)
        self.start("train", "")
        self.read_all()
        self.write("in/part-0002.csv", "id,far\n1,2\n\"3,4\n")
        self.ended(65)
        self.assertRegex(self.out(), r"in/part-0002\.csv.*; correct it and start the job again, or make .*/in/part-0002\.csv\.skip")
        self.write("in/part-0002.csv.skip", "")
        self.start("train", "")
        self.files = 2
        self.add(40)
        self.end()
        self.ended()
        self.check_counts()

    def test_the_first_file_can_be_left_out(self):
        self.write("in/part-0001.csv", "id,far\nseven,1000000\n")
        self.start("train", "")
        self.ended(65)
        self.assertRegex(self.out(), r"in/part-0001\.csv: line 2: .*; correct it and start the job again, or make .*/in/part-0001\.csv\.skip")
        self.write("in/part-0001.csv.skip", "")
        self.files = 1
        self.add(40)
        self.end()
        self.start("train", "")
        self.ended()
        self.check_counts()

    def test_the_job_answers_before_the_first_file(self):
        self.start("train", "")
        until(self.out, lambda: "waiting for files in in/*.csv" in self.out())
        status = self.until(lambda s: s)
        self.assertEqual(status["activity"], "waiting for files in in/*.csv")
        self.assertEqual(status["stream"]["place"], "in/*.csv")
        refused = self.ctl("checkpoint")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("the job does not train yet: it is waiting for files in in/*.csv", refused.stderr)
        stopped = self.ctl("stop")
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertIn("it has trained nothing since its start", stopped.stdout)
        self.ended(79)
        self.start("train", "")
        self.add(40)
        self.read_all()
        self.end()
        self.ended()
        self.check_counts()

    def test_a_stream_that_ends_without_a_file_is_an_error(self):
        self.start("train", "")
        until(self.out, lambda: "waiting for files in in/*.csv" in self.out())
        self.end()
        self.ended(66)
        self.assertRegex(self.out(), r"the stream in/\*\.csv has ended, because .*/in/END exists, and it has no file")

    def test_another_batch_size_is_refused(self):
        self.add(40)
        self.start("train", "")
        self.read_all()
        self.assertEqual(self.ctl("stop").returncode, 0)
        self.ended(79)
        with open(self.path("job.yaml"), encoding="utf-8") as f:
            job = self.write("other.yaml", f.read().replace("batch_size: 8", "batch_size: 9"))
        done = run([program("cohort"), "train", "--run_dir", self.path("run"), job],
                   environment={"COHORT_DATA_DIR": self.directory})
        self.assertEqual(done.returncode, 78, done.stderr)
        self.assertRegex(done.stdout + done.stderr, "cut into batches of 8 records")


if __name__ == "__main__":
    real_cluster.main(globals())
