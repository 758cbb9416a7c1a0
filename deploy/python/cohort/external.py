"""Steps that a program of Python computes beside each worker, for models that cannot be traced.

    python3 -m cohort.external STEP

runs the step `STEP`: "file.py:function", "module:function", or a file that `cohort.external_step` has pickled. A worker starts it
by the command in its environment variable COHORT_EXTERNAL_STEP.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import pickle
import runpy
import socket
import sys
import traceback
from typing import Any, Callable, Mapping

import numpy as np

COMMAND = "COHORT_EXTERNAL_STEP"
IN_STEP = "COHORT_IN_EXTERNAL_STEP"  # set in the process of a step

# (values of the variables, columns of the batch, training) → (mean loss, gradients of the mean loss, means of metrics).
Step = Callable[[dict[str, np.ndarray], dict[str, np.ndarray], bool], tuple[float, Mapping[str, np.ndarray], Mapping[str, float]]]


class ExternalStep:
    """A model whose step is a function of Python; `cohort.fit` trains it as any model.

    `variables` hold the first values, and after `fit` the trained ones.
    """

    def __init__(self, step: Step, variables: Mapping[str, Any], metrics: tuple[str, ...] = (), name: str = "external",
                 frozen: Any = ()):
        self.step = step
        self.variables = {key: np.asarray(value) for key, value in variables.items()}
        self.metrics = tuple(metrics)
        self.name = name
        self.frozen = frozenset(frozen)  # variables that training does not change
        if not self.variables:
            raise ValueError("an external step needs variables")
        dtypes = {value.dtype.name for value in self.variables.values()}
        if len(dtypes) > 1 or not dtypes <= {"float32", "float64"}:
            raise TypeError(f"the variables of an external step are all float32 or all float64, not {', '.join(sorted(dtypes))}")

    def trained(self, values: Mapping[str, np.ndarray]) -> None:
        """Takes the values of a checkpoint."""
        for key in self.variables:
            self.variables[key] = values[key].reshape(self.variables[key].shape)


class _ModuleStep:
    """The step of a PyTorch module and a loss, in the process beside a worker."""

    def __init__(self, module: Any, loss: Callable[..., Any], inputs: list[str], labels: list[str], metrics: Mapping[str, Callable[..., Any]]):
        self.module, self.loss, self.inputs, self.labels, self.metrics = module, loss, inputs, labels, metrics
        self.dtype = next(module.parameters()).dtype

    def _tensor(self, x: np.ndarray) -> Any:
        import torch

        x = torch.from_numpy(x)
        return x.to(self.dtype) if x.is_floating_point() else x

    def __call__(self, values: dict[str, np.ndarray], batch: dict[str, np.ndarray], training: bool) -> tuple[float, dict, dict]:
        import torch

        parameters = dict(self.module.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(values[name]))
                parameter.grad = None
        self.module.train(training)
        with torch.set_grad_enabled(training):
            prediction = self.module(*(self._tensor(batch[name]) for name in self.inputs))
            labels = [self._tensor(batch[name]) for name in self.labels]
            loss = self.loss(prediction, *labels)
        gradients = {}
        if training:
            loss.backward()
            gradients = {name: p.grad.numpy() for name, p in parameters.items() if p.grad is not None}
        with torch.no_grad():
            metrics = {name: float(metric(prediction, *labels)) for name, metric in self.metrics.items()}
        return float(loss.detach()), gradients, metrics


class ModuleStep(ExternalStep):
    """A PyTorch module as an external step: what `external_step(module, loss=...)` returns."""

    def __init__(self, module: Any, loss: Callable[..., Any], inputs: list[str], labels: list[str], metrics: Mapping[str, Callable[..., Any]]):
        changed = next((type(m).__name__ for m in module.modules() if getattr(m, "track_running_stats", False)), None)
        if changed is not None:
            raise TypeError(f"{changed} keeps running statistics, which an external step would lose: trace the module (pass it to cohort.fit), "
                            f"use GroupNorm or LayerNorm, or set track_running_stats=False")
        self.module = module
        super().__init__(_ModuleStep(module, loss, inputs, labels, metrics), {k: p.detach().numpy().copy() for k, p in module.named_parameters()},
                         tuple(metrics), type(module).__name__.lower(), [k for k, p in module.named_parameters() if not p.requires_grad])

    def trained(self, values: Mapping[str, np.ndarray]) -> None:
        import torch

        super().trained(values)
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.copy_(torch.from_numpy(self.variables[name]))


def external_step(step: Any, variables: Mapping[str, Any] | None = None, *, metrics: Any = (), loss: Callable[..., Any] | None = None,
                  frozen: Any = (), inputs: tuple[str, ...] = ("x",), labels: tuple[str, ...] = ("label",)) -> ExternalStep:
    """Returns a model for `cohort.fit` whose step runs in Python, in a process beside each worker.

    Args:
        step: a function (values, batch, training) -> (loss, gradients, metrics): `values` and `batch` are dicts of arrays by name, of a
            batch of [records, ...]; the loss is the mean of the batch, gradients are those of this mean, by name (a variable that has
            none stays as it is), metrics are means. Or a `torch.nn.Module`, with its `loss`.
        variables: the first values by name, for a function; `frozen` names those that training does not change. A module's own are its
            parameters; a module with running statistics (BatchNorm) is refused, because a step keeps no state between calls.
        metrics: the names of the function's metrics; for a module a dict of functions (prediction, *labels) -> number.
        loss: for a module: (prediction, *labels) -> the mean loss of a batch.
        inputs, labels: for a module: the columns that it and its loss are called with.

    Cohort keeps what surrounds the step: data, exchange, optimizers, exactly-once updates, recovery. The process ends with its worker
    and starts again if it fails. `step` is pickled by cloudpickle if that is installed; otherwise it must be a function of a module, or of
    the script that runs, guarded by `if __name__ == "__main__":`.
    """
    if hasattr(step, "named_parameters"):
        if loss is None:
            raise TypeError("a module needs its `loss`: a function (prediction, label) -> the mean loss")
        return ModuleStep(step, loss, list(inputs), list(labels), dict(metrics))
    if variables is None:
        raise TypeError("a function needs `variables`: their first values by name")
    return ExternalStep(step, variables, tuple(metrics), frozen=frozen)


# ---------------------------------------------------------------- the process


def save(step: Any, path: str) -> str:
    """Writes a step for the process; returns what it is started with."""
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    if pickler is pickle and getattr(step, "__module__", None) == "__main__":
        script = getattr(sys.modules["__main__"], "__file__", None)
        if script is None or "." in step.__qualname__:
            raise TypeError("install cloudpickle, or define the step as a function of a file")
        return f"{os.path.abspath(script)}:{step.__qualname__}"
    try:
        data = pickler.dumps(step)
    except Exception as error:
        raise TypeError(f"the step cannot be pickled ({error}): install cloudpickle, or define it as a function of a module") from error
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)
    return path


def load(where: str) -> Step:
    """Loads a step in the process."""
    place, _, function = where.rpartition(":")
    if not function.isidentifier() or not place:
        with open(where, "rb") as file:
            return pickle.load(file)
    if place.endswith(".py"):
        return runpy.run_path(place, run_name="__cohort_step__")[function]
    sys.path.insert(0, os.getcwd())
    return getattr(importlib.import_module(place), function)


class _Server:
    """Answers the calls of a worker."""

    def __init__(self, step: Step, connection: socket.socket):
        self._step = step
        self._connection = connection
        self._regions: dict[int, mmap.mmap] = {}

    def serve(self) -> None:
        rest, descriptors = b"", []
        while True:
            block, fds, _, _ = socket.recv_fds(self._connection, 1 << 16, 1)
            if not block:
                return
            descriptors += fds
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "map" in message:
                    fd = descriptors.pop(0)
                    self._regions[message["map"]] = mmap.mmap(fd, message["bytes"])
                    os.close(fd)
                    continue
                try:
                    self._call(message)
                    answer = {}
                except Exception:  # the worker reports it
                    answer = {"error": traceback.format_exc(limit=-8)[-8000:]}
                self._connection.sendall(json.dumps(answer).encode() + b"\n")

    def _call(self, message: dict[str, Any]) -> None:
        region = self._regions[message["region"]]

        def view(place: dict[str, Any]) -> np.ndarray:
            shape = place["shape"]
            return np.frombuffer(region, place["dtype"], int(np.prod(shape)), place["offset"]).reshape(shape)

        arrays = [(place["name"], view(place)) for place in message["inputs"]]
        columns = message["columns"]
        batch, values = dict(arrays[:columns]), dict(arrays[columns:])
        _seed(message["seed"], message["place"])
        loss, gradients, metrics = self._step(values, batch, message["training"])
        results = view(message["results"])
        numbers = [loss, *metrics.values()]
        if len(numbers) != results.shape[1]:
            raise ValueError(f"the step returned {len(metrics)} metrics, and `metrics` names {results.shape[1] - 1}")
        results[:] = np.asarray(numbers, results.dtype)
        if not message["training"]:
            return
        unknown = sorted(set(gradients) - set(values))
        if unknown:
            raise KeyError(f"the step returned a gradient of {unknown[0]!r}, which is no variable")
        flat, offset = view(message["gradients"]), 0
        for name, value in values.items():
            part = flat[offset:offset + value.size].reshape(value.shape)
            offset += value.size
            gradient = gradients.get(name)
            if gradient is None:
                part[...] = 0
            elif np.shape(gradient) != value.shape:
                raise ValueError(f"the gradient of {name!r} has the shape {np.shape(gradient)}, and the variable {value.shape}")
            else:
                part[...] = gradient


def _seed(seed: int, place: int) -> None:
    """The same random numbers when a step is repeated."""
    number = (seed * 1000003 + place) % 2**32
    np.random.seed(number)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)


def main() -> int:
    """Serves the worker at the standard input."""
    if len(sys.argv) != 2:
        print("usage: python3 -m cohort.external STEP", file=sys.stderr)
        return 64
    os.environ[IN_STEP] = "1"
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _Server(load(sys.argv[1]), connection).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
