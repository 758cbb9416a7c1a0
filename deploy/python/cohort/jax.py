"""Traces functions of jax: those of flax and haiku modules, and any other `apply(params, *inputs)`.

    model = cohort.jax.Model(module.apply, module.init(key, x))
    history = cohort.fit(model, x, y, loss="sparse_categorical_crossentropy", optimizer={"Adam": {"learning_rate": 1e-3}})
    model.params  # the trained ones
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable

import jax
import numpy as np
from jax.extend import core

from cohort._graph import Graph, TraceError
from cohort._jax_layout import Layouts, Value, compact, plain
from cohort._jax_ops import HANDLERS, NAMED
import cohort._jax_places  # noqa: F401  its handlers

# Sizes of the batch for tracing: primes that divide no other size, so that an axis of the batch is found wherever it appears.
_PRIMES = (37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 997, 1009, 1013, 1019, 1021, 1031, 1033, 1039)


class Model:
    """A function and its parameters, which `cohort.fit` trains as one.

    Args:
        apply: `apply(params, *inputs)` returns an array, or a pytree of arrays, of shape [records, ...]. For example the `apply` of a
            flax module, or that of `haiku.without_apply_rng(haiku.transform(f))`.
        params: a pytree of arrays. After `fit` it has the trained ones. If it has the key "params", as flax' variables have, other
            collections keep their values.
        example: the inputs of a few records, as in `trace`, if the data of `fit` are files.
        name: of the model in the job; that of the function by default.

    Calling the model calls `apply(model.params, *inputs)`.
    """

    def __init__(self, apply: Callable[..., Any], params: Any, *, example: Any = None, name: str | None = None) -> None:
        if not callable(apply):
            raise TypeError(f"cohort.jax.Model takes a function apply(params, *inputs) first, not {type(apply).__name__}")
        self.apply = apply
        self.params = params
        self.example = example
        self.name = name or _name_of(apply)

    def __call__(self, *inputs: Any) -> Any:
        return self.apply(self.params, *inputs)


def trace(apply: Callable[..., Any], params: Any, example: Any, *, name: str | None = None) -> Graph:
    """Returns the graph of `apply(params, *example)`.

    Args:
        apply: a function of jax, which jax can trace.
        params: a pytree of arrays. Their paths are the names of the variables: "params/Dense_0/kernel".
        example: the inputs, of shape [records, ...] with at least one record: an array, a tuple of arrays for several arguments, or a
            pytree for one argument. All sizes but the first are static. Names of inputs are those of the arguments, or of the keys.
        name: of the model.

    Raises:
        TraceError: the function cannot be traced; it names the primitive and the line of the source.
    """
    arguments = example if isinstance(example, tuple) else (example,)
    leaves = jax.tree_util.tree_leaves((params, arguments))
    sizes = {size for x in jax.tree_util.tree_leaves(params) for size in np.shape(x)}
    sizes |= {size for x in jax.tree_util.tree_leaves(arguments) for size in np.shape(x)[1:]}
    primes = [p for p in _PRIMES if all(size % p for size in sizes if size)]
    if not leaves or len(primes) < 4:
        raise TraceError("the function has no arrays" if not leaves else "no size of a batch differs from all other sizes of the function")
    # Two sizes of the batch must give one graph. A size inside of the function may be a multiple of one of them by accident.
    failure: TraceError | None = None
    for pair in (primes[:2], primes[-2:]):
        try:
            first, second = (_trace_once(apply, params, arguments, batch, name or _name_of(apply)) for batch in pair)
        except TraceError as error:
            failure = failure or error
            continue
        if first.layers_json() == second.layers_json():
            return first
        failure = failure or TraceError(f"{name or _name_of(apply)}: it depends on the number of records of a batch beyond shapes: "
                                        f"{_difference(first, second)}")
    assert failure is not None
    raise failure


def example_of(model: Model, x: Any) -> Any:
    """The arguments of a model's function for the data of `fit`: arrays by position, by the names of arguments, or as a dict."""
    if x is None:
        if model.example is None:
            raise TypeError("a function of jax is traced with an example: pass x as arrays, or use "
                            "cohort.jax.Model(apply, params, example=...)")
        return model.example
    if hasattr(x, "items"):
        names = _argument_names(model.apply)[1:]
        if set(x) == set(names[: len(x)]) or len(x) > 1 and set(x) <= set(names):
            return tuple(np.asarray(x[name][:2]) for name in names if name in x)
        return {name: np.asarray(array[:2]) for name, array in x.items()}
    if isinstance(x, (list, tuple)) and x and np.ndim(x[0]):
        return tuple(np.asarray(array[:2]) for array in x)
    return np.asarray(x[:2])


def assign(graph: Graph, params: Any, values: dict[str, np.ndarray]) -> Any:
    """Returns the pytree `params` with the values of a checkpoint, which has them by Cohort's names."""
    in_layer: dict[str, list[str]] = {}
    for name in values:
        in_layer.setdefault(name.rsplit("/", 1)[0], []).append(name)
    trained: dict[str, np.ndarray] = {}
    for key, (target, back) in graph.variables.items():
        layer, _, number = key.rpartition("/")
        trained[target] = back(values[key if key in values else in_layer[layer][int(number)]])
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    given = [jax.numpy.asarray(np.reshape(trained[_path(path)], np.shape(x)), dtype=x.dtype) if _path(path) in trained else x
             for path, x in leaves]
    return jax.tree_util.tree_unflatten(structure, given)


def _name_of(apply: Callable[..., Any]) -> str:
    """The name of a function, or that of the class of its module."""
    owner = getattr(apply, "__self__", None)
    name = type(owner).__name__ if owner is not None and not inspect.ismodule(owner) else getattr(apply, "__name__", "model")
    return name.strip("<>").lower() or "model"


def _path(path: Iterable[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/").replace("~/", "").replace("/~", "") or "params"


def _difference(a: Graph, b: Graph) -> str:
    for x, y in zip(a.layers, b.layers):
        if x != y:
            return f"{x} and {y}"
    return f"{len(a.layers)} and {len(b.layers)} operations"


def _trace_once(apply: Callable[..., Any], params: Any, arguments: tuple, batch: int, name: str) -> Graph:
    specs = jax.tree_util.tree_map(lambda x: jax.ShapeDtypeStruct((batch, *np.shape(x)[1:]), _dtype_of(x)), arguments)
    try:
        closed, shapes = jax.make_jaxpr(apply, return_shape=True)(params, *specs)
    except Exception as error:
        text = str(error).strip().split("\n")[0]
        raise TraceError(f"{name} cannot be traced by jax: {text}. For Python decisions on values there is cohort.external_step") from error
    tracer = _Tracer(Graph(name, _float_of(params, arguments)), batch, params)
    tracer.run(apply, closed, arguments, shapes)
    return tracer.graph


def _dtype_of(x: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)


def _float_of(params: Any, arguments: Any) -> str:
    dtypes = [_dtype_of(x) for x in jax.tree_util.tree_leaves((params, arguments))]
    return "float64" if any(dtype == np.float64 for dtype in dtypes) else "float32"


@dataclass(eq=False)
class Parameter:
    """An array of `params` that has no value in the graph yet."""

    name: str
    array: np.ndarray
    trainable: bool


@dataclass(eq=False)
class Mask:
    """Random bits of a dropout: True with this probability."""

    probability: float


class _Tracer(Layouts):
    """Walks a jaxpr. In the environment of the walk, a variable is a Value, a Parameter, a Mask or an array of numbers."""

    def __init__(self, graph: Graph, batch: int, params: Any) -> None:
        super().__init__(graph, batch)
        self.made: dict[tuple, str] = {}
        self.wrapped: dict[str, str] = {}  # by a value of indices, those before negative ones were counted from the end
        self.equations: list[Any] = []  # those that are walked, the inner ones last
        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        collections = isinstance(params, dict) and "params" in params
        self.parameters = [Parameter(_path(path), np.asarray(x), not collections or getattr(path[0], "key", None) == "params")
                           for path, x in leaves]

    # ---------------------------------------------------------------- the walk

    def run(self, apply: Callable[..., Any], closed: Any, arguments: tuple, shapes: Any) -> None:
        inputs = [self.input(name, x) for name, x in _named_inputs(apply, arguments)]
        given = [p if p.array.dtype.kind == "f" or p.array.dtype.name == "bfloat16" else p.array for p in self.parameters]
        outputs = self.inline(closed.jaxpr, closed.consts, [*given, *inputs])
        inputs_by_name = {layer["Input"]["name"] for layer in self.graph.layers if "Input" in layer}
        names = [_path(path) for path, _ in jax.tree_util.tree_flatten_with_path(shapes)[0]]
        for i, x in enumerate(outputs):
            value = self.filled(self.as_value(x))
            if not value.shape or value.shape[0] != self.batch:
                raise TraceError(f"{self.graph.name}: its output {names[i]!r} of shape {tuple(value.shape)} has no axis of records first")
            value = self.in_order(value)
            if len(outputs) > 1 or value.name in inputs_by_name:
                value.name = self.graph.add("ops.convert_to_tensor", names[i] if len(outputs) > 1 else "output", [value.name])
            self.graph.outputs.append(value.name)
            self.graph.output_shapes.append(tuple(value.shape[1:]))
        self.graph.prune()
        self.graph.tables_by_rows()
        kept = {next(iter(layer.values()))["name"] for layer in self.graph.layers}
        self.graph.values = {k: v for k, v in self.graph.values.items() if k in kept or k.rsplit("/", 1)[0] in kept}
        self.graph.variables = {k: v for k, v in self.graph.variables.items() if k in self.graph.values}

    def input(self, name: str, x: Any) -> Value:
        kind = _kind_of(_dtype_of(x))
        shape = np.shape(x)
        made = self.graph.input(name, shape[1:], self.graph.dtype if kind == "float" else "int64")
        value = plain(made, [self.batch, *shape[1:]], "int" if kind == "bool" else kind)
        return self.cast(value, kind)

    def inline(self, jaxpr: Any, consts: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
        """The outputs of a jaxpr for these arguments."""
        environment: dict[Any, Any] = {}
        for variables, given in ((jaxpr.constvars, consts), (jaxpr.invars, arguments)):
            for variable, x in zip(variables, given, strict=True):
                environment[variable] = x if isinstance(x, (Value, Parameter, Mask)) else _numbers(x)

        def read(atom: Any) -> Any:
            return _numbers(atom.val) if isinstance(atom, core.Literal) else environment[atom]

        for equation in jaxpr.eqns:
            self.equations.append(equation)
            for variable, x in zip(equation.outvars, self.call(equation, [read(atom) for atom in equation.invars]), strict=True):
                environment[variable] = x
            self.equations.pop()
        return [read(atom) for atom in jaxpr.outvars]

    def call(self, equation: Any, arguments: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        inner = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
        symbolic = any(isinstance(x, (Value, Parameter, Mask)) for x in arguments)
        if name in HANDLERS and symbolic:
            result = HANDLERS[name](self, equation, *arguments)
            return result if isinstance(result, list) else [result]
        if inner is not None and name not in ("scan", "while", "cond"):
            jaxpr, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
            called = params.get("name") or getattr(jaxpr.debug_info, "func_name", "")
            if called == "_bernoulli" and not symbolic:
                return [Mask(float(arguments[-1]))]
            if symbolic and called in NAMED:
                result = NAMED[called](self, jaxpr, *arguments)
                if result is not None:
                    return [result]
            if name.startswith("custom_") and symbolic and not _is_of_jax(jaxpr):
                raise self.error(f"{called} has a gradient of its own ({name}), which a job would not use")
            return self.inline(jaxpr, consts, arguments)
        if symbolic:
            raise self.error(f"the primitive {name} is not supported")
        if name == "broadcast_in_dim" and math.prod(params["shape"]) > 1 << 16:
            return HANDLERS[name](self, equation, self.as_value(arguments[0]))  # an axis that repeats, instead of its numbers
        return _evaluate(equation, arguments)

    def error(self, what: str) -> TraceError:
        return TraceError(f"{_place(self.equations)}{self.graph.name}: {what}; for a step that cannot be traced there is "
                          f"cohort.external_step")

    # ---------------------------------------------------------------- values

    def as_value(self, x: Any) -> Value:
        if isinstance(x, Value):
            return x
        if isinstance(x, Parameter):
            return self.parameter(x)
        if isinstance(x, Mask):
            raise self.error("random numbers, other than those of a dropout")
        array = np.asarray(x)
        kind = _kind_of(array.dtype)
        shape = list(array.shape)
        if kind == "float":
            array = array.astype(np.float64)
            if array.size and np.isnan(array).all():  # what functions as jnp.median give for input that has such numbers
                zero = self.as_value(np.zeros(shape))
                return Value(self.graph.op("divide", [zero.name, zero.name]), zero.sizes, zero.axes, shape, kind)
            if np.isnan(array).any():
                raise self.error("a constant that is not a number (NaN)")
            array = np.clip(array, -1e30, 1e30)  # for infinities, with which masks are made
        array, repeats = compact(array)
        if any(size % self.batch == 0 for size in array.shape if size):
            raise self.error("numbers that differ from record to record, such as random ones or those of an index of records")
        return Value(self.graph.constant(array), list(array.shape), [() if r else (i,) for i, r in enumerate(repeats)], shape, kind)

    def parameter(self, parameter: Parameter) -> Value:
        """A parameter as a variable."""
        key = ("variable", parameter.name)
        if key not in self.made:
            self.made[key] = self.graph.variable(parameter.name, parameter.array.astype(self.graph.dtype), parameter.trainable)
            self.graph.variables[self.made[key]] = (parameter.name, lambda x: x)
        return plain(self.made[key], parameter.array.shape, "float")

    def layer(self, class_name: str, inputs: str, parameter: Parameter, there: Callable, back: Callable, **config: Any) -> str:
        """A layer that has this parameter alone; a further call shares it."""
        key = (class_name, parameter.name, repr(config))
        if key in self.made:
            return self.graph.add(class_name, f"{self.made[key]}:call", [inputs], shares=self.made[key])
        if any(made[1] == parameter.name for made in self.made):
            raise self.error(f"{parameter.name} in two places, once in a {class_name}")
        name = parameter.name.rpartition("/")[0] or class_name.lower()
        name = self.graph.add(class_name, name, [inputs], trainable=parameter.trainable, **config)
        self.graph.values[f"{name}/0"] = there(parameter.array.astype(self.graph.dtype))
        self.graph.variables[f"{name}/0"] = (parameter.name, back)
        self.made[key] = name
        return name


def _argument_names(apply: Callable[..., Any]) -> list[str]:
    """The positional arguments of a function, the parameters first."""
    owner = getattr(apply, "__self__", None)  # `apply` of a flax module has the arguments of its __call__
    called = type(owner).__call__ if getattr(apply, "__name__", "") == "apply" and callable(owner) else apply
    try:
        return [p.name for p in inspect.signature(called).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        return []


def _named_inputs(apply: Callable[..., Any], arguments: tuple) -> list[tuple[str, Any]]:
    """The leaves of the arguments with names: of the keys, or of the function's arguments."""
    positional = _argument_names(apply)
    named: list[tuple[str, Any]] = []
    for i, argument in enumerate(arguments):
        at = positional[i + 1] if i + 1 < len(positional) else "x" if len(arguments) == 1 else f"x_{i}"
        for path, x in jax.tree_util.tree_flatten_with_path(argument)[0]:
            inside = jax.tree_util.keystr(tuple(path), simple=True, separator="_")
            named.append((inside if isinstance(argument, dict) else f"{at}_{inside}" if inside else at, x))
    return named


def _kind_of(dtype: Any) -> str:
    kind = np.dtype(dtype).kind if dtype != jax.numpy.bfloat16 else "f"
    return "bool" if kind == "b" else "int" if kind in "iu" else "float"


def _numbers(x: Any) -> Any:
    """An array of jax or a number as one of NumPy; keys of random numbers stay as they are."""
    if hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
        return x
    return np.asarray(x)


def _evaluate(equation: Any, arguments: list[Any]) -> list[Any]:
    """The outputs of an equation whose arguments are numbers."""
    result = equation.primitive.bind(*arguments, **equation.params)
    return [_numbers(x) for x in (result if equation.primitive.multiple_results else [result])]


def _is_of_jax(jaxpr: Any) -> bool:
    """True if the source of a function is that of jax or of a library on it."""
    source = getattr(jaxpr.debug_info, "func_filename", None) or ""
    return any(f"/{package}/" in source for package in ("jax", "flax", "haiku", "optax"))


def _place(equations: list[Any]) -> str:
    """The line of the user's source that made the innermost equation."""
    for equation in reversed(equations):
        traceback = equation.source_info.traceback
        for frame in traceback.frames if traceback is not None else ():
            if _is_users(frame.file_name):
                return f"{frame.file_name}:{frame.line_num} ({frame.function_name}): "
    return ""


def _is_users(file_name: str) -> bool:
    return not file_name.startswith("<") and not any(
        f"/{package}/" in file_name for package in ("jax", "jax/_src", "flax", "haiku", "optax", "cohort", "contextlib.py"))
