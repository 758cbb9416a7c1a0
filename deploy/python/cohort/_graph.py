"""The graph of a traced model, and the file that the daemons read."""

from __future__ import annotations

import json
import math
import os
from typing import Any, Iterable

import numpy as np

from cohort._safetensors import save_file

FORMAT = "cohort.model"
FORMAT_VERSION = "1"


# The layers whose variables belong to a cell.
CELLS = {"LSTM": "lstm_cell", "GRU": "gru_cell", "SimpleRNN": "simple_rnn_cell"}


class TraceError(ValueError):
    """A model that cannot be traced: says what, where in the user's source, and what to do."""


# Batch sizes for tracing: a prime that divides no other size marks the axis of the batch, also where a model multiplies it.
_PRIMES = (997, 1009, 1013, 1019, 1021, 1031, 1033, 1039)


def batch_marker(sizes: Iterable[int | None], where: str) -> int:
    """A size of a batch that divides none of `sizes`. Raises TraceError if there is none."""
    others = [size for size in sizes if size]
    for prime in _PRIMES:
        if all(size % prime for size in others):
            return prime
    raise TraceError(f"{where}: no size of a batch differs from all other sizes of the model")


def _weights_of(class_name: str, body: dict[str, Any]) -> list[str]:
    """The names of a layer's variables in their order."""
    if class_name == "Embedding":
        return ["embeddings"]
    if class_name in CELLS:
        return ["kernel", "recurrent_kernel", "bias"]
    if class_name.endswith("Normalization"):
        own = [name for name, key in (("gamma", "scale"), ("beta", "center")) if body.get(key, True)]
        return [*own, "moving_mean", "moving_variance"]
    return ["kernel", "bias"]


def owner(name: str, layers: Any) -> str | None:
    """The innermost of `layers` that a variable or a value belongs to."""
    while name not in layers:
        name, slash, _ = name.rpartition("/")
        if not slash:
            return None
    return name


class Graph:
    """Layers in the order in which they are computed, and the first values of their variables.

    A layer is a class of `cohort reference` with its arguments: a Keras layer, a function of `keras.ops`
    ("ops.matmul"), or a `Variable`. Values in the graph are the names of the layers that made them.
    """

    def __init__(self, name: str, dtype: str = "float32"):
        self.name = name
        self.dtype = dtype  # the type of floating values and variables
        self.layers: list[dict[str, Any]] = []
        self.outputs: list[str] = []
        self.output_names: list[str] = []  # for losses, metrics and labels; empty: those of the layers
        self.output_shapes: list[tuple[int, ...]] = []  # for one record; empty if the tracer does not know them
        self.values: dict[str, np.ndarray] = {}  # by name of a variable, or "layer/number"
        self.variables: dict[str, Any] = {}  # the framework's variable of each of `values`
        self.metadata: dict[str, str] = {}  # what the file has beside the layers
        self._names: set[str] = set()
        self._constants: dict[tuple, str] = {}

    def unique(self, name: str) -> str:
        """Returns `name`, or with a number after it if a layer has this name."""
        candidate, n = name, 0
        while candidate in self._names:
            n += 1
            candidate = f"{name}_{n}"
        self._names.add(candidate)
        return candidate

    def add(self, class_name: str, name: str, inputs: list[str] | None = None, shares: str | None = None, **config: Any) -> str:
        """Appends a layer; returns its name, which is `name` unless another layer has it."""
        name = self.unique(name)
        body: dict[str, Any] = {"name": name}
        if inputs:
            body["inputs"] = list(inputs)
        if shares is not None:
            body["shares"] = shares
        body.update(config)
        self.layers.append({class_name: body})
        return name

    def input(self, name: str, shape: tuple[int, ...], dtype: str, feature: str | None = None) -> str:
        """A column of the data; `shape` is that of a record."""
        config: dict[str, Any] = {"shape": list(shape), "dtype": dtype}
        if feature is not None:
            config["feature"] = feature
        return self.add("Input", name, **config)

    def variable(self, name: str, value: np.ndarray, trainable: bool = True, **config: Any) -> str:
        """A variable of its own; `config`: further arguments, as `regularizer`."""
        name = self.add("Variable", name, shape=list(value.shape), trainable=bool(trainable), **config)
        self.values[name] = value
        return name

    def constant(self, value: np.ndarray, name: str = "constant") -> str:
        """Numbers that training does not change; equal ones are one layer."""
        value = np.asarray(value)
        key = (value.shape, value.dtype.str, value.tobytes())
        if key not in self._constants:
            dtype = "bool" if value.dtype == bool else "int64" if value.dtype.kind in "iu" else self.dtype
            numbers = value.astype(np.float64).reshape(-1).tolist()
            if not all(math.isfinite(x) for x in numbers):
                raise TraceError(f"the constant {name} of shape {value.shape} has numbers that are not finite")
            self._constants[key] = self.add("ops.array", name, value=numbers, shape=list(value.shape), dtype=dtype)
        return self._constants[key]

    def op(self, function: str, inputs: list[str], **config: Any) -> str:
        """A function of `keras.ops`."""
        return self.add(f"ops.{function}", function, inputs, **config)

    def variable_name(self, key: str) -> str:
        """The name in a job of a variable of `values`: "layer/kernel" for "layer/0"."""
        layer, _, number = key.rpartition("/")
        for one in self.layers:
            ((class_name, body),) = one.items()
            if body["name"] == layer.split("/", 1)[0] and class_name != "Variable":
                return f"{layer}/{_weights_of(class_name, body)[int(number)]}"
        return key

    def prune(self) -> None:
        """Removes the layers that lead to no output, and the values of their variables."""
        used = set(self.outputs)
        kept = []
        for layer in reversed(self.layers):
            (body,) = layer.values()
            if body["name"] not in used and "Input" not in layer:
                continue
            used.update(body.get("inputs", []))
            used.update(mask for mask in body.get("masks", []) if mask)
            if "shares" in body:
                used.add(body["shares"])
            kept.append(layer)
        # An input that nothing reads is no layer either.
        self.layers = [layer for layer in reversed(kept) if next(iter(layer.values()))["name"] in used]

    def tables_by_rows(self) -> None:
        """Makes an Embedding of each Variable of which only rows are taken, by ids of the data: then a step pulls these rows alone."""
        bodies = {body["name"]: (kind, body) for layer in self.layers for kind, body in layer.items()}
        readers: dict[str, list[str]] = {}
        for name, (_, body) in bodies.items():
            for source in body.get("inputs", []):
                readers.setdefault(source, []).append(name)

        def of_data(name: str) -> bool:
            """True if a value depends on columns, and on no variables."""
            kind, body = bodies[name]
            if kind == "Input":
                return body["dtype"] == "int64"
            sources = body.get("inputs", [])
            return kind.startswith("ops.") and any(map(of_data, sources)) and all(
                of_data(source) or bodies[source][0] == "ops.array" for source in sources)

        def takes_rows(name: str, table: str) -> bool:
            kind, body = bodies[name]
            return (kind == "ops.take" and body["inputs"][0] == table and body["inputs"].count(table) == 1 and len(body["inputs"]) == 2
                    and body.get("axis") == 0 and of_data(body["inputs"][1]))

        for table, (kind, body) in list(bodies.items()):
            if kind != "Variable" or len(body["shape"]) != 2 or table in self.outputs or table not in readers:
                continue
            if not set(body) <= {"name", "shape", "trainable"}:  # a penalty or constraint needs all rows
                continue
            if not all(takes_rows(name, table) for name in readers[table]):
                continue
            first, *others = readers[table]
            for name in readers[table]:
                layer = {"name": name if name != first else table, "inputs": bodies[name][1]["inputs"][1:]}
                if name == first:
                    layer.update(input_dim=body["shape"][0], output_dim=body["shape"][1], trainable=body["trainable"])
                else:
                    layer["shares"] = table
                bodies[name] = ("Embedding", layer)
            del bodies[table]
            for other, (_, reader) in bodies.items():
                if first in reader.get("inputs", []):
                    reader["inputs"] = [table if source == first else source for source in reader["inputs"]]
            self.outputs = [table if output == first else output for output in self.outputs]
            self.values[f"{table}/0"] = self.values.pop(table)
            if table in self.variables:
                self.variables[f"{table}/0"] = self.variables.pop(table)
        self.layers = [{kind: body} for kind, body in bodies.values()]

    def model(self) -> dict[str, Any]:
        """The keys of `model` in a job file."""
        names = {"output_names": self.output_names} if self.output_names else {}
        return {"name": self.name, "dtype": self.dtype, "functional": self.layers, "outputs": self.outputs, **names}

    @staticmethod
    def job_keys() -> dict[str, Any]:
        """The keys of a job beside the file that `save` wrote as model.cohort."""
        return {"model": {"traced": "model.cohort"}}

    def layers_json(self) -> str:
        """`model()` with a line for each layer, so that errors can name it."""
        layers = ",\n".join("  " + json.dumps(layer, ensure_ascii=False) for layer in self.layers)
        rest = {key: value for key, value in self.model().items() if key != "functional"}
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in rest.items())
        return f'{{{head}, "functional": [\n{layers}\n]}}\n'

    def save(self, path: str | os.PathLike) -> None:
        """Writes the file of `model: {traced: FILE}`."""
        metadata = {"format": FORMAT, "format_version": FORMAT_VERSION, "model": self.layers_json(), **self.metadata}
        values = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in self.values.items()}
        temporary = f"{os.fspath(path)}.new"
        save_file(values, temporary, metadata)
        os.replace(temporary, path)
