#!/usr/bin/env python3
"""Calls `cohort.fit` with all kinds of data, callbacks and errors, as `Model.fit` of Keras is called."""

import contextlib
import csv
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "python")
sys.path.insert(0, PACKAGE)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pandas  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers, losses, optimizers  # noqa: E402

import cohort  # noqa: E402
from cohort._progress import Progress  # noqa: E402


class KerasDataTest(unittest.TestCase):
    def test_a_table_with_words_and_layers_that_learned(self):
        rng = np.random.default_rng(3)
        table = pandas.DataFrame({"city": rng.choice(["Rome", "Oslo", "Bern, old"], 200), "rooms": rng.integers(1, 6, 200),
                                  "area": rng.normal(90, 20, 200)})
        price = table.area / 50 + table.rooms + (table.city == "Rome") * 3.0
        inputs = {name: keras.Input((1,), dtype="string" if name == "city" else None, name=name) for name in table}
        lookup = layers.StringLookup(output_mode="one_hot")
        lookup.adapt(table.city.to_numpy())
        scale = layers.Normalization(axis=None)
        scale.adapt(table.area.to_numpy())
        x = layers.Concatenate()([lookup(inputs["city"]), inputs["rooms"], scale(inputs["area"])])
        model = keras.Model(inputs, layers.Dense(1)(layers.Dense(8, activation="relu")(x)))
        model.compile("adam", "mse")
        columns = {name: table[name].to_numpy().reshape(-1, 1) for name in inputs}
        columns["city"] = tf.constant(columns["city"].tolist())
        before = model.evaluate(columns, price, verbose=0)
        held = (table[:64], price[:64])
        history = cohort.fit(model, table, price, epochs=4, validation_data=held, verbose=0)
        self.assertLess(history.history["loss"][-1], before)
        after = model.evaluate({name: a[:64] for name, a in columns.items()}, price[:64], verbose=0)
        self.assertAlmostEqual(history.history["val_loss"][-1] / after, 1, places=4)

    def test_datasets_are_read_once(self):
        class Records(keras.utils.PyDataset):
            def __len__(self):
                return 7

            def __getitem__(self, i):
                rows = np.arange(i * 10, min(i * 10 + 10, 64))
                return {"a": np.stack([rows, rows % 3], 1).astype("float32")}, (rows % 2).astype("float32")

        x, y = (np.concatenate(parts) for parts in zip(*((b["a"], labels) for b, labels in (Records()[i] for i in range(7)))))
        found = []
        for data in (Records(), tf.data.Dataset.from_tensor_slices(({"a": x}, y)).batch(10), None):
            keras.utils.set_random_seed(4)
            a = keras.Input((2,), name="a")
            model = keras.Model(a, layers.Dense(1)(a))
            model.compile("sgd", "mse")
            given = {"batch_size": 10} if data is None else {}
            history = cohort.fit(model, *((x, y) if data is None else (data,)), **given, shuffle=False, verbose=0, strategy="one_device")
            found.append(history.history["loss"][0])
        self.assertEqual(found[0], found[2])
        self.assertEqual(found[1], found[2])
        with self.assertRaisesRegex(TypeError, "no end: call .take"):
            cohort.fit(model, tf.data.Dataset.from_tensors((x, y)).repeat())
        with self.assertRaisesRegex(TypeError, "a generator has no end"):
            cohort.fit(model, (part for part in [(x, y)]))

    def test_a_folder_of_images(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("cats", "dogs"):
                os.mkdir(os.path.join(folder, name))
                for i in range(4):
                    keras.utils.save_img(os.path.join(folder, name, f"{i}.png"), np.full((8, 8, 3), 200.0 * (name == "cats")), scale=False)
            image = keras.Input((256, 256, 3), name="image")
            x = layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(image))
            model = keras.Model(image, layers.Dense(2)(x))
            model.compile(optimizers.Adam(0.1), losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
            history = cohort.fit(model, data=folder, epochs=20, verbose=0, strategy="one_device")
            self.assertEqual(history.history["accuracy"][-1], 1)

    def test_a_loss_of_as_many_numbers_as_tracing_marks_batches_with(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(997, kernel_initializer="zeros")])
        model.compile(optimizers.SGD(0.0), lambda y, p: keras.ops.mean(keras.ops.square(keras.ops.reshape(p, (-1, 997)) - y), axis=-1))
        history = cohort.fit(model, np.ones((64, 4)), np.full((64, 997), 2.0), verbose=0, strategy="one_device")
        self.assertAlmostEqual(history.history["loss"][0], 4)

    def test_lists_are_arrays(self):
        rng = np.random.default_rng(5)
        x, z, y = rng.normal(size=(48, 3)), rng.normal(size=(48, 2)), rng.integers(0, 2, 48)

        def two_inputs():
            a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
            return keras.Model([a, b], layers.Dense(2)(layers.Concatenate()([a, b])))

        cases = [("one input", lambda: keras.Sequential([keras.Input((3,)), layers.Dense(2)]), x, x.tolist()),
                 ("not built", lambda: keras.Sequential([layers.Dense(2)]), x, x.tolist()),
                 ("two inputs", two_inputs, [x, z], [x.tolist(), z.tolist()]), ("a dict", two_inputs, {"a": x, "b": z}, {"a": x.tolist(), "b": z})]
        for name, make, arrays, lists in cases:
            with self.subTest(name):
                histories = []
                for given, labels, weight in ((arrays, y, np.ones(48)), (lists, y.tolist(), [1.0] * 48)):
                    keras.utils.set_random_seed(1)
                    model = make()
                    model.compile("sgd", losses.SparseCategoricalCrossentropy(from_logits=True))
                    histories.append(cohort.fit(model, given, labels, sample_weight=weight, validation_data=(given, labels), batch_size=16, verbose=0,
                                                strategy="one_device"))
                self.assertEqual(histories[0].history, histories[1].history)
                got, want = (cohort.predict(history, given) for history, given in zip(histories, (arrays, lists)))
                np.testing.assert_array_equal(got, want)
        with self.assertRaisesRegex(ValueError, "records have different shapes: pad them"):
            cohort.fit(cases[0][1](), [[1.0, 2.0, 3.0], [1.0]], [0, 1])

    def test_a_file_of_libsvm(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.libsvm")
            with open(path, "w", encoding="utf-8") as file:
                for i in range(64):
                    file.write(f"{i % 2} 1:{i % 2} 3:{i % 5}\n")
            model = keras.Sequential([keras.Input((3,), name="features"), layers.Dense(1, activation="sigmoid")])
            model.compile(optimizers.SGD(0.5), "binary_crossentropy")
            history = cohort.fit(model, data=path, epochs=20, validation_data=path, verbose=0, strategy="one_device")
            self.assertLess(history.history["val_loss"][-1], 0.6 * history.history["loss"][0])
            np.testing.assert_allclose(cohort.predict(history, path), model.predict(np.array([[i % 2, 0, i % 5] for i in range(64)]), verbose=0),
                                       rtol=1e-5)
            other = keras.Sequential([keras.Input((3,), name="x"), layers.Dense(1)])
            other.compile("sgd", "mse")
            with self.assertRaisesRegex(TypeError, r"The model has the inputs x \[3\]: name one `features`"):
                cohort.fit(other, data=path)

    def test_a_metric_with_a_state_of_its_own_is_refused(self):
        class Largest(keras.metrics.Metric):
            def __init__(self):
                super().__init__()
                self.largest = self.add_variable((), "zeros")

            def update_state(self, y_true, y_pred, sample_weight=None):
                self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(y_pred)))

            def result(self):
                return self.largest

        model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[Largest()])
        with self.assertRaisesRegex(cohort.TraceError, r"a metric of your own is a function \(y_true, y_pred\)"):
            cohort.fit(model, np.zeros((8, 3)), np.zeros(8))

    def test_the_speed_of_an_epoch_is_that_of_its_training(self):
        """Lines of several epochs may be read at once."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            progress = Progress(2, 0, 2, None, validated=False)
            began = time.time()
            for epoch in (1, 2):
                progress.show({"time": began + 4 * epoch, "set": "train", "kind": "epoch", "epoch": epoch, "step": 1000 * epoch, "loss": 0.5})
        self.assertEqual(re.findall(r"1000/1000 - 4s - 4ms/step - loss: 0.5000", printed.getvalue()), ["1000/1000 - 4s - 4ms/step - loss: 0.5000"] * 2)

    def test_bad_input(self):
        a, b = keras.Input((2,), name="a"), keras.Input((3,), name="b")
        model = keras.Model([a, b], layers.Dense(2)(layers.Concatenate()([a, b])))
        x = {"a": np.zeros((4, 2)), "b": np.zeros((4, 3))}
        with self.assertRaisesRegex(TypeError, r"call model.compile\(optimizer, loss\) first"):
            cohort.fit(model, x, np.zeros(4))
        model.compile("sgd", "sparse_categorical_crossentropy")
        cases = [
            ({"x": {"a": x["a"]}, "y": np.zeros(4)}, ValueError, "x lacks the input 'b'; it has a"),
            ({"x": {**x, "b": np.zeros((4, 5))}, "y": np.zeros(4)}, ValueError,
             r"the input 'b' has the shape \[4, 5\], .* takes records of the shape \[3\]"),
            ({"x": x, "y": np.zeros(5)}, ValueError, "different numbers of records"),
            ({"x": {**x, "b": [["w"] * 3] * 4}, "y": np.zeros(4), "data_limit": 10}, ValueError, "pass a larger `data_limit`"),
            ({"x": x, "y": np.zeros(4), "batch_size": 2, "loss": "mse"}, TypeError, "`loss` of a Keras model is that of model.compile"),
            ({"x": x, "y": np.full(4, 7)}, cohort.JobError, "7"),
        ]
        for arguments, error, text in cases:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                cohort.fit(model, verbose=0, **arguments)


class Watcher(keras.callbacks.Callback):
    """A callback of a user."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.calls, self.norms, self.stop_after = [], [], stop_after

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append((epoch, sorted(logs)))
        self.norms.append(float(np.abs(self.model.get_weights()[0]).sum()))
        if epoch == self.stop_after:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.calls.append("end")


class KerasCallbacksTest(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(2)
        self.x = rng.normal(size=(400, 6)).astype("float32")
        self.y = (self.x @ rng.normal(size=(6, 1))).astype("float32")
        self.model = keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])
        self.model.compile(optimizers.SGD(0.1), "mse")

    def test_callbacks(self):
        with tempfile.TemporaryDirectory() as folder:
            log, best = os.path.join(folder, "log.csv"), os.path.join(folder, "best.keras")
            watcher, losses_seen = Watcher(), []
            history = cohort.fit(
                self.model, self.x, self.y, epochs=5, initial_epoch=2, validation_split=0.2, verbose=0, strategy="one_device", callbacks=[
                    keras.callbacks.CSVLogger(log), keras.callbacks.ModelCheckpoint(best, save_best_only=True), watcher,
                    keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.05 if epoch == 2 else rate * 0.5),
                    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses_seen.append(logs["loss"]))])
            self.assertEqual(history.epoch, [2, 3, 4])
            self.assertEqual([c[0] for c in watcher.calls[1:-1]], [2, 3, 4])
            self.assertEqual(watcher.calls[0] + watcher.calls[-1], "beginend")
            self.assertEqual(losses_seen, history.history["loss"])
            np.testing.assert_allclose(history.history["learning_rate"], [0.05, 0.025, 0.0125], rtol=1e-6)
            with open(log, encoding="utf-8") as file:
                self.assertEqual([float(row["val_loss"]) for row in csv.DictReader(file)], history.history["val_loss"])
            saved = keras.saving.load_model(best).evaluate(self.x[320:], self.y[320:], verbose=0)
            self.assertAlmostEqual(saved, min(history.history["val_loss"]), places=5)

    def test_a_callback_stops_and_a_directory_continues(self):
        with tempfile.TemporaryDirectory() as folder:
            watcher = Watcher(stop_after=2)
            first = cohort.fit(self.model, self.x, self.y, epochs=100000, verbose=0, callbacks=[watcher], run_dir=folder)
            self.assertLess(len(first.epoch), 99999)
            self.assertGreaterEqual(len(first.epoch), 3)
            more = len(first.epoch) + 3
            second = cohort.fit(self.model, self.x, self.y, epochs=more, verbose=0, run_dir=folder)
            self.assertEqual(second.epoch[-1], more - 1)
            self.assertLess(len(second.epoch), more)

    def test_an_exception_at_the_begin_ends_the_job(self):
        class Failing(keras.callbacks.Callback):
            def on_train_begin(self, logs=None):
                raise RuntimeError("not today")

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, "not today"):
                cohort.fit(self.model, self.x, self.y, epochs=100000, verbose=0, callbacks=[Failing()], run_dir=folder)
            self.assertEqual(processes_of(folder), [])
            with self.assertRaises(ValueError):
                cohort.fit(self.model, self.x, self.y, epochs=100000, verbose="loud", run_dir=folder)
            self.assertEqual(processes_of(folder), [])

    def test_an_epoch_that_is_repeated_replaces_its_figures(self):
        history = cohort.History()
        for epoch, kinds in ((1, "t"), (2, "tv"), (3, "t"), (4, "tv"), (3, "t"), (4, "tv")):
            for kind in kinds:
                history._add({"kind": "epoch", "set": "train" if kind == "t" else "validation", "epoch": epoch, "loss": len(history.epoch)})
        self.assertEqual(history.epoch, [0, 1, 2, 3])
        self.assertEqual({key: len(values) for key, values in history.history.items()}, {"loss": 4, "val_loss": 2})

    def test_callbacks_of_batches_are_refused(self):
        class EachBatch(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                pass

        with self.assertRaisesRegex(TypeError, "EachBatch has on_train_batch_end: batches are on the workers"):
            cohort.fit(self.model, self.x, self.y, callbacks=[EachBatch()])


class KerasProcessesTest(unittest.TestCase):
    def run_until_killed(self, number):
        """Starts a long job in a process of Python, and sends the process a signal. Returns the run directory."""
        folder = tempfile.mkdtemp()
        script = textwrap.dedent(f"""
            import sys; sys.path.insert(0, {PACKAGE!r})
            import keras, numpy as np, cohort
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            cohort.fit(model, np.zeros((400, 4)), np.zeros(400), epochs=1000000, workers=2, ps=1, run_dir={folder!r}, verbose=0)
        """)
        python = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 90
            metrics = os.path.join(folder, "logs", "metrics.jsonl")
            while not os.path.exists(metrics) or os.path.getsize(metrics) == 0:  # until an epoch has ended
                self.assertIsNone(python.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            self.assertGreaterEqual(len(processes_of(folder)), 4)
            python.send_signal(number)
            _, printed = python.communicate(timeout=60)
        finally:
            python.kill()
        if number == signal.SIGINT:
            self.assertIn("KeyboardInterrupt", printed)
            self.assertEqual(processes_of(folder), [])
        return folder

    def test_no_process_outlives_this_one(self):
        folder = self.run_until_killed(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while processes_of(folder):
            self.assertLess(time.monotonic(), deadline, processes_of(folder))
            time.sleep(0.1)

    def test_an_interrupt_leaves_a_checkpoint(self):
        folder = self.run_until_killed(signal.SIGINT)
        self.assertTrue(any(name.startswith("ckpt-") for name in os.listdir(os.path.join(folder, "checkpoints"))))
        self.assertEqual([name for name in os.listdir(folder) if name.endswith(".new")], [])


def processes_of(folder):
    """The command lines of programs of Cohort that work in a run directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{pid}/environ", "rb") as file:
                inherited = folder in file.read().decode(errors="replace")
        except OSError:
            continue
        if os.path.basename(line[0]).startswith("cohort") and (inherited or any(folder in argument for argument in line)):
            found.append(" ".join(line))
    return found


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    tempfile.tempdir = folder.name  # the directories of runs are there


if __name__ == "__main__":
    unittest.main()
