"""Traces a PyTorch module by torch.export.

A tensor of PyTorch is a value of the graph and a *layout*: which of the value's axes make which axis of the tensor. Views,
transpositions and permutations change the layout alone. So the batch stays the first axis of every value, as Cohort needs it,
wherever the module moves it, and images stay channels last behind the channels first of PyTorch.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import math
import operator
import os
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx

from cohort import _export_torch
from cohort._classes import Classes
from cohort._graph import CELLS, Graph, TraceError
from cohort._modes import of_both

_PRIMES = (997, 1009, 1013, 1019, 1021, 1031, 1033, 1039)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Value:
    """A tensor: the name of a value in the graph, the sizes of its axes, and the axes that make each axis of the tensor."""

    name: str
    sizes: list[int]
    axes: list[tuple[int, ...]]
    integer: bool = False

    @property
    def shape(self) -> list[int]:
        return [math.prod(self.sizes[i] for i in axis) for axis in self.axes]


def trace(module: torch.nn.Module, example: Any, *, classes: Classes | None = None) -> Graph:
    """Returns the graph of a module.

    example: the arguments of `forward`, a tensor or a tuple of tensors with at least one record; names of the inputs are those of
        the arguments. All sizes but that of the batch, the first axis of each input, are static. Images keep PyTorch's layout.
    Names of variables are those of the state dict where a layer has them: `net.0/kernel` is `net.0.weight`. A bias of an LSTM stays two:
        `bias_ih` is the last row of the layer's kernel, which reads a column of ones.
    Submodules that are in eval() while the module is in train() stay so: their batch normalizations use the running statistics.
    Raises TraceError for what cannot be traced.
    """
    del classes
    arguments = example if isinstance(example, tuple) else (example,)
    sizes = [size for p in module.state_dict().values() for size in p.shape]
    sizes += [size for x in arguments for size in x.shape[1:]]
    batch = next((p for p in _PRIMES if all(size % p for size in sizes if size)), None)
    if batch is None:
        raise TraceError("no size of a batch differs from all other sizes of the module")
    arguments = tuple(x[:1].expand(batch, *x.shape[1:]).contiguous() for x in arguments)
    program, evaluation = _exported(module, arguments, True), _exported(module, arguments, False)
    _check_evaluation(module, evaluation)
    if [mine for mine, _ in _operations(program)] == [other for other, _ in _operations(evaluation)]:
        graph = _Tracer(module, program, batch).run()
    else:
        graph = of_both(_Tracer(module, program, batch, evaluation).run(), _Tracer(module, evaluation, batch, program, True).run(),
                        lambda variable: variable[0] if isinstance(variable[0], str) else tuple(variable[0]))
    graph.tables_by_rows()
    graph.metadata[_export_torch.KEY] = _export_torch.layout_of(graph, module)
    return graph


def _exported(module: torch.nn.Module, arguments: tuple[torch.Tensor, ...], training: bool) -> Any:
    """The program of a module in train() or in eval(). The flags of its submodules stay as they were."""
    flags = [(m, m.training) for m in module.modules()]
    try:
        if module.training != training:  # layers that a user has frozen by eval() in a module that trains stay so
            module.train(training)
        with _quiet_export():
            return torch.export.export(module, arguments, strict=False)
    except Exception as error:
        text = str(error).split("\n")[0]
        mode = "" if training else " in eval()"
        raise TraceError(f"{_user_line(error)}{type(module).__name__} cannot be traced by torch.export{mode}: {text}. For Python decisions "
                         f"on values there is cohort.external_step") from error
    finally:
        for m, mode in flags:
            m.training = mode


_DROPOUTS = ("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout")
_ATTENTION = "aten.scaled_dot_product_attention"
# Arguments that differ between train() and eval() where a layer of Cohort makes the same difference.
_OF_THE_MODE = {"aten.batch_norm": ("training", "momentum"), _ATTENTION: ("dropout_p",),
                **dict.fromkeys(("aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu"), ("train",))}


def _check_evaluation(module: torch.nn.Module, evaluation: Any) -> None:
    """Raises TraceError if a module in eval() drops elements or uses the statistics of a batch."""
    kind = type(module).__name__
    for node in evaluation.graph.nodes:
        name = _name_of(node)
        if _drops(node):
            raise TraceError(f"{_line_of(node)}{kind}: {name} drops elements in eval() too, and Cohort drops none when it evaluates: use "
                             f"nn.Dropout, or pass training=self.training (of an attention: dropout_p=p if self.training else 0.0)")
        if name == "aten.batch_norm" and _arguments(node)["training"]:
            raise TraceError(f"{_line_of(node)}{kind}: {name} uses the statistics of a batch in eval() too, and Cohort the running ones "
                             f"when it evaluates: pass training=self.training")


def _operations(program: Any) -> list[tuple[str, torch.fx.Node]]:
    """What leads to the outputs, in order: each operation as text without what train() changes in layers of Cohort, and its node."""
    signature = program.graph_signature
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = getattr(signature, "inputs_to_lifted_tensor_constants", {})

    def counts_batches(node: torch.fx.Node) -> bool:
        return isinstance(node.args[0], torch.fx.Node) and state.get(node.args[0].name, "").endswith("num_batches_tracked")

    needed: set[torch.fx.Node] = set()
    pending = [node for node in program.graph.nodes if node.op == "output" or (_in_place(node) and not counts_batches(node))]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    operations: list[tuple[str, torch.fx.Node]] = []
    names: dict[torch.fx.Node, str] = {}
    for node in program.graph.nodes:
        if node not in needed:
            continue
        name = _name_of(node)
        if node.op == "placeholder":
            names[node] = state.get(node.name, node.name)
            if node.name in constants:
                numbers = program.constants[constants[node.name]].detach().cpu().numpy()
                names[node] = f"constant {numbers.dtype} {numbers.shape} {hash(numbers.tobytes())}"
        elif node.op == "get_attr":
            names[node] = name
        elif name.removesuffix("_") in _DROPOUTS:
            names[node] = names[node.args[0]]
        else:
            given = {key: value for key, value in _arguments(node).items() if key not in _OF_THE_MODE.get(name, ())}
            names[node] = f"%{len(operations)}"
            operations.append((f"{name} {torch.fx.node.map_arg(given, names.__getitem__)}", node))
    return operations


def _name_of(node: torch.fx.Node) -> str:
    """"aten.add" for torch.ops.aten.add.Tensor."""
    if node.op == "output":
        return "the output"
    name = str(node.target)
    if not isinstance(node.target, str):
        name = name.replace("torch.ops.", "").rsplit(".", 1)[0]
    return name.split("::")[-1]


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of an operation by their names, with the defaults of those that are not given."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return {**{str(n): arg for n, arg in enumerate(node.args)}, **node.kwargs}
    schema = node.target._schema.arguments
    return {a.name: node.args[n] if n < len(node.args) else node.kwargs.get(a.name, a.default_value) for n, a in enumerate(schema)}


def _drops(node: torch.fx.Node) -> bool:
    """True for an operation that sets random elements to 0."""
    name = _name_of(node).removesuffix("_")
    if name in _DROPOUTS:
        arguments = _arguments(node)
        return bool(arguments["train"]) and arguments["p"] > 0
    if name == _ATTENTION:
        return _arguments(node)["dropout_p"] > 0
    if "train" in _OF_THE_MODE.get(name, ()):
        arguments = _arguments(node)
        return bool(arguments["train"]) and arguments["dropout"] > 0 and arguments["num_layers"] > 1
    return False


def _in_place(node: torch.fx.Node) -> bool:
    """True for an operation that writes into its first argument; those that change its shape or its gradient do not write."""
    name = _name_of(node)
    shapes = ("detach_", "requires_grad_", "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_")
    return node.op == "call_function" and name.endswith("_") and not name.endswith("__") and name.removeprefix("aten.") not in shapes


def _storages(node: torch.fx.Node) -> set[int]:
    """The memory of the tensors that a node makes: views of one tensor have the same."""
    return {x.untyped_storage()._cdata for x in _flat(node.meta.get("val")) if isinstance(x, torch.Tensor)}


def _line_of(node: torch.fx.Node) -> str:
    """"FILE:LINE: " of the user's line that made a node, or nothing."""
    stack = (node.meta.get("stack_trace") or "").strip().split("\n")
    lines = [line.strip() for line in stack if 'File "' in line and "/torch/" not in line]
    if not lines:
        return ""
    parts = lines[-1].split(",")
    return f"{parts[0].replace('File ', '').strip(chr(34))}:{parts[1].replace('line', '').strip()}: "


def _user_line(error: BaseException) -> str:
    """"FILE:LINE: SOURCE: " of the innermost line of the user's program, or nothing."""
    inside = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(inside)]
    return f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: " if frames else ""


def _refuse_function(cls: type, *args: Any, **kwargs: Any) -> None:
    raise TraceError(f"{cls.__name__}, a torch.autograd.Function, has a gradient of its own, which a trace would lose")


@contextlib.contextmanager
def _quiet_export() -> Iterator[None]:
    """Lets nn.Transformer take a mask as it is given, where it would look at the mask's numbers; and PyTorch not print a graph that fails."""
    transformer = torch.nn.modules.transformer
    fused = torch.backends.mha.get_fastpath_enabled()  # in eval() one operation in place of those of train()
    detect = transformer._detect_is_causal_mask
    loggers = [logging.getLogger(name) for name in ("torch", "torch.fx.experimental.symbolic_shapes", "torch.export")]
    levels = [logger.level for logger in loggers]
    apply = torch.autograd.Function.apply
    torch.autograd.Function.apply = classmethod(_refuse_function)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformer._detect_is_causal_mask = detect
        torch.autograd.Function.apply = apply
        torch.backends.mha.set_fastpath_enabled(fused)
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


class _Loss(torch.nn.Module):
    """A loss that gives a number for each record or element."""

    def __init__(self, loss: Any):
        super().__init__()
        self.loss = loss

    def forward(self, y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
        return self.loss(y_pred, y_true)


def trace_loss(loss: Any, prediction: Sequence[int], label: np.ndarray, dtype: str) -> Graph:
    """Returns the graph of a loss, with the inputs y_pred and y_true and an output whose mean is the loss.

    loss: a module of torch.nn, or a function `(prediction, target)` that returns a number for each record or element, or their mean.
    prediction: the shape of the output for one record. label: the array of labels, whose type and shape count.
    Raises TraceError.
    """
    if hasattr(loss, "reduction"):
        loss = copy.copy(loss)
        loss.reduction = "none"
    kind = getattr(torch, dtype)
    sizes = [*prediction, *label.shape[1:]]
    batch = next(p for p in _PRIMES if all(size % p for size in sizes if size))
    y_pred = torch.full((batch, *prediction), 0.5, dtype=kind)
    y_true = torch.zeros((batch, *label.shape[1:]), dtype=kind if label.dtype.kind == "f" else torch.int64)
    module = _Loss(loss)
    name = getattr(loss, "__name__", type(loss).__name__)
    try:
        program = torch.export.export(module, (y_pred, y_true), strict=False)
    except Exception as error:
        text = str(error).split("\n")[0]
        raise TraceError(f"the loss {name} cannot be traced with predictions of shape {[-1, *prediction]} and labels of shape "
                         f"{[-1, *label.shape[1:]]} and type {label.dtype}: {text}") from error
    _take_off_mean(program, name)
    tracer = _Tracer(module, program, batch)
    tracer.dtype = tracer.graph.dtype = dtype
    graph = tracer.run()
    if len(graph.outputs) != 1:
        raise TraceError(f"the loss {name} does not depend on the prediction")
    if graph.variables:
        raise TraceError(f"the loss {name} has parameters")
    return graph


def _take_off_mean(program: Any, name: str) -> None:
    """Makes the mean that a loss returns, or a multiple of it, the numbers below it."""
    output = next(node for node in program.graph.nodes if node.op == "output")
    (node,) = output.args[0]
    if node.meta["val"].dim() > 0:
        return
    aten = torch.ops.aten
    factors = []
    while node.op == "call_function" and node.target in (aten.neg.default, aten.mul.Tensor, aten.div.Tensor) and (
            isinstance(node.args[0], torch.fx.Node) and not any(isinstance(x, torch.fx.Node) for x in node.args[1:])):
        factors.append(node)
        node = node.args[0]
    arguments = node.target._schema.arguments if node.op == "call_function" else []
    names = [argument.name for argument in arguments]
    if node.op == "call_function" and node.target is aten.mean.default:
        mean, node = node, node.args[0]
        mean.replace_all_uses_with(node)
        program.graph.erase_node(mean)
    elif "reduction" in names:
        place = names.index("reduction")
        given = [*node.args, *(node.kwargs.get(a.name, a.default_value) for a in arguments[len(node.args):])]
        if given[place] == 1:  # the mean
            given[place] = 0
            node.args, node.kwargs = tuple(given), {}
            node.meta["val"] = node.target(*_examples(node))
    if node.meta["val"].dim() == 0:
        raise TraceError(f"the loss {name} returns one number that is no mean over the records: return a number for each record, or their mean")
    for factor in reversed(factors):
        factor.meta["val"] = factor.target(*_examples(factor))
    below = factors[0] if factors else node
    output.args = ((below,),)
    program.graph_signature.output_specs[0].arg.name = below.name


def _examples(node: Any) -> list[Any]:
    """The arguments of an operation, with the examples of the values in their places."""
    return [x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in node.args]


def argument_names(module: torch.nn.Module) -> list[str]:
    """The arguments of `forward`, which name the inputs."""
    return list(inspect.signature(module.forward).parameters)


def assign(graph: Graph, module: torch.nn.Module, values: dict[str, np.ndarray]) -> None:
    """Gives the module the values of a checkpoint, which has them by Cohort's names."""
    in_layer: dict[str, list[str]] = {}
    for name in values:
        in_layer.setdefault(name.rsplit("/", 1)[0], []).append(name)
    state = module.state_dict()
    for key, (target, back) in graph.variables.items():
        layer, _, number = key.rpartition("/")
        name = key if key in values else in_layer[layer][int(number)]
        targets, arrays = ([target], [back(values[name])]) if isinstance(target, str) else (target, back(values[name]))
        with torch.no_grad():
            for one, array in zip(targets, arrays):
                state[one].copy_(torch.from_numpy(np.ascontiguousarray(array)).reshape(state[one].shape))


_HANDLERS: dict[str, Callable] = {}


def _handles(*names: str):
    def register(function):
        for name in names:
            _HANDLERS[name] = function
        return function

    return register


class _Tracer:
    """Walks an exported program.

    other: the program of the other mode, if it computes something else. evaluation: `program` is that of eval(). Then layers that
    differ between the modes are the same layers in both graphs.
    """

    def __init__(self, module: torch.nn.Module, program: Any, batch: int, other: Any = None, evaluation: bool = False):
        self.module = module
        self.program = program
        self.batch = batch
        self.evaluation = evaluation
        self.others = _state_nodes(other)
        floats = [p for p in module.parameters() if p.is_floating_point()]
        self.dtype = "float64" if floats and floats[0].dtype == torch.float64 else "float32"
        self.graph = Graph(type(module).__name__.lower(), self.dtype)
        self.values: dict[str, Any] = {}  # by node: Value, torch.Tensor, number, tuple
        self.state: dict[str, str] = {}  # name in the state dict, by node
        self.made: dict[tuple, str] = {}  # layers by the parameters that they have
        self.first_input = ""
        self.node: Any = None

    # ---------------------------------------------------------------- the walk

    def run(self) -> Graph:
        signature = self.program.graph_signature
        self.state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        constants = getattr(signature, "inputs_to_lifted_tensor_constants", {})
        for node in self.program.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                if node.name in self.state:
                    continue
                if node.name in constants:
                    self.values[node.name] = self.program.constants[constants[node.name]].clone()  # the program may change it
                    continue
                self.values[node.name] = self.input(node)
            elif node.op == "call_function":
                self.values[node.name] = self.call(node)
            elif node.op == "output":
                self.output(node, signature)
        self.graph.prune()
        kept = {next(iter(layer.values()))["name"] for layer in self.graph.layers}
        self.graph.values = {k: v for k, v in self.graph.values.items() if k in kept or k.split("/", 1)[0] in kept}
        self.graph.variables = {k: v for k, v in self.graph.variables.items() if k in self.graph.values}
        return self.graph

    def input(self, node: Any) -> Value:
        example = node.meta["val"]
        integer = not example.is_floating_point()
        dtype = "int64" if integer else self.dtype
        if example.dim() == 0:
            raise self.error(f"the input {node.name} has no axis of records")
        name = self.graph.input(node.name, tuple(example.shape[1:]) or (1,), dtype)
        self.first_input = self.first_input or name
        if example.dim() == 1:  # a column of single numbers is [records, 1] in a model
            return Value(name, [*example.shape, 1], [(0,)], integer)
        return Value(name, list(example.shape), [(i,) for i in range(example.dim())], integer)

    def output(self, node: Any, signature: Any) -> None:
        outputs = {spec.arg.name for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"}
        for arg in node.args[0]:
            if arg is None or arg.name not in outputs:
                continue
            value = self.as_value(self.values[arg.name])
            if self.batch not in value.shape[:1]:
                raise self.error("an output whose first axis is not that of the records")
            # Single numbers are a column too.
            value = self.arranged(value, [list(axis) for axis in value.axes] + ([[]] if len(value.axes) == 1 else []))
            self.graph.output_shapes.append(tuple(value.shape[1:]))
            name = value.name
            if name in self.graph.outputs or any("Input" in layer and name == layer["Input"]["name"] for layer in self.graph.layers):
                name = self.graph.op("convert_to_tensor", [name])
            self.graph.outputs.append(name)

    def call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            source = self.values[node.args[0].name]
            return source[node.args[1]] if isinstance(source, (tuple, list)) else source
        name = _name_of(node)
        args = [self.get(a) for a in node.args]
        kwargs = {k: self.get(v) for k, v in node.kwargs.items()}
        numbers = not any(isinstance(x, (Value, _Parameter)) for x in _flat((args, list(kwargs.values()))))
        if _in_place(node):
            self.check_change(node, name, numbers)
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            if name.removesuffix("_") not in _HANDLERS or (numbers and _drops(node)):
                raise self.error(f"{name} draws random numbers, the same in every step of a trace: only dropout is supported")
        if numbers:
            return node.target(*args, **{k: v for k, v in kwargs.items() if k != "pin_memory"})
        handler = _HANDLERS.get(name)
        if handler is None and name.endswith("_"):
            handler = _HANDLERS.get(name[:-1])
        if handler is None:
            return self.decomposed(node, name, args, kwargs)
        return handler(self, *args, **kwargs)

    def check_change(self, node: Any, name: str, numbers: bool) -> None:
        """Refuses a change in place that the graph would lose: of a buffer, or of memory that another tensor reads later.

        numbers: the operation changes numbers by numbers, which happens in the trace itself.
        """
        storages = _storages(node.args[0])
        for other in node.graph.nodes:
            if other is node:
                return
            if storages.isdisjoint(_storages(other)):
                continue
            if other.name in self.state:
                if not self.state[other.name].endswith("num_batches_tracked"):
                    raise self.error(f"{name} changes {self.state[other.name]}, which the trace takes as it is")
            elif not numbers and any(node < user for user in other.users):
                raise self.error(f"{name} changes a tensor in place, and another view of its memory is read later: write it without the "
                                 f"change in place, as `y = y * 5` for `y *= 5`, or torch.cat of parts for `x[:, 0] = y`")

    def decomposed(self, node: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An operation that has no handler, by PyTorch's own decomposition into others."""
        # An operation that is made of others in C++ becomes them when it is traced.
        decomposition = decomposition_table.get(node.target, node.target)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise self.error(f"the operation {name} is not supported")
        values: list[Any] = []  # one for each placeholder
        examples: list[torch.Tensor] = []

        def example(given: Any, arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return [example(g, a) for g, a in zip(given, arg)]
            if not isinstance(arg, torch.fx.Node):
                return arg
            values.append(given)
            meta = arg.meta["val"]
            examples.append(torch.ones(tuple(meta.shape), dtype=meta.dtype))
            return _Place(len(examples) - 1)

        places = example(args, list(node.args))
        named = {k: example(kwargs[k], node.kwargs[k]) for k in kwargs}

        def filled(x: Any, tensors: Sequence[torch.Tensor]) -> Any:
            if isinstance(x, list):
                return [filled(i, tensors) for i in x]
            return tensors[x.index] if isinstance(x, _Place) else x

        graph = make_fx(lambda *tensors: decomposition(*filled(places, tensors), **{k: filled(v, tensors) for k, v in named.items()}))(*examples)
        if any(n.target == node.target for n in graph.graph.nodes):
            raise self.error(f"the operation {name} is not supported")
        inner = dict(zip((n.name for n in graph.graph.nodes if n.op == "placeholder"), values))
        outer, self.values = self.values, {**self.values, **{f"{node.name}/{k}": v for k, v in inner.items()}}
        result = None
        for n in graph.graph.nodes:
            plain = n.name
            n.name = f"{node.name}/{plain}"
            n.meta.update({k: node.meta[k] for k in ("stack_trace", "nn_module_stack") if k in node.meta})
            self.node = n
            if n.op == "get_attr":
                self.values[n.name] = getattr(graph, n.target)
            elif n.op == "call_function":
                self.values[n.name] = self.call(n)
            elif n.op == "output":
                result = self.get(n.args[0])
        self.values = outer
        self.node = node
        return result

    def get(self, arg: Any) -> Any:
        """What a node's argument is: a Value, a parameter, a tensor of numbers, or a plain value."""
        if isinstance(arg, torch.fx.Node):
            if arg.name not in self.state:
                return self.values.get(arg.name)
            is_buffer = arg.name in self.program.graph_signature.inputs_to_buffers
            if is_buffer and not any(str(user.target).startswith("aten.batch_norm") for user in arg.users):
                return self.tensor(_Parameter(arg)).clone()  # numbers
            return _Parameter(arg)
        if isinstance(arg, (list, tuple)):
            return [self.get(a) for a in arg]
        return arg

    def error(self, what: str) -> TraceError:
        stack = self.node.meta.get("nn_module_stack") or {}
        path = next((p for p, _ in reversed(list(stack.values()))), "") if stack else ""
        where = f"{_line_of(self.node)}{type(self.module).__name__}{'.' + path if path else ''}"
        return TraceError(f"{where}: {what}; for a step that cannot be traced there is cohort.external_step")

    # ---------------------------------------------------------------- values

    def as_value(self, x: Any) -> Value:
        if isinstance(x, Value):
            return x
        if isinstance(x, _Parameter):
            return self.parameter(x)
        tensor = torch.as_tensor(x)
        array = tensor.detach().cpu().numpy()
        for axis, size in enumerate(array.shape):
            if size and size % self.batch == 0:
                first = np.take(array, [0], axis)
                if size != self.batch or not (array == first).all():
                    raise self.error("numbers that depend on the size of the batch")
                array = first
        name = self.graph.constant(array)
        return Value(name, list(array.shape), [(i,) for i in range(array.ndim)], array.dtype.kind in "iub")

    def array(self, parameter: "_Parameter") -> np.ndarray:
        return self.tensor(parameter).detach().cpu().numpy()

    def tensor(self, parameter: "_Parameter") -> torch.Tensor:
        name = self.state[parameter.node.name]
        values = self.program.state_dict if name in self.program.state_dict else self.program.constants
        return values[name]

    def parameter(self, parameter: "_Parameter") -> Value:
        """A parameter as a variable of its own, or a buffer as a constant."""
        name = self.state[parameter.node.name]
        tensor = self.tensor(parameter)
        if parameter.node.name in self.program.graph_signature.inputs_to_buffers:
            return self.as_value(tensor)
        key = ("variable", name)
        if key not in self.made:
            made = self.graph.variable(name, self.array(parameter), tensor.requires_grad)
            self.graph.variables[made] = (name, lambda x: x)
            self.made[key] = made
        return Value(self.made[key], list(tensor.shape), [(i,) for i in range(tensor.dim())])

    def layer(self, class_name: str, value: Value, parameters: Sequence[tuple[Any, Callable, Callable]], path: str = "", **config: Any) -> str:
        """A layer with these parameters, each with its way from PyTorch and back; a further call shares them. A tuple of parameters is one
        variable."""
        groups = [p if isinstance(p, tuple) else (p,) for p, _, _ in parameters]
        names = [tuple(self.state[p.node.name] for p in group) for group in groups]
        key = (class_name, *names)
        if key in self.made:
            return self.graph.add(class_name, f"{self.made[key]}:call", [value.name], shares=self.made[key])
        path = path or names[0][0].rpartition(".")[0] or class_name.lower()
        trains = {self.trains(p) for group in groups for p in group if not self.is_buffer(p)}
        if len(trains) > 1:
            raise self.error(f"some parameters of {path} have requires_grad and some have not: freeze all or none of them")
        name = self.graph.add(class_name, path, [value.name], trainable=trains != {False}, **config)
        owner = f"{name}/{CELLS[class_name]}" if class_name in CELLS else name
        for i, (group, (_, there, back)) in enumerate(zip(groups, parameters)):
            self.graph.values[f"{owner}/{i}"] = there(*(self.array(p) for p in group))
            self.graph.variables[f"{owner}/{i}"] = (names[i] if len(group) > 1 else names[i][0], back)
        self.made[key] = name
        return name

    def is_buffer(self, parameter: "_Parameter") -> bool:
        return parameter.node.name in self.program.graph_signature.inputs_to_buffers

    def trains(self, *parameters: Any) -> bool:
        return any(self.tensor(p).requires_grad for p in parameters if isinstance(p, _Parameter))

    def is_mixed(self, *parameters: Any) -> bool:
        return len({self.tensor(p).requires_grad for p in parameters if isinstance(p, _Parameter)}) > 1

    def is_alone(self, parameter: Any, argument: int) -> bool:
        """True if only calls of this operation use a parameter, at this place: a layer may have it."""
        if not isinstance(parameter, _Parameter):
            return False
        other = self.others.get(self.state[parameter.node.name])
        return all(user.target == self.node.target and len(user.args) > argument and user.args[argument] is node
                   for node in (parameter.node, other) if node is not None for user in node.users)

    def is_frozen(self, mean: "_Parameter") -> bool:
        """True for the running mean of a batch normalization that is in eval() while the module trains."""
        other = self.others.get(self.state[mean.node.name])
        return not (self.evaluation and other is not None and any(
            _name_of(user) == "aten.batch_norm" and _arguments(user)["training"] for user in other.users))

    # ---------------------------------------------------------------- layouts

    def reshaped(self, value: Value, sizes: Sequence[int]) -> str:
        if list(sizes) == value.sizes:
            return value.name
        shape = [-1 if size and size % self.batch == 0 else size for size in sizes]
        return self.graph.op("reshape", [value.name], newshape=shape)

    def arranged(self, value: Value, groups: Sequence[Sequence[int]]) -> Value:
        """The value with an axis for each group of its axes; the result has one axis of the value for each axis of the tensor or
        group. `groups` must name all axes that are larger than 1, the batch first."""
        flat = [i for group in groups for i in group]
        rest = [i for i in range(len(value.sizes)) if i not in flat]
        if any(value.sizes[i] != 1 for i in rest):
            raise AssertionError("a group lacks an axis")
        order = flat + rest
        batch = [i for i in flat if value.sizes[i] == self.batch]
        if batch and flat[0] != batch[0] and any(value.sizes[i] > 1 for i in flat[: flat.index(batch[0])]):
            raise self.error("the result has an axis before that of the batch")
        name = value.name
        meaningful = [i for i in order if value.sizes[i] != 1]
        if meaningful != sorted(meaningful):
            name = self.graph.op("transpose", [name], axes=order)
            sizes = [value.sizes[i] for i in order]
        else:
            sizes = value.sizes
        merged = [math.prod(value.sizes[i] for i in group) for group in groups]
        name = self.reshaped(Value(name, sizes, []), merged)
        place = {i: g for g, group in enumerate(groups) for i in group}
        axes = []
        for axis in value.axes:
            axes.append(tuple(dict.fromkeys(place[i] for i in axis if i in place)))
        return Value(name, merged, axes, value.integer)

    def single(self, value: Value, last: Sequence[int] = ()) -> Value:
        """The value with one axis for each axis of the tensor in `last`, at the end and in this order; what is before stays as it is."""
        groups: list[list[int]] = []
        tail = [list(value.axes[i]) for i in last]
        taken = {i for group in tail for i in group}
        for i in range(len(value.sizes)):
            if i not in taken and not (value.sizes[i] == 1 and not any(i in axis for axis in value.axes)):
                groups.append([i])
        count = len(groups)
        result = self.arranged(value, groups + tail)
        for n, i in enumerate(last):
            result.axes[i] = (count + n,)
        return result

    def split(self, value: Value, factors: dict[int, list[int]]) -> Value:
        """Splits axes of the value into factors."""
        sizes: list[int] = []
        parts: dict[int, tuple[int, ...]] = {}
        for i, size in enumerate(value.sizes):
            mine = factors.get(i, [size])
            parts[i] = tuple(range(len(sizes), len(sizes) + len(mine)))
            sizes.extend(mine)
        name = self.reshaped(value, sizes)
        return Value(name, sizes, [tuple(p for i in axis for p in parts[i]) for axis in value.axes], value.integer)

    def view(self, value: Value, shape: Sequence[int]) -> Value:
        shape = list(shape)
        if -1 in shape:
            known = math.prod(size for size in shape if size != -1)
            shape[shape.index(-1)] = math.prod(value.shape) // max(known, 1)
        atoms = [i for axis in value.axes for i in axis if value.sizes[i] != 1]
        left = [value.sizes[i] for i in atoms]
        factors: dict[int, list[int]] = {i: [] for i in atoms}
        plan: list[list[tuple[int, int]]] = []  # for each axis: atoms and the numbers of their parts
        at = 0
        for size in shape:
            mine, have = [], 1
            while have < size:
                if at >= len(atoms):
                    return self._copied(value, shape)
                need = size // have
                if size % have:
                    return self._copied(value, shape)
                atom = atoms[at]
                if left[at] <= need:
                    if need % left[at]:
                        return self._copied(value, shape)
                    take = left[at]
                else:
                    if left[at] % need:
                        return self._copied(value, shape)
                    take = need
                mine.append((atom, len(factors[atom])))
                factors[atom].append(take)
                left[at] //= take
                have *= take
                if left[at] == 1:
                    at += 1
            plan.append(mine)
        starts, count, sizes = {}, 0, []
        for i, size in enumerate(value.sizes):
            starts[i] = count
            mine = factors.get(i) or [size]
            count += len(mine)
            sizes += mine
        name = self.reshaped(value, sizes)
        return Value(name, sizes, [tuple(starts[a] + n for a, n in axis) for axis in plan], value.integer)

    def _copied(self, value: Value, shape: Sequence[int]) -> Value:
        """A view across axes of the value: all axes in the order of the tensor, and a reshape."""
        value = self.arranged(value, [[i] for axis in value.axes for i in axis])
        name = self.reshaped(value, list(shape))
        return Value(name, list(shape), [(i,) for i in range(len(shape))], value.integer)

    # ---------------------------------------------------------------- elementwise

    def aligned(self, values: Sequence[Value]) -> tuple[list[str], list[int], list[tuple[int, ...]]]:
        """Brings tensors that broadcast into one layout: their names, and the sizes and axes of the result."""
        rank = max(len(v.axes) for v in values)
        padded = [Value(v.name, v.sizes, [()] * (rank - len(v.axes)) + v.axes, v.integer) for v in values]
        result_factors: list[list[int]] = []
        for axis in range(rank):
            cuts: set[int] = set()
            size = 1
            for v in padded:
                have = 1
                for i in v.axes[axis]:
                    have *= v.sizes[i]
                    cuts.add(have)
                size = max(size, have)
            ordered = sorted(c for c in cuts if c > 1)
            previous, factors = 1, []
            for cut in ordered:
                if cut % previous:
                    factors = [size]
                    break
                factors.append(cut // previous)
                previous = cut
            result_factors.append(factors)
        # An axis without common factors is merged first.
        refined = []
        for v in padded:
            splits: dict[int, list[int]] = {}
            for axis in range(rank):
                if math.prod(v.sizes[i] for i in v.axes[axis]) == 1:
                    continue
                pending = list(result_factors[axis])
                for i in v.axes[axis]:
                    if v.sizes[i] == 1:
                        continue
                    mine, have = [], 1
                    while have < v.sizes[i]:
                        if not pending:
                            raise self.error("two views of one axis that have no common factors")
                        mine.append(pending.pop(0))
                        have *= mine[-1]
                    splits[i] = mine
            refined.append(self.split(v, splits))
        lead = max(refined, key=lambda v: (self.batch in v.sizes, sum(size > 1 for size in v.sizes)))
        # Labels (axis, factor) in the order of the leading value; the others follow.
        labels = {}
        for n, v in enumerate(refined):
            for axis in range(rank):
                atoms = [i for i in v.axes[axis] if v.sizes[i] != 1]
                for f, i in enumerate(atoms):
                    labels[(n, i)] = (axis, f)
        n_lead = refined.index(lead)
        order = [labels[(n_lead, i)] for i in range(len(lead.sizes)) if (n_lead, i) in labels]
        for axis in range(rank):
            for f in range(len(result_factors[axis])):
                if (axis, f) not in order:
                    order.append((axis, f))
        sizes = [result_factors[axis][f] for axis, f in order]
        if self.batch in sizes and sizes[0] != self.batch:
            at = sizes.index(self.batch)
            order.insert(0, order.pop(at))
            sizes.insert(0, sizes.pop(at))
        names = []
        for n, v in enumerate(refined):
            where = {labels[(n, i)]: i for i in range(len(v.sizes)) if (n, i) in labels}
            groups = [[where[label]] if label in where else [] for label in order]
            while groups and not groups[0] and len(groups) > 1 and v is not lead:
                groups.pop(0)  # broadcasting adds them
            names.append(self.arranged(v, groups).name)
        axes = [tuple(order.index((axis, f)) for f in range(len(result_factors[axis]))) for axis in range(rank)]
        return names, sizes, axes

    def elementwise(self, function: str, *operands: Any, integer: bool | None = None, **config: Any) -> Value:
        """An operation of tensors and numbers, element by element."""
        values = [self.as_value(x) for x in operands]
        if len(values) == 1:
            v = values[0]
            return Value(self.graph.op(function, [v.name], **config), v.sizes, v.axes, v.integer if integer is None else integer)
        names, sizes, axes = self.aligned(values)
        kind = all(v.integer for v in values) if integer is None else integer
        return Value(self.graph.op(function, names, **config), sizes, axes, kind)

    def with_number(self, function: str, x: Any, y: Any, integer: bool | None = None) -> Value:
        """x op y, in which one may be a number."""
        if isinstance(y, (int, float)) and not isinstance(y, bool):
            v = self.as_value(x)
            kind = v.integer and isinstance(y, int) if integer is None else integer
            return Value(self.graph.op(function, [v.name], x2=y), v.sizes, v.axes, kind)
        if isinstance(x, (int, float)) and not isinstance(x, bool):
            v = self.as_value(y)
            kind = v.integer and isinstance(x, int) if integer is None else integer
            return Value(self.graph.op(function, [v.name], x1=x), v.sizes, v.axes, kind)
        return self.elementwise(function, x, y, integer=integer)

    # ---------------------------------------------------------------- contractions

    def contract(self, a: Value, b: Value, letters_a: list[str], letters_b: list[str], out: list[str]) -> Value:
        """Einstein's sum over the axes of two tensors; axes of one letter have one size, or 1 in one of them."""
        factors: dict[str, list[int]] = {}
        for letter in dict.fromkeys(letters_a + letters_b):
            cuts = set()
            for v, letters in ((a, letters_a), (b, letters_b)):
                for axis, mine in zip(v.axes, letters):
                    have = 1
                    for i in axis if mine == letter else ():
                        have *= v.sizes[i]
                        cuts.add(have)
            previous, result = 1, []
            for cut in sorted(c for c in cuts if c > 1):
                if cut % previous:
                    raise self.error("two views of one axis that have no common factors")
                result.append(cut // previous)
                previous = cut
            factors[letter] = result
        names: dict[tuple[str, int], str] = {}
        free = iter(_LETTERS)

        def subscripts(v: Value, letters: list[str]) -> tuple[Value, str]:
            splits: dict[int, list[int]] = {}
            for axis, letter in zip(v.axes, letters):
                pending = list(factors[letter])
                for i in axis:
                    mine, have = [], 1
                    while have < v.sizes[i]:
                        mine.append(pending.pop(0))
                        have *= mine[-1]
                    if v.sizes[i] > 1:
                        splits[i] = mine
            v = self.split(v, splits)
            v = self.arranged(v, [[i] for i in range(len(v.sizes)) if v.sizes[i] != 1])
            text = [""] * len(v.sizes)
            for axis, letter in zip(v.axes, letters):
                for f, i in enumerate(axis):
                    key = (letter, f)
                    if key not in names:
                        names[key] = next(free)
                    text[i] = names[key]
            return v, "".join(text)

        a, text_a = subscripts(a, letters_a)
        b, text_b = subscripts(b, letters_b)
        wanted = {names[(letter, f)]: (letter, f) for letter in out for f in range(len(factors[letter])) if (letter, f) in names}
        order = [c for c in text_a if c in wanted] + [c for c in text_b if c in wanted and c not in text_a]
        size_of = {c: factors[letter][f] for c, (letter, f) in wanted.items()}
        for c in order:
            if size_of[c] == self.batch:
                order.remove(c)
                order.insert(0, c)
                break
        name = self.graph.op("einsum", [a.name, b.name], subscripts=f"{text_a},{text_b}->{''.join(order)}")
        axes = [tuple(order.index(names[(letter, f)]) for f in range(len(factors[letter])) if (letter, f) in names) for letter in out]
        return Value(name, [size_of[c] for c in order], axes)

    def matmul(self, a: Value, b: Value) -> Value:
        if len(a.axes) == 1 or len(b.axes) == 1:
            left = ["k"] if len(a.axes) == 1 else [f"b{i}" for i in range(len(a.axes) - 2)] + ["m", "k"]
            right = ["k"] if len(b.axes) == 1 else [f"b{i}" for i in range(len(b.axes) - 2)] + ["k", "n"]
            out = [x for x in left if x != "k"] + [x for x in right if x != "k" and x not in left]
            return self.contract(a, b, left, right, out)
        rank = max(len(a.axes), len(b.axes))
        batch = [f"b{i}" for i in range(rank - 2)]
        return self.contract(a, b, batch[rank - len(a.axes):] + ["m", "k"], batch[rank - len(b.axes):] + ["k", "n"], batch + ["m", "n"])

    # ---------------------------------------------------------------- reductions

    def reduced(self, function: str, x: Any, dim: Any, keepdim: bool, **config: Any) -> Value:
        v = self.as_value(x)
        axes = list(range(len(v.axes))) if dim is None or dim == [] else [d % len(v.axes) for d in (dim if isinstance(dim, list) else [dim])]
        over = sorted(i for axis in axes for i in v.axes[axis])
        if any(v.sizes[i] == self.batch for i in over):
            raise self.error(f"{function} over the records of a batch")
        kept = [i for i in range(len(v.sizes)) if i not in over]
        name = self.graph.op(function, [v.name], axis=over, **config) if over else v.name
        place = {i: n for n, i in enumerate(kept)}
        new_axes = [() if n in axes else tuple(place[i] for i in axis) for n, axis in enumerate(v.axes) if n not in axes or keepdim]
        return Value(name, [v.sizes[i] for i in kept], new_axes, v.integer)


def _state_nodes(program: Any) -> dict[str, torch.fx.Node]:
    """The nodes of parameters and buffers, by their names in the state dict."""
    if program is None:
        return {}
    signature = program.graph_signature
    state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return {state[node.name]: node for node in program.graph.nodes if node.op == "placeholder" and node.name in state}


@dataclass
class _Place:
    """The place of an argument that is a tensor."""

    index: int


@dataclass
class _Parameter:
    """A parameter or buffer that has no value in the graph yet."""

    node: Any


def _flat(x: Any) -> Iterable[Any]:
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _flat(item)
    else:
        yield x


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _transposed(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.T)


# -------------------------------------------------------------------- layers


@_handles("aten.linear")
def _linear(t: _Tracer, x: Any, weight: Any, bias: Any = None) -> Value:
    v = t.as_value(x)
    if t.is_alone(weight, 1) and (bias is None or t.is_alone(bias, 2)) and len(v.axes) > 1 and not t.is_mixed(weight, bias):
        v = t.single(v, [len(v.axes) - 1])
        parameters = [(weight, _transposed, _transposed)] + ([] if bias is None else [(bias, _same, _same)])
        units = t.tensor(weight).shape[0]
        name = t.layer("Dense", v, parameters, units=units, use_bias=bias is not None)
        return Value(name, v.sizes[:-1] + [units], v.axes)
    w = t.as_value(weight)
    letters = [f"b{i}" for i in range(len(v.axes) - 1)]
    y = t.contract(v, w, letters + ["k"], ["n", "k"], letters + ["n"])
    return y if bias is None else t.elementwise("add", y, bias)


def _conv_padding(t: _Tracer, v: Value, padding: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> tuple[Value, str]:
    """Explicit zeros around an image of [records, rows, columns, channels], or Keras' word for them."""
    if not any(padding):
        return v, "valid"
    if all(s == 1 for s in stride) and all(2 * p == d * (k - 1) for p, d, k in zip(padding, dilation, kernel)):
        return v, "same"
    spatial = len(padding)
    class_name = f"ZeroPadding{spatial}D"
    pads = [[p, p] for p in padding] if spatial > 1 else [padding[0], padding[0]]
    name = t.graph.add(class_name, class_name.lower(), [v.name], padding=pads)
    sizes = list(v.sizes)
    for i, p in enumerate(padding):
        sizes[1 + i] += 2 * p
    return Value(name, sizes, v.axes), "valid"


def _channels_last(t: _Tracer, x: Any, spatial: int) -> Value:
    v = t.as_value(x)
    if len(v.axes) != spatial + 2:
        raise t.error(f"images of {len(v.axes)} axes; {spatial + 2} are expected")
    order = [0, *range(2, spatial + 2), 1]
    v = t.arranged(v, [list(v.axes[i]) for i in order])
    return Value(v.name, v.sizes, [(0,), (spatial + 1,), *((i,) for i in range(1, spatial + 1))])


def _conv(t: _Tracer, spatial: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Value:
    if not isinstance(weight, _Parameter):
        raise t.error("a convolution whose weight is computed")
    expand = lambda p: list(p) * spatial if len(p) == 1 else list(p)  # noqa: E731
    stride, dilation = expand(stride or [1]), expand(dilation or [1])
    shape = t.tensor(weight).shape
    kernel = list(shape[2:])
    v = _channels_last(t, x, spatial)
    if isinstance(padding, str):
        mode = padding
    else:
        v, mode = _conv_padding(t, v, expand(padding or [0]), kernel, stride, dilation)
    there = [*range(2, spatial + 2), 1, 0]
    back = [spatial + 1, spatial, *range(spatial)]
    parameters = [(weight, lambda w: np.ascontiguousarray(w.transpose(there)), lambda w: w.transpose(back))]
    if bias is not None:
        parameters.append((bias, _same, _same))
    name = t.layer(f"Conv{spatial}D", v, parameters, filters=shape[0], kernel_size=kernel, strides=stride, padding=mode,
                   dilation_rate=dilation, groups=groups, use_bias=bias is not None)
    sizes = []
    for size, k, s, d in zip(v.sizes[1:-1], kernel, stride, dilation):
        sizes.append(-(-size // s) if mode == "same" else (size - d * (k - 1) - 1) // s + 1)
    return Value(name, [v.sizes[0], *sizes, shape[0]], v.axes)


@_handles("aten.conv1d")
def _conv1d(t, x, weight, bias=None, stride=None, padding=None, dilation=None, groups=1):
    return _conv(t, 1, x, weight, bias, stride, padding, dilation, groups)


@_handles("aten.conv2d")
def _conv2d(t, x, weight, bias=None, stride=None, padding=None, dilation=None, groups=1):
    return _conv(t, 2, x, weight, bias, stride, padding, dilation, groups)


@_handles("aten.conv3d")
def _conv3d(t, x, weight, bias=None, stride=None, padding=None, dilation=None, groups=1):
    return _conv(t, 3, x, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(t, spatial, x, weight, bias, stride, padding, output_padding, groups, dilation):
    expand = lambda p, n: list(p or [n]) * spatial if len(p or [n]) == 1 else list(p)  # noqa: E731
    stride, dilation = expand(stride, 1), expand(dilation, 1)
    padding, output_padding = expand(padding, 0), expand(output_padding, 0)
    if groups != 1 or any(d != 1 for d in dilation):
        raise t.error("a transposed convolution with groups or dilation")
    if not isinstance(weight, _Parameter):
        raise t.error("a convolution whose weight is computed")
    shape = t.tensor(weight).shape  # [in, out, spatial...]
    kernel = list(shape[2:])
    v = _channels_last(t, x, spatial)
    there, back = [*range(2, spatial + 2), 1, 0], [spatial + 1, spatial, *range(spatial)]
    parameters = [(weight, lambda w: np.ascontiguousarray(w.transpose(there)), lambda w: w.transpose(back))]
    if bias is not None:
        parameters.append((bias, _same, _same))
    name = t.layer(f"Conv{spatial}DTranspose", v, parameters, filters=shape[1], kernel_size=kernel, strides=stride, padding="valid",
                   use_bias=bias is not None)
    # Keras pads the result of "valid" up to a stride that is larger than the kernel.
    sizes = [(size - 1) * s + max(k, s) for size, s, k in zip(v.sizes[1:-1], stride, kernel)]
    wanted = [(size - 1) * s + k - 2 * p + more for size, s, k, p, more in zip(v.sizes[1:-1], stride, kernel, padding, output_padding)]
    if sizes != wanted:
        crop = [[p, have - want - p] for p, have, want in zip(padding, sizes, wanted)]
        if any(after < 0 for _, after in crop):
            raise t.error("a transposed convolution with output_padding larger than its padding")
        name = t.graph.add(f"Cropping{spatial}D", "cropping", [name], cropping=crop if spatial > 1 else crop[0])
    return Value(name, [v.sizes[0], *wanted, shape[1]], v.axes)


def _conv_transposes(spatial):
    def handler(t, x, weight, bias=None, stride=None, padding=None, output_padding=None, groups=1, dilation=None):
        return _conv_transpose(t, spatial, x, weight, bias, stride, padding, output_padding, groups, dilation)

    return handler


_HANDLERS.update({"aten.conv_transpose1d": _conv_transposes(1), "aten.conv_transpose2d": _conv_transposes(2),
                  "aten.conv_transpose3d": _conv_transposes(3)})


@_handles("aten.batch_norm")
def _batch_norm(t, x, weight, bias, mean, variance, training, momentum, eps, cudnn=False):
    v = t.as_value(x)
    if mean is None:
        raise t.error("a batch normalization without running statistics")
    if momentum is None:
        raise t.error("a batch normalization with momentum=None, a cumulative average")
    column = [1, -1] + [1] * (len(v.axes) - 2)
    if not training and t.is_frozen(mean):
        deviation = torch.sqrt(t.tensor(variance) + eps)
        y = t.elementwise("subtract", v, t.tensor(mean).reshape(column))
        return _affine(t, t.elementwise("divide", y, deviation.reshape(column)), weight, bias, column)
    inside = t.trains(weight, bias) and not t.is_mixed(weight, bias)
    v = t.single(v, [1])
    parameters = [(p, _same, _same) for p in (weight, bias) if p is not None and inside]
    parameters += [(mean, _same, _same), (variance, _same, _same)]
    name = t.layer("BatchNormalization", v, parameters, axis=-1, momentum=1 - momentum, epsilon=eps, center=bias is not None and inside,
                   scale=weight is not None and inside, unbiased_variance=True)
    y = Value(name, v.sizes, v.axes)
    return y if inside else _affine(t, y, weight, bias, column)


def _affine(t, y, weight, bias, shape):
    """y * weight + bias, with the parameters in this shape; either may be None."""
    if weight is not None:
        y = t.elementwise("multiply", y, t.view(t.as_value(weight), shape))
    return y if bias is None else t.elementwise("add", y, t.view(t.as_value(bias), shape))


@_handles("aten.layer_norm")
def _layer_norm(t, x, shape, weight=None, bias=None, eps=1e-5, cudnn=False):
    v = t.as_value(x)
    count = len(shape)
    if count > 1:
        kept = [v.shape[i] for i in range(len(v.axes) - count)]
        flat = _layer_norm_last(t, t.view(v, [*kept, math.prod(shape)]), weight, bias, eps)
        return t.view(flat, [*kept, *shape])
    return _layer_norm_last(t, v, weight, bias, eps)


def _layer_norm_last(t, v, weight, bias, eps):
    v = t.single(v, [len(v.axes) - 1])
    flat = lambda w: np.ascontiguousarray(w.reshape(-1))  # noqa: E731
    parameters = [(p, flat, _same) for p in (weight, bias) if p is not None]
    if not parameters:
        name = t.graph.add("LayerNormalization", "layer_norm", [v.name], axis=-1, epsilon=eps, center=False, scale=False)
    else:
        name = t.layer("LayerNormalization", v, parameters, axis=-1, epsilon=eps, center=bias is not None, scale=weight is not None)
    return Value(name, v.sizes, v.axes)


@_handles("aten.group_norm")
def _group_norm(t, x, groups, weight=None, bias=None, eps=1e-5, cudnn=True):
    v = t.as_value(x)
    column = [1, -1] + [1] * (len(v.axes) - 2)
    v = t.single(v, [1])
    inside = (weight is not None or bias is not None) and not t.is_mixed(weight, bias)
    config = {"groups": groups, "axis": -1, "epsilon": eps}
    if not inside:
        name = t.graph.add("GroupNormalization", "group_norm", [v.name], center=False, scale=False, **config)
        return _affine(t, Value(name, v.sizes, v.axes), weight, bias, column)
    parameters = [(p, _same, _same) for p in (weight, bias) if p is not None]
    name = t.layer("GroupNormalization", v, parameters, center=bias is not None, scale=weight is not None, **config)
    return Value(name, v.sizes, v.axes)


@_handles("aten.instance_norm")
def _instance_norm(t, x, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn=False):
    if mean is not None or not use_input_stats:
        raise t.error("an instance normalization with running statistics")
    return _group_norm(t, x, t.as_value(x).shape[1], weight, bias, eps)


@_handles("aten.rms_norm")
def _rms_norm(t, x, shape, weight=None, eps=None):
    v = t.as_value(x)
    dims = list(range(len(v.axes) - len(shape), len(v.axes)))
    eps = float(np.finfo(t.dtype).eps) if eps is None else eps
    mean = t.reduced("mean", t.elementwise("square", v), dims, True)
    y = t.elementwise("multiply", v, t.elementwise("rsqrt", t.with_number("add", mean, eps)))
    return y if weight is None else t.elementwise("multiply", y, weight)


@_handles("aten.embedding")
def _embedding(t, weight, ids, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    v = t.as_value(ids)
    if not isinstance(weight, _Parameter):
        raise t.error("an embedding whose table is computed")
    if scale_grad_by_freq:
        raise t.error("an embedding with scale_grad_by_freq")
    rows, width = t.tensor(weight).shape
    if t.is_alone(weight, 0):
        name = t.layer("Embedding", v, [(weight, _same, _same)], input_dim=rows, output_dim=width)
    else:
        name = t.graph.op("take", [t.parameter(weight).name, v.name], axis=0)
    y = Value(name, v.sizes + [width], v.axes + [(len(v.sizes),)])
    if padding_idx is None or padding_idx < 0 or not t.trains(weight):
        return y
    # The row of the padding index gets no gradient.
    padded = _unsqueeze(t, t.with_number("equal", v, padding_idx, integer=True), -1)
    return t.elementwise("where", padded, t.elementwise("stop_gradient", y), y, integer=False)


@_handles("aten.embedding_bag", "aten._embedding_bag")
def _embedding_bag(t, weight, ids, offsets, scale=False, mode=0, sparse=False, weights=None, last=False, padding_idx=None):
    v = t.as_value(ids)
    total = math.prod(v.shape)
    if not isinstance(offsets, torch.Tensor):
        raise t.error("an embedding bag with offsets from the data: pass ids of shape [records, ids of a bag]")
    starts = offsets.tolist()
    count = len(starts) - (1 if last else 0)
    if count == 0 or total % count or starts[:count] != list(range(0, total, total // count)):
        raise t.error("an embedding bag whose lists have different lengths: pass ids of shape [records, ids of a bag]")
    if mode == 2 and padding_idx is not None and padding_idx >= 0:
        raise t.error("an embedding bag with a padding index and the mode max")
    shape = [count, total // count]
    bags = t.view(v, shape)
    rows = _embedding(t, weight, bags, -1, scale)
    parts = None  # what each row counts
    if weights is not None:
        parts = t.view(t.as_value(weights), shape)
    if padding_idx is not None and padding_idx >= 0:
        kept = _to(t, t.with_number("not_equal", bags, padding_idx, integer=True), torch.float32)
        parts = kept if parts is None else t.elementwise("multiply", parts, kept)
    if parts is not None:
        rows = t.elementwise("multiply", rows, _unsqueeze(t, parts, -1))
    if mode == 1 and parts is not None:
        present = t.with_number("maximum", t.reduced("sum", parts, [1], True), 1.0)
        return (t.elementwise("divide", t.reduced("sum", rows, [1], False), present), None, None, None)
    return (t.reduced(("sum", "mean", "max")[mode], rows, [1], False), None, None, None)


@_handles("aten.dropout")
def _dropout(t, x, p, train=True):
    v = t.as_value(x)
    if p == 0 or not (train or t.evaluation):
        return v
    return Value(t.graph.add("Dropout", "dropout", [v.name], rate=p), v.sizes, v.axes)


@_handles("aten.feature_dropout")
def _feature_dropout(t, x, p, train=True):
    """Whole channels at once."""
    v = t.as_value(x)
    if p == 0 or not (train or t.evaluation):
        return v
    spatial = len(v.axes) - 2
    if spatial < 1:
        return _dropout(t, v, p)
    v = _channels_last(t, v, spatial)
    return Value(t.graph.add(f"SpatialDropout{spatial}D", "dropout", [v.name], rate=p), v.sizes, v.axes)


@_handles("aten.alpha_dropout")
def _alpha_dropout(t, x, p, train=True):
    v = t.as_value(x)
    if p == 0 or not (train or t.evaluation):
        return v
    return Value(t.graph.add("AlphaDropout", "dropout", [v.name], rate=p), v.sizes, v.axes)


# -------------------------------------------------------------------- recurrences


def _swapped(w: np.ndarray) -> np.ndarray:
    """The gates r, z, n of PyTorch's GRU as z, r, h of Keras, and back; along the first axis."""
    u = len(w) // 3
    return np.concatenate([w[u : 2 * u], w[:u], w[2 * u :]])


def _recurrence(t, kind, x, hidden, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    """LSTM, GRU and SimpleRNN of all layers and directions: the output, and the last states of each."""
    for state in hidden:
        if not isinstance(state, torch.Tensor) or bool(state.any()):
            raise t.error("a recurrence that begins with other states than zeros")
    v = t.as_value(x)
    if len(v.axes) != 3:
        raise t.error("a recurrence over a sequence without records")
    order = [0, 1, 2] if batch_first else [1, 0, 2]
    v = t.arranged(v, [list(v.axes[i]) for i in order])
    v = Value(v.name, v.sizes, [(0,), (1,), (2,)])
    per = 4 if has_biases else 2
    directions = 2 if bidirectional else 1
    if len(params) != per * layers * directions:
        raise t.error("a recurrence with projections")
    users = [user for user in t.node.users if user.args[1] == 2 and user.users]
    last, cells = [], []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = per * (layer * directions + direction)
            y, cell = _one_recurrence(t, kind, v, params[at : at + per], direction == 1, bool(users), layer)
            last.append(_select(t, y, 1, -1))
            cells.append(cell)
            outputs.append(_flip(t, y, [1]) if direction else y)
        v = outputs[0] if directions == 1 else _cat(t, outputs, 2)
        v = t.arranged(v, [list(v.axes[i]) for i in range(3)])
        if layer + 1 < layers:
            v = _dropout(t, v, dropout, train)
    out = v if batch_first else _transpose(t, v, 0, 1)
    return out, _stack(t, last, 0), _stack(t, cells, 0) if users else None


def _one_recurrence(t, kind, v, params, backwards, with_state, number):
    w_ih, w_hh, *biases = params
    u = t.tensor(w_hh).shape[1]
    width = t.tensor(w_ih).shape[1]
    path = t.state[w_ih.node.name].rpartition(".")[0] or kind.lower()
    path = f"{path}.l{number}{'_reverse' if backwards else ''}"
    config: dict[str, Any] = {"units": u, "return_sequences": True, "go_backwards": backwards, "use_bias": bool(biases), "return_state": with_state}
    if kind == "GRU":
        turned = lambda w: np.ascontiguousarray(_swapped(w).T)  # noqa: E731
        back = lambda w: _swapped(w.T)  # noqa: E731
        parameters = [(w_ih, turned, back), (w_hh, turned, back)]
        if biases:
            parameters.append((tuple(biases), lambda a, b: np.stack([_swapped(a), _swapped(b)]), lambda w: [_swapped(w[0]), _swapped(w[1])]))
        name = t.layer("GRU", v, parameters, path, reset_after=True, **config)
    else:
        parameters = [(w_ih, _transposed, _transposed), (w_hh, _transposed, _transposed)]
        if biases:  # the bias of the input is the weight of a column of ones, so both biases train as PyTorch's
            one = t.with_number("add", t.with_number("multiply", _slice(t, v, 2, 0, 1), 0.0), 1.0)
            v = t.arranged(_cat(t, [v, one], 2), [[0], [1], [2]])
            parameters[0] = ((w_ih, biases[0]), lambda w, b: np.concatenate([w.T, b[None]]), lambda w: [w[:width].T, w[width]])
            parameters.append((biases[1], _same, _same))
        name = t.layer("LSTM" if kind == "LSTM" else "SimpleRNN", v, parameters, path,
                       **({"activation": kind} if kind in ("relu", "tanh") else {}), **config)
    sizes = [v.sizes[0], v.sizes[1], u]
    axes: list[tuple[int, ...]] = [(0,), (1,), (2,)]
    if not with_state:
        return Value(name, sizes, axes), None
    y = Value(t.graph.op("part", [name], index=0), sizes, axes)
    return y, Value(t.graph.op("part", [name], index=2), [sizes[0], u], [(0,), (1,)])


@_handles("aten.lstm")
def _lstm(t, x, hidden, params, has_biases, layers, dropout, train, bidirectional, batch_first=None):
    if batch_first is None:
        raise t.error("packed sequences")
    return _recurrence(t, "LSTM", x, hidden, params, has_biases, layers, dropout, train, bidirectional, batch_first)


def _simple(kind):
    def handler(t, x, hidden, params, has_biases, layers, dropout, train, bidirectional, batch_first=None):
        if batch_first is None:
            raise t.error("packed sequences")
        return _recurrence(t, kind, x, [hidden], params, has_biases, layers, dropout, train, bidirectional, batch_first)

    return handler


_HANDLERS.update({"aten.gru": _simple("GRU"), "aten.rnn_tanh": _simple("tanh"), "aten.rnn_relu": _simple("relu")})


def _gates(t, x, h, w_ih, w_hh, b_ih, b_hh):
    return _linear(t, x, w_ih, b_ih), _linear(t, h, w_hh, b_hh)


@_handles("aten.lstm_cell")
def _lstm_cell(t, x, hidden, w_ih, w_hh, b_ih=None, b_hh=None):
    a, b = _gates(t, x, hidden[0], w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = _chunk(t, t.elementwise("add", a, b), 4, 1)
    i, f, o = (t.elementwise("sigmoid", gate) for gate in (i, f, o))
    kept = t.elementwise("multiply", f, hidden[1])
    c = t.elementwise("add", kept, t.elementwise("multiply", i, t.elementwise("tanh", g)))
    return t.elementwise("multiply", o, t.elementwise("tanh", c)), c


@_handles("aten.gru_cell")
def _gru_cell(t, x, h, w_ih, w_hh, b_ih=None, b_hh=None):
    a, b = _gates(t, x, h, w_ih, w_hh, b_ih, b_hh)
    (ar, az, an), (br, bz, bn) = _chunk(t, a, 3, 1), _chunk(t, b, 3, 1)
    r = t.elementwise("sigmoid", t.elementwise("add", ar, br))
    z = t.elementwise("sigmoid", t.elementwise("add", az, bz))
    n = t.elementwise("tanh", t.elementwise("add", an, t.elementwise("multiply", r, bn)))
    return t.elementwise("add", n, t.elementwise("multiply", z, t.elementwise("subtract", h, n)))


@_handles("aten.scaled_dot_product_attention")
def _attention(t, q, k, v, mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    q, k, v = (t.as_value(x) for x in (q, k, v))
    batch = [f"b{i}" for i in range(len(q.axes) - 2)]
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1])
    q = t.with_number("multiply", q, factor)
    scores = t.contract(q, k, batch + ["q", "d"], batch + ["k", "d"], batch + ["q", "k"])
    if is_causal:
        mask = torch.ones(scores.shape[-2], scores.shape[-1], dtype=torch.bool).tril()
    if mask is not None:
        if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, -1e30)
        elif isinstance(mask, torch.Tensor):
            mask = mask.clamp(min=-1e30)
        elif isinstance(mask, Value) and mask.integer:
            mask = t.with_number("multiply", t.with_number("subtract", _to(t, mask, torch.float32), 1.0), 1e30)
        scores = t.elementwise("add", scores, mask)
    weights = _softmax(t, scores, len(scores.axes) - 1)
    weights = _dropout(t, weights, dropout_p)
    return t.contract(weights, v, batch + ["q", "k"], batch + ["k", "d"], batch + ["q", "d"])


# -------------------------------------------------------------------- layouts


@_handles("aten.view", "aten.reshape", "aten._unsafe_view")
def _view(t, x, shape):
    return t.view(t.as_value(x), shape)


@_handles("aten.flatten")
def _flatten(t, x, start=0, end=-1):
    v = t.as_value(x)
    rank = len(v.axes)
    start, end = start % rank, end % rank
    return Value(v.name, v.sizes, v.axes[:start] + [tuple(i for axis in v.axes[start : end + 1] for i in axis)] + v.axes[end + 1 :], v.integer)


@_handles("aten.unflatten")
def _unflatten(t, x, dim, sizes):
    v = t.as_value(x)
    dim %= len(v.axes)
    shape = v.shape
    return t.view(v, [*shape[:dim], *_known(sizes, shape[dim]), *shape[dim + 1 :]])


def _known(sizes, total):
    rest = total // math.prod(s for s in sizes if s != -1)
    return [rest if s == -1 else s for s in sizes]


@_handles("aten.transpose")
def _transpose(t, x, a, b):
    v = t.as_value(x)
    axes = list(v.axes)
    axes[a], axes[b] = axes[b], axes[a]
    return Value(v.name, v.sizes, axes, v.integer)


@_handles("aten.t", "aten.numpy_T")
def _t(t, x):
    v = t.as_value(x)
    return Value(v.name, v.sizes, v.axes[::-1], v.integer)


@_handles("aten.permute")
def _permute(t, x, dims):
    v = t.as_value(x)
    return Value(v.name, v.sizes, [v.axes[d] for d in dims], v.integer)


@_handles("aten.unsqueeze")
def _unsqueeze(t, x, dim):
    v = t.as_value(x)
    axes = list(v.axes)
    axes.insert(dim % (len(axes) + 1), ())
    return Value(v.name, v.sizes, axes, v.integer)


@_handles("aten.squeeze")
def _squeeze(t, x, dim=None):
    v = t.as_value(x)
    dims = range(len(v.axes)) if dim is None else [d % len(v.axes) for d in (dim if isinstance(dim, list) else [dim])]
    shape = v.shape
    return Value(v.name, v.sizes, [axis for n, axis in enumerate(v.axes) if not (n in dims and shape[n] == 1)], v.integer)


@_handles("aten.expand", "aten.expand_as", "aten.broadcast_to")
def _expand(t, x, shape, implicit=False):
    v = t.as_value(x)
    if isinstance(shape, Value):
        shape = shape.shape
    have = [1] * (len(shape) - len(v.axes)) + v.shape
    wanted = [h if s == -1 else s for h, s in zip(have, shape)]
    if wanted == have:
        return Value(v.name, v.sizes, [()] * (len(shape) - len(v.axes)) + v.axes, v.integer)
    ones = t.as_value(torch.ones([1 if w == h or w == t.batch else w for h, w in zip(have, wanted)]))
    if any(w == t.batch and h != t.batch for h, w in zip(have, wanted)):
        first = next(layer["Input"] for layer in t.graph.layers if "Input" in layer)
        flat = t.graph.op("reshape", [first["name"]], newshape=[-1, max(1, math.prod(first["shape"]))])
        one = t.graph.op("ones_like", [t.graph.op("sum", [flat], axis=[1])])
        at = wanted.index(t.batch)
        records = Value(one, [t.batch], [(0,) if i == at else () for i in range(len(wanted))])
        ones = t.elementwise("multiply", records, ones)
    y = t.elementwise("multiply", v, ones)
    return _to(t, y, torch.int64) if v.integer and not y.integer else y


@_handles("aten.contiguous", "aten.clone", "aten.alias", "aten.lift_fresh_copy", "aten.view_as_real")
def _identity(t, x, *args, **kwargs):
    return t.as_value(x)


@_handles("aten.detach")
def _detach(t, x):
    v = t.as_value(x)
    return v if v.integer else t.elementwise("stop_gradient", v)


@_handles("aten.to", "aten._to_copy", "aten.type_as", "aten.float", "aten.double", "aten.long")
def _to(t, x, *args, dtype=None, **kwargs):
    v = t.as_value(x)
    kinds = [a for a in (*args, dtype) if isinstance(a, torch.dtype)]
    if not kinds:
        return v
    integer = not kinds[0].is_floating_point
    if integer == v.integer:
        return v
    return Value(t.graph.op("cast", [v.name], dtype="int64" if integer else t.dtype), v.sizes, v.axes, integer)


@_handles("aten._assert_tensor_metadata", "aten._assert_async")
def _assertion(t, *args, **kwargs):
    return None


@_handles("aten.cat", "aten.concat", "aten.concatenate")
def _cat(t, tensors, dim=0):
    values = [t.as_value(x) for x in tensors if not (isinstance(x, torch.Tensor) and x.numel() == 0)]
    dim %= len(values[0].axes)
    # A zero stands for the axis, so that the others are aligned; then each gets its own.
    pieces = [t.single(v, [dim]) for v in values]
    hollow = [Value(v.name, v.sizes[:-1], [() if n == dim else axis for n, axis in enumerate(v.axes)], v.integer) for v in pieces]
    if len({(tuple(h.sizes), tuple(h.axes)) for h in hollow}) > 1:
        order = [n for n in range(len(values[0].axes)) if n != dim]
        pieces = [t.arranged(v, [list(v.axes[n]) for n in order] + [list(v.axes[dim])]) for v in values]
        axes: list[tuple[int, ...]] = [()] * len(values[0].axes)
        for place, n in enumerate([*order, dim]):
            axes[n] = (place,)
        pieces = [Value(p.name, p.sizes, axes, p.integer) for p in pieces]
    if any(t.batch in p.sizes for p in pieces):
        pieces = [p if t.batch in p.sizes else _expanded_records(t, p, pieces) for p in pieces]
    name = t.graph.op("concatenate", [p.name for p in pieces], axis=len(pieces[0].sizes) - 1)
    total = sum(p.sizes[-1] for p in pieces)
    return Value(name, pieces[0].sizes[:-1] + [total], pieces[0].axes, pieces[0].integer)


def _expanded_records(t, piece, pieces):
    like = next(p for p in pieces if t.batch in p.sizes)
    shape = [t.batch if like.sizes[i] == t.batch else size for i, size in enumerate(piece.sizes)]
    v = Value(piece.name, piece.sizes, [(i,) for i in range(len(piece.sizes))], piece.integer)
    v = _expand(t, v, shape)
    return Value(t.arranged(v, [list(a) for a in v.axes]).name, shape, piece.axes, piece.integer)


@_handles("aten.stack")
def _stack(t, tensors, dim=0):
    rank = len(t.as_value(tensors[0]).axes) + 1
    return _cat(t, [_unsqueeze(t, x, dim % rank) for x in tensors], dim % rank)


def _taken(t, v, dim, key, size):
    """Elements of one axis of the tensor, by a slice or a place."""
    v = t.single(v, [dim])
    text = f"..., {key}"
    name = t.graph.op("get_item", [v.name], key=text)
    return Value(name, v.sizes[:-1] + [size], v.axes, v.integer)


@_handles("aten.slice")
def _slice(t, x, dim=0, start=None, end=None, step=1):
    v = t.as_value(x)
    dim %= len(v.axes)
    total = v.shape[dim]
    places = range(total)[slice(start, None if end is not None and end >= total else end, step)]
    if len(places) == total:
        return v
    return _taken(t, v, dim, f"{places.start}:{places.stop}" + (f":{step}" if step != 1 else ""), len(places))


@_handles("aten.select")
def _select(t, x, dim, index):
    v = t.as_value(x)
    dim %= len(v.axes)
    index %= v.shape[dim]
    taken = _taken(t, v, dim, f"{index}:{index + 1}", 1)
    return Value(taken.name, taken.sizes, [axis for n, axis in enumerate(taken.axes) if n != dim], v.integer)


@_handles("aten.narrow")
def _narrow(t, x, dim, start, length):
    return _slice(t, x, dim, start, start + length)


@_handles("aten.split", "aten.split_with_sizes")
def _split(t, x, sizes, dim=0):
    v = t.as_value(x)
    dim %= len(v.axes)
    total = v.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - at) for at in range(0, total, sizes)]
    parts, at = [], 0
    for size in sizes:
        parts.append(_slice(t, v, dim, at, at + size))
        at += size
    return parts


@_handles("aten.chunk")
def _chunk(t, x, chunks, dim=0):
    v = t.as_value(x)
    return _split(t, v, -(-v.shape[dim % len(v.axes)] // chunks), dim)


@_handles("aten.unbind")
def _unbind(t, x, dim=0):
    v = t.as_value(x)
    return [_select(t, v, dim, i) for i in range(v.shape[dim % len(v.axes)])]


@_handles("aten.index_select")
def _index_select(t, x, dim, index):
    v = t.as_value(x)
    dim %= len(v.axes)
    places = torch.as_tensor(index).reshape(-1).tolist()
    if places == list(range(v.shape[dim])):
        return v
    v = t.single(v, [dim])
    name = t.graph.op("take", [v.name], indices=places, axis=len(v.sizes) - 1)
    return Value(name, v.sizes[:-1] + [len(places)], v.axes, v.integer)


@_handles("aten.index")
def _index(t, x, indices):
    """x[..., places, places] with places that are numbers, table[ids], and x[arange(records), ids]."""
    used = [(n, i) for n, i in enumerate(indices) if i is not None]
    if len(used) == 1 and used[0][0] == 0 and isinstance(x, _Parameter) and isinstance(used[0][1], Value):
        ids, shape = used[0][1], list(t.tensor(x).shape)
        name = t.graph.op("take", [t.parameter(x).name, ids.name], axis=0)
        return Value(name, ids.sizes + shape[1:], ids.axes + [(len(ids.sizes) + n,) for n in range(len(shape) - 1)])
    v = t.as_value(x)
    if len(used) == 2 and [n for n, _ in used] == [0, 1] and isinstance(used[0][1], torch.Tensor) and isinstance(used[1][1], Value):
        records, ids = used[0][1], used[1][1]
        if v.shape[0] == t.batch and ids.shape == [t.batch] and torch.equal(records, torch.arange(t.batch)):
            rest = v.shape[2:]
            wide = t.view(v, [t.batch, v.shape[1], math.prod(rest)])
            places = _expand(t, _unsqueeze(t, _unsqueeze(t, ids, -1), -1), [t.batch, 1, math.prod(rest)])
            return t.view(_gather(t, wide, 1, places), [t.batch, *rest])
    if not all(isinstance(i, torch.Tensor) for _, i in used) or [n for n, _ in used] != list(range(used[0][0], used[0][0] + len(used))):
        raise t.error("indices that are computed, or of axes that are not side by side")
    places = [i.nonzero()[:, 0] if i.dtype == torch.bool and i.dim() == 1 else i for _, i in used]
    if any(i.dtype == torch.bool for i in places):
        raise t.error("a mask of several axes as an index")
    places = torch.broadcast_tensors(*places)
    first, shape = used[0][0], v.shape
    if any(size == t.batch for size in shape[first : first + len(used)]):
        raise t.error("indices of the records of a batch")
    flat = torch.zeros_like(places[0])
    for (n, _), i in zip(used, places):
        flat = flat * shape[n] + torch.where(i < 0, i + shape[n], i)
    v = t.view(v, [*shape[:first], math.prod(shape[first : first + len(used)]), *shape[first + len(used):]])
    y = _index_select(t, v, first, flat.reshape(-1))
    return t.view(y, [*shape[:first], *flat.shape, *shape[first + len(used):]])


@_handles("aten.gather")
def _gather(t, x, dim, index, sparse_grad=False):
    v, i = t.as_value(x), t.as_value(index)
    dim %= len(v.axes)
    if t.batch in v.sizes and t.batch not in i.sizes:
        i = _expand(t, i, [t.batch if h == t.batch else s for h, s in zip(v.shape, i.shape)])
    order = [n for n in range(len(v.axes)) if n != dim] + [dim]
    v = t.arranged(v, [list(v.axes[n]) for n in order])
    i = t.arranged(i, [list(i.axes[n]) for n in order])
    name = t.graph.op("take_along_axis", [v.name, i.name], axis=len(order) - 1)
    axes: list[tuple[int, ...]] = [()] * len(order)
    for place, n in enumerate(order):
        axes[n] = (place,)
    return Value(name, i.sizes, axes, v.integer)


# -------------------------------------------------------------------- places


def _sorted(t, x, dim, descending, count=None):
    """The first `count` elements of an axis in their order, and their places."""
    v = t.as_value(x)
    dim %= len(v.axes)
    if v.shape[dim] == t.batch:
        raise t.error("an order of the records of a batch")
    v = t.single(v, [dim])
    count = v.sizes[-1] if count is None else count
    if descending:
        name = t.graph.op("top_k", [v.name], k=count)
        places = t.graph.op("part", [name], index=1)
    else:
        places = t.graph.op("argsort", [v.name], axis=-1)
        if count < v.sizes[-1]:
            places = t.graph.op("get_item", [places], key=f"..., 0:{count}")
        name = t.graph.op("take_along_axis", [v.name, places], axis=len(v.sizes) - 1)
    sizes = v.sizes[:-1] + [count]
    return Value(name, sizes, v.axes, v.integer), Value(places, sizes, v.axes, True)


@_handles("aten.sort")
def _sort(t, x, dim=-1, descending=False, stable=None):
    return _sorted(t, x, dim, descending)


@_handles("aten.argsort")
def _argsort(t, x, dim=-1, descending=False, stable=None):
    return _sorted(t, x, dim, descending)[1]


@_handles("aten.msort")
def _msort(t, x):
    return _sorted(t, x, 0, False)[0]


@_handles("aten.topk")
def _topk(t, x, k, dim=-1, largest=True, sorted=True):
    return _sorted(t, x, dim, largest, k)


@_handles("aten.kthvalue")
def _kthvalue(t, x, k, dim=-1, keepdim=False):
    return tuple(_taken_place(t, y, dim, k - 1, keepdim) for y in _sorted(t, x, dim, False, k))


@_handles("aten.median")
def _median(t, x, dim=None, keepdim=False):
    """The lower one of two."""
    v = t.as_value(x)
    if dim is None:
        raise t.error("the median of the elements of all records: pass dim")
    return _kthvalue(t, v, (v.shape[dim] + 1) // 2, dim, keepdim)


def _taken_place(t, y, dim, place, keepdim):
    return _narrow(t, y, dim, place, 1) if keepdim else _select(t, y, dim, place)


@_handles("aten.one_hot")
def _one_hot(t, x, classes=-1):
    if classes < 1:
        raise t.error("one_hot without num_classes, whose size depends on the data")
    v = t.as_value(x)
    name = t.graph.op("one_hot", [v.name], num_classes=classes, axis=-1, dtype="int64")
    return Value(name, v.sizes + [classes], v.axes + [(len(v.sizes),)], True)


@_handles("aten.scatter_add")
def _scatter_add(t, x, dim, index, source):
    """x with elements of `source` added at places of an axis."""
    v, i, s = t.as_value(x), t.as_value(index), t.as_value(source)
    dim %= len(v.axes)
    if t.batch in (v.shape[dim], i.shape[dim]):
        raise t.error("sums over the records of a batch")
    for n, size in enumerate(i.shape):
        if size not in (1, s.shape[n]) and s.shape[n] != 1:
            s = _narrow(t, s, n, 0, size)  # further elements do not count
        if n != dim and v.shape[n] not in (1, t.batch) and size not in (1, t.batch, v.shape[n]):
            raise t.error("a scatter to a part of another axis")
    order = [n for n in range(len(v.axes)) if n != dim] + [dim]
    v, i, s = (t.arranged(y, [list(y.axes[n]) for n in order]) for y in (v, i, s))
    if s.sizes[-1] != i.sizes[-1]:
        s = _expand(t, Value(s.name, s.sizes, [(n,) for n in range(len(order))], s.integer), s.sizes[:-1] + [i.sizes[-1]])
        s = t.arranged(s, [list(axis) for axis in s.axes])
    name = t.graph.op("add_along_axis", [v.name, i.name, s.name], axis=len(order) - 1)
    axes: list[tuple[int, ...]] = [()] * len(order)
    for place, n in enumerate(order):
        axes[n] = (place,)
    sizes = [max(y.sizes[n] for y in (v, i, s)) for n in range(len(order) - 1)] + [v.sizes[-1]]
    return Value(name, sizes, axes, v.integer and s.integer)


@_handles("aten.scatter")
def _scatter(t, x, dim, index, source, reduce=None):
    """x with elements, or a number, in place of those at places of an axis; each place may be there once."""
    if reduce is not None:
        raise t.error("a scatter with reduce: use scatter_add")
    v, i = t.as_value(x), t.as_value(index)
    zeros = torch.zeros(v.shape, dtype=torch.float64)
    ones = torch.ones([1 if n != dim % len(v.axes) else size for n, size in enumerate(i.shape)], dtype=torch.float64)
    there = t.with_number("greater", _scatter_add(t, zeros, dim, i, ones), 0.5, integer=True)
    if isinstance(source, (int, float)):
        source = torch.tensor(source, dtype=torch.int64 if v.integer else torch.float64)
    else:
        source = _scatter_add(t, torch.zeros(v.shape, dtype=torch.int64 if v.integer else torch.float64), dim, i, source)
    return t.elementwise("where", there, source, v, integer=v.integer)


@_handles("aten.scatter_reduce")
def _scatter_reduce(t, x, dim, index, source, reduce, include_self=True):
    if reduce != "sum" or not include_self:
        raise t.error(f"a scatter_reduce by {reduce}: only sums that include the tensor itself are supported")
    return _scatter_add(t, x, dim, index, source)


@_handles("aten.index_add")
def _index_add(t, x, dim, index, source, alpha=1):
    v = t.as_value(x)
    i = t.as_value(index)
    if len(i.axes) != 1 or t.batch in i.sizes:
        raise t.error("an index_add by places of the records: use scatter_add")
    dim %= len(v.axes)
    i = t.view(i, [-1 if n == dim else 1 for n in range(len(v.axes))])
    source = source if alpha == 1 else t.with_number("multiply", source, alpha)
    return _scatter_add(t, v, dim, i, source)


@_handles("aten.flip")
def _flip(t, x, dims):
    v = t.as_value(x)
    for dim in dims:
        v = t.single(v, [dim % len(v.axes)])
        v = Value(t.graph.op("flip", [v.name], axis=len(v.sizes) - 1), v.sizes, v.axes, v.integer)
    return v


@_handles("aten.repeat")
def _repeat(t, x, repeats):
    v = t.as_value(x)
    v = Value(v.name, v.sizes, [()] * (len(repeats) - len(v.axes)) + v.axes, v.integer)
    for dim, count in enumerate(repeats):
        if count == t.batch and v.shape[dim] == 1:
            v = _expand(t, v, [t.batch if n == dim else size for n, size in enumerate(v.shape)])
        elif count != 1:
            v = _cat(t, [v] * count, dim)
    return v


@_handles("aten.pad", "aten.constant_pad_nd")
def _pad(t, x, pads, mode="constant", value=None):
    if isinstance(mode, (int, float)):
        mode, value = "constant", mode
    v = t.as_value(x)
    for n in range(len(pads) // 2):
        before, after = pads[2 * n], pads[2 * n + 1]
        if not before and not after:
            continue
        v = t.single(v, [len(v.axes) - 1 - n])
        widths = [[0, 0]] * (len(v.sizes) - 1) + [[before, after]]
        config = {"constant_values": value or 0} if mode == "constant" else {}
        name = t.graph.op("pad", [v.name], pad_width=widths, mode="constant" if mode == "constant" else mode, **config)
        v = Value(name, v.sizes[:-1] + [v.sizes[-1] + before + after], v.axes, v.integer)
    return v


# -------------------------------------------------------------------- pooling


def _pool(t, kind, x, kernel, stride, padding, ceil_mode, spatial=2, include_pad=True, divisor=None, dilation=None):
    expand = lambda p: list(p) * spatial if len(p) == 1 else list(p)  # noqa: E731
    kernel = expand(kernel)
    stride = expand(stride) if stride else kernel
    padding = expand(padding or [0])
    if dilation and any(d != 1 for d in dilation):
        raise t.error("pooling with dilation")
    v = t.as_value(x)
    if len(v.axes) == spatial + 1:
        raise t.error("pooling without an axis of channels")
    v = _channels_last(t, v, spatial)
    counts = [(s + 2 * p - k + (st - 1 if ceil_mode else 0)) // st + 1 for s, p, k, st in zip(v.sizes[1:-1], padding, kernel, stride)]
    counts = [c - 1 if ceil_mode and (c - 1) * st >= s + p else c for c, st, s, p in zip(counts, stride, v.sizes[1:-1], padding)]
    # What the last window reads beyond the padding on the right.
    beyond = [max(0, (c - 1) * st + k - s - 2 * p) for c, st, k, s, p in zip(counts, stride, kernel, v.sizes[1:-1], padding)]
    inner = v.sizes[1:-1]
    if any(padding) or any(beyond):
        widths = [[0, 0], *([p, p + e] for p, e in zip(padding, beyond)), [0, 0]]
        # Values below all others stand for what lies outside of a maximum.
        name = t.graph.op("pad", [v.name], pad_width=widths, mode="constant", constant_values=-1e30 if kind == "MaxPooling" else 0)
        v = Value(name, [v.sizes[0], *(s + 2 * p + e for s, p, e in zip(inner, padding, beyond)), v.sizes[-1]], v.axes)
    class_name = f"{kind}{spatial}D"
    pool, strides = (kernel, stride) if spatial > 1 else (kernel[0], stride[0])
    name = t.graph.add(class_name, class_name.lower(), [v.name], pool_size=pool, strides=strides, padding="valid")
    y = Value(name, [v.sizes[0], *counts, v.sizes[-1]], v.axes)
    if kind == "AveragePooling" and (divisor or any(beyond) or (any(padding) and not include_pad)):
        # The mean of each window counts all of its places; PyTorch's some.
        factor = torch.ones(counts, dtype=torch.float64)
        for axis, (c, st, k, s, p) in enumerate(zip(counts, stride, kernel, inner, padding)):
            low, high = (-p, s + p) if include_pad else (0, s)
            inside = [min(i * st - p + k, high) - max(i * st - p, low) for i in range(c)]
            factor = factor * (k / torch.tensor(inside, dtype=torch.float64)).reshape([-1 if n == axis else 1 for n in range(spatial)])
        if divisor:
            factor = torch.full(counts, math.prod(kernel) / divisor, dtype=torch.float64)
        y = t.elementwise("multiply", y, factor)
    return y


def _max_pools(spatial):
    def handler(t, x, kernel, stride=None, padding=None, dilation=None, ceil_mode=False):
        return _pool(t, "MaxPooling", x, kernel, stride, padding, ceil_mode, spatial, dilation=dilation)

    return handler


def _avg_pools(spatial):
    def handler(t, x, kernel, stride=None, padding=None, ceil_mode=False, count_include_pad=True, divisor=None):
        return _pool(t, "AveragePooling", x, kernel, stride, padding, ceil_mode, spatial, count_include_pad, divisor)

    return handler


for _spatial in (1, 2, 3):
    _HANDLERS[f"aten.max_pool{_spatial}d"] = _max_pools(_spatial)
    _HANDLERS[f"aten.avg_pool{_spatial}d"] = _avg_pools(_spatial)


@_handles("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def _adaptive_max_pool(t, x, size):
    spatial = len(size)
    v = t.as_value(x)
    if all(s == 1 for s in size):
        return t.reduced("max", v, list(range(len(v.axes) - spatial, len(v.axes))), True), None
    v = _channels_last(t, v, spatial)
    class_name = f"AdaptiveMaxPooling{spatial}D"
    name = t.graph.add(class_name, class_name.lower(), [v.name], output_size=list(size))
    return Value(name, [v.sizes[0], *size, v.sizes[-1]], v.axes), None


@_handles("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d")
def _adaptive_avg_pool(t, x, size):
    spatial = len(size)
    v = t.as_value(x)
    if all(s == 1 for s in size):
        return t.reduced("mean", v, list(range(len(v.axes) - spatial, len(v.axes))), True)
    v = _channels_last(t, v, spatial)
    class_name = f"AdaptiveAveragePooling{spatial}D"
    name = t.graph.add(class_name, class_name.lower(), [v.name], output_size=list(size))
    return Value(name, [v.sizes[0], *size, v.sizes[-1]], v.axes)


def _upsample(t, x, output_size, scales, spatial, **config):
    v = _channels_last(t, x, spatial)
    have = v.sizes[1:-1]
    size = [int(s * f) for s, f in zip(have, scales)] if scales else list(output_size)
    if any(s % h for s, h in zip(size, have)):
        raise t.error("an upsampling that is no multiple")
    factors = [s // h for s, h in zip(size, have)]
    name = t.graph.add(f"UpSampling{spatial}D", "upsampling", [v.name], size=factors if spatial > 1 else factors[0], **config)
    return Value(name, [v.sizes[0], *size, v.sizes[-1]], v.axes)


@_handles("aten.upsample_nearest1d")
def _upsample_1d(t, x, output_size=None, scales=None, *rest):
    return _upsample(t, x, output_size, scales, 1)


@_handles("aten.upsample_nearest2d")
def _upsample_2d(t, x, output_size=None, scales=None, *rest):
    return _upsample(t, x, output_size, scales, 2)


@_handles("aten.upsample_nearest3d")
def _upsample_3d(t, x, output_size=None, scales=None, *rest):
    return _upsample(t, x, output_size, scales, 3)


@_handles("aten.upsample_bilinear2d")
def _upsample_bilinear(t, x, output_size=None, align_corners=False, scales=None, *rest):
    if align_corners:
        raise t.error("a bilinear upsampling with align_corners")
    return _upsample(t, x, output_size, scales, 2, interpolation="bilinear")


@_handles("aten.pixel_shuffle")
def _pixel_shuffle(t, x, factor):
    v = t.as_value(x)
    n, c, h, w = v.shape
    v = t.view(v, [n, c // factor ** 2, factor, factor, h, w])
    return t.view(_permute(t, v, [0, 1, 4, 2, 5, 3]), [n, c // factor ** 2, h * factor, w * factor])


# -------------------------------------------------------------------- elementwise

for _name, _function in {
    "relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "abs": "abs", "neg": "negative", "sin": "sin", "cos": "cos", "tan": "tan", "erf": "erf", "sign": "sign",
    "floor": "floor", "ceil": "ceil", "round": "round", "square": "square", "silu": "silu", "reciprocal": "reciprocal", "relu6": "relu6",
    "hardsigmoid": "hard_sigmoid", "hardswish": "hard_silu", "logical_not": "logical_not", "bitwise_not": "logical_not", "atan": "arctan", "log2": "log2", "log10": "log10",
    "sinh": "sinh", "cosh": "cosh", "asin": "arcsin", "acos": "arccos", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "arcsinh": "arcsinh", "arccosh": "arccosh", "arctanh": "arctanh", "trunc": "trunc", "log_sigmoid": "log_sigmoid", "softsign": "softsign", "selu": "selu",
}.items():
    _HANDLERS[f"aten.{_name}"] = lambda t, x, *args, _function=_function: t.elementwise(_function, x)

for _name, _function in {"mul": "multiply", "atan2": "arctan2", "arctan2": "arctan2", "floor_divide": "floor_divide", "maximum": "maximum", "minimum": "minimum", "pow": "power", "logical_and": "logical_and",
                         "logical_or": "logical_or", "bitwise_and": "logical_and", "bitwise_or": "logical_or", "remainder": "mod",
                         "__and__": "logical_and", "__or__": "logical_or", "logical_xor": "logical_xor", "__xor__": "logical_xor"}.items():
    _HANDLERS[f"aten.{_name}"] = lambda t, x, y, _function=_function, **kwargs: t.with_number(_function, x, y)

for _name, _function in {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "less", "le": "less_equal"}.items():
    _HANDLERS[f"aten.{_name}"] = lambda t, x, y, _function=_function: t.with_number(_function, x, y, integer=True)


@_handles("aten.div", "aten.divide", "aten.true_divide")
def _div(t, x, y, rounding_mode=None):
    if rounding_mode == "floor":
        return t.with_number("floor_divide", x, y)
    quotient = t.with_number("divide", x, y, integer=False)
    if rounding_mode is None:
        return quotient
    whole = all(isinstance(v, int) or isinstance(v, (Value, torch.Tensor, _Parameter)) and t.as_value(v).integer for v in (x, y))
    quotient = t.elementwise("trunc", quotient)
    return _to(t, quotient, torch.int64) if whole else quotient


@_handles("aten.fmod")
def _fmod(t, x, y):
    """The remainder with the sign of x."""
    rest = t.with_number("mod", t.elementwise("abs", x), abs(y) if isinstance(y, (int, float)) else t.elementwise("abs", y))
    return t.elementwise("multiply", t.elementwise("sign", x), rest)


@_handles("aten.add")
def _add(t, x, y, alpha=1):
    return t.with_number("add", x, y if alpha == 1 else (y * alpha if isinstance(y, (int, float)) else t.with_number("multiply", y, alpha)))


@_handles("aten.sub")
def _sub(t, x, y, alpha=1):
    return t.with_number("subtract", x, y if alpha == 1 else (y * alpha if isinstance(y, (int, float)) else t.with_number("multiply", y, alpha)))


@_handles("aten.rsub")
def _rsub(t, x, y, alpha=1):
    return _sub(t, y, x, alpha)


@_handles("aten.log_sigmoid_forward")
def _log_sigmoid_forward(t, x):
    return t.elementwise("log_sigmoid", x), None


@_handles("aten.gelu")
def _gelu(t, x, approximate="none"):
    return t.elementwise("gelu", x, approximate=approximate == "tanh")


@_handles("aten.prelu")
def _prelu(t, x, weight):
    v = t.as_value(x)
    column = [1, -1] + [1] * (len(v.axes) - 2) if len(v.axes) > 1 else [-1]
    below = t.elementwise("multiply", t.with_number("minimum", v, 0.0), t.view(t.as_value(weight), column))
    return t.elementwise("add", t.elementwise("relu", v), below)


@_handles("aten.cross_entropy_loss")
def _cross_entropy(t, x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """A number for each place of a prediction of [records, classes, ...]."""
    if reduction != 0:
        raise t.error("a cross entropy that is reduced: pass reduction='none', or torch.nn.CrossEntropyLoss itself")
    v = t.as_value(x)
    if weight is not None or ignore_index >= 0:
        raise t.error("a cross entropy with weight or ignore_index")
    classes = v.shape[1]
    logs = _log_softmax(t, v, 1)
    target = t.as_value(target)
    if not target.integer:
        if label_smoothing:
            target = t.with_number("add", t.with_number("multiply", target, 1 - label_smoothing), label_smoothing / classes)
        return t.with_number("multiply", t.reduced("sum", t.elementwise("multiply", logs, target), [1], False), -1.0)
    loss = t.with_number("multiply", _squeeze(t, _gather(t, logs, 1, _unsqueeze(t, target, 1)), 1), -(1 - label_smoothing))
    if not label_smoothing:
        return loss
    return t.elementwise("subtract", loss, t.with_number("multiply", t.reduced("sum", logs, [1], False), label_smoothing / classes))


@_handles("aten.nll_loss_nd", "aten.nll_loss", "aten.nll_loss2d")
def _nll(t, x, target, weight=None, reduction=1, ignore_index=-100):
    if reduction != 0 or weight is not None or ignore_index >= 0:
        raise t.error("a likelihood with weight or ignore_index, or that is reduced")
    picked = _gather(t, x, 1, _unsqueeze(t, t.as_value(target), 1))
    return t.with_number("multiply", _squeeze(t, picked, 1), -1.0)


@_handles("aten.xlogy")
def _xlogy(t, x, y):
    """x log y, and 0 where x is."""
    zero = t.with_number("equal", x, 0.0, integer=True)
    one = torch.ones((), dtype=torch.float64)
    return t.elementwise("multiply", x, t.elementwise("log", t.elementwise("where", zero, one, y, integer=False)))


@_handles("aten.kl_div")
def _kl_div(t, x, target, reduction=1, log_target=False):
    if reduction != 0:
        raise t.error("a divergence that is reduced: pass reduction='none', or torch.nn.KLDivLoss itself")
    if log_target:
        return t.elementwise("multiply", t.elementwise("exp", target), t.elementwise("subtract", target, x))
    return t.elementwise("subtract", _xlogy(t, target, target), t.elementwise("multiply", target, x))


@_handles("aten.leaky_relu")
def _leaky_relu(t, x, slope=0.01):
    return t.elementwise("leaky_relu", x, negative_slope=slope)


@_handles("aten.elu")
def _elu(t, x, alpha=1, scale=1, input_scale=1):
    if scale != 1 or input_scale != 1:
        raise t.error("elu with a scale")
    return t.elementwise("elu", x, alpha=alpha)


@_handles("aten.softplus")
def _softplus(t, x, beta=1, threshold=20):
    y = t.elementwise("softplus", t.with_number("multiply", x, beta) if beta != 1 else x)
    return t.with_number("divide", y, beta) if beta != 1 else y


@_handles("aten.hardtanh", "aten.clamp")
def _clamp(t, x, low=None, high=None):
    if str(t.node.target).startswith("aten.hardtanh") and low is None:
        low, high = -1.0, 1.0
    v = t.as_value(x)
    if low is not None:
        v = t.with_number("maximum", v, low)
    return v if high is None else t.with_number("minimum", v, high)


@_handles("aten.clamp_min")
def _clamp_min(t, x, low):
    return t.with_number("maximum", x, low)


@_handles("aten.where")
def _where(t, condition, x, y):
    return t.elementwise("where", condition, x, y, integer=False)


@_handles("aten.masked_fill")
def _masked_fill(t, x, mask, value):
    value = max(min(float(value), 1e30), -1e30)
    return t.elementwise("where", mask, torch.tensor(value), x, integer=False)


@_handles("aten.zeros_like", "aten.ones_like", "aten.full_like")
def _full_like(t, x, value=None, **kwargs):
    name = str(t.node.target)
    fill = value if value is not None else (1.0 if "ones" in name else 0.0)
    return t.elementwise("full_like", x, fill_value=fill)


# -------------------------------------------------------------------- reductions and products


@_handles("aten.softmax", "aten._softmax")
def _softmax(t, x, dim, dtype=None):
    v = t.as_value(x)
    v = t.single(v, [dim % len(v.axes)])
    return Value(t.graph.op("softmax", [v.name], axis=-1), v.sizes, v.axes)


@_handles("aten.log_softmax", "aten._log_softmax")
def _log_softmax(t, x, dim, dtype=None):
    v = t.as_value(x)
    v = t.single(v, [dim % len(v.axes)])
    return Value(t.graph.op("log_softmax", [v.name], axis=-1), v.sizes, v.axes)


for _name, _function in {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "prod": "prod", "logsumexp": "logsumexp"}.items():
    _HANDLERS[f"aten.{_name}"] = (lambda t, x, dim=None, keepdim=False, _function=_function, **kwargs:
                                  t.reduced(_function, x, dim, keepdim))


@_handles("aten.max", "aten.min")
def _max(t, x, dim=None, keepdim=False):
    function = "max" if "max" in str(t.node.target) else "min"
    if isinstance(dim, (Value, torch.Tensor, _Parameter)):
        return t.elementwise(f"{function}imum", x, dim)
    if dim is None:
        return t.reduced(function, x, None, keepdim)
    # One of equal elements has the gradient, where amax gives each a part.
    places = _argmax(t, x, dim, True)
    y = _gather(t, x, dim, places)
    return (y, places) if keepdim else (_squeeze(t, y, dim), _squeeze(t, places, dim))


@_handles("aten.argmax", "aten.argmin")
def _argmax(t, x, dim=None, keepdim=False):
    v = t.as_value(x)
    if dim is None:
        raise t.error("the place of the largest element of all records")
    v = t.single(v, [dim % len(v.axes)])
    name = t.graph.op("argmin" if "min" in str(t.node.target) else "argmax", [v.name], axis=-1)
    axes = [axis for n, axis in enumerate(v.axes) if n != dim % len(v.axes)]
    if keepdim:
        axes.insert(dim % len(v.axes), ())
    return Value(name, v.sizes[:-1], axes, True)


@_handles("aten.var", "aten.std")
def _var(t, x, dim=None, unbiased=None, keepdim=False, correction=None):
    v = t.as_value(x)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = list(range(len(v.axes))) if dim is None else [d % len(v.axes) for d in (dim if isinstance(dim, list) else [dim])]
    less = (1 if unbiased is None or unbiased else 0) if correction is None else correction
    count = math.prod(v.shape[d] for d in axes)
    y = t.reduced("var", v, dim, keepdim)
    y = t.with_number("multiply", y, count / (count - less)) if less else y
    return _root(t, y) if ".std." in str(t.node.target) else y


def _root(t, x):
    """The square root, whose gradient at 0 is 0 as that of norms and deviations in PyTorch."""
    zero = t.with_number("equal", x, 0.0, integer=True)
    root = t.elementwise("sqrt", t.elementwise("where", zero, torch.ones((), dtype=torch.float64), x, integer=False))
    return t.elementwise("where", zero, torch.zeros((), dtype=torch.float64), root, integer=False)


@_handles("aten.linalg_vector_norm")
def _norm(t, x, ord=2, dim=None, keepdim=False, dtype=None):
    if ord == 1:
        return t.reduced("sum", t.elementwise("abs", x), dim, keepdim)
    if ord != 2:
        raise t.error("a norm of another order than 1 or 2")
    return _root(t, t.reduced("sum", t.elementwise("square", x), dim, keepdim))


@_handles("aten.cumsum", "aten.cumprod")
def _cumulative(t, x, dim, dtype=None):
    v = t.as_value(x)
    v = t.single(v, [dim % len(v.axes)])
    return Value(t.graph.op("cumprod" if "cumprod" in _name_of(t.node) else "cumsum", [v.name], axis=-1), v.sizes, v.axes, v.integer)


@_handles("aten.matmul", "aten.bmm", "aten.mm")
def _matmul(t, a, b):
    return t.matmul(t.as_value(a), t.as_value(b))


@_handles("aten.addmm", "aten.baddbmm")
def _addmm(t, c, a, b, beta=1, alpha=1):
    y = _matmul(t, a, b)
    y = y if alpha == 1 else t.with_number("multiply", y, alpha)
    return t.elementwise("add", y, c if beta == 1 else t.with_number("multiply", c, beta))


@_handles("aten.einsum")
def _einsum(t, equation, operands, path=None):
    left, _, out = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != 2 or "..." in equation or not out:
        raise t.error(f"einsum {equation}: two operands, letters and a result are supported")
    a, b = (t.as_value(x) for x in operands)
    return t.contract(a, b, list(texts[0]), list(texts[1]), list(out))
