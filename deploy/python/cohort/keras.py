"""Traces a Keras 3 model: sequential, functional or subclassed, with custom layers.

Calling a layer on `KerasTensor`s records every operation of `keras.ops` and every layer below it as a graph. The tracer
walks this graph. A layer that Cohort has is kept; any other one is entered through its `call`, with a symbol in place of
each of its variables.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from typing import Any, Mapping

import keras
import numpy as np
from keras import KerasTensor, tree
from keras.src import backend
from keras.src.ops.operation import Operation

from cohort._classes import Classes, is_mask
from cohort._data import split_inputs
from cohort._graph import Graph, TraceError, batch_marker, owner
from cohort._modes import of_both


def trace(model: keras.Model, inputs: Any = None, *, classes: Classes | None = None) -> Graph:
    """Returns the graph of a Keras model.

    inputs: arrays or shapes with a batch axis, by the structure of the model's input, for a model that was not built;
        of a functional or sequential model its own inputs are the default. Shapes of records are static.
    Raises TraceError for what cannot be traced.
    """
    classes = classes or Classes.of_programs()
    specs = _input_specs(model, inputs)
    if not model.built:
        model(tree.map_structure(lambda s: _zeros((2, *s.shape[1:]), s.dtype), specs))
    if not all(layer.built for layer in model._flatten_layers()):  # those that only training calls
        model(tree.map_structure(lambda s: KerasTensor((2, *s.shape[1:]), s.dtype), specs), training=True)
    sizes = [size for x in [*model.variables, *tree.flatten(specs)] for size in x.shape]  # that of the batch is None
    batch = batch_marker(sizes, model.name)
    training, inference = (_trace_once(model, specs, batch, classes, mode) for mode in (True, False))
    graph = training if training.layers_json() == inference.layers_json() else of_both(training, inference, id)
    graph.tables_by_rows()
    return graph


def _zeros(shape: tuple[int, ...], dtype: str) -> Any:
    return backend.convert_to_tensor(np.full(shape, "") if dtype == "string" else np.zeros(shape), dtype=dtype)


def _input_specs(model: keras.Model, inputs: Any) -> Any:
    if inputs is None:
        inputs = getattr(model, "inputs", None)
        if not inputs:
            raise TraceError(f"{model.name}: its inputs are not known: call the model once, or pass `inputs`")
        inputs = model._inputs_struct if hasattr(model, "_inputs_struct") else inputs
        if isinstance(inputs, list) and len(inputs) == 1:
            inputs = inputs[0]

    def spec(x: Any) -> KerasTensor:
        shape = tuple(x.shape)
        name = getattr(x, "name", None) if isinstance(x, KerasTensor) else None
        dtype = backend.standardize_dtype(x.dtype)
        if any(size is None for size in shape[1:]):
            raise TraceError(
                f"{model.name}: the input {name or ''} of shape {shape} has an axis without a size beside the batch: "
                f"pass `inputs` with the shape that the data has")
        return KerasTensor((None, *shape[1:]), dtype, name=name)

    return tree.map_structure(spec, inputs)


def _trace_once(model: keras.Model, specs: Any, batch: int, classes: Classes, training: bool) -> Graph:
    graph = Graph(model.name, backend.floatx())
    tracer = Tracer(graph, batch, classes, training, model.compute_dtype)

    position = 0

    def make(path, spec):
        nonlocal position
        x = KerasTensor((batch, *spec.shape[1:]), spec.dtype)
        x.record_history = True
        given = spec.name or ""
        name = str(path[-1]) if path and isinstance(path[-1], str) else given.split(":")[0] or f"input_{position}"
        position += 1
        dtype = "int64" if spec.dtype.startswith(("int", "uint")) else "string" if spec.dtype == "string" else graph.dtype
        tracer.names[id(x)] = graph.input(name, tuple(spec.shape[1:]), dtype)
        tracer.keep.append(x)
        return x

    inputs = tree.map_structure_with_path(make, specs) if hasattr(tree, "map_structure_with_path") else tree.map_structure(
        lambda s: make((), s), specs)
    with tracer.recording():
        outputs = tracer.enter(model, (inputs,), {})
    flat = tree.flatten(outputs)
    given = _output_names(model, outputs)
    for i, x in enumerate(flat):
        name = tracer.output(x, f"output {i} of {model.name}")
        if i < len(given) and given[i] != name:  # labels, losses and metrics have the names that the model gives
            name = graph.add("Identity", given[i], [name])
        elif name in graph.outputs:
            name = graph.add("Identity", "identity", [name])
        graph.outputs.append(name)
        graph.output_shapes.append(tuple(x.shape[1:]))
    if given and given != graph.outputs:  # another layer has the name
        graph.output_names = given
    graph.prune()
    names = {next(iter(layer.values()))["name"] for layer in graph.layers}
    graph.values = {key: value for key, value in graph.values.items() if owner(key, names) is not None}
    graph.variables = {key: v for key, v in tracer.variables.items() if key in graph.values}
    return graph


def _output_names(model: keras.Model, outputs: Any) -> list[str]:
    """The names of several outputs, in the order of their values; [] if the model gives none."""
    if isinstance(outputs, dict):
        return [str(key) for key in tree.flatten({key: key for key in outputs})] if all(isinstance(key, str) for key in outputs) else []
    names = getattr(model, "output_names", None)
    return list(names) if isinstance(outputs, (list, tuple)) and len(outputs) > 1 and names else []


class Tracer:
    """Records what functions of keras.ops compute as layers of a graph.

    batch: marks the axis of records in shapes. compute_dtype: that of the model; None: layers have no types of their own.
    """

    def __init__(self, graph: Graph, batch: int, classes: Classes, training: bool, compute_dtype: str | None = None):
        self.graph = graph
        self.compute_dtype = compute_dtype
        self.batch = batch
        self.classes = classes
        self.training = training
        self.names: dict[int, str] = {}  # names of values by id(KerasTensor)
        self.keep: list[Any] = []  # so that ids stay unique
        self.symbols: dict[int, KerasTensor] = {}  # those of variables, by id
        self.layers: dict[int, str] = {}  # the first call of a kept layer, by id
        self.variables: dict[str, Any] = {}  # the keras.Variable of each value
        self.masked: set[str] = set()  # the values that have masks in Cohort
        self.where: list[str] = []
        self._inside = 0  # calls of Keras that only infer shapes

    @contextlib.contextmanager
    def recording(self):
        """While it is open, a layer that is called on numbers is recorded too: they become constants of the graph."""
        call, symbolic_call = keras.layers.Layer.__call__, keras.layers.Layer.symbolic_call
        tracer = self

        def recorded_call(layer, *args, **kwargs):
            if not tracer._inside and layer.built and layer.weights and not any(
                    isinstance(x, KerasTensor) for x in tree.flatten((args, kwargs))):
                args, kwargs = tree.map_structure(tracer.as_symbol, (args, kwargs))
            return call(layer, *args, **kwargs)

        def inferring(layer, *args, **kwargs):
            tracer._inside += 1
            try:
                return symbolic_call(layer, *args, **kwargs)
            finally:
                tracer._inside -= 1

        keras.layers.Layer.__call__, keras.layers.Layer.symbolic_call = recorded_call, inferring
        try:
            yield
        finally:
            keras.layers.Layer.__call__, keras.layers.Layer.symbolic_call = call, symbolic_call

    def as_symbol(self, x: Any) -> Any:
        """Numbers of an array as a symbol of a constant."""
        if not (backend.is_tensor(x) or isinstance(x, np.ndarray)):
            return x
        value = backend.convert_to_numpy(x)
        symbol = KerasTensor(value.shape, backend.standardize_dtype(value.dtype))
        self.names[id(symbol)] = self.value(value, "a constant")
        self.keep.append(symbol)
        return symbol

    def bind(self, x: Any, name: str) -> None:
        """Gives a symbol the name of a value of the graph."""
        x.record_history = True
        self.names[id(x)] = name
        self.keep.append(x)

    def call(self, function: Any, args: tuple, name: str) -> Any:
        """Records what a function computes; returns its result."""
        self.where.append(name)
        with self.recording():
            try:
                outputs = function(*args)
            except TraceError:
                raise
            except Exception as error:
                raise self._failed(error) from error
            self.walk(outputs)
        self.where.pop()
        return outputs

    # ---------------------------------------------------------------- layers

    def enter(self, layer: Any, args: tuple, kwargs: dict) -> Any:
        """Records what `layer.call` computes; returns its outputs."""
        kwargs = dict(kwargs)
        signature = inspect.signature(layer.call)
        if "training" in signature.parameters:
            kwargs["training"] = self.training
        else:
            kwargs.pop("training", None)
        if "mask" not in signature.parameters:
            kwargs.pop("mask", None)
        self.where.append(f"{layer.name} ({type(layer).__name__})")
        try:
            with self._symbols_of(layer):
                outputs = layer.call(*args, **kwargs)
        except TraceError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        self.walk(outputs)
        self.where.pop()
        return outputs

    def _failed(self, error: Exception) -> TraceError:
        """Names the line of the user's source that failed."""
        frames = [f for f in traceback.extract_tb(error.__traceback__)
                  if "/keras/src/" not in f.filename and not f.filename.endswith("cohort/keras.py")
                  and "/tensorflow/" not in f.filename]
        at = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: " if frames else ""
        text = str(error).split("\n")[0]
        if "add_loss" in text:
            return TraceError(f"{at}{' > '.join(self.where)}: add_loss is not supported: use a regularizer of a variable, `activity_regularizer` "
                              f"of a layer, or keras.layers.ActivityRegularization")
        return TraceError(
            f"{at}{' > '.join(self.where)} cannot be traced: {text}. Its `call` must be made of keras.ops and layers, "
            f"without Python decisions on values; for anything else there is cohort.external_step")

    @contextlib.contextmanager
    def _symbols_of(self, layer: Any):
        """Puts symbols in the places of the variables that the layer has as attributes."""
        attributes = vars(layer)
        saved = {}
        for key, value in list(attributes.items()):
            if key.startswith("_") and key in ("_trainable_variables", "_non_trainable_variables", "_layers", "_metrics", "_tracker",
                                               "_losses", "_inbound_nodes", "_outbound_nodes"):
                continue
            replaced = self._replace(value)
            if replaced is not value:
                saved[key] = value
                attributes[key] = replaced
        try:
            yield
        finally:
            attributes.update(saved)

    def _replace(self, value: Any) -> Any:
        if isinstance(value, keras.Variable):
            return self.symbol(value)
        if isinstance(value, (list, tuple)) and any(isinstance(x, keras.Variable) for x in value):
            return type(value)(self._replace(x) for x in value) if type(value) in (list, tuple) else [self._replace(x) for x in value]
        if isinstance(value, dict) and any(isinstance(x, keras.Variable) for x in value.values()):
            return {k: self._replace(x) for k, x in value.items()}
        return value

    def symbol(self, variable: keras.Variable) -> KerasTensor:
        if id(variable) not in self.symbols:
            x = KerasTensor(tuple(variable.shape), variable.dtype)
            rules = {key: self.classes.plain(keras.saving.serialize_keras_object(rule), variable.path)
                     for key in ("regularizer", "constraint") if (rule := getattr(variable, key, None)) is not None}
            name = self.graph.variable(variable.path, backend.convert_to_numpy(variable.value), variable.trainable, **rules)
            self.variables[name] = variable
            self.names[id(x)] = name
            self.symbols[id(variable)] = x
            self.keep.append((x, variable))
        return self.symbols[id(variable)]

    # ---------------------------------------------------------------- values

    def walk(self, outputs: Any) -> None:
        """Names everything that leads to these outputs, in the order of computation."""
        nodes, seen, stack = [], set(), []
        for x in tree.flatten(outputs):
            if isinstance(x, KerasTensor) and id(x) not in self.names:
                stack.append((self._node_of(x), False))
        while stack:
            node, done = stack.pop()
            if node is None or (id(node) in seen and not done):
                continue
            if done:
                nodes.append(node)
                continue
            seen.add(id(node))
            stack.append((node, True))
            for x in self._tensors_of(node):
                if id(x) not in self.names:
                    stack.append((self._node_of(x), False))
        for node in nodes:
            if any(id(x) not in self.names for x in node.outputs):
                self.record(node)

    def _tensors_of(self, node) -> list[Any]:
        """What a call reads, without masks: most of them come with the inputs in Cohort too, so they are recorded when needed."""
        if not isinstance(node.operation, keras.layers.Layer):
            return node.arguments.keras_tensors
        kwargs = {key: x for key, x in node.arguments.kwargs.items() if not is_mask(key)}
        return [x for x in tree.flatten((node.arguments.args, kwargs)) if isinstance(x, KerasTensor)]

    @staticmethod
    def _node_of(x: KerasTensor):
        history = getattr(x, "_keras_history", None)
        return None if history is None or history.operation is None else history.operation._inbound_nodes[history.node_index]

    def record(self, node) -> None:
        operation = node.operation
        args, kwargs = node.arguments.args, node.arguments.kwargs
        self.keep.append(node)
        if isinstance(operation, keras.layers.Layer):
            if self.classes.has_layer(operation):
                names = self._keep_layer(operation, args, kwargs, len(node.outputs))
                self.masked.update(name for x, name in zip(node.outputs, names) if backend.get_keras_mask(x) is not None)
            else:
                inner = tree.flatten(self.enter(operation, tuple(args), dict(kwargs)))
                names = [self.value(x, operation.name) for x in inner]
                if operation.activity_regularizer is not None:
                    rule = self.classes.plain(keras.saving.serialize_keras_object(operation.activity_regularizer), operation.name)
                    names = [self.graph.add("Identity", "identity", [name], activity_regularizer=rule) for name in names]
        else:
            names = self._operation(operation, args, kwargs, node)
        for x, name in zip(node.outputs, names):
            self.names[id(x)] = name

    def value(self, x: Any, what: str) -> str:
        """The name of a value, or that of a constant."""
        if isinstance(x, KerasTensor):
            if id(x) not in self.names:
                self.walk(x)
            if id(x) not in self.names:
                raise TraceError(f"{' > '.join(self.where)}: {what} does not depend on the inputs or variables of the model")
            return self.names[id(x)]
        if isinstance(x, keras.Variable):
            return self.names[id(self.symbol(x))]
        return self.graph.constant(self._without_batch(backend.convert_to_numpy(x) if backend.is_tensor(x) else np.asarray(x)))

    def output(self, x: Any, what: str) -> str:
        """A value with its mask, which the loss reads."""
        name = self.value(x, what)
        if isinstance(x, KerasTensor) and backend.get_keras_mask(x) is not None and name not in self.masked:
            name = self.graph.add("Identity", "identity", [name], masks=[self.value(backend.get_keras_mask(x), "a mask")])
        return name

    def _without_batch(self, value: np.ndarray) -> np.ndarray:
        """A constant that repeats for each record has one."""
        if value.ndim and value.shape[0] == self.batch:
            if (value == value[:1]).all():
                return value[:1]
            raise TraceError(f"{' > '.join(self.where)}: a constant has other numbers for each record of a batch: random numbers are drawn by "
                             f"the layers Dropout, GaussianNoise and GaussianDropout; for anything else there is cohort.external_step")
        return value

    def _keep_layer(self, layer: Any, args: tuple, kwargs: dict, outputs: int) -> list[str]:
        """A call of a layer that Cohort has."""
        tensors, config = self.classes.call_of_layer(layer, args, kwargs)
        inputs = [self.value(x, f"an input of {layer.name}") for x in tensors]
        call = self.classes.reference["layers"][self.classes.layer_name(layer)]["call"]
        masks = self._masks(tensors, inputs, kwargs, config.get("input_names") or call)
        if masks:
            config["masks"] = masks
        if id(layer) in self.layers:
            name = self.graph.add(self.classes.layer_name(layer), f"{self.layers[id(layer)]}:call", inputs, shares=self.layers[id(layer)],
                                  **{key: config[key] for key in ("masks", "input_names") if key in config})
        else:
            weights = [w for w in layer.weights if not _is_seed(w)]
            path = weights[0].path.rsplit("/", 1)[0] if weights and not getattr(layer, "_layers", None) else _layer_path(layer)
            name = self.graph.add(self.classes.layer_name(layer), path, inputs, **self.classes.config_of_layer(layer, self.compute_dtype),
                                  **config)
            self.layers[id(layer)] = name
            counts: dict[str, int] = {}
            names = _InnerNames()
            for v in weights if type(layer).__name__ != "Normalization" else []:
                # In a layer of layers, as in LSTM with its cell, variables have numbers in the inner one.
                inner = names.of(v.path[len(path) + 1:].rpartition("/")[0]) if v.path.startswith(f"{path}/") else ""
                group = f"{name}/{inner}" if inner else name
                key = f"{group}/{counts.setdefault(group, 0)}"
                counts[group] += 1
                self.graph.values[key] = backend.convert_to_numpy(v.value)
                self.variables[key] = v
        return self._parts(name, outputs)

    def _masks(self, tensors: list[Any], inputs: list[str], kwargs: dict, names: list[str]) -> list[str]:
        """The masks of inputs that Cohort does not have with the inputs; "": those that come with them."""
        given = kwargs.get("mask")
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        masks = []
        for i, (x, name) in enumerate(zip(tensors, inputs)):
            mask = given[i] if i < len(given) else None
            if mask is None and i < len(names):
                mask = kwargs.get(f"{names[i]}_mask")
            own = backend.get_keras_mask(x) if isinstance(x, KerasTensor) else None
            mask = own if mask is None else mask
            masks.append("" if mask is None or (mask is own and name in self.masked) else self.value(mask, "a mask"))
        return masks if any(masks) else []

    def _parts(self, name: str, outputs: int) -> list[str]:
        return [name] + [self.graph.op("part", [name], index=i) for i in range(1, outputs)]

    def _operation(self, operation: Operation, args: tuple, kwargs: dict, node) -> list[str]:
        function = self.classes.function_name(operation)
        where = f"{' > '.join(self.where)}: keras.ops.{function}"
        call, known = self.classes.operation(function, where)
        bound = inspect.signature(operation.call).bind(*args, **kwargs)
        bound.apply_defaults()
        given = {**self.classes.attributes_of(operation), **bound.arguments}
        inputs, names, config = [], [], {}
        if function in ("convert_to_tensor", "cast") and self._keeps_type(node):
            return [self.value(bound.arguments["x"], "x")]
        for argument, x in given.items():
            is_tensors = _has_tensor(x)
            if known.get(argument, {}).get("planned") and not x:
                continue
            if argument == "key" and not is_tensors:
                config[argument] = _key_text(x)
                continue
            if argument in call or (not call and (is_tensors or argument in ("inputs", "arrays", "operands", "xs"))):
                if x is None:
                    continue
                if not is_tensors and argument in known and np.ndim(x) == 0:
                    config[argument] = self.plain(x, where)
                    continue
                items = x if isinstance(x, (list, tuple)) and is_tensors else [x]
                for item in items:
                    inputs.append(self.value(item, argument))
                    names.append(argument)
            elif argument in known:
                shape = node.outputs[0].shape if function == "reshape" and argument == "newshape" else x
                config[argument] = self.argument(function, argument, shape, where)
            elif is_tensors:
                raise TraceError(f"{where}: its argument `{argument}` may not be a tensor of the model in Cohort")
        if call and names != [argument for argument in call if argument not in config][: len(names)]:
            config["input_names"] = names
        config = {key: value for key, value in config.items() if value is not None}
        name = self.graph.op(function, inputs, **config)
        return self._parts(name, len(node.outputs))

    @staticmethod
    def _keeps_type(node) -> bool:
        """True for a conversion that means nothing in a graph of one floating and one integer type."""
        before, after = (x.dtype for x in (node.arguments.keras_tensors[0], node.outputs[0]))
        return before == after or all(dtype.startswith(("int", "uint")) for dtype in (before, after)) or all(
            dtype.startswith(("float", "bfloat")) for dtype in (before, after))

    def argument(self, function: str, name: str, x: Any, where: str) -> Any:
        if name in ("newshape", "shape") and function in ("reshape", "broadcast_to"):
            sizes = [int(size) for size in x]
            for i, size in enumerate(sizes):
                if size > 0 and size % self.batch == 0:
                    sizes[i] = -1
            return sizes
        return self.plain(x, where)

    def plain(self, x: Any, where: str) -> Any:
        """A value of a job file."""
        if isinstance(x, (np.generic,)):
            x = x.item()
        if backend.is_tensor(x) or isinstance(x, np.ndarray):
            x = np.asarray(backend.convert_to_numpy(x)).tolist()
        if isinstance(x, (list, tuple)):
            return [self.plain(item, where) for item in x]
        if isinstance(x, bool) or x is None or isinstance(x, (int, float, str)):
            if isinstance(x, int) and not isinstance(x, bool) and x and x % self.batch == 0:
                raise TraceError(f"{where}: it depends on the number of records of a batch")
            return x
        raise TraceError(f"{where}: the argument {x!r} is not supported")


class _InnerNames:
    """Names of layers inside a layer as Cohort numbers them: lstm_cell, lstm_cell_1. Keras counts the layers of the whole program."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {"": ""}
        self._counts: dict[str, int] = {}

    def of(self, path: str) -> str:
        """The name of an inner layer, of its path below the outer one."""
        if path not in self._names:
            parent, _, last = path.rpartition("/")
            base = "/".join(filter(None, (self.of(parent), re.sub(r"_\d+$", "", last))))
            number = self._counts[base] = self._counts.get(base, -1) + 1
            self._names[path] = f"{base}_{number}" if number else base
        return self._names[path]


def _layer_path(layer: Any) -> str:
    return getattr(layer, "path", None) or layer.name


def _is_seed(variable: Any) -> bool:
    return "seed_generator" in variable.path


def _has_tensor(x: Any) -> bool:
    return any(isinstance(item, (KerasTensor, keras.Variable)) or backend.is_tensor(item) for item in tree.flatten(x))


def _key_text(key: Any) -> str:
    """The places and slices of x[key], as Python writes them."""
    items = key if isinstance(key, tuple) else (key,)

    def text(item: Any) -> str:
        if item is Ellipsis:
            return "..."
        if isinstance(item, slice):
            parts = ["" if p is None else str(int(p)) for p in (item.start, item.stop)]
            return ":".join(parts) + (f":{int(item.step)}" if item.step is not None else "")
        return "None" if item is None else str(int(item))

    return ", ".join(text(item) for item in items)


def example_of(model: keras.Model, x: Any) -> Any:
    """Symbols of the shapes of `x`, for a model that does not know its inputs; None: it knows them."""
    inputs = getattr(model, "inputs", None)
    if inputs and all(size is not None for i in inputs for size in i.shape[1:]):
        return None

    def symbol(a: Any, name: str | None = None, dtype: str | None = None) -> KerasTensor:
        array = a if hasattr(a, "dtype") and hasattr(a, "shape") else np.asarray(a)
        if dtype is None:
            kind = np.asarray(array[:1]).dtype.kind if len(array) else "f"
            dtype = "string" if kind in "OUS" else "int64" if kind in "iu" else backend.floatx()
        return KerasTensor((None, *array.shape[1:]), dtype, name=name)

    def named(part: Any, name: str) -> Any:
        if isinstance(part, Mapping):
            return {key: named(value, str(key)) for key, value in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(named(value, f"input_{i}") for i, value in enumerate(part))
        return symbol(part, name)

    if not inputs:
        return named(x, "input_0")
    columns = split_inputs(x, [i.name for i in inputs])
    struct = getattr(model, "_inputs_struct", None)
    return tree.map_structure(lambda i: symbol(columns[i.name], i.name, i.dtype), inputs[0] if struct is None else struct)


def assign(graph: Graph, values: dict[str, np.ndarray]) -> None:
    """Gives the model's variables the values of a checkpoint, which has them by Cohort's names."""
    in_layer: dict[str, list[str]] = {}
    numbered = {key.rpartition("/")[0] for key in graph.variables if key not in values}
    for name in values:
        layer = owner(name, numbered)
        if layer is not None:
            in_layer.setdefault(layer, []).append(name)
    for key, variable in graph.variables.items():
        layer, _, number = key.rpartition("/")
        names = [key] if key in values else in_layer.get(layer, [])[int(number):]
        if not names or values[names[0]].size != int(np.prod(variable.shape)):
            raise TraceError(f"the checkpoint has no values for the variable {variable.path} of shape {tuple(variable.shape)}: "
                             f"it is of another model")
        variable.assign(values[names[0]].reshape(variable.shape))
