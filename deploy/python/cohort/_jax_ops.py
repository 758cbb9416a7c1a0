"""Primitives of jax as layers of a graph.

A handler gets the tracer, the equation and its arguments, and returns a value, or a list of them.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from cohort._jax_layout import Value, number_of, plain

HANDLERS: dict[str, Callable[..., Any]] = {}
NAMED: dict[str, Callable[..., Any]] = {}  # by the name of a function that jax keeps in a jaxpr
_LONGEST_SCAN = 1024


def _handles(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        for name in names:
            HANDLERS[name] = function
        return function

    return register


def _params(equation: Any, *names: str) -> list[Any]:
    return [equation.params[name] for name in names]


# -------------------------------------------------------------------- elementwise

for _name, _function in {
    "tanh": "tanh", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "logistic": "sigmoid", "erf": "erf", "abs": "abs", "neg": "negative", "sign": "sign", "floor": "floor", "ceil": "ceil", "sin": "sin",
    "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "square": "square", "stop_gradient": "stop_gradient",
}.items():
    HANDLERS[_name] = lambda t, equation, x, _function=_function: t.elementwise(_function, x)

for _name, _function in {"add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "pow": "power", "atan2": "arctan2"}.items():
    HANDLERS[_name] = lambda t, equation, x, y, _function=_function: t.with_numbers(_function, x, y, kind=_kind(t, x, y))

for _name, _function in {"eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "less",
                         "le": "less_equal"}.items():
    HANDLERS[_name] = lambda t, equation, x, y, _function=_function: t.with_numbers(_function, x, y, kind="bool")

for _name in ("copy", "copy_p", "reduce_precision", "sharding_constraint", "pvary", "mesh_cast"):
    HANDLERS[_name] = lambda t, equation, x: x


def _kind(t: Any, *operands: Any) -> str:
    """The kind of the result of an operation of one kind."""
    given = next(x for x in operands if not isinstance(x, np.ndarray))
    return t.as_value(given).kind


@_handles("optimization_barrier")
def _barrier(t: Any, equation: Any, *xs: Any) -> Any:
    return list(xs)


@_handles("max", "min")
def _max(t: Any, equation: Any, x: Any, y: Any) -> Any:
    name = equation.primitive.name
    for a, b in ((x, y), (y, x)):  # infinity, with which maxima begin
        if isinstance(a, np.ndarray) and a.size and (a == (-np.inf if name == "max" else np.inf)).all() and isinstance(b, Value):
            return b
    return t.with_numbers(f"{name}imum", x, y, kind=_kind(t, x, y))


@_handles("div")
def _div(t: Any, equation: Any, x: Any, y: Any) -> Any:
    kind = _kind(t, x, y)
    if kind == "int":  # towards zero
        x, y = (t.cast(t.as_value(v), "float") for v in (x, y))
        return t.cast(t.elementwise("trunc", t.elementwise("divide", x, y)), "int")
    return t.with_numbers("divide", x, y, kind=kind)


@_handles("rem")
def _rem(t: Any, equation: Any, x: Any, y: Any) -> Any:
    """The remainder with the sign of x."""
    kind = _kind(t, x, y)
    rest = t.with_numbers("mod", t.elementwise("abs", x), np.abs(y) if isinstance(y, np.ndarray) else t.elementwise("abs", y), kind=kind)
    return t.elementwise("multiply", t.elementwise("sign", x), rest, kind=kind)


@_handles("integer_pow")
def _integer_pow(t: Any, equation: Any, x: Any) -> Any:
    (y,) = _params(equation, "y")
    if y == 2:
        return t.elementwise("square", x)
    if y == -1:
        return t.elementwise("reciprocal", x)
    v = t.as_value(x)
    return t.with_numbers("power", v, float(y) if v.kind == "float" else y, kind=v.kind)


@_handles("cbrt")
def _cbrt(t: Any, equation: Any, x: Any) -> Any:
    return t.elementwise("multiply", t.elementwise("sign", x), t.with_numbers("power", t.elementwise("abs", x), 1 / 3))


@_handles("erfc")
def _erfc(t: Any, equation: Any, x: Any) -> Any:
    return t.with_numbers("subtract", 1.0, t.elementwise("erf", x), kind="float")


@_handles("round")
def _round(t: Any, equation: Any, x: Any) -> Any:
    if int(equation.params["rounding_method"]) != 1:  # halves go away from zero
        above = t.elementwise("floor", t.with_numbers("add", t.elementwise("abs", x), 0.5))
        return t.elementwise("multiply", t.elementwise("sign", x), above)
    return t.elementwise("round", x)


@_handles("is_finite")
def _is_finite(t: Any, equation: Any, x: Any) -> Any:
    return t.elementwise("isfinite", x, kind="bool")


@_handles("not")
def _not(t: Any, equation: Any, x: Any) -> Any:
    if t.as_value(x).kind != "bool":
        raise t.error("bits of whole numbers")
    return t.elementwise("logical_not", x)


@_handles("and", "or", "xor")
def _logical(t: Any, equation: Any, x: Any, y: Any) -> Any:
    if _kind(t, x, y) != "bool":
        raise t.error("bits of whole numbers")
    return t.elementwise(f"logical_{equation.primitive.name}", x, y, kind="bool")


@_handles("clamp")
def _clamp(t: Any, equation: Any, low: Any, x: Any, high: Any) -> Any:
    return t.with_numbers("minimum", t.with_numbers("maximum", x, low, kind=_kind(t, x, low)), high, kind=_kind(t, x, high))


@_handles("convert_element_type")
def _convert(t: Any, equation: Any, x: Any) -> Any:
    dtype = np.dtype(equation.params["new_dtype"])
    v = t.as_value(x)
    kind = "bool" if dtype.kind == "b" else "int" if dtype.kind in "iu" else "float"
    if v.kind == "float" and kind == "bool":
        return t.with_numbers("not_equal", v, 0.0, kind="bool")
    return t.cast(v, kind)


@_handles("select_n")
def _select_n(t: Any, equation: Any, which: Any, *cases: Any) -> Any:
    if hasattr(which, "probability"):
        return _dropout(t, which, *cases)
    if len(cases) != 2 or t.as_value(which).kind != "bool":
        raise t.error("a choice of more than two cases")
    if isinstance(which, np.ndarray) and (which == which.flat[0]).all():
        return cases[int(which.flat[0])]
    kind = next((c.kind for c in cases if isinstance(c, Value)), None) or t.as_value(cases[0]).kind
    result = t.elementwise("where", which, cases[1], cases[0], kind=kind)
    before = _before_wrapping(t, which, cases)
    if before is not None and before.sizes == result.sizes:
        t.wrapped[result.name] = before.name
    return result


def _before_wrapping(t: Any, which: Any, cases: Any) -> Value | None:
    """i of select(i < 0, i, i + size), with which jax counts indices from the end."""
    at, to = cases
    if not isinstance(at, Value) or not isinstance(to, Value) or at.kind != "int":
        return None
    made = {body["name"]: (class_name, body) for layer in t.graph.layers for class_name, body in layer.items()}
    less, body = made.get(which.name, ("", {}))
    plus, other = made.get(to.name, ("", {}))
    if less == "ops.less" and plus == "ops.add" and body["inputs"] == [at.name] == other["inputs"] and body.get("x2") == 0:
        return at
    return None


def _dropout(t: Any, mask: Any, dropped: Any, kept: Any) -> Value:
    if number_of(dropped) != 0:
        raise t.error("random numbers, other than those of a dropout")
    # The function has divided by the probability, as the layer does.
    v = t.with_numbers("multiply", kept, mask.probability, kind="float")
    v = t.filled(v)
    return Value(t.graph.add("Dropout", "dropout", [v.name], rate=round(1 - mask.probability, 7)), v.sizes, v.axes, v.shape)


# -------------------------------------------------------------------- functions that jax names


def _named(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        for name in names:
            NAMED[name] = function
        return function

    return register


@_named("relu")
def _relu(t: Any, jaxpr: Any, x: Any) -> Any:
    return t.elementwise("relu", x)


@_named("relu6")
def _relu6(t: Any, jaxpr: Any, x: Any) -> Any:
    return t.elementwise("relu6", x)


@_named("silu", "swish")
def _silu(t: Any, jaxpr: Any, x: Any) -> Any:
    return t.elementwise("silu", x)


@_named("logaddexp")
def _logaddexp(t: Any, jaxpr: Any, x: Any, y: Any) -> Any:
    if number_of(y) == 0 and not isinstance(x, np.ndarray):
        return t.elementwise("softplus", x)
    return t.with_numbers("logaddexp", x, y, kind="float")


@_named("softmax", "_softmax", "log_softmax")
def _softmax(t: Any, jaxpr: Any, x: Any, *rest: Any) -> Any:
    """Softmax along one axis, which the jaxpr's maximum names."""
    name = "log_softmax" if any(e.primitive.name == "log" for e in jaxpr.eqns) else "softmax"
    axes: tuple[int, ...] = next((e.params["axes"] for e in jaxpr.eqns if e.primitive.name == "reduce_max"), ())
    if rest or len(axes) != 1:
        return None
    return t.along(t.as_value(x), axes[0], lambda v, axis: t.graph.op(name, [v], axis=-1))


# -------------------------------------------------------------------- layouts


@_handles("transpose")
def _transpose(t: Any, equation: Any, x: Any) -> Any:
    (order,) = _params(equation, "permutation")
    v = t.as_value(x)
    return Value(v.name, v.sizes, [v.axes[i] for i in order], [v.shape[i] for i in order], v.kind)


@_handles("reshape")
def _reshape(t: Any, equation: Any, x: Any) -> Any:
    v = t.as_value(x)
    if equation.params.get("dimensions") is not None:
        raise t.error("a reshape with an order of axes")
    return t.view(v, [int(size) for size in equation.params["new_sizes"]])


@_handles("squeeze")
def _squeeze(t: Any, equation: Any, x: Any) -> Any:
    v = t.as_value(x)
    kept = [i for i in range(len(v.shape)) if i not in equation.params["dimensions"]]
    return Value(v.name, v.sizes, [v.axes[i] for i in kept], [v.shape[i] for i in kept], v.kind)


@_handles("broadcast_in_dim")
def _broadcast_in_dim(t: Any, equation: Any, x: Any, *dynamic: Any) -> Any:
    shape, places = _params(equation, "shape", "broadcast_dimensions")
    v = t.as_value(x)
    axes: list[tuple[int, ...]] = [()] * len(shape)
    for axis, place in zip(v.axes, places):
        axes[place] = axis
    return Value(v.name, v.sizes, axes, [int(size) for size in shape], v.kind)


@_handles("concatenate")
def _concatenate(t: Any, equation: Any, *xs: Any) -> Any:
    (dim,) = _params(equation, "dimension")
    values = [t.as_value(x) for x in xs]
    rank = len(values[0].shape)
    if any(v.shape[dim] % t.batch == 0 for v in values if v.shape[dim]):
        raise t.error("a concatenation along the records of a batch")
    values = [v for v in values if v.shape[dim]]
    shape = [sum(v.shape[dim] for v in values) if i == dim else s for i, s in enumerate(values[0].shape)]
    # Axes along which all repeat stay as they are.
    common = [i for i in range(rank) if i != dim and all(v.repeats(i) for v in values)]
    values = [t.filled(v, [i for i in range(rank) if i not in common]) for v in values]
    leads = [i for i in range(rank) if i != dim]
    leads.sort(key=lambda i: not any(v.shape[i] % t.batch == 0 for v in values))
    values = [t.in_order(v, [*leads, dim]) for v in values]
    name = t.graph.op("concatenate", [v.name for v in values], axis=rank - 1)
    return Value(name, values[0].sizes[:-1] + [shape[dim]], values[0].axes, shape, values[0].kind)


@_handles("stack")
def _stack(t: Any, equation: Any, *xs: Any) -> Any:
    (axis,) = _params(equation, "axis")
    return _concatenate(t, _Axis(axis), *(_expanded(t.as_value(x), axis) for x in xs))


@_handles("unstack")
def _unstack(t: Any, equation: Any, x: Any) -> Any:
    v = t.as_value(x)
    (axis,) = _params(equation, "axis")
    return [_row(t, v, axis, i) for i in range(v.shape[axis])]


@_handles("tile")
def _tile(t: Any, equation: Any, x: Any) -> Any:
    v = t.as_value(x)
    for axis, count in enumerate(equation.params["reps"]):
        if count > 1:
            v = _expanded(v, axis)
            v.shape[axis] = int(count)
            shape = v.shape[:axis] + [v.shape[axis] * v.shape[axis + 1]] + v.shape[axis + 2:]
            v = t.view(v, shape)
    return v


def _expanded(v: Value, axis: int) -> Value:
    """The tensor with one more axis, of size 1."""
    return Value(v.name, v.sizes, v.axes[:axis] + [()] + v.axes[axis:], v.shape[:axis] + [1] + v.shape[axis:], v.kind)


class _Axis:
    """The parameters of a concatenation."""

    def __init__(self, axis: int) -> None:
        self.params = {"dimension": axis}


@_handles("slice")
def _slice(t: Any, equation: Any, x: Any) -> Any:
    starts, limits, strides = _params(equation, "start_indices", "limit_indices", "strides")
    v = t.as_value(x)
    for axis, (start, limit, step) in enumerate(zip(starts, limits, strides or [1] * len(starts))):
        v = _taken(t, v, axis, range(start, limit, step))
    return v


def _taken(t: Any, v: Value, axis: int, places: range) -> Value:
    if len(places) == v.shape[axis] and places.step == 1:
        return v
    if v.shape[axis] % t.batch == 0:
        raise t.error("a part of the records of a batch")
    if v.repeats(axis):
        return Value(v.name, v.sizes, v.axes, [len(places) if i == axis else s for i, s in enumerate(v.shape)], v.kind)
    key = f"..., {places.start}:{places.stop}" + (f":{places.step}" if places.step != 1 else "")
    return t.along(v, axis, lambda name, last: t.graph.op("get_item", [name], key=key), len(places))


@_handles("dynamic_slice")
def _dynamic_slice(t: Any, equation: Any, x: Any, *starts: Any) -> Any:
    (sizes,) = _params(equation, "slice_sizes")
    if not all(isinstance(start, np.ndarray) for start in starts):
        raise t.error("a slice whose place is computed")
    v = t.as_value(x)
    for axis, (start, size) in enumerate(zip(starts, sizes)):
        start = min(max(int(start), 0), v.shape[axis] - size)
        v = _taken(t, v, axis, range(start, start + size))
    return v


@_handles("split")
def _split(t: Any, equation: Any, x: Any) -> Any:
    sizes, axis = _params(equation, "sizes", "axis")
    v = t.as_value(x)
    ends = np.cumsum(sizes)
    return [_taken(t, v, axis, range(int(end) - int(size), int(end))) for end, size in zip(ends, sizes)]


@_handles("rev")
def _rev(t: Any, equation: Any, x: Any) -> Any:
    v = t.as_value(x)
    for axis in equation.params["dimensions"]:
        if v.shape[axis] % t.batch == 0:
            raise t.error("the records of a batch in another order")
        v = t.along(v, axis, lambda name, last: t.graph.op("flip", [name], axis=last))
    return v


@_handles("pad")
def _pad(t: Any, equation: Any, x: Any, filling: Any) -> Any:
    number = number_of(filling)
    v = t.as_value(x)
    if number is None:
        infinite = isinstance(filling, np.ndarray) and not np.isnan(filling).any()
        if not infinite:
            raise t.error("a padding with numbers that are computed")
        number = float(np.clip(filling, -1e30, 1e30))
    for axis, (low, high, interior) in enumerate(equation.params["padding_config"]):
        v = padded(t, v, axis, int(low), int(high), int(interior), number)
    return v


def padded(t: Any, v: Value, axis: int, low: int, high: int, interior: int, number: float) -> Value:
    """Numbers before, after and between the elements of an axis; negative ones cut."""
    if interior and v.shape[axis] > 1:
        size = v.shape[axis]
        v = t.view(v, [*v.shape[:axis], size, 1, *v.shape[axis + 1:]])
        v = padded(t, v, axis + 1, 0, interior, 0, number)
        v = t.view(v, [*v.shape[:axis], size * (interior + 1), *v.shape[axis + 2:]])
        high -= interior
    if low > 0 or high > 0:
        if v.shape[axis] % t.batch == 0:
            raise t.error("a padding of the records of a batch")
        widths = [max(low, 0), max(high, 0)]

        def pad(name: str, last: int) -> str:
            return t.graph.op("pad", [name], pad_width=[[0, 0]] * last + [widths], mode="constant", constant_values=number)

        v = t.along(v, axis, pad, v.shape[axis] + sum(widths))
    return _taken(t, v, axis, range(max(-low, 0), v.shape[axis] - max(-high, 0)))


@_handles("iota")
def _iota(t: Any, equation: Any, *dynamic: Any) -> Any:
    raise t.error("a shape that is computed")


# -------------------------------------------------------------------- indices


@_handles("gather")
def _gather(t: Any, equation: Any, x: Any, indices: Any) -> Any:
    numbers, sizes = _params(equation, "dimension_numbers", "slice_sizes")
    shape = t.as_value(x).shape
    mapped = list(numbers.start_index_map)
    batching = list(numbers.operand_batching_dims)
    whole = all(size == (1 if i in mapped or i in batching else s) for i, (size, s) in enumerate(zip(sizes, shape)))
    if not whole or sorted(numbers.collapsed_slice_dims) != sorted(mapped):
        raise t.error("an indexing of windows (gather): use slices of static sizes")
    if batching:
        return _take_along_axis(t, t.as_value(x), indices, numbers, mapped, batching)
    if isinstance(indices, np.ndarray):
        return _static_gather(t, t.as_value(x), indices, numbers, mapped)
    if len(mapped) != 1 or any(s % t.batch == 0 for s in shape):
        raise t.error("an indexing by computed places in several axes, or in values that differ by record: use jnp.take_along_axis")
    (dim,) = mapped
    ids = _ids(t, indices)
    ids = t.filled(ids)
    order = [i for axis in ids.axes for i in axis]
    ids = t.arranged(ids, [[i] for i in sorted(order)])
    table = t.as_value(x)
    table = t.in_order(t.filled(table), [dim] + [i for i in range(len(shape)) if i != dim])
    name = t.graph.op("take", [table.name, ids.name], axis=0)
    row = [(len(ids.sizes) + n,) for n in range(len(shape) - 1)]
    row_sizes = table.sizes[1:]
    axes, result = [], []
    before, rows = iter(zip(ids.axes, ids.shape)), iter(zip(row, row_sizes))
    for i in range(len(ids.axes) + len(row)):
        axis, size = next(rows) if i in numbers.offset_dims else next(before)
        axes.append(axis)
        result.append(size)
    return Value(name, ids.sizes + row_sizes, axes, result, table.kind)


def _ids(t: Any, indices: Value) -> Value:
    """Indices without the last axis of size 1."""
    name = t.wrapped.get(indices.name, indices.name)
    return Value(name, indices.sizes, indices.axes[:-1], indices.shape[:-1], "int")


def _static_gather(t: Any, v: Value, indices: np.ndarray, numbers: Any, mapped: list[int]) -> Value:
    """x[:, places] for places that are numbers, in one axis or in several that are next to each other."""
    order = sorted(mapped)
    if order != list(range(order[0], order[0] + len(order))) or any(v.shape[i] % t.batch == 0 for i in order):
        raise t.error("an indexing of records, or of axes that are not next to each other")
    sizes = [v.shape[i] for i in order]
    flat = np.zeros(indices.shape[:-1], np.int64)
    for i, size in zip(order, sizes):
        flat = flat * size + np.clip(indices[..., mapped.index(i)], 0, size - 1)
    first = order[0]
    merged = t.view(t.filled(v, order), [*v.shape[:first], math.prod(sizes), *v.shape[order[-1] + 1:]])
    places = flat.reshape(-1).tolist()
    taken = t.along(merged, first, lambda name, last: t.graph.op("take", [name], indices=places, axis=last), len(places))
    # The axes of the indices, and those of the slices, in the order of the result.
    taken = t.view(taken, [*taken.shape[:first], *flat.shape, *taken.shape[first + 1:]])
    rest = [i for i in range(len(taken.shape)) if not first <= i < first + flat.ndim]
    inner, outer = iter(range(first, first + flat.ndim)), iter(rest)
    order = [next(outer) if i in numbers.offset_dims else next(inner) for i in range(len(taken.shape))]
    return Value(taken.name, taken.sizes, [taken.axes[i] for i in order], [taken.shape[i] for i in order], taken.kind)


def _take_along_axis(t: Any, v: Value, indices: Any, numbers: Any, mapped: list[int], batching: list[int]) -> Value:
    rank = len(v.shape)
    if len(mapped) != 1 or len(batching) != rank - 1 or numbers.offset_dims or list(numbers.start_indices_batching_dims) != batching:
        raise t.error("an indexing (gather) that is no jnp.take_along_axis")
    (dim,) = mapped
    order = [i for i in range(rank) if i != dim] + [dim]
    ids = _ids(t, t.as_value(indices))
    both = []
    for value in (v, ids):
        both.append(t.in_order(t.filled(value), order))
    name = t.graph.op("take_along_axis", [value.name for value in both], axis=rank - 1)
    return Value(name, both[1].sizes, both[1].axes, both[1].shape, v.kind)


# -------------------------------------------------------------------- reductions

for _name, _function in {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_and": "all",
                         "reduce_or": "any"}.items():
    HANDLERS[_name] = (lambda t, equation, x, _function=_function, _name=_name:
                       t.reduced(_function, t.as_value(x), equation.params["axes"], _name))


@_handles("argmax", "argmin")
def _argmax(t: Any, equation: Any, x: Any) -> Any:
    (axis,) = equation.params["axes"]
    v = t.as_value(x)
    if v.shape[axis] % t.batch == 0:
        raise t.error("the place of a maximum over the records of a batch")
    v = t.last(v, [axis])
    name = t.graph.op(equation.primitive.name, [v.name], axis=-1)
    rest = [i for i in range(len(v.axes)) if i != axis]
    return Value(name, v.sizes[:-1], [v.axes[i] for i in rest], [v.shape[i] for i in rest], "int")


@_handles("cumsum", "cumprod")
def _cumulative(t: Any, equation: Any, x: Any) -> Any:
    axis, reverse = _params(equation, "axis", "reverse")
    name = equation.primitive.name

    def function(value: str, last: int) -> str:
        if not reverse:
            return t.graph.op(name, [value], axis=last)
        return t.graph.op("flip", [t.graph.op(name, [t.graph.op("flip", [value], axis=last)], axis=last)], axis=last)

    v = t.as_value(x)
    if v.shape[axis] % t.batch == 0:
        raise t.error(f"a {name} over the records of a batch")
    return t.along(v, axis, function)


@_handles("cummax", "cummin", "cumlogsumexp")
def _cumulative_steps(t: Any, equation: Any, x: Any) -> Any:
    """By steps over 1, 2, 4, ... elements."""
    axis, reverse = _params(equation, "axis", "reverse")
    function = {"cummax": "maximum", "cummin": "minimum", "cumlogsumexp": "logaddexp"}[equation.primitive.name]
    v = t.as_value(x)
    size, done = v.shape[axis], 1
    if size % t.batch == 0:
        raise t.error(f"a {equation.primitive.name} over the records of a batch")
    while done < size:
        first, rest = _taken(t, v, axis, range(size - done)), _taken(t, v, axis, range(done, size))
        kept = range(size - done, size) if reverse else range(done)
        both = t.elementwise(function, rest, first, kind=v.kind)
        parts = (both, _taken(t, v, axis, kept)) if reverse else (_taken(t, v, axis, kept), both)
        v = _concatenate(t, _Axis(axis), *parts)
        done *= 2
    return v


@_handles("dot_general")
def _dot_general(t: Any, equation: Any, x: Any, y: Any) -> Any:
    ((contract_x, contract_y), (batch_x, batch_y)), = _params(equation, "dimension_numbers")
    a, b = t.cast(t.as_value(x), "float"), t.cast(t.as_value(y), "float")
    letters_a = [f"a{i}" for i in range(len(a.shape))]
    letters_b = [f"b{i}" for i in range(len(b.shape))]
    for n, (i, j) in enumerate(zip(contract_x, contract_y)):
        letters_a[i] = letters_b[j] = f"k{n}"
    for n, (i, j) in enumerate(zip(batch_x, batch_y)):
        letters_a[i] = letters_b[j] = f"s{n}"
    out = [letters_a[i] for i in batch_x] + [x for x in letters_a if x[0] == "a"] + [x for x in letters_b if x[0] == "b"]
    if any(a.shape[i] % t.batch == 0 for i in contract_x if a.shape[i]):
        raise t.error("a product over the records of a batch")
    return t.contract(a, b, letters_a, letters_b, out)


# -------------------------------------------------------------------- images


@_handles("conv_general_dilated")
def _conv(t: Any, equation: Any, x: Any, kernel: Any) -> Any:
    numbers, strides, padding, inner, outer, groups, batch_groups = _params(
        equation, "dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count",
        "batch_group_count")
    spatial = len(strides)
    if not hasattr(kernel, "array"):
        raise t.error("a convolution whose kernel is computed")
    if batch_groups != 1 or spatial > 3:
        raise t.error("a convolution with groups of records or more than three axes")
    # [records, channels, axes], [out, in, axes]
    v = t.as_value(x)
    order = [numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1]]
    v = Value(v.name, v.sizes, [v.axes[i] for i in order], [v.shape[i] for i in order], v.kind)
    for i, dilation in enumerate(inner):
        v = padded(t, v, 1 + i, 0, 0, dilation - 1, 0)
    there = [*numbers.rhs_spec[2:], numbers.rhs_spec[1], numbers.rhs_spec[0]]
    back = [int(i) for i in np.argsort(there)]
    shape = [kernel.array.shape[i] for i in there]
    sizes = v.shape[1:-1]
    mode = "valid"
    if any(low or high for low, high in padding):
        mode = "same" if all((low, high) == _same(size, k, s, d) for (low, high), size, k, s, d in zip(
            padding, sizes, shape, strides, outer)) and (all(s == 1 for s in strides) or all(d == 1 for d in outer)) else "valid"
        if mode == "valid":
            for i, (low, high) in enumerate(padding):
                v = padded(t, v, 1 + i, int(low), int(high), 0, 0)
    v = t.in_order(t.filled(v))
    config = {"filters": shape[-1], "kernel_size": shape[:spatial], "strides": [int(s) for s in strides], "padding": mode,
              "dilation_rate": [int(d) for d in outer], "groups": int(groups), "use_bias": False}
    name = t.layer(f"Conv{spatial}D", v.name, kernel, lambda w: np.ascontiguousarray(w.transpose(there)), lambda w: w.transpose(back),
                   **config)
    result = [v.shape[0]]
    for size, k, s, d in zip(v.shape[1:-1], shape, strides, outer):
        result.append(-(-size // s) if mode == "same" else (size - d * (k - 1) - 1) // s + 1)
    y = plain(name, [*result, shape[-1]], "float")
    axes: list[int] = [0] * len(y.shape)
    for place, axis in zip([numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1]], range(len(y.shape))):
        axes[place] = axis
    return Value(y.name, y.sizes, [(i,) for i in axes], [y.shape[i] for i in axes], "float")


def _same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """The padding of Keras' "same"."""
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


@_handles("reduce_window_max", "reduce_window_sum", "reduce_window_min")
def _reduce_window(t: Any, equation: Any, x: Any) -> Any:
    window, strides, padding, inner, outer = _params(
        equation, "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    function = equation.primitive.name.removeprefix("reduce_window_")
    return _pool(t, function, t.as_value(x), window, strides, padding, [*inner, *outer])


@_handles("reduce_window")
def _general_reduce_window(t: Any, equation: Any, x: Any, start: Any) -> Any:
    (jaxpr,) = _params(equation, "jaxpr")
    function = {"add": "sum", "max": "max", "min": "min"}.get(jaxpr.eqns[0].primitive.name if len(jaxpr.eqns) == 1 else "")
    if function is None:
        raise t.error("a reduction of windows other than sum, max and min")
    window, strides, padding, inner, outer = _params(
        equation, "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    return _pool(t, function, t.as_value(x), window, strides, padding, [*inner, *outer])


def _pool(t: Any, function: str, v: Value, window: Any, strides: Any, padding: Any, dilations: Any) -> Value:
    places = [i for i, (w, s, p) in enumerate(zip(window, strides, padding)) if w != 1 or s != 1 or tuple(p) != (0, 0)]
    rest = [i for i in range(len(v.shape)) if i not in places]
    if any(d != 1 for d in dilations) or not 1 <= len(places) <= 3 or v.shape[rest[0]] != t.batch or function == "min":
        raise t.error("a reduction of windows that is no pooling of one to three axes")
    for i in places:
        low, high = map(int, padding[i])
        v = padded(t, v, i, low, high, 0, 0 if function == "sum" else -1e30)
    # [records, axes, all other axes as channels]
    order = [rest[0], *places, *rest[1:]]
    v = t.filled(v)
    shape = [v.shape[i] for i in order]
    channels = math.prod(shape[len(places) + 1:])
    flat = t.view(Value(v.name, v.sizes, [v.axes[i] for i in order], shape, v.kind), [*shape[: len(places) + 1], channels])
    flat = t.in_order(flat)
    pool = [int(window[i]) for i in places]
    steps = [int(strides[i]) for i in places]
    name = t.graph.op("average_pool" if function == "sum" else "max_pool", [flat.name], pool_size=pool, strides=steps, padding="valid")
    sizes = [(size - w) // s + 1 for size, w, s in zip(flat.shape[1:-1], pool, steps)]
    y = t.view(plain(name, [shape[0], *sizes, channels], "float"), [shape[0], *sizes, *shape[len(places) + 1:]])
    if function == "sum":
        y = t.with_numbers("multiply", y, float(math.prod(pool)))
    back = [int(i) for i in np.argsort(order)]
    return Value(y.name, y.sizes, [y.axes[i] for i in back], [y.shape[i] for i in back], "float")


# -------------------------------------------------------------------- control flow


@_handles("scan")
def _scan(t: Any, equation: Any, *arguments: Any) -> Any:
    jaxpr, length, reverse, consts, carries = _params(equation, "jaxpr", "length", "reverse", "num_consts", "num_carry")
    if length > _LONGEST_SCAN:
        raise t.error(f"a scan of {length} steps; {_LONGEST_SCAN} are unrolled")
    fixed, carry, xs = arguments[:consts], list(arguments[consts:consts + carries]), arguments[consts + carries:]
    rows: list[list[Any]] = []
    for step in range(length)[::-1] if reverse else range(length):
        at = [x[step] if isinstance(x, np.ndarray) else _row(t, t.as_value(x), 0, step) for x in xs]
        outputs = t.inline(jaxpr.jaxpr, jaxpr.consts, [*fixed, *carry, *at])
        carry = outputs[:carries]
        rows.append(outputs[carries:])
    if reverse:
        rows.reverse()
    return [*carry, *(_stacked(t, list(row)) for row in zip(*rows))]


def _row(t: Any, v: Value, axis: int, place: int) -> Value:
    """x[place] of an axis."""
    v = _taken(t, v, axis, range(place, place + 1))
    return Value(v.name, v.sizes, v.axes[:axis] + v.axes[axis + 1:], v.shape[:axis] + v.shape[axis + 1:], v.kind)


def _stacked(t: Any, xs: list[Any]) -> Any:
    if all(isinstance(x, np.ndarray) for x in xs):
        return np.stack(xs)
    return _concatenate(t, _Axis(0), *(_expanded(t.as_value(x), 0) for x in xs))


@_handles("cond")
def _cond(t: Any, equation: Any, which: Any, *arguments: Any) -> Any:
    (branches,) = _params(equation, "branches")
    if not isinstance(which, np.ndarray):
        raise t.error("a decision (cond) on a value that is computed: use jnp.where")
    branch = branches[min(max(int(which), 0), len(branches) - 1)]
    return t.inline(branch.jaxpr, branch.consts, arguments)


@_handles("while")
def _while(t: Any, equation: Any, *arguments: Any) -> Any:
    raise t.error("a loop whose end is computed (while): use jax.lax.scan or a Python loop")
