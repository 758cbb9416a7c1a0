#!/usr/bin/env python3
"""Exports trained jobs in each format; what opens the files answers as `cohort predict` does."""

import os
import re
import subprocess
import sys
import unittest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", KERAS_BACKEND="tensorflow")
PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))
sys.path.insert(0, PACKAGE)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers, ops  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

import real_cluster  # noqa: E402

os.environ["COHORT_BIN_DIR"] = os.path.join(real_cluster.BINARY, "bin")

import cohort  # noqa: E402
from cohort import _export_model as export_model  # noqa: E402
from cohort import _export_torch as torch_export  # noqa: E402

CNN = """
name: pictures
model:
  sequential:
    - Input: {shape: [8, 8, 3], feature: image}
    - Conv2D: {filters: 4, kernel_size: 3, padding: same, use_bias: false}
    - BatchNormalization
    - Activation: {activation: relu}
    - MaxPooling2D
    - SeparableConv2D: {filters: 6, kernel_size: 3, activation: {relu: {max_value: 6}}}
    - GlobalAveragePooling2D
    - Dropout: {rate: 0.2}
    - Dense: {units: 3, activation: softmax}
compile: {loss: sparse_categorical_crossentropy, optimizer: adam}
data:
  batch_size: 16
  train:
    npz: {path: DIRECTORY/pictures.npz}
    transforms: [{column: image, scale: 0.00392156862745098}]
    label: label
fit: {epochs: 1}
"""
WIDE_DEEP = """
name: flats
model:
  functional:
    - Input: {name: city, dtype: string}
    - Input: {name: kind, dtype: string}
    - Input: {name: age}
    - Input: {name: numbers, shape: [2]}
    - StringLookup: {name: city_id, inputs: city}
    - Discretization: {name: age_id, inputs: age, bin_boundaries: [10, 20, 30]}
    - HashedCrossing: {name: crossed, inputs: [city, kind], num_bins: 20}
    - Embedding: {name: place, inputs: city_id, input_dim: 6, output_dim: 4}
    - Embedding: {name: era, inputs: age_id, input_dim: 4, output_dim: 4}
    - Embedding: {name: both, inputs: crossed, input_dim: 20, output_dim: 4}
    - Concatenate: {name: words, inputs: [place, era, both]}
    - Flatten: {name: flat, inputs: words}
    - Concatenate: {name: all, inputs: [flat, numbers]}
    - Variable: {name: gain, shape: [14], initializer: ones}
    - ops.multiply: {name: gained, inputs: [all, gain]}
    - ops.get_item: {name: head, inputs: gained, key: "..., :7"}
    - LayerNormalization: {name: norm, inputs: head}
    - Dense: {name: answer, inputs: norm, units: 1}
compile: {loss: mse, optimizer: adam}
data:
  batch_size: 16
  train:
    csv: {path: DIRECTORY/flats.csv}
    transforms:
      - {columns: [rooms, size], output: numbers}
      - {column: numbers, Normalization: {}}
    label: price
fit: {epochs: 1}
"""
WORDS = np.array("avenger ironman batman hulk spiderman kingkong wonder_woman nobody".split())
REVIEW = np.array(["the", "film", "plot", "was", "very", "not", "good", "awful", "unknown", ""])
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(string)": object}


def inputs_of(x, shapes):
    """Arrays of the shapes of a model's inputs by their names."""
    return {name: np.asarray(x[name]).reshape(-1, *shape[1:]) for name, shape in shapes}


class Scale(layers.Layer):
    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * self.gain


class _Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = real_cluster.Directory()
        cls.directory = cls.scratch.__enter__()
        cls.rng = np.random.default_rng(0)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.__exit__(None, None, None)

    def path(self, name):
        return os.path.join(self.directory, name)

    def trained(self, name, text):
        """The run directory of a job, which trains once."""
        run_dir = self.path(name)
        if not os.path.isdir(run_dir):
            job = self.path(name + ".yaml")
            with open(job, "w", encoding="utf-8") as file:
                file.write(text.replace("DIRECTORY", self.directory))
            ran = real_cluster.LocalRun(run_dir, job, ps=1, workers=1)
            self.assertEqual(ran.code, 0, ran.out + ran.err)
        return run_dir

    def example(self, name):
        text = re.sub(r"epochs: \d+", "epochs: 1", real_cluster.example(name + ".yaml"))
        return self.trained(name, re.sub(r"records: \d+", "records: 640", text))

    def keras_answers(self, run_dir, x, name):
        path = self.path(name + ".keras")
        text = cohort.export(run_dir, path)
        model = keras.saving.load_model(path)
        arrays = {k: tf.constant(v) for k, v in inputs_of(x, [(i.name, i.shape) for i in model.inputs]).items()}
        return np.asarray(model([arrays[i.name] for i in model.inputs] if len(model.inputs) > 1 else arrays[model.inputs[0].name],
                                training=False)), text

    def onnx_answers(self, run_dir, x, name):
        path = self.path(name + ".onnx")
        text = cohort.export(run_dir, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        arrays = inputs_of(x, [(i.name, i.shape) for i in session.get_inputs()])
        return session.run(None, {i.name: arrays[i.name].astype(TYPES[i.type]) for i in session.get_inputs()})[0], text

    def check(self, run_dir, x, name):
        want = cohort.predict(run_dir, x)
        for answers in (self.keras_answers, self.onnx_answers):
            got, text = answers(run_dir, x, name)
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=name)
        return text

    def pictures(self):
        image = self.rng.integers(0, 255, (64, 8, 8, 3)).astype(np.uint8)
        if not os.path.exists(self.path("pictures.npz")):
            np.savez(self.path("pictures.npz"), image=image, label=self.rng.integers(0, 3, 64))
        return self.trained("pictures", CNN), {"image": image}


class Models(_Jobs):
    def test_examples_of_words(self):
        heroes = {"features": WORDS[self.rng.integers(0, 8, (20, 3))]}
        for name in ("recommender", "transformer_encoder"):
            text = self.check(self.example(name), heroes, name)
            self.assertIn("in the file: StringLookup of features", text)
        self.check(self.example("imdb_lstm"), {"words": REVIEW[self.rng.integers(0, 10, (20, 24))]}, "imdb_lstm")

    def test_transforms_and_variables_that_a_format_lacks_are_listed(self):
        n = 80
        columns = {"city": np.array(["Rome", "Oslo", "Lima"])[self.rng.integers(0, 3, n)],
                   "kind": np.array(["new", "old"])[self.rng.integers(0, 2, n)],
                   "age": self.rng.integers(1, 50, n), "rooms": self.rng.integers(1, 6, n), "size": self.rng.integers(20, 90, n)}
        with open(self.path("flats.csv"), "w", encoding="utf-8") as file:
            file.write(",".join([*columns, "price"]) + "\n")
            for row in zip(*columns.values()):
                file.write(",".join(map(str, (*row, row[3] + row[4] / 10))) + "\n")
        run_dir = self.trained("flats", WIDE_DEEP)
        cohort.register_keras()
        want = cohort.predict(run_dir, columns)
        numeric = {k: v.astype(np.float32) if v.dtype.kind == "i" else v for k, v in columns.items()}
        got, text = self.keras_answers(run_dir, numeric, "flats")
        np.testing.assert_allclose(got, want, atol=1e-5)
        self.assertIn("in the file: HashedCrossing of city, kind", text)
        self.assertIn("cohort.register_keras()", text)
        words = [tf.constant(columns[name][:, None]) for name in ("city", "kind")]
        crossed = keras.layers.HashedCrossing(20, dtype="int64")(words)
        got, text = self.onnx_answers(run_dir, {**numeric, "crossed": np.asarray(crossed)}, "flats")
        np.testing.assert_allclose(got, want, atol=1e-5)
        self.assertIn("not in the file: the input crossed is what HashedCrossing of city, kind gives", text)
        self.assertIn("in the file: Normalization of numbers", text)

    def test_a_traced_model(self):
        """Arguments that a job writes in another form than Keras: pairs, sizes that are open, single numbers."""
        x = keras.Input((4, 6), name="x")
        y = layers.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d")(Scale()(x))
        y = ops.pad(y, ((0, 0), (1, 2), (0, 0)), constant_values=2.0)[:, 1:]
        y = ops.concatenate([ops.repeat(y, 2, axis=1), ops.tensordot(y, ops.ones((5, 5)), axes=1)], axis=1)
        y = layers.MultiHeadAttention(2, 3)(y, y, use_causal_mask=True)
        wide = layers.ZeroPadding2D(((1, 0), (2, 1)))(ops.expand_dims(y, -1))
        wide = layers.Conv2DTranspose(2, 3, strides=2, padding="same")(wide)
        y = layers.LSTM(3)(layers.Masking()(y)) + ops.mean(layers.ReLU(max_value=1.0)(wide), axis=(1, 2, 3))[:, None]
        model = keras.Model(x, layers.Dense(3)(y))
        model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        data = self.rng.normal(size=(32, 4, 6)).astype(np.float32)
        run = cohort.fit(model, data, self.rng.integers(0, 3, 32), batch_size=16, verbose=0, run_dir=self.path("traced"))
        cohort.register_keras()
        self.check(run.run_dir, {"x": data}, "traced")
        np.testing.assert_allclose(cohort.predict(run, data), model.predict(data, verbose=0), atol=1e-5)


class Formats(_Jobs):
    def test_a_convolutional_network_in_each_format(self):
        run_dir, x = self.pictures()
        self.check(run_dir, x, "pictures")
        want = cohort.predict(run_dir, x)
        model = keras.saving.load_model(self.path("pictures.keras"))
        cohort.export_saved_model(run_dir, self.path("saved"))
        served = tf.saved_model.load(self.path("saved"))
        np.testing.assert_allclose(served.serve(x["image"].astype(np.float32)), want, atol=1e-5)
        # The layers of the job, without the transforms of columns.
        cohort.export(run_dir, self.path("plain.keras"), preprocessing=False)
        plain = keras.saving.load_model(self.path("plain.keras"))
        scaled = (x["image"] / 255).astype(np.float32)
        np.testing.assert_allclose(plain(scaled), want, atol=1e-5)
        for v in plain.weights:
            if "seed" not in v.path:
                v.assign(v * 0)
        cohort.export(run_dir, self.path("pictures.weights.h5"))
        plain.load_weights(self.path("pictures.weights.h5"))
        np.testing.assert_allclose(plain(scaled), want, atol=1e-5)
        cohort.export(run_dir, self.path("pictures.safetensors"))
        tensors = load_file(self.path("pictures.safetensors"))
        np.testing.assert_array_equal(tensors["conv2d/kernel"], model.get_layer("conv2d").kernel)

    def test_the_command_runs_the_package_and_says_what_is_missing(self):
        run_dir, _ = self.pictures()
        checkpoints = os.path.join(run_dir, "checkpoints")
        python = os.path.join(self.directory, "python")
        os.makedirs(python, exist_ok=True)
        if not os.path.exists(os.path.join(python, "python3")):
            os.symlink(sys.executable, os.path.join(python, "python3"))

        def command(*arguments, package=PACKAGE):
            path = ":".join([os.path.dirname(sys.executable), python, os.environ["PATH"]])
            return subprocess.run([real_cluster.program("cohort"), "export", *arguments], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": path, "PYTHONPATH": package}, timeout=120)

        done = command("--format", "onnx", "--out", self.path("command.onnx"), "--no_preprocessing", checkpoints)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{self.path('command.onnx')}: the model sequential of {checkpoints}/ckpt-", done.stdout)
        onnxruntime.InferenceSession(self.path("command.onnx"), providers=["CPUExecutionProvider"])
        done = command("--format", "keras", "--out", self.path("x.keras"), os.path.join(checkpoints, "best"))
        self.assertEqual(done.returncode, 65)
        self.assertIn("has no best checkpoint", done.stderr)
        done = command("--format", "keras", "--out", self.path("x.h5"), checkpoints)
        self.assertEqual(done.returncode, 65)
        self.assertIn("only from files that end with .keras", done.stderr)
        done = command("--format", "pickle", checkpoints)
        self.assertEqual(done.returncode, 64)
        done = command("--format", "keras", "--out", self.path("x.keras"), checkpoints, package="")
        if "lacks cohort" not in done.stderr:  # the package is installed
            self.assertEqual(done.returncode, 0, done.stderr)
        hidden = os.path.join(self.directory, "hidden")
        os.makedirs(os.path.join(hidden, "onnx"), exist_ok=True)
        with open(os.path.join(hidden, "onnx", "__init__.py"), "w", encoding="utf-8") as file:
            file.write("raise ModuleNotFoundError(\"No module named 'onnx'\", name='onnx')\n")
        done = command("--format", "onnx", "--out", self.path("y.onnx"), checkpoints, package=f"{hidden}:{PACKAGE}")
        self.assertEqual(done.returncode, 64)
        self.assertIn("-m pip install onnx", done.stderr)
        self.assertFalse(os.path.exists(self.path("y.onnx")))
        self.assertEqual([name for name in os.listdir(self.directory) if name.startswith(".cohort-export")], [])

    def test_tables_without_bounds(self):
        text = re.sub(r"epochs: \d+", "epochs: 2", real_cluster.example("recommender.yaml"))
        text = re.sub(r"- Embedding: \{input_dim: \d+, ", "- DynamicEmbedding: {", text)
        self.assertIn("DynamicEmbedding", text)
        run_dir = self.trained("table", re.sub(r"records: \d+", "records: 640", text))
        heroes = {"features": WORDS[self.rng.integers(0, 7, (20, 3))]}
        want = cohort.predict(run_dir, heroes)
        path = self.path("table.safetensors")
        written = cohort.export(run_dir, path)
        self.assertRegex(written, r"dynamic_embedding/embeddings: 7 rows of a table without bounds, and their keys as \S+@keys")
        # The example of the documentation looks the rows up.
        with open(os.path.join(real_cluster.SOURCE, "docs", "cluster.md"), encoding="utf-8") as file:
            example = re.search(r"```python\n(.*?row_of.*?)```", file.read(), re.S).group(1)
        names = {}
        exec(example.replace("model.safetensors", path), names)  # pylint: disable=exec-used
        weights, vocabulary = load_file(path), re.search(r"vocabulary: \[([^\]]*)\]", text).group(1).split(", ")
        number = {word: i for i, word in enumerate(["[UNK]", *vocabulary])}
        rows = np.stack([names["embed"]([number[word] for word in record]) for record in heroes["features"]])
        answers = 1 / (1 + np.exp(-(rows.mean(axis=1) @ weights["dense/kernel"] + weights["dense/bias"])))
        np.testing.assert_allclose(answers, want, atol=1e-5)
        self.assertEqual(names["embed"]([12345]).tolist(), np.zeros((1, rows.shape[2])).tolist())
        state = torch_export.state_dict(export_model.read(run_dir))
        np.testing.assert_array_equal(state["dynamic_embedding/embeddings"], weights["dynamic_embedding/embeddings"])
        np.testing.assert_array_equal(state["dynamic_embedding/embeddings@keys"], weights["dynamic_embedding/embeddings@keys"])
        for name in ("table.keras", "table.weights.h5", "table.onnx"):
            with self.assertRaisesRegex(cohort.ExportError, "dynamic_embedding .* has a table without bounds, which Keras and ONNX lack"):
                cohort.export(run_dir, self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))

    def test_arguments(self):
        run_dir, _ = self.pictures()
        with self.assertRaisesRegex(TypeError, "ending tells no format"):
            cohort.export(run_dir, self.path("model.pickle"))
        with self.assertRaisesRegex(TypeError, "one of keras"):
            cohort.export(run_dir, self.path("model.keras"), format="h5")
        with self.assertRaisesRegex(FileNotFoundError, "does not exist"):
            cohort.export(run_dir, self.path("nowhere/model.keras"))
        with self.assertRaisesRegex(FileExistsError, "exists"):
            cohort.export_saved_model(run_dir, self.directory)
        with self.assertRaisesRegex(cohort.ProgramError, "does not exist"):
            cohort.export(self.path("nothing"), self.path("model.keras"))


if __name__ == "__main__":
    unittest.main()
