#!/usr/bin/env python3
"""`cohort predict` and `cohort.predict`: the numbers that the evaluation saw, in each form of file, for records of each form."""

import json
import os
import shutil
import sys
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


class Predict(unittest.TestCase):
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
        done = self.predict("--out", self.path("p.parquet"), self.checkpoints)
        self.assertEqual(done.returncode, 64)
        self.assertIn("written as .csv, .jsonl or .npz", done.stderr)
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


if __name__ == "__main__":
    unittest.main()
