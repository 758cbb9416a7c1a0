#!/usr/bin/env python3
"""What a model reads from the columns of its data: numbers keep their type, and text is UTF-8.

Each case is a row of a table. Those that train compare a figure with the one that Keras or pandas gives, and the
comment of the row says how it was made.
"""
import json
import os
import struct
import unittest

from bad_input_test import DATA, USAGE
from real_cluster import DirectoryTestCase, LocalRun, program, run


def job(data, model, loss="mse", more=""):
    return "name: c\nmodel:\n%s\ncompile: {loss: %s%s}\ndata:\n  batch_size: 4\n  train:\n%s\n" % (
        "\n".join("  " + line for line in model), loss, more, "\n".join("    " + line for line in data))


def npy(kind, numbers):
    """A file of numpy.save: `kind` is i8, f4 or f8."""
    header = "{'descr': '<%s', 'fortran_order': False, 'shape': (%d,), }" % (kind, len(numbers))
    header += " " * ((64 - (len(header) + 11) % 64) % 64) + "\n"
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() +
            struct.pack("<%d%s" % (len(numbers), {"i8": "q", "f4": "f", "f8": "d"}[kind]), *numbers))


EMBEDDING = ["sequential:", "  - Input: {shape: [1], feature: id}",
             "  - Embedding: {input_dim: 100, output_dim: 1}", "  - Flatten"]
DENSE = ["sequential:", "  - Input: {shape: [1], feature: x}", "  - Dense: {units: 1}"]
CLASSES = ["sequential:", "  - Input: {shape: [1], feature: x}", "  - Dense: {units: 3, activation: softmax}"]
CSV = ["csv: {path: a.csv}", "label: y"]
NPY = ["npy: {files: [x.npy, y.npy]}", "label: y"]
SPARSE = "sparse_categorical_crossentropy"

# name, the files, the job, what the message of `cohort check` must hold; all end with 65.
CHECKED = [
    ("a fraction for an Embedding", {"a.csv": b"id,y\n1,0\n2.5,1\n"}, job(CSV, EMBEDDING),
     ["job.yaml:10", 'a.csv: line 3: column "id": 2.5 is not an integer', 'layer "embedding" reads integers']),
    ("an id outside the table", {"a.csv": b"id,y\n1,0\n\n100,1\n"}, job(CSV, EMBEDDING),
     ['a.csv: line 4: column "id": 100 does not lie in [0, 100)', 'layer "embedding"']),
    ("a fraction for an integer Input", {"a.csv": b"x,y\n0.5,0\n"},
     job(CSV, [line.replace("feature: x", "feature: x, dtype: int64") for line in DENSE]),
     ['a.csv: line 2: column "x": 0.5 is not an integer', 'layer "input_layer" of dtype int64']),
    ("a fraction for a class", {"a.csv": b"x,y\n1,0\n2,1.5\n"}, job(CSV, CLASSES, SPARSE),
     ['a.csv: line 3: column "y": 1.5 is not an integer', "the loss SparseCategoricalCrossentropy"]),
    ("a class that is none", {"a.csv": b"x,y\n1,0\n2,3\n"}, job(CSV, CLASSES, SPARSE),
     ['a.csv: line 3: column "y": 3 does not lie in [0, 3)']),
    ("NaN for a label", {"a.csv": b"x,y\n1,0\n2,NaN\n"}, job(CSV, DENSE),
     ['a.csv: line 3: column "y": "NaN" is not a number']),
    ("a vocabulary that is not UTF-8", {"a.csv": b"x,w,y\n1,\xe9,0\n2,b,1\n"},
     job(["csv: {path: a.csv}", "transforms: [{column: w, lookup: string}]", "label: y"], DENSE),
     ['a.csv: line 2: column "w": "\\xe9" is not UTF-8', "save the file as UTF-8"]),
    ("a name of a column that is not UTF-8", {"a.csv": b"x,\xe9,y\n1,2,0\n"}, job(CSV, DENSE),
     ['a.csv: line 1: the name of column 2, "\\xe9", is not UTF-8']),
    ("a job that is not UTF-8", {"a.csv": b"x,y\n1,0\n"},
     job(CSV, DENSE).encode() + b"# caf\xe9\nfit: {epochs: 1}\n",
     ["job.yaml:12: is not UTF-8 at the byte 0xe9: save the file as UTF-8"]),
    ("a path that is not UTF-8", {}, job(CSV, DENSE).encode().replace(b"a.csv", b"\xe9.csv"),
     ["job.yaml:10: is not UTF-8"]),
    ("a label that is not UTF-8", {}, job(CSV, DENSE).encode().replace(b"label: y", b"label: \xfc"),
     ["job.yaml:11: is not UTF-8"]),
]

# The same for data that is read while the job runs: name, files, job, message of `cohort local`; all end with 65.
RUN = [
    ("a fraction for a class in an array", {"x.npy": npy("f4", [1, 2]), "y.npy": npy("f4", [0, 1.5])},
     job(NPY, CLASSES, SPARSE), ['y.npy: row 1: column "y": 1.5 is not an integer']),
    ("NaN for a label in an array", {"x.npy": npy("f4", [1, 2]), "y.npy": npy("f8", [0, float("nan")])},
     job(NPY, DENSE), ['y.npy: row 1: column "y": nan cannot be a label']),
    ("an id outside the table in an array", {"id.npy": npy("i8", [1, -1]), "y.npy": npy("f4", [0, 1])},
     job(["npy: {files: [id.npy, y.npy]}", "label: y"], EMBEDDING),
     ['id.npy: row 1: column "id": -1 does not lie in [0, 100)']),
]

# Two ids that float32 does not tell apart. A table of few rows takes the distance from the first.
LARGE = 1 << 24
IDS = ("id,y\n" + "%d,0\n%d,1\n" % (LARGE, LARGE + 1) * 2).encode()
TABLE = ["sequential:", "  - Input: {shape: [1], dtype: int64, feature: id}",
         "  - Embedding: {input_dim: %d, output_dim: 1, embeddings_initializer: Zeros}" % (LARGE + 4), "  - Flatten",
         "  - Activation: {activation: sigmoid}"]
FIXED = ["sequential:", "  - Input: {shape: [1], feature: x}",
         "  - Dense: {units: 1, kernel_initializer: Zeros}"]
STILL = ", metrics: [mae], optimizer: {SGD: {learning_rate: 1.0e-30}}"

# name, files, job, the figure of the last epoch, its value.
TRAINED = [
    # tf.keras: the same table and labels, 5 epochs of model.fit(..., batch_size=4) with SGD(50): accuracy 1.0.
    ("ids above 2^24", {"a.csv": IDS},
     job(CSV, TABLE, "binary_crossentropy", ", metrics: [accuracy], optimizer: {SGD: {learning_rate: 50}}") +
     "fit: {epochs: 5}\n", "accuracy", 1.0),
    # The same without a dtype of the Input: ids of an Embedding are integers.
    ("ids above 2^24 without a dtype", {"a.csv": IDS},
     job(CSV, [line.replace("dtype: int64, ", "") for line in TABLE], "binary_crossentropy",
         ", metrics: [accuracy], optimizer: {SGD: {learning_rate: 50}}") + "fit: {epochs: 5}\n", "accuracy", 1.0),
    # keras.losses.MeanAbsoluteError(dtype="float64")([[16777217.], [16777219.]], zeros): 16777218.0;
    # in float32 it is 16777218 +- 2 (16777216 and 16777220 are the labels).
    ("integer labels of a float64 model", {"a.csv": b"x,y\n1,16777217\n2,16777217\n"},
     job(CSV, ["dtype: float64"] + FIXED, "mae", STILL), "loss", 16777217.0),
    # keras.losses.MeanAbsoluteError(dtype="float64")([[0.1], [0.1]], zeros): 0.1. From float32: 0.10000000149.
    ("fractions of a float64 model", {"a.csv": b"x,y\n1,0.1\n2,0.1\n"},
     job(CSV, ["dtype: float64"] + FIXED, "mae", STILL), "loss", 0.1),
    # pandas: (read_csv("a.csv").w == 1).mean() is 0.5 for 01, 1, 2, 3. The model predicts 0, so the loss is that.
    ("equals of numbers", {"a.csv": b"x,w\n1,01\n2,1\n3,2\n4,3\n"},
     job(["csv: {path: a.csv}", "transforms: [{column: w, equals: 1}]", "label: w"], FIXED, "mae", STILL), "loss",
     0.5),
    # Words that are only compared are bytes: (read_csv("a.csv", encoding="latin1").w == "b").mean() is 0.25.
    ("equals beside other bytes", {"a.csv": b"x,w\n1,\xe9\n2,b\n3,\xe8\n4,c\n"},
     job(["csv: {path: a.csv}", "transforms: [{column: w, equals: b}]", "label: w"], FIXED, "mae", STILL), "loss",
     0.25),
    # pandas.DataFrame({"x": [1, 2], "y": [1, 2]}).to_csv("a.csv"): read_csv names the index "Unnamed: 0".
    ("the index of a data frame", {"a.csv": b",x,y\n0,1,1\n1,2,2\n"}, job(CSV, FIXED, "mae", STILL), "loss", 1.5),
    ("the index of a data frame as a column", {"a.csv": b",x,y\n0,1,1\n5,2,2\n"},
     job(["csv: {path: a.csv}", "label: 'Unnamed: 0'"], FIXED, "mae", STILL), "loss", 2.5),
    # read_csv("a.csv").y.mean() is 2.0: blanks around numbers do not count.
    ("blanks around numbers", {"a.csv": b"x,y\n 1, 1 \n2,\" 3 \"\n"}, job(CSV, FIXED, "mae", STILL), "loss", 2.0),
]


class ColumnTypes(DirectoryTestCase):
    def written(self, files, text):
        for name, data in files.items():
            self.write(name, data)
        return self.write("job.yaml", text)

    def check(self, path):
        return run([program("cohort"), "check", path], {"COHORT_DATA_DIR": self.directory})

    def local(self, name, path):
        return LocalRun(self.path(name), path, ps=1, workers=1, environment={"COHORT_DATA_DIR": self.directory})

    def test_check(self):
        for name, files, text, parts in CHECKED:
            with self.subTest(name):
                done = self.check(self.written(files, text))
                self.assertEqual(done.returncode, DATA, done.stdout + done.stderr)
                for part in parts:
                    self.assertIn(part, done.stderr)

    def test_the_chief_refuses_what_check_refuses(self):
        name, files, text, parts = CHECKED[6]
        ran = self.local("run", self.written(files, text))
        self.assertEqual(ran.code, DATA, name + ran.out + ran.err)
        self.assertIn(parts[0], ran.err)

    def test_run(self):
        for i, (name, files, text, parts) in enumerate(RUN):
            with self.subTest(name):
                path = self.written(files, text)
                done = self.check(path)  # it reads a sample of the data
                self.assertEqual(done.returncode, DATA, done.stdout + done.stderr)
                self.assertIn(parts[0], done.stderr)
                ran = self.local("run%d" % i, path)
                self.assertEqual(ran.code, DATA, ran.out + ran.err)
                for part in parts:
                    self.assertIn(part, ran.err)

    def test_training(self):
        for i, (name, files, text, figure, value) in enumerate(TRAINED):
            with self.subTest(name):
                ran = self.local("train%d" % i, self.written(files, text))
                self.assertEqual(ran.code, 0, ran.out + ran.err)
                last = ran.metrics("train", "epoch")[-1]
                self.assertAlmostEqual(last[figure], value, delta=1e-12 * value, msg=json.dumps(last))

    def test_a_value_that_no_record_has_is_on_the_console(self):
        path = self.written({"a.csv": b"x,w\n1,>50K.\n2,<=50K.\n"}, job(
            ["csv: {path: a.csv}", "transforms: [{column: w, equals: '>50K'}]", "label: w"], DENSE))
        warning = 'warning: training data: transform of "w" marks none of the 2 records with 1'
        self.assertIn(warning, self.check(path).stdout)
        self.assertIn(warning, self.local("run", path).out)

    def test_records_that_are_all_corrupt(self):
        os.makedirs(self.path("images/a"))
        self.write("images/a/1.png", b"no image")
        path = self.written({}, job(["image_folder: {directory: images, image_size: 8, on_corrupt: skip}",
                                     "label: label"], ["sequential:", "  - Input: {feature: image}", "  - Flatten",
                                                       "  - Dense: {units: 1}"]))
        done = self.check(path)
        self.assertEqual(done.returncode, DATA, done.stdout + done.stderr)
        self.assertIn("all 1 records are corrupt, so `on_corrupt: skip` leaves none", done.stderr)
        self.assertIn("1.png", done.stderr)

    def test_arguments(self):
        """The directory of a run travels to all tasks."""
        done = run([program("cohort"), "local", "--run_dir", os.fsencode(self.directory) + b"/\xe9", "job.yaml"])
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("is not UTF-8", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
