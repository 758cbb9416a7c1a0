#!/usr/bin/env python3
"""Jobs of Python on clusters that others start: the files of `cohort.job`, manifests of Kubernetes, TF_CONFIG, a job that is followed."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = os.path.dirname(os.path.abspath(__file__))
if "COHORT_BINARY_DIR" in os.environ:
    os.environ.setdefault("COHORT_BIN_DIR", os.path.join(os.environ["COHORT_BINARY_DIR"], "bin"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "deploy", "python"))
sys.path.insert(0, os.path.join(HERE, "..", "deploy"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import yaml  # noqa: E402

import cohort  # noqa: E402
from cohort import _programs  # noqa: E402

# What runs on each machine of a cluster: the same program.
PROGRAM = """
import os, sys
sys.path[:0] = [{package!r}, {here!r}]
from job_files_test import data, linear
import cohort
model = linear()
history = cohort.fit(model, *data(), epochs=2, shuffle=False, verbose=0, cluster="tf_config", run_dir=sys.argv[1], flags=["--unix_socket_dir=none"])
print(len(history.history.get("loss", [])), float(abs(model.get_weights()[0]).sum()))
"""


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(320, 4)).astype(np.float32)
    return x, x @ np.array([1, -2, 3, 0.5], np.float32)


def linear():
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


class JobFiles(unittest.TestCase):
    def test_a_saved_job_trains_and_is_followed(self):
        with tempfile.TemporaryDirectory() as folder:
            model = linear()
            path = cohort.job(model, *data(), epochs=2, shuffle=False, folder=folder).save()
            cluster = subprocess.Popen([_programs.find("cohort"), "local", "--workers", "1", "--ps", "1", "--run_dir", folder, path],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            history = cohort.fit(model, *data(), epochs=2, shuffle=False, verbose=0, cluster="running", run_dir=folder)
            self.assertEqual(cluster.wait(60), 0)
            self.assertEqual(history.epoch, [0, 1])
            np.testing.assert_allclose(model.get_weights()[0].ravel(), [1, -2, 3, 0.5], atol=0.3)

    def test_files_may_lie_elsewhere_on_the_cluster(self):
        with tempfile.TemporaryDirectory() as folder:
            job = cohort.job(linear(), *data(), folder=folder, mounted_at="/data/run", workers=3, ps=2)
            with open(job.save(), encoding="utf-8") as file:
                spec = yaml.safe_load(file)
            self.assertEqual(spec["data"]["train"]["npy"]["files"], ["/data/run/train-x.npy", "/data/run/train-label.npy"])
            objects = list(yaml.safe_load_all(job.manifest("jobset", image="registry.example.com/cohort:1", claim="data")))
            try:
                from manifests import validate
            except ImportError:
                validate = None
            for entry in objects if validate else []:
                validate(entry)
            (jobset,) = [entry for entry in objects if entry["kind"] == "JobSet"]
            pods = {entry["name"]: entry["template"]["spec"]["completions"] for entry in jobset["spec"]["replicatedJobs"]}
            self.assertEqual(pods, {"chief": 1, "ps": 2, "worker": 3, "evaluator": 1})
            with self.assertRaisesRegex(ValueError, "TFJob"):
                job.manifest("tfjob", image="a", claim="b")

    def test_one_program_becomes_each_task_of_tf_config(self):
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        ports = [listener.getsockname()[1] for listener in listeners]
        for listener in listeners:
            listener.close()
        cluster = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{ports[1]}"]}
        program = PROGRAM.format(package=os.path.abspath(os.path.join(HERE, "..", "..", "deploy", "python")), here=HERE)
        with tempfile.TemporaryDirectory() as folder:
            tasks = {}
            for role in ("ps", "worker", "chief"):
                environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})}
                tasks[role] = subprocess.Popen([sys.executable, "-c", program, folder], env=environment, text=True, stdout=subprocess.PIPE)
            texts = {role: task.communicate(timeout=100)[0] for role, task in tasks.items()}
            self.assertEqual([task.returncode for task in tasks.values()], [0, 0, 0])
        epochs, weights = texts["chief"].split()
        self.assertEqual(epochs, "2")
        self.assertGreater(float(weights), 5)

    def test_a_task_that_is_terminated_ends_its_program(self):
        program = PROGRAM.format(package=os.path.abspath(os.path.join(HERE, "..", "..", "deploy", "python")), here=HERE)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        config = {"cluster": {"ps": [f"127.0.0.1:{port}"], "worker": ["127.0.0.1:1"]}, "task": {"type": "ps", "index": 0}}
        for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
            with tempfile.TemporaryDirectory() as folder:
                task = subprocess.Popen([sys.executable, "-c", program, folder], env={**os.environ, "TF_CONFIG": json.dumps(config)},
                                        stderr=subprocess.PIPE, text=True)
                children = f"/proc/{task.pid}/task/{task.pid}/children"
                child = None
                while child is None or not os.path.realpath(f"/proc/{child}/exe").endswith("/cohort-ps"):
                    self.assertIsNone(task.poll())
                    time.sleep(0.05)
                    with open(children, encoding="utf-8") as file:
                        child = next(iter(file.read().split()), None)
                task.send_signal(number)
                self.assertEqual(task.wait(60), code)
                task.stderr.close()
                deadline = time.monotonic() + 60
                while os.path.exists(f"/proc/{child}/exe"):  # a zombie has none
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)

    def test_no_tf_config_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "TF_CONFIG"):
            cohort.fit(linear(), *data(), cluster="tf_config")


if __name__ == "__main__":
    unittest.main()
