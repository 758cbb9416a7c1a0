"""Writes the model of a checkpoint as ONNX, for inference.

Keras computes the model on symbols: each layer is entered through its `call`, and every operation of `keras.ops` that it makes becomes
nodes of ONNX (_export_onnx_nodes.py). So dropout and other layers of training leave nothing, and a layer needs code of its own only if it
calls its backend directly, as LSTM does. The batch of the symbols is a prime number, which marks the axis of the batch in every shape.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from typing import Any, Callable

import keras
import numpy as np
import onnx
from keras import KerasTensor, tree
from keras.src import backend
from onnx import TensorProto, helper, numpy_helper

from cohort import _export_keras
from cohort._classes import snake_case
from cohort._export_model import ExportError, TrainedModel, Transform

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
_PRIMES = (997, 1009, 1013, 1019, 1021, 1031, 1033, 1039)
_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
          "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "bool": TensorProto.BOOL, "string": TensorProto.STRING,
          "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "uint32": TensorProto.UINT32, "int16": TensorProto.INT16}
_OPS: dict[str, Callable] = {}
_LAYERS: dict[str, Callable] = {}


def _op(*names: str) -> Callable:
    """Registers the nodes of operations of keras.ops."""
    def register(function: Callable) -> Callable:
        for name in names:
            _OPS[name] = function
        return function
    return register


def _layer(*names: str) -> Callable:
    """Registers the nodes of layers that are not entered."""
    def register(function: Callable) -> Callable:
        for name in names:
            _LAYERS[name] = function
        return function
    return register


def expressible(t: Transform) -> str:
    """Why ONNX cannot have a transform of columns; "": it can."""
    if t.class_name in ("Hashing", "HashedCrossing"):
        return "ONNX has no hash of words"
    if t.class_name == "StringLookup" and int(t.config.get("num_oov_indices") or 0) > 1:
        return "ONNX has no hash of words, which several out-of-vocabulary indices need"
    return ""


def save(trained: TrainedModel, path: str, preprocessing: bool) -> _export_keras.KerasModel:
    """Writes the file, after a check by `onnx.checker`."""
    built = _export_keras.build(trained, expressible if preprocessing else None)
    outputs = trained.output_names or trained.outputs
    proto = convert(built.model, outputs)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save_model(proto, path)
    return built


def convert(model: keras.Model, output_names: list[str] | None = None) -> onnx.ModelProto:
    """A functional or sequential Keras model as ONNX.

    Raises ExportError that names each operation and layer that cannot be expressed.
    """
    importlib.import_module("cohort._export_onnx_nodes")
    return Converter(model).convert(output_names)


class Converter:
    """Nodes in the order in which they are computed."""

    def __init__(self, model: keras.Model):
        self.model = model
        self.batch = _batch_marker(model)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.missing: dict[str, str] = {}  # what cannot be expressed, and where
        self.where: list[str] = []
        self._values: dict[int, str] = {}  # by the id of a KerasTensor
        self._keep: list[Any] = []
        self._count: dict[str, int] = {}
        self._constants: dict[tuple, str] = {}
        self._nchw: dict[str, str] = {}  # the channels-first value that a channels-last one was made of
        self._uses_ml = False
        self.calls: dict[int, tuple[Any, dict]] = {}  # arguments of calls of layers with their masks, which nodes lack, by the first output

    def convert(self, output_names: list[str] | None) -> onnx.ModelProto:
        specs, inputs = [], []
        for x in self.model.inputs:
            symbol = KerasTensor((self.batch, *x.shape[1:]), x.dtype)
            name = self.fresh(x.name.split(":")[0])
            self.name(symbol, name)
            specs.append(symbol)
            inputs.append(helper.make_tensor_value_info(name, _TYPES[x.dtype], ["batch", *x.shape[1:]]))
        with _symbols_pass(self):
            outputs = tree.flatten(self.enter(self.model, (tree.pack_sequence_as(self.model._inputs_struct, specs),), {}))
        infos = []
        for i, x in enumerate(outputs):
            name = self.fresh(output_names[i] if output_names and i < len(output_names) else f"output_{i}")
            value = self.value(x)
            self.nodes.append(helper.make_node("Identity", [value], [name]))
            dtype = backend.standardize_dtype(x.dtype)
            infos.append(helper.make_tensor_value_info(name, _TYPES[dtype], [self.size(s) for s in x.shape]))
        if self.missing:
            raise ExportError("ONNX cannot express, or this converter has no nodes for: "
                              + "; ".join(f"{what} ({where})" for what, where in self.missing.items()))
        graph = helper.make_graph(self._used(), self.model.name, inputs, infos, list(self.initializers.values()))
        opsets = [helper.make_opsetid("", OPSET)] + ([helper.make_opsetid("ai.onnx.ml", ML_OPSET)] if self._uses_ml else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="cohort")

    def _used(self) -> list[onnx.NodeProto]:
        """Without the nodes and initializers that lead to no output."""
        wanted = {output for node in self.nodes for output in node.output if node.op_type == "Identity" and not node.name}
        kept = []
        for node in reversed(self.nodes):
            if any(output in wanted for output in node.output):
                kept.append(node)
                wanted.update(node.input)
                for attribute in node.attribute:
                    if attribute.type == onnx.AttributeProto.GRAPH:
                        wanted.update(name for inner in attribute.g.node for name in inner.input)
        self.initializers = {name: x for name, x in self.initializers.items() if name in wanted}
        return list(reversed(kept))

    def size(self, size: int | None) -> Any:
        """A size of an output: a number, or a name of what depends on the batch."""
        if not size or size % self.batch:
            return size
        return "batch" if size == self.batch else f"batch_{size // self.batch}"

    # ---------------------------------------------------------------- values

    def fresh(self, name: str) -> str:
        n = self._count.get(name, -1) + 1
        self._count[name] = n
        return name if n == 0 else f"{name}_{n}"

    def name(self, symbol: KerasTensor, value: str) -> None:
        self._values[id(symbol)] = value
        self._keep.append(symbol)

    def constant(self, value: Any, dtype: str | None = None, name: str = "constant") -> str:
        """An initializer; equal ones are one."""
        array = np.asarray(value)
        if dtype is not None:
            array = array.astype(dtype)
        if array.ndim and array.shape[0] == self.batch:
            if not (array == array[:1]).all():
                raise ExportError(f"{self.here()}: a constant has other numbers for each record of a batch")
            array = array[:1]
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._constants:
            made = self.fresh(name)
            self.initializers[made] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), made)
            self._constants[key] = made
        return self._constants[key]

    def value(self, x: Any, dtype: str | None = None) -> str:
        """The name of a tensor, a variable or a number; of the dtype, if it is given."""
        if isinstance(x, KerasTensor):
            if id(x) not in self._values:
                raise ExportError(f"{self.here()}: a value does not depend on the inputs of the model")
            own = backend.standardize_dtype(x.dtype)
            return self._values[id(x)] if dtype in (None, own) else self.node("Cast", [self._values[id(x)]], to=_TYPES[dtype])
        if isinstance(x, keras.Variable):
            return self.constant(backend.convert_to_numpy(x.value), dtype, x.path)
        array = backend.convert_to_numpy(x) if backend.is_tensor(x) else np.asarray(x)
        if dtype is None and array.dtype == np.float64 and not isinstance(x, np.ndarray):
            dtype = backend.floatx()
        return self.constant(array, dtype)

    def node(self, op: str, inputs: list[str], outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Appends a node; returns the name of its output, or names."""
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        attributes = {key: x for key, x in attributes.items() if x is not None}
        self.nodes.append(helper.make_node(op, inputs, names, name=self.fresh("node_" + op), domain=domain, **attributes))
        if domain:
            self._uses_ml = True
        return names[0] if outputs == 1 else names

    def ints(self, values: Any) -> str:
        return self.constant(np.asarray(list(values), np.int64).reshape(-1))

    def number(self, value: float, like: Any) -> str:
        return self.constant(np.asarray(value), backend.standardize_dtype(like.dtype))

    def here(self) -> str:
        return " > ".join(self.where) or self.model.name

    # ---------------------------------------------------------------- the graph of Keras

    def enter(self, layer: Any, args: tuple, kwargs: dict) -> Any:
        """Converts what `layer.call` computes; returns its outputs."""
        kwargs = dict(kwargs)
        parameters = inspect.signature(layer.call).parameters
        if "training" in parameters:
            kwargs["training"] = False
        else:
            kwargs.pop("training", None)
        if "mask" not in parameters:
            kwargs.pop("mask", None)
        self.where.append(f"{layer.name} ({type(layer).__name__})")
        try:
            outputs = layer.call(*args, **kwargs)
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(f"{self.here()}: Keras cannot compute it on symbols: {str(error).splitlines()[0]}") from error
        self.walk(outputs)
        self.where.pop()
        return outputs

    def walk(self, outputs: Any) -> None:
        stack = [(x, False) for x in reversed(tree.flatten(outputs)) if isinstance(x, KerasTensor)]
        started: set[int] = set()
        while stack:
            x, ready = stack.pop()
            if id(x) in self._values:
                continue
            history = getattr(x, "_keras_history", None)
            if history is None or history.operation is None:
                raise ExportError(f"{self.here()}: a value does not depend on the inputs of the model")
            node = history.operation._inbound_nodes[history.node_index]
            if ready:
                self.record(node)
                continue
            if id(x) in started and not ready:
                continue
            started.add(id(x))
            stack.append((x, True))
            stack.extend((y, False) for y in node.arguments.keras_tensors if id(y) not in self._values)

    def record(self, node: Any) -> None:
        operation = node.operation
        args, kwargs = node.arguments.args, node.arguments.kwargs
        self._keep.append(node)
        kind = type(operation).__name__
        if isinstance(operation, keras.layers.Layer):
            kwargs = self.calls.get(id(node.outputs[0]), (None, kwargs))[1]
            if kind in _LAYERS:
                self.where.append(f"{operation.name} ({kind})")
                given = {key: x for key, x in kwargs.items() if x is not None and key != "training"}
                names = _LAYERS[kind](self, operation, args, given, node.outputs)
                self.where.pop()
            else:
                names = [self.value(x) for x in tree.flatten(self.enter(operation, tuple(args), dict(kwargs)))]
        else:
            names = self.operation(operation, args, kwargs, node.outputs)
        for x, name in zip(node.outputs, names if isinstance(names, (list, tuple)) else [names]):
            self.name(x, name)

    def operation(self, operation: Any, args: tuple, kwargs: dict, outputs: list[Any]) -> Any:
        function = snake_case(type(operation).__name__)
        if function not in _OPS:
            self.missing.setdefault(f"keras.ops.{function}", self.here())
            return [self.constant(np.zeros([1 if s in (None, self.batch) else s for s in x.shape], backend.standardize_dtype(x.dtype)))
                    for x in outputs]
        bound = inspect.signature(operation.call).bind(*args, **kwargs)
        bound.apply_defaults()
        attributes = {k: v for k, v in vars(operation).items() if not k.startswith("_") and k not in ("name", "built")}
        return _OPS[function](self, {**attributes, **bound.arguments}, outputs)

    def subgraph(self, name: str, inputs: list[str], make: Callable[[], list[str]]) -> onnx.GraphProto:
        """A graph inside the graph. Its nodes may read everything that is outside."""
        outer, self.nodes = self.nodes, []
        try:
            results = make()
            infos = []
            for i, value in enumerate(results):
                out = self.fresh(f"{name}_out")
                self.nodes.append(helper.make_node("Identity", [value], [out]))
                infos.append(onnx.ValueInfoProto(name=out))
            graph = helper.make_graph(self.nodes, name, [onnx.ValueInfoProto(name=n) for n in inputs], infos)
        finally:
            self.nodes = outer
        return graph


@contextlib.contextmanager
def _symbols_pass(g: Converter):
    """Lets symbols pass the functions of Keras' backend: those that keras.ops has, too, record an operation instead."""
    convert = backend.convert_to_tensor
    changed: list[tuple[Any, str, Any]] = []

    def converting(x: Any, *args: Any, **kwargs: Any) -> Any:
        return x if isinstance(x, KerasTensor) else convert(x, *args, **kwargs)

    def recording(function: Callable, operation: Callable) -> Callable:
        def either(*args: Any, **kwargs: Any) -> Any:
            symbolic = any(isinstance(x, KerasTensor) for x in tree.flatten((args, kwargs)))
            return (operation if symbolic else function)(*args, **kwargs)
        return either

    def change(module: Any, name: str, function: Any) -> None:
        changed.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    symbolic_call = keras.layers.Layer.symbolic_call

    def with_sizes(layer: Any, *args: Any, **kwargs: Any) -> Any:
        """EinsumDense and others do not tell every size, which `call` does."""
        made = symbolic_call(layer, *args, **kwargs)
        if any(isinstance(x, KerasTensor) and None in x.shape for x in tree.flatten(made)) and type(layer).__name__ not in _LAYERS:
            known = {key: x for key, x in kwargs.items() if key in inspect.signature(layer.call).parameters}
            told = layer.call(*args, **known)
            made = tree.map_structure(lambda x, y: KerasTensor(y.shape, x.dtype), made, told)
        g.calls[id(tree.flatten(made)[0])] = (made, kwargs)
        return made

    try:
        change(backend, "convert_to_tensor", converting)
        change(backend, "cast", recording(backend.cast, keras.ops.cast))
        change(keras.layers.Layer, "symbolic_call", with_sizes)
        for module in (backend.numpy, backend.nn, backend.math):
            for name in dir(keras.ops):
                function = getattr(module, name, None)
                if inspect.isfunction(function) and inspect.isfunction(getattr(keras.ops, name)):
                    change(module, name, recording(function, getattr(keras.ops, name)))
        yield
    finally:
        for module, name, function in reversed(changed):
            setattr(module, name, function)


def _batch_marker(model: keras.Model) -> int:
    sizes = [size for v in model.variables for size in v.shape] + [size for x in model.inputs for size in x.shape[1:]]
    if any(size is None for size in sizes):
        raise ExportError(f"{model.name}: an input has an axis without a size beside the batch")
    return next(prime for prime in _PRIMES if all(size % prime for size in sizes if size))
