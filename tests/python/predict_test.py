#!/usr/bin/env python3
"""`cohort predict` and `cohort.predict`: the numbers that the evaluation saw, in each form of file, for records of each form."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import real_cluster  # noqa: E402

os.environ["COHORT_BIN_DIR"] = os.path.join(real_cluster.BINARY, "bin")

import cohort  # noqa: E402

# `city` is a word and `label` the last column; `rows` is a shape that only the data tells.
JOB = """
name: prices
seed: 3
model:
  functional:
    - Input: {name: city, dtype: string}
    - Input: {name: rooms}
    - StringLookup: {name: city_id, inputs: city}
    - Embedding: {name: place, inputs: city_id, input_dim: 5, output_dim: 4}
    - Flatten: {name: flat, inputs: place}
    - Concatenate: {name: all, inputs: [flat, rooms]}
    - Dense: {name: hidden, inputs: all, units: 8, activation: tanh}
    - Dropout: {name: drop, inputs: hidden, rate: 0.5}
    - Dense: {name: price, inputs: drop, units: 1}
    - Dense: {name: kind, inputs: hidden, units: 3, activation: softmax}
  outputs: [price, kind]
compile:
  loss: {price: mse, kind: sparse_categorical_crossentropy}
  optimizer: {Adam: {learning_rate: 0.01}}
data:
  batch_size: 16
  train:
    csv: {path: TRAIN}
    transforms: [{column: rooms, scale: 0.25}]
    label: [price, kind]
  validation:
    csv: {path: VALIDATION}
    transforms: [{column: rooms, scale: 0.25}]
    label: [price, kind]
fit: {epochs: 2}
checkpoint: {every_epochs: 1, keep_best: val_loss}
"""
CITIES = np.array(["Rome", "Oslo", "Lima", "Kyoto", "Bonn"])


LISTS = """
name: lists
seed: 1
model:
  functional:
    - Input: {name: ids, dtype: int64, ragged: true, max_length: 3}
    - Input: {name: w, dtype: float32, ragged: true, max_length: 3}
    - Input: {name: x, shape: [1]}
    - EmbeddingBag: {name: bag, inputs: [ids, w], input_dim: 100, output_dim: 4, combiner: sum}
    - Concatenate: {name: both, inputs: [bag, x]}
    - Dense: {name: out, inputs: both, units: 1}
compile: {loss: mse, optimizer: {SGD: {learning_rate: 0.1}}}
data:
  batch_size: 8
  train:
    SOURCE
    label: y
fit: {epochs: 1}
"""


class Lists(unittest.TestCase):
    """Lists of different lengths, in files of another kind than those that the job has read."""

    def write(self, name, text):
        path = os.path.join(self.directory.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_cohort(self, *arguments):
        done = subprocess.run([real_cluster.program("cohort"), *arguments], capture_output=True, text=True, check=False,
                              cwd=self.directory.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_any_kind_of_file_predicts_the_same(self):
        self.directory = tempfile.TemporaryDirectory(prefix="cohort-lists-")
        self.addCleanup(self.directory.cleanup)
        rows = [{"ids": list(range(i, i + i % 4)), "w": [0.5 * j + 0.25 for j in range(i % 4)], "x": i / 8, "y": i % 2}
                for i in range(40)]
        def cells(row):
            return "%s,%s,%s,%s\n" % ("|".join(map(str, row["ids"])), "|".join(map(str, row["w"])), row["x"], row["y"])
        lines = self.write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        table = self.write("a.csv", "ids,w,x,y\n" + "".join(map(cells, rows)))
        for source in ("json_lines: {path: %s, columns: {ids: {}, w: {}, x: {shape: [1]}, y: {}}}" % lines, "csv: {path: %s}" % table):
            job = self.write("job.yaml", LISTS.replace("SOURCE", source))
            self.run_cohort("train", "--fresh", "--run_dir", "run", "--checkpoint_dir", "ckpt", job)
            predicted = []
            for data in (lines, table):
                self.run_cohort("predict", "--out", "out.csv", "ckpt", data)
                with open(os.path.join(self.directory.name, "out.csv"), encoding="utf-8") as file:
                    predicted.append(file.read())
            self.assertEqual(predicted[0].count("\n"), 41)
            self.assertEqual(predicted[0], predicted[1], source)


class _Job(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = real_cluster.Directory()
        cls.directory = cls.scratch.__enter__()
        rng = np.random.default_rng(1)
        cls.city, cls.rooms = CITIES[rng.integers(0, 4, 150)], rng.integers(1, 9, 150)
        cls.kind = rng.integers(0, 3, 150)
        cls.price = cls.rooms * 0.3 + (cls.city == "Oslo") + cls.kind
        for name, rows in (("train", slice(0, 100)), ("validation", slice(100, 150))):
            with open(cls.path(f"{name}.csv"), "w", encoding="utf-8") as file:
                file.write("city,rooms,price,kind\n")
                for row in zip(cls.city[rows], cls.rooms[rows], cls.price[rows], cls.kind[rows]):
                    file.write("%s,%d,%.3f,%d\n" % row)
        job = cls.path("job.yaml")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB.replace("TRAIN", cls.path("train.csv")).replace("VALIDATION", cls.path("validation.csv")))
        cls.run_dir = cls.path("run")
        cls.ran = real_cluster.LocalRun(cls.run_dir, job, ps=1, workers=1)
        assert cls.ran.code == 0, cls.ran.out + cls.ran.err
        cls.checkpoints = os.path.join(cls.run_dir, "checkpoints")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.directory, name)

    def predict(self, *arguments):
        return real_cluster.run([real_cluster.program("cohort"), "predict", *arguments])


class Predict(_Job):
    def test_figures_of_the_evaluation_follow_from_the_predictions(self):
        newest = self.ran.metrics("validation", "epoch")[-1]
        got = cohort.predict(self.run_dir)
        self.assertEqual({name: x.shape for name, x in got.items()}, {"price": (50, 1), "kind": (50, 3)})
        price = np.mean((got["price"][:, 0].astype(float) - np.round(self.price[100:], 3)) ** 2)
        kind = -np.mean(np.log(got["kind"][np.arange(50), self.kind[100:]].astype(float)))
        self.assertAlmostEqual(price, newest["price_loss"], delta=2e-6 * price)
        self.assertAlmostEqual(kind, newest["kind_loss"], delta=2e-6 * kind)

    def test_files_of_each_form_have_the_same_numbers(self):
        want = cohort.predict(self.checkpoints)
        for ending in ("csv", "jsonl", "npz"):
            done = self.predict("--out", self.path("p." + ending), self.checkpoints, self.path("validation.csv"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("predictions for 50 records", done.stdout)
        with np.load(self.path("p.npz")) as arrays:
            for name in want:
                np.testing.assert_array_equal(arrays[name], want[name])
        with open(self.path("p.csv"), encoding="utf-8") as file:
            self.assertEqual(file.readline(), "price,kind_0,kind_1,kind_2\n")
            rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
        np.testing.assert_array_equal(rows, np.concatenate([want["price"], want["kind"]], axis=1))
        with open(self.path("p.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        np.testing.assert_array_equal(np.array([line["kind"] for line in lines], np.float32), want["kind"])

    def test_arrays_tables_and_files_are_the_same_records(self):
        want = cohort.predict(self.run_dir)
        x = {"city": self.city[100:], "rooms": self.rooms[100:]}
        for given in (x, {**x, "price": self.price[100:]}, {"rooms": self.rooms[100:], "city": list(self.city[100:])}):
            got = cohort.predict(self.run_dir, given)
            np.testing.assert_array_equal(got["kind"], want["kind"])
        # Batches of the job have 16 records, and 37 are no multiple of it.
        some = cohort.predict(self.run_dir, {name: a[:37] for name, a in x.items()}, threads=1)
        np.testing.assert_array_equal(some["price"], want["price"][:37])
        with open(self.path("records.tsv"), "w", encoding="utf-8") as file:
            file.write("rooms\tcity\n" + "".join(f"{r}\t{c}\n" for r, c in zip(x["rooms"], x["city"])))
        np.testing.assert_array_equal(cohort.predict(self.run_dir, self.path("records.tsv"))["price"], want["price"])
        os.mkdir(self.path("folder.tsv"))
        shutil.copy(self.path("validation.csv"), self.path("folder.tsv/records.csv"))
        np.testing.assert_array_equal(cohort.predict(self.run_dir, self.path("folder.tsv/records.csv"))["price"], want["price"])

    def test_the_checkpoint_is_the_newest_the_best_or_the_one_that_is_named(self):
        names = sorted(name for name in os.listdir(self.checkpoints) if name.startswith("ckpt-"))
        newest = cohort.predict(os.path.join(self.checkpoints, names[-1]))["price"]
        np.testing.assert_array_equal(cohort.predict(self.checkpoints)["price"], newest)
        cohort.predict(os.path.join(self.checkpoints, "best"))
        history = cohort.History()
        history.run_dir = self.run_dir
        np.testing.assert_array_equal(cohort.predict(history)["price"], newest)

    def test_wrong_input_is_an_error_that_leaves_no_file(self):
        done = self.predict("--out", self.path("p.xlsx"), self.checkpoints)
        self.assertEqual(done.returncode, 64)
        self.assertIn("written as .csv, .jsonl, .npz or .parquet", done.stderr)
        with self.assertRaisesRegex(cohort.ProgramError, "rooms"):
            cohort.predict(self.run_dir, {"city": self.city[:5]})
        with self.assertRaisesRegex(ValueError, "different numbers of records"):
            cohort.predict(self.run_dir, {"city": self.city[:5], "rooms": self.rooms[:4]})
        with self.assertRaisesRegex(TypeError, "dict by their names"):
            cohort.predict(self.run_dir, [self.city, self.rooms])
        with self.assertRaisesRegex(cohort.ProgramError, "does not exist"):
            cohort.predict(self.path("nothing"))
        with open(self.path("broken.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"city": "Rome", "rooms": 2}\n' * 40 + '{"city": "Rome"}\n')
        done = self.predict("--out", self.path("half.csv"), self.checkpoints, self.path("broken.jsonl"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("broken.jsonl", done.stderr)
        self.assertEqual([name for name in os.listdir(self.directory) if "half" in name], [])
        done = self.predict("--workers", "2", "--plugin=/missing.so", self.checkpoints)
        self.assertIn("plugin /missing.so does not exist", done.stderr)
        done = self.predict("--out", self.path("nowhere/p.csv"), self.checkpoints)
        self.assertEqual(done.returncode, 73)
        self.assertIn("nowhere/p.csv.parts: No such file or directory; --out names a file in a folder that exists", done.stderr)
        for flags, text in ((["--workers", "0"], "--workers: 0 is not between 1 and 1024"), (["--part", "3/3"], "INDEX/COUNT"), (["--join"], "takes no CHECKPOINT"),
                            (["--workers", "2", "--part", "0/2"], "starts the parts itself")):
            done = self.predict(*flags, self.checkpoints)
            self.assertEqual((done.returncode, text in done.stderr), (64, True), done.stderr)
        self.assertIn("CHECKPOINT is missing", self.predict().stderr)
        with self.assertRaisesRegex(TypeError, "the tasks of a cluster only train"):
            cohort.predict(self.run_dir, cluster="running")


class Workers(_Job):
    """Several processes, each with a part of the records."""

    def large(self):
        """A file whose records take seconds."""
        path = self.path("large.jsonl")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                for i in range(200_000):
                    file.write('{"city": "%s", "rooms": %d}\n' % (CITIES[i % 5], i % 7))
        return path

    def start(self, out, workers=2):
        """A prediction that runs; its process becomes `cohort-predict`."""
        return subprocess.Popen(real_cluster.dies_with_parent(
            [real_cluster.program("cohort"), "predict", "--workers", str(workers), "--threads", "1", "--out", self.path(out), self.checkpoints,
             self.large()]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def parts(self, run, count=2):
        """The ids of the processes of the parts, by their numbers, when all run."""
        def found():
            pids = {}
            for pid in real_cluster.children(run.pid, "cohort-predict"):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    for argument in file.read().split(b"\0"):
                        if argument.startswith(b"--part="):
                            pids[int(argument[7:].split(b"/")[0])] = pid
            return pids if len(pids) == count else None
        return real_cluster.until("the parts do not run", found)

    def left(self, name):
        return sorted(file for file in os.listdir(self.directory) if file.startswith(name))

    def test_any_number_of_processes_writes_the_same_bytes(self):
        for ending in ("csv", "jsonl", "npz"):
            files = []
            for workers in (1, 2, 3, 9):  # 50 records are 4 batches
                out = self.path(f"w{workers}.{ending}")
                done = self.predict("--workers", str(workers), "--out", out, self.checkpoints)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("predictions for 50 records", done.stdout)
                with open(out, "rb") as file:
                    files.append(file.read())
            self.assertEqual(files, [files[0]] * 4, ending)
        got, want = cohort.predict(self.run_dir, workers=3), cohort.predict(self.run_dir)
        np.testing.assert_array_equal(got["kind"], want["kind"])
        self.assertEqual([name for name in os.listdir(self.directory) if name.endswith(".parts")], [])

    def test_parquet_has_a_column_for_each_output(self):
        files = []
        for workers in ("1", "3"):
            out = self.path(f"w{workers}.parquet")
            done = self.predict("--workers", workers, "--out", out, self.checkpoints)
            if "this build of Cohort cannot write Parquet" in done.stderr:
                self.assertEqual((done.returncode, self.left(f"w{workers}.parquet")), (65, []))
                return
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(out, "rb") as file:
                files.append(file.read())
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0][:4] + files[0][-4:], b"PAR1PAR1")
        with contextlib.suppress(ImportError):
            from pyarrow import parquet

            table, want = parquet.read_table(out), cohort.predict(self.run_dir)
            np.testing.assert_array_equal(table["price"].to_numpy(), want["price"][:, 0])
            np.testing.assert_array_equal(np.array(table["kind"].to_pylist(), np.float32), want["kind"])

    def test_an_error_of_a_part_is_printed_once(self):
        with open(self.path("late.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"city": "Rome", "rooms": 2}\n' * 90 + '{"city": "Rome"}\n')
        with open(self.path("late.csv"), "w", encoding="utf-8") as file:
            file.write("kept")
        done = self.predict("--workers", "3", "--out", self.path("late.csv"), self.checkpoints, self.path("late.jsonl"))
        self.assertEqual(done.returncode, 65)
        self.assertEqual(done.stderr.count("late.jsonl"), 1, done.stderr)
        self.assertEqual(self.left("late.csv"), ["late.csv"])
        with open(self.path("late.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept")

    def test_a_part_that_is_killed_is_started_again(self):
        run = self.start("killed.csv")
        first = self.parts(run)
        os.kill(first[1], signal.SIGKILL)
        again = real_cluster.until("part 1 is not started again", lambda: (p := self.parts(run))[1] != first[1] and p)
        self.assertEqual(again[0], first[0])
        out, err = run.communicate(timeout=60 * real_cluster.SCALE)
        self.assertEqual((run.returncode, err), (0, ""))
        self.assertIn("predictions for 200000 records", out)
        self.assertEqual(self.left("killed"), ["killed.csv"])
        done = self.predict("--out", self.path("whole.csv"), self.checkpoints, self.large())
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("killed.csv"), "rb") as killed, open(self.path("whole.csv"), "rb") as whole:
            self.assertEqual(killed.read(), whole.read())

    def test_a_part_that_is_killed_each_time_ends_the_prediction(self):
        run = self.start("thrice.csv")
        seen = set()
        for _ in range(3):
            pid = real_cluster.until("part 1 does not run", lambda: (p := self.parts(run)[1]) not in seen and p)
            seen.add(pid)
            os.kill(pid, signal.SIGKILL)
        _, err = run.communicate(timeout=60 * real_cluster.SCALE)
        self.assertEqual(run.returncode, 137)
        self.assertIn("the process of part 1 of 2 was killed by signal 9 (Killed), 3 times in a row", err)
        self.assertEqual(self.left("thrice"), [])

    def test_a_signal_leaves_no_process_and_no_file(self):
        run = self.start("signal.csv", workers=3)
        parts = self.parts(run, 3)
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60 * real_cluster.SCALE)
        self.assertEqual(run.returncode, 143)
        self.assertIn("no predictions were written", err)
        self.assertEqual([pid for pid in parts.values() if real_cluster.alive(pid)], [])
        self.assertEqual(self.left("signal"), [])

    def test_what_a_killed_run_leaves_does_no_harm(self):
        run = self.start("again.csv")
        parts = self.parts(run)
        run.kill()
        run.communicate()
        real_cluster.until("the parts outlive the run", lambda: not any(map(real_cluster.alive, parts.values())))
        self.assertEqual(self.left("again"), ["again.csv.parts"])
        self.assertEqual(self.predict("--out", self.path("again.csv"), self.checkpoints).returncode, 0)
        self.assertEqual(self.left("again"), ["again.csv"])
        os.mkdir(self.path("mine.csv.parts"))
        with open(self.path("mine.csv.parts/notes.txt"), "w", encoding="utf-8"):
            pass
        done = self.predict("--out", self.path("mine.csv"), self.checkpoints)
        self.assertIn("notes.txt is no part of a prediction", done.stderr)
        self.assertTrue(os.path.exists(self.path("mine.csv.parts/notes.txt")))

    def test_parts_of_several_machines_are_joined(self):
        out = ("--out", self.path("joined.npz"))
        copy = self.path("copy")
        shutil.copytree(self.checkpoints, copy)  # as another machine sees them
        self.assertIn("has no whole part 0", self.predict("--join", *out).stderr)
        for i, checkpoints in enumerate((self.checkpoints, copy, self.checkpoints)):
            if i == 2:
                done = self.predict("--join", *out)
                self.assertEqual(done.returncode, 66)
                self.assertIn("has no whole part 2: run `cohort predict --part 2/3`", done.stderr)
            done = self.predict("--part", f"{i}/3", *out, checkpoints)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"part {i} of 3, records ", done.stdout)
        self.assertEqual(self.left("joined"), ["joined.npz.parts"])
        done = self.predict("--join", *out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.left("joined"), ["joined.npz"])
        self.predict("--out", self.path("one.npz"), self.checkpoints)
        with open(self.path("joined.npz"), "rb") as joined, open(self.path("one.npz"), "rb") as one:
            self.assertEqual(joined.read(), one.read())

    def test_parts_that_do_not_fit_are_refused(self):
        names = sorted(name for name in os.listdir(self.checkpoints) if name.startswith("ckpt-"))
        first, last = (os.path.join(self.checkpoints, name) for name in (names[0], names[-1]))
        with open(self.path("other.csv"), "w", encoding="utf-8") as file:
            file.write("city,rooms\n" + "Rome,1\n" * 50)
        out = ("--out", self.path("misfit.csv"))
        for part, text in ((("1/2", first), "name one checkpoint for all parts"), (("1/2", last, self.path("other.csv")), "has other contents"),
                           (("1/3", last), "it is one of 3 parts")):
            self.assertEqual(self.predict("--part", "0/2", *out, last).returncode, 0)
            self.assertEqual(self.predict("--part", part[0], *out, *part[1:]).returncode, 0)
            done = self.predict("--join", *out)
            self.assertEqual(done.returncode, 65)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.left("misfit"), ["misfit.csv.parts"])


if __name__ == "__main__":
    unittest.main()
