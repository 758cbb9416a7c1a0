#!/usr/bin/env python3
"""Speed of traced models: `cohort.fit` beside a job file with the same layers, an external step beside a traced one, and a
ResNet18 of torchvision beside PyTorch.

    tests/benchmarks/compare_traced.py --build build/release --python build/venv-traced/bin/python

Rounds are interleaved; prints medians and ratios as a table in Markdown. The interpreter needs numpy, safetensors, pyyaml,
keras with a backend, and for the ResNet18 torch and torchvision.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.pop(0)  # its folder `tensorflow` is no module
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECORDS, EPOCHS = 12800, 3


def models():
    import keras
    layers = keras.layers

    class Mlp(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = layers.Dense(128, activation="relu")
            self.out = layers.Dense(10)

        def call(self, x):
            return self.out(self.hidden(x))

    class Cnn(keras.Model):
        def __init__(self):
            super().__init__()
            self.parts = [layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(64, 3, activation="relu"),
                          layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10)]

        def call(self, x):
            for part in self.parts:
                x = part(x)
            return x

    dense = [{"Input": {"shape": [784]}}, {"Dense": {"units": 128, "activation": "relu"}}, {"Dense": {"units": 10}}]
    convolutions = [{"Input": {"shape": [28, 28, 1]}}, {"Conv2D": {"filters": 32, "kernel_size": 3, "activation": "relu"}}, "MaxPooling2D",
                    {"Conv2D": {"filters": 64, "kernel_size": 3, "activation": "relu"}}, "MaxPooling2D", "Flatten", {"Dense": {"units": 10}}]
    return {"MLP": (Mlp, (784,), dense), "CNN": (Cnn, (28, 28, 1), convolutions)}


def steps_per_second(run_dir):
    """The fastest epoch after the first."""
    with open(os.path.join(run_dir, "logs", "metrics.jsonl"), encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return max(e["steps_per_second"] for e in events if e.get("kind") == "epoch" and e["set"] == "train" and e["epoch"] > 1)


def fit(make, x, y, strategy):
    import keras
    import cohort
    model = make()
    model(x[:2])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = cohort.fit(model, x, y, epochs=EPOCHS, batch_size=32, verbose=0, **strategy)
    speed = steps_per_second(history.run_dir)
    return speed, history.run_dir


def job(build, run_dir, layers, strategy):
    """The job of `fit`, with layers in the job file in place of the traced model."""
    import yaml
    with open(os.path.join(run_dir, "job.yaml"), encoding="utf-8") as file:
        spec = yaml.safe_load(file)
    spec["model"] = {"sequential": layers}
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "job.yaml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(spec, file)
    cohort = os.path.join(build, "bin", "cohort")
    command = ([cohort, "train"] if strategy["strategy"] == "one_device" else
               [cohort, "local", "--workers", str(strategy["workers"]), "--ps", str(strategy["ps"])])
    done = subprocess.run([*command, "--run_dir", folder, path], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    speed = steps_per_second(folder)
    shutil.rmtree(folder)
    shutil.rmtree(run_dir)
    return speed


def external(rounds, x, y):
    """Steps per second of a perceptron of PyTorch as an external step, and traced, on parameter servers."""
    import torch
    import cohort
    speeds = ([], [])
    for _ in range(rounds):
        for speed, is_external in zip(speeds, (True, False)):
            module = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
            optimizer = torch.optim.Adam(module.parameters())
            loss = torch.nn.CrossEntropyLoss()
            model, arguments = (cohort.external_step(module, loss=loss), {}) if is_external else (module, {"loss": loss})
            history = cohort.fit(model, x, y, epochs=EPOCHS, batch_size=32, verbose=0, optimizer=optimizer, workers=2, ps=1, **arguments)
            speed.append(steps_per_second(history.run_dir))
            shutil.rmtree(history.run_dir)
    return speeds


def resnet(build, rounds):
    """Milliseconds of a training step on one thread: batch 16, 96 x 96, SGD."""
    import torch
    import torchvision
    from cohort import torch as tracer
    import yaml
    torch.set_num_threads(1)
    module = torchvision.models.resnet18(num_classes=10)
    x, y = torch.randn(16, 3, 96, 96), torch.randint(0, 10, (16,))
    folder = tempfile.mkdtemp()
    tracer.trace(module, (x,)).save(os.path.join(folder, "model.cohort"))
    path = os.path.join(folder, "job.yaml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump({"model": {"traced": "model.cohort"}, "fit": {"epochs": 1},
                        "compile": {"loss": {"SparseCategoricalCrossentropy": {"from_logits": True}}, "optimizer": {"SGD": {"learning_rate": 0.01}}},
                        "data": {"batch_size": 16, "train": {"csv": {"path": "none.csv"}, "label": "label"}}}, file)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    ours, theirs = [], []
    for _ in range(rounds):
        text = subprocess.run([os.path.join(build, "bin", "cohort"), "profile", path, "--step_only", "--threads", "1", "--steps", "10", "--warmup",
                               "2"], capture_output=True, text=True, check=True).stdout
        ours.append(float(text.split("a step takes ")[1].split(" ms")[0]))
        times = []
        for i in range(12):
            began = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
            if i >= 2:
                times.append(time.perf_counter() - began)
        theirs.append(1000 * statistics.median(times))
    shutil.rmtree(folder)
    return ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip_torch", action="store_true")
    options = parser.parse_args()
    os.environ["COHORT_BIN_DIR"] = os.path.abspath(os.path.join(options.build, "bin"))
    sys.path.insert(0, os.path.join(SOURCE, "deploy", "python"))
    import numpy as np
    rng = np.random.default_rng(0)
    print("| model | strategy | traced, steps/s | layers, steps/s | ratio |\n|---|---|---|---|---|")
    for name, (make, shape, layers) in models().items():
        x = rng.normal(size=(RECORDS, *shape)).astype(np.float32)
        y = rng.integers(0, 10, RECORDS)
        for strategy in ({"strategy": "one_device"}, {"strategy": "parameter_server", "workers": 2, "ps": 1}):
            traced, plain = [], []
            for _ in range(options.rounds):
                speed, run_dir = fit(make, x, y, strategy)
                traced.append(speed)
                plain.append(job(options.build, run_dir, layers, strategy))
            ratios = sorted(a / b for a, b in zip(traced, plain))
            print("| %s | %s | %.0f | %.0f | %.2f (%.2f to %.2f) |" % (
                name, strategy["strategy"], statistics.median(traced), statistics.median(plain), statistics.median(ratios), ratios[0],
                ratios[-1]), flush=True)
    if options.skip_torch:
        return
    outside, traced = external(options.rounds, rng.normal(size=(RECORDS, 784)).astype(np.float32), rng.integers(0, 10, RECORDS))
    ratios = sorted(a / b for a, b in zip(outside, traced))
    print("\nMLP of PyTorch, 2 workers: as an external step %.0f steps/s, traced %.0f, ratio %.2f (%.2f to %.2f)" % (
        statistics.median(outside), statistics.median(traced), statistics.median(ratios), ratios[0], ratios[-1]))
    ours, theirs = resnet(options.build, options.rounds)
    ratios = sorted(b / a for a, b in zip(ours, theirs))
    print("\nResNet18, batch 16, 96 x 96, one thread: Cohort %.0f ms, PyTorch %.0f ms, ratio %.2f (%.2f to %.2f)" % (
        statistics.median(ours), statistics.median(theirs), statistics.median(ratios), ratios[0], ratios[-1]))


if __name__ == "__main__":
    main()
