"""The nodes of ONNX for the operations of `keras.ops`, and for the layers that call their backend directly.

An operation: function(converter, its arguments by name, its outputs as symbols) → the name of its value, or names of several. A layer:
function(converter, layer, args, kwargs, outputs) → names. To add one, write its function with `@_op` or `@_layer`.
"""

from __future__ import annotations

from typing import Any, Callable

import keras
import numpy as np
from keras import KerasTensor, tree
from keras.src import backend
from onnx import TensorProto

from cohort._export_model import ExportError
from cohort._export_onnx import _LAYERS, _OPS, _TYPES, Converter, _layer, _op


def _dtype(x: Any) -> str:
    return backend.standardize_dtype(x.dtype)


def _axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(range(rank))
    return [a % rank for a in (axis if isinstance(axis, (list, tuple)) else [axis])]


# -------------------------------------------------------------------- numbers by numbers

_UNARY = {"absolute": "Abs", "abs": "Abs", "negative": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos",
          "tan": "Tan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan",
          "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "ceil": "Ceil", "floor": "Floor",
          "sign": "Sign", "sigmoid": "Sigmoid", "relu": "Relu", "softplus": "Softplus", "softsign": "Softsign", "erf": "Erf",
          "reciprocal": "Reciprocal", "round": "Round"}


def _unary(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        return g.node(op, [g.value(a["x"], _dtype(out[0]))])
    return make


for _name, _node in _UNARY.items():
    _OPS[_name] = _unary(_node)


def _formula(function: Callable) -> Callable:
    """A function of one tensor as other nodes: function(graph, x, number) with number(value) → name."""
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        dtype = _dtype(out[0])
        return function(g, g.value(a["x"], dtype), lambda v: g.constant(np.asarray(v), dtype), a)
    return make


# x is the tensor, n makes a number of its type, and a has the arguments.
_FORMULAS: dict[str, Callable] = {
    "rsqrt": lambda g, x, n, a: g.node("Reciprocal", [g.node("Sqrt", [x])]),
    "square": lambda g, x, n, a: g.node("Mul", [x, x]),
    "log1p": lambda g, x, n, a: g.node("Log", [g.node("Add", [x, n(1)])]),
    "expm1": lambda g, x, n, a: g.node("Sub", [g.node("Exp", [x]), n(1)]),
    "log2": lambda g, x, n, a: g.node("Div", [g.node("Log", [x]), n(np.log(2))]),
    "log10": lambda g, x, n, a: g.node("Div", [g.node("Log", [x]), n(np.log(10))]),
    "exp2": lambda g, x, n, a: g.node("Pow", [n(2), x]),
    "silu": lambda g, x, n, a: g.node("Mul", [x, g.node("Sigmoid", [x])]),
    "relu6": lambda g, x, n, a: g.node("Clip", [x, n(0), n(6)]),
    "elu": lambda g, x, n, a: g.node("Elu", [x], alpha=float(a.get("alpha", 1.0))),
    "selu": lambda g, x, n, a: g.node("Selu", [x]),
    "celu": lambda g, x, n, a: g.node("Celu", [x], alpha=float(a.get("alpha", 1.0))),
    "leaky_relu": lambda g, x, n, a: g.node("LeakyRelu", [x], alpha=float(a.get("negative_slope", 0.2))),
    "hard_sigmoid": lambda g, x, n, a: g.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5),
    "hard_silu": lambda g, x, n, a: g.node("Mul", [x, g.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)]),
    "hard_tanh": lambda g, x, n, a: g.node("Clip", [x, n(-1), n(1)]),
    "log_sigmoid": lambda g, x, n, a: g.node("Neg", [g.node("Softplus", [g.node("Neg", [x])])]),
    "mish": lambda g, x, n, a: g.node("Mul", [x, g.node("Tanh", [g.node("Softplus", [x])])]),
    "tanh_shrink": lambda g, x, n, a: g.node("Sub", [x, g.node("Tanh", [x])]),
    "soft_shrink": lambda g, x, n, a: g.node("Shrink", [x], lambd=float(a.get("threshold", 0.5)), bias=float(a.get("threshold", 0.5))),
    "hard_shrink": lambda g, x, n, a: g.node("Shrink", [x], lambd=float(a.get("threshold", 0.5)), bias=0.0),
    "squareplus": lambda g, x, n, a: g.node("Div", [g.node("Add", [x, g.node("Sqrt", [
        g.node("Add", [g.node("Mul", [x, x]), n(a.get("b", 4))])])]), n(2)]),
    "threshold": lambda g, x, n, a: g.node("Where", [g.node("Greater", [x, n(a["threshold"])]), x, n(a["default_value"])]),
    "softmax": lambda g, x, n, a: g.node("Softmax", [x], axis=int(a["axis"])),
    "log_softmax": lambda g, x, n, a: g.node("LogSoftmax", [x], axis=int(a["axis"])),
    "trunc": lambda g, x, n, a: g.node("Mul", [g.node("Sign", [x]), g.node("Floor", [g.node("Abs", [x])])]),
    "stop_gradient": lambda g, x, n, a: x,
}
for _name, _function in _FORMULAS.items():
    _OPS[_name] = _formula(_function)


@_op("stop_gradient")
def _stop_gradient(g: Converter, a: dict, out: list[Any]) -> str:
    return g.value(a.get("variable", a.get("x")))


@_op("gelu")
def _gelu(g: Converter, a: dict, out: list[Any]) -> str:
    x, dtype = g.value(a["x"]), _dtype(out[0])
    n = lambda v: g.constant(np.asarray(v), dtype)  # noqa: E731
    if a["approximate"]:
        cube = g.node("Mul", [g.node("Mul", [x, x]), x])
        inner = g.node("Mul", [n(np.sqrt(2 / np.pi)), g.node("Add", [x, g.node("Mul", [n(0.044715), cube])])])
        half = g.node("Add", [n(1), g.node("Tanh", [inner])])
    else:
        half = g.node("Add", [n(1), g.node("Erf", [g.node("Div", [x, n(np.sqrt(2))])])])
    return g.node("Mul", [g.node("Mul", [n(0.5), x]), half])


@_op("glu")
def _glu(g: Converter, a: dict, out: list[Any]) -> str:
    left, right = g.node("Split", [g.value(a["x"])], outputs=2, axis=int(a["axis"]), num_outputs=2)
    return g.node("Mul", [left, g.node("Sigmoid", [right])])


@_op("re_lu")
def _relu(g: Converter, a: dict, out: list[Any]) -> str:
    """Keras' relu with its arguments: max_value, negative_slope, threshold."""
    x, n = g.value(a["x"], _dtype(out[0])), lambda v: g.constant(np.asarray(v), _dtype(out[0]))
    slope, threshold = float(a.get("negative_slope") or 0), float(a.get("threshold") or 0)
    if threshold:
        kept = g.node("Where", [g.node("Greater", [x, n(threshold)]), x, n(0)])
        if slope:
            below = g.node("Mul", [n(slope), g.node("Min", [g.node("Sub", [x, n(threshold)]), n(0)])])
    else:
        kept = g.node("Relu", [x])
        if slope:
            below = g.node("Mul", [n(slope), g.node("Min", [x, n(0)])])
    if a.get("max_value") is not None:
        kept = g.node("Min", [kept, n(a["max_value"])])
    return g.node("Add", [kept, below]) if slope else kept


@_op("sparse_plus")
def _sparse_plus(g: Converter, a: dict, out: list[Any]) -> str:
    x, n = g.value(a["x"]), lambda v: g.constant(np.asarray(v), _dtype(out[0]))
    inner = g.node("Add", [x, n(1)])
    curve = g.node("Mul", [n(0.25), g.node("Mul", [inner, inner])])
    return g.node("Where", [g.node("LessOrEqual", [x, n(-1)]), n(0), g.node("Where", [g.node("Less", [x, n(1)]), curve, x])])


@_op("sparse_sigmoid")
def _sparse_sigmoid(g: Converter, a: dict, out: list[Any]) -> str:
    n = lambda v: g.constant(np.asarray(v), _dtype(out[0]))  # noqa: E731
    return g.node("Clip", [g.node("Mul", [n(0.5), g.node("Add", [g.value(a["x"]), n(1)])]), n(0), n(1)])


@_op("isnan")
def _isnan(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("IsNaN", [g.value(a["x"])])


@_op("isfinite")
def _isfinite(g: Converter, a: dict, out: list[Any]) -> str:
    x = g.value(a["x"])
    return g.node("Not", [g.node("Or", [g.node("IsNaN", [x]), g.node("IsInf", [x])])])


@_op("cast")
def _cast(g: Converter, a: dict, out: list[Any]) -> str:
    return g.value(a["x"], _dtype(out[0]))


@_op("convert_to_tensor", "identity", "copy")
def _same(g: Converter, a: dict, out: list[Any]) -> str:
    return g.value(a["x"], _dtype(out[0]))


@_op("clip")
def _clip(g: Converter, a: dict, out: list[Any]) -> str:
    n = lambda v: g.constant(np.asarray(v), _dtype(out[0]))  # noqa: E731
    return g.node("Clip", [g.value(a["x"], _dtype(out[0])), n(a["x_min"]), n(a["x_max"])])


_BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "true_divide": "Div", "power": "Pow"}


def _common(x: Any, y: Any) -> str:
    def kind(v: Any) -> Any:
        return v.dtype if hasattr(v, "dtype") else type(v)
    return backend.result_type(kind(x), kind(y))


def _binary(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        dtype = _dtype(out[0])
        return g.node(op, [g.value(a["x1"], dtype), g.value(a["x2"], dtype)])
    return make


for _name, _node in _BINARY.items():
    _OPS[_name] = _binary(_node)


def _folded(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        dtype = _dtype(out[0])
        return g.node(op, [g.value(a["x1"], dtype), g.value(a["x2"], dtype)])
    return make


_OPS["maximum"], _OPS["minimum"] = _folded("Max"), _folded("Min")


@_op("mod")
def _mod(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    x, y = g.value(a["x1"], dtype), g.value(a["x2"], dtype)
    if dtype.startswith(("int", "uint")):
        return g.node("Mod", [x, y])
    return g.node("Sub", [x, g.node("Mul", [y, g.node("Floor", [g.node("Div", [x, y])])])])


@_op("floor_divide")
def _floor_divide(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    if dtype.startswith(("int", "uint")):
        x, y = g.value(a["x1"], dtype), g.value(a["x2"], dtype)
        return g.node("Div", [g.node("Sub", [x, g.node("Mod", [x, y])]), y])
    return g.node("Floor", [g.node("Div", [g.value(a["x1"], dtype), g.value(a["x2"], dtype)])])


@_op("divide_no_nan")
def _divide_no_nan(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    x, y, zero = g.value(a["x1"], dtype), g.value(a["x2"], dtype), g.constant(np.asarray(0), dtype)
    is_zero = g.node("Equal", [y, zero])
    safe = g.node("Where", [is_zero, g.constant(np.asarray(1), dtype), y])
    return g.node("Where", [is_zero, zero, g.node("Div", [x, safe])])


@_op("logaddexp")
def _logaddexp(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    x, y = g.value(a["x1"], dtype), g.value(a["x2"], dtype)
    rest = g.node("Softplus", [g.node("Neg", [g.node("Abs", [g.node("Sub", [x, y])])])])
    return g.node("Add", [g.node("Max", [x, y]), rest])


def _comparison(op: str, negated: bool = False) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        dtype = _common(a["x1"], a["x2"])
        made = g.node(op, [g.value(a["x1"], dtype), g.value(a["x2"], dtype)])
        return g.node("Not", [made]) if negated else made
    return make


for _name, _node, _negated in (("equal", "Equal", False), ("not_equal", "Equal", True), ("greater", "Greater", False),
                               ("less", "Less", False), ("greater_equal", "GreaterOrEqual", False), ("less_equal", "LessOrEqual", False)):
    _OPS[_name] = _comparison(_node, _negated)


def _logical(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        keys = [key for key in ("x", "x1", "x2") if key in a]
        return g.node(op, [g.value(a[key], "bool") for key in keys])
    return make


for _name, _node in (("logical_and", "And"), ("logical_or", "Or"), ("logical_xor", "Xor"), ("logical_not", "Not")):
    _OPS[_name] = _logical(_node)


@_op("where")
def _where(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    return g.node("Where", [g.value(a["condition"], "bool"), g.value(a["x1"], dtype), g.value(a["x2"], dtype)])


@_op("zeros_like", "ones_like", "full_like")
def _like(g: Converter, a: dict, out: list[Any]) -> str:
    shape = g.node("Shape", [g.value(a["x"])])
    fill = a.get("fill_value")
    if fill is not None:
        return g.node("Expand", [g.value(fill, _dtype(out[0])), shape])
    raise ExportError(f"{g.here()}: a tensor of one number without the number")


_OPS["zeros_like"] = lambda g, a, out: _like(g, {**a, "fill_value": 0}, out)
_OPS["ones_like"] = lambda g, a, out: _like(g, {**a, "fill_value": 1}, out)

# -------------------------------------------------------------------- reductions


def _reduction(op: str, as_dtype: str | None = None) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        x = a["x"]
        dtype = as_dtype or _dtype(out[0])
        keep = int(bool(a.get("keepdims")))
        axes = _axes(a.get("axis"), len(x.shape))
        if not axes:
            return g.value(x, dtype)
        made = g.node(op, [g.value(x, dtype), g.ints(axes)], keepdims=keep)
        return made if dtype == _dtype(out[0]) else g.node("Cast", [made], to=_TYPES[_dtype(out[0])])
    return make


for _name, _node in (("sum", "ReduceSum"), ("mean", "ReduceMean"), ("max", "ReduceMax"), ("min", "ReduceMin"), ("prod", "ReduceProd"),
                     ("amax", "ReduceMax"), ("amin", "ReduceMin"), ("logsumexp", "ReduceLogSumExp")):
    _OPS[_name] = _reduction(_node)


def _logical_reduction(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        flags = g.node("Cast", [g.value(a["x"], "bool")], to=TensorProto.INT32)
        made = g.node(op, [flags, g.ints(_axes(a.get("axis"), len(a["x"].shape)))], keepdims=int(bool(a.get("keepdims"))))
        return g.node("Cast", [made], to=TensorProto.BOOL)
    return make


_OPS["any"], _OPS["all"] = _logical_reduction("ReduceMax"), _logical_reduction("ReduceMin")


def _moments_of(g: Converter, x: str, axes: list[int], keep: bool) -> tuple[str, str]:
    mean = g.node("ReduceMean", [x, g.ints(axes)], keepdims=1)
    centered = g.node("Sub", [x, mean])
    variance = g.node("ReduceMean", [g.node("Mul", [centered, centered]), g.ints(axes)], keepdims=int(keep))
    return (mean if keep else g.node("Squeeze", [mean, g.ints(axes)])), variance


@_op("moments")
def _moments(g: Converter, a: dict, out: list[Any]) -> list[str]:
    return list(_moments_of(g, g.value(a["x"]), _axes(a["axes"], len(a["x"].shape)), bool(a["keepdims"])))


@_op("var", "std")
def _var(g: Converter, a: dict, out: list[Any]) -> str:
    return _moments_of(g, g.value(a["x"], _dtype(out[0])), _axes(a.get("axis"), len(a["x"].shape)), bool(a.get("keepdims")))[1]


_OPS["std"] = lambda g, a, out: g.node("Sqrt", [_var(g, a, out)])


@_op("count_nonzero")
def _count_nonzero(g: Converter, a: dict, out: list[Any]) -> str:
    flags = g.node("Cast", [g.value(a["x"], "bool")], to=TensorProto.INT32)
    made = g.node("ReduceSum", [flags, g.ints(_axes(a.get("axis"), len(a["x"].shape)))], keepdims=0)
    return g.node("Cast", [made], to=_TYPES[_dtype(out[0])])


def _arg(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        x, axis = g.value(a["x"]), a.get("axis")
        if axis is None:
            x, axis = g.node("Reshape", [x, g.ints([-1])]), 0
        made = g.node(op, [x], axis=int(axis), keepdims=int(bool(a.get("keepdims"))))
        return g.node("Cast", [made], to=_TYPES[_dtype(out[0])])
    return make


_OPS["argmax"] = _OPS["arg_max"] = _arg("ArgMax")
_OPS["argmin"] = _OPS["arg_min"] = _arg("ArgMin")


@_op("norm")
def _norm(g: Converter, a: dict, out: list[Any]) -> str:
    if a.get("ord") not in (None, 2, "fro", 1):
        raise ExportError(f"{g.here()}: keras.ops.norm of order {a['ord']}")
    op = "ReduceL1" if a.get("ord") == 1 else "ReduceL2"
    axes = g.ints(_axes(a.get("axis"), len(a["x"].shape)))
    return g.node(op, [g.value(a["x"], _dtype(out[0])), axes], keepdims=int(bool(a.get("keepdims"))))


@_op("normalize")
def _normalize(g: Converter, a: dict, out: list[Any]) -> str:
    if a.get("order", 2) != 2:
        raise ExportError(f"{g.here()}: keras.ops.normalize of order {a['order']}")
    x, n = g.value(a["x"]), lambda v: g.constant(np.asarray(v), _dtype(out[0]))
    squares = g.node("ReduceSumSquare", [x, g.ints(_axes(a["axis"], len(a["x"].shape)))], keepdims=1)
    return g.node("Div", [x, g.node("Max", [g.node("Sqrt", [squares]), n(a.get("epsilon") or 1e-12)])])


@_op("cumsum")
def _cumsum(g: Converter, a: dict, out: list[Any]) -> str:
    x, axis = g.value(a["x"], _dtype(out[0])), a.get("axis")
    if axis is None:
        x, axis = g.node("Reshape", [x, g.ints([-1])]), 0
    return g.node("CumSum", [x, g.constant(np.asarray(axis % max(1, len(out[0].shape)), np.int64))])


@_op("top_k")
def _top_k(g: Converter, a: dict, out: list[Any]) -> list[str]:
    values, indices = g.node("TopK", [g.value(a["x"]), g.ints([a["k"]])], outputs=2)
    return [values, g.node("Cast", [indices], to=_TYPES[_dtype(out[1])])]


def _in_order(g: Converter, a: dict, out: list[Any]) -> tuple[str, str]:
    """The elements of an axis in ascending order, and their places."""
    x = a["x"]
    axis = int(-1 if a["axis"] is None else a["axis"]) % len(x.shape)
    return tuple(g.node("TopK", [g.value(x), g.ints([x.shape[axis]])], outputs=2, axis=axis, largest=0))


@_op("sort")
def _sort(g: Converter, a: dict, out: list[Any]) -> str:
    return _in_order(g, a, out)[0]


@_op("argsort")
def _argsort(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("Cast", [_in_order(g, a, out)[1]], to=_TYPES[_dtype(out[0])])


@_op("cumprod")
def _cumprod(g: Converter, a: dict, out: list[Any]) -> str:
    """By products over 1, 2, 4, ... elements."""
    y, axis = g.value(a["x"], _dtype(out[0])), int(a["axis"]) % len(out[0].shape)
    size, done = out[0].shape[axis], 1
    part = lambda y, begin, end: g.node("Slice", [y, g.ints([begin]), g.ints([end]), g.ints([axis])])  # noqa: E731
    while done < size:
        both = g.node("Mul", [part(y, done, size), part(y, 0, size - done)])
        y = g.node("Concat", [part(y, 0, done), both], axis=axis)
        done *= 2
    return y


@_op("arctan2")
def _arctan2(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    y, x = g.value(a["x1"], dtype), g.value(a["x2"], dtype)
    n = lambda v: g.constant(np.asarray(v), dtype)  # noqa: E731
    safe = lambda v: g.node("Where", [g.node("Equal", [v, n(0)]), n(1), v])  # noqa: E731
    turn = g.node("Where", [g.node("Less", [y, n(0)]), n(-np.pi), n(np.pi)])
    flat = g.node("Add", [g.node("Atan", [g.node("Div", [y, safe(x)])]), g.node("Where", [g.node("Less", [x, n(0)]), turn, n(0)])])
    steep = g.node("Sub", [g.node("Mul", [turn, n(0.5)]), g.node("Atan", [g.node("Div", [x, safe(y)])])])
    return g.node("Where", [g.node("GreaterOrEqual", [g.node("Abs", [x]), g.node("Abs", [y])]), flat, steep])


def _sums_at(g: Converter, indices: str, values: str, shape: Any, dtype: str) -> str:
    return g.node("ScatterND", [g.constant(np.zeros(shape), dtype), indices, values], reduction="add")


@_op("scatter")
def _scatter(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    return _sums_at(g, g.value(a["indices"], "int64"), g.value(a["values"], dtype), out[0].shape, dtype)


@_op("segment_sum")
def _segment_sum(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    ids = g.node("Unsqueeze", [g.value(a["segment_ids"], "int64"), g.ints([1])])
    return _sums_at(g, ids, g.value(a["data"], dtype), out[0].shape, dtype)


# -------------------------------------------------------------------- products


@_op("matmul")
def _matmul(g: Converter, a: dict, out: list[Any]) -> str:
    dtype = _dtype(out[0])
    return g.node("MatMul", [g.value(a["x1"], dtype), g.value(a["x2"], dtype)])


@_op("dot")
def _dot(g: Converter, a: dict, out: list[Any]) -> str:
    if len(a["x2"].shape) > 2:
        return _tensordot(g, {**a, "axes": [[len(a["x1"].shape) - 1], [len(a["x2"].shape) - 2]]}, out)
    if not a["x1"].shape or not a["x2"].shape:
        return _OPS["multiply"](g, a, out)
    return _matmul(g, a, out)


@_op("tensordot")
def _tensordot(g: Converter, a: dict, out: list[Any]) -> str:
    left, right = len(a["x1"].shape), len(a["x2"].shape)
    axes = a["axes"]
    if isinstance(axes, int):
        axes = [list(range(left - axes, left)), list(range(axes))]
    first, second = (_axes(list(p) if isinstance(p, (list, tuple)) else p, rank) for p, rank in zip(axes, (left, right)))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    x = [next(letters) for _ in range(left)]
    y = [x[first[second.index(i)]] if i in second else next(letters) for i in range(right)]
    result = [c for i, c in enumerate(x) if i not in first] + [c for i, c in enumerate(y) if i not in second]
    return _einsum(g, {"subscripts": f"{''.join(x)},{''.join(y)}->{''.join(result)}", "operands": (a["x1"], a["x2"])}, out)


@_op("einsum")
def _einsum(g: Converter, a: dict, out: list[Any]) -> str:
    operands = a.get("operands", a.get("args"))
    return g.node("Einsum", [g.value(x, _dtype(out[0])) for x in operands], equation=a["subscripts"].replace(" ", ""))


@_op("dot_product_attention")
def _dot_product_attention(g: Converter, a: dict, out: list[Any]) -> str:
    """query [batch, T, heads, size], key and value [batch, S, heads or groups, size]."""
    dtype = _dtype(out[0])
    query, key, value = (g.value(a[k], dtype) for k in ("query", "key", "value"))
    heads, groups, size = a["query"].shape[2], a["key"].shape[2], a["query"].shape[-1]
    if heads != groups:
        repeat = [int(i) for i in np.repeat(np.arange(groups), heads // groups)]
        key, value = (g.node("Gather", [x, g.ints(repeat)], axis=2) for x in (key, value))
    scale = a.get("scale") if a.get("scale") is not None else 1 / np.sqrt(size)
    logits = g.node("Mul", [g.node("Einsum", [query, key], equation="btnh,bsnh->bnts"), g.constant(np.asarray(scale), dtype)])
    if a.get("bias") is not None:
        logits = g.node("Add", [logits, g.value(a["bias"], dtype)])
    masks = [] if a.get("mask") is None else [g.value(a["mask"], "bool")]
    if a.get("is_causal"):
        masks.append(g.constant(np.tril(np.ones((a["query"].shape[1], a["key"].shape[1]), bool))[None, None]))
    for mask in masks:
        logits = g.node("Where", [mask, logits, g.constant(np.asarray(-0.7 * np.finfo(dtype).max), dtype)])
    return g.node("Einsum", [g.node("Softmax", [logits], axis=-1), value], equation="bnts,bsnh->btnh")


# -------------------------------------------------------------------- shapes


@_op("reshape")
def _reshape(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("Reshape", [g.value(a["x"]), g.ints(_shape_of(g, out[0].shape))])


def _shape_of(g: Converter, shape: Any) -> list[int]:
    sizes = [-1 if size is None or size and size % g.batch == 0 else int(size) for size in shape]
    if sizes.count(-1) > 1:
        raise ExportError(f"{g.here()}: two axes of the shape {tuple(shape)} depend on the batch")
    return sizes


def _transposed(g: Converter, x: str, axes: list[int]) -> str:
    return x if axes == list(range(len(axes))) else g.node("Transpose", [x], perm=axes)


@_op("transpose")
def _transpose(g: Converter, a: dict, out: list[Any]) -> str:
    rank = len(a["x"].shape)
    return _transposed(g, g.value(a["x"]), _axes(a["axes"], rank) if a.get("axes") is not None else list(range(rank))[::-1])


@_op("swapaxes")
def _swapaxes(g: Converter, a: dict, out: list[Any]) -> str:
    order = list(range(len(a["x"].shape)))
    i, j = a["axis1"], a["axis2"]
    order[i], order[j] = order[j], order[i]
    return _transposed(g, g.value(a["x"]), order)


@_op("moveaxis")
def _moveaxis(g: Converter, a: dict, out: list[Any]) -> str:
    rank = len(a["x"].shape)
    sources, targets = _axes(a["source"], rank), _axes(a["destination"], rank)
    order = [i for i in range(rank) if i not in sources]
    for target, source in sorted(zip(targets, sources)):
        order.insert(target, source)
    return _transposed(g, g.value(a["x"]), order)


@_op("expand_dims")
def _expand_dims(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("Unsqueeze", [g.value(a["x"]), g.ints(_axes(a["axis"], len(out[0].shape)))])


@_op("squeeze")
def _squeeze(g: Converter, a: dict, out: list[Any]) -> str:
    axes = [i for i, size in enumerate(a["x"].shape) if size == 1] if a.get("axis") is None else _axes(a["axis"], len(a["x"].shape))
    return g.node("Squeeze", [g.value(a["x"]), g.ints(axes)]) if axes else g.value(a["x"])


def _spread(g: Converter, items: Any, dtype: str) -> list[str]:
    """The operands of a concatenation: a constant that repeats for each record gets the batch of the others."""
    lead = next((x for x in items if isinstance(x, KerasTensor) and x.shape and x.shape[0] == g.batch), None)
    names = []
    for x in items:
        name = g.value(x, dtype)
        if not isinstance(x, KerasTensor) and len(x.shape) and x.shape[0] == g.batch and lead is not None:
            size = g.node("Slice", [g.node("Shape", [g.value(lead)]), g.ints([0]), g.ints([1])])
            name = g.node("Expand", [name, g.node("Concat", [size, g.ints(x.shape[1:])], axis=0)])
        names.append(name)
    return names


@_op("concatenate")
def _concatenate(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("Concat", _spread(g, a["xs"], _dtype(out[0])), axis=int(a["axis"]) % len(out[0].shape))


@_op("stack")
def _stack(g: Converter, a: dict, out: list[Any]) -> str:
    axis = int(a["axis"]) % len(out[0].shape)
    wide = [g.node("Unsqueeze", [x, g.ints([axis])]) for x in _spread(g, a.get("x", a.get("xs")), _dtype(out[0]))]
    return g.node("Concat", wide, axis=axis)


@_op("split", "array_split")
def _split(g: Converter, a: dict, out: list[Any]) -> list[str]:
    axis = int(a["axis"])
    names = g.node("Split", [g.value(a["x"]), g.ints([x.shape[axis] for x in out])], outputs=len(out), axis=axis)
    return names if isinstance(names, list) else [names]


@_op("unstack")
def _unstack(g: Converter, a: dict, out: list[Any]) -> list[str]:
    axis = int(a["axis"]) % len(a["x"].shape)
    return [g.node("Gather", [g.value(a["x"]), g.constant(np.asarray(i, np.int64))], axis=axis) for i in range(len(out))]


@_op("tile")
def _tile(g: Converter, a: dict, out: list[Any]) -> str:
    repeats = [a["repeats"]] if isinstance(a["repeats"], int) else list(a["repeats"])
    rank = len(a["x"].shape)
    x = g.value(a["x"])
    if len(repeats) > rank:
        x = g.node("Unsqueeze", [x, g.ints(range(len(repeats) - rank))])
    return g.node("Tile", [x, g.ints([1] * (rank - len(repeats)) + repeats)])


@_op("repeat")
def _repeat(g: Converter, a: dict, out: list[Any]) -> str:
    x, shape, axis = g.value(a["x"]), list(a["x"].shape), a.get("axis")
    repeats = np.asarray(a["repeats"]).reshape(-1)
    if len(repeats) > 1:
        if axis is None or axis % len(shape) == 0:
            raise ExportError(f"{g.here()}: keras.ops.repeat with several numbers of repeats needs an axis beside the batch")
        return g.node("Gather", [x, g.ints(np.repeat(np.arange(shape[axis]), repeats))], axis=int(axis))
    if axis is None:
        x, shape, axis = g.node("Reshape", [x, g.ints([-1])]), [int(np.prod(shape))], 0
    axis %= len(shape)
    wide = g.node("Unsqueeze", [x, g.ints([axis + 1])])
    tiled = g.node("Tile", [wide, g.ints([1] * (axis + 1) + [int(repeats[0])] + [1] * (len(shape) - axis - 1))])
    return g.node("Reshape", [tiled, g.ints(_shape_of(g, out[0].shape))])


@_op("broadcast_to")
def _broadcast_to(g: Converter, a: dict, out: list[Any]) -> str:
    if any(size % g.batch == 0 for size in a["x"].shape if size) or not any(size % g.batch == 0 for size in out[0].shape if size):
        return g.node("Expand", [g.value(a["x"]), g.ints([1 if size and size % g.batch == 0 else size for size in out[0].shape])])
    raise ExportError(f"{g.here()}: keras.ops.broadcast_to the number of records of a batch")


@_op("pad")
def _pad(g: Converter, a: dict, out: list[Any]) -> str:
    widths = a["pad_width"]
    rank = len(a["x"].shape)
    if isinstance(widths, int):
        widths = [(widths, widths)] * rank
    if len(widths) == 1 and np.ndim(widths[0]) == 1 and len(widths[0]) > 2:
        raise ExportError(f"{g.here()}: keras.ops.pad with the widths {widths}")
    widths = [(w, w) if isinstance(w, int) else tuple(w) for w in widths]
    widths = widths * rank if len(widths) == 1 else widths
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(a.get("mode") or "constant")
    if mode is None:
        raise ExportError(f"{g.here()}: keras.ops.pad with the mode {a['mode']}")
    inputs = [g.value(a["x"]), g.ints([w[0] for w in widths] + [w[1] for w in widths])]
    if mode == "constant":
        inputs.append(g.value(a.get("constant_values") or 0, _dtype(out[0])))
    return g.node("Pad", inputs, mode=mode)


@_op("flip")
def _flip(g: Converter, a: dict, out: list[Any]) -> str:
    axes = _axes(a.get("axis"), len(a["x"].shape))
    n = len(axes)
    return g.node("Slice", [g.value(a["x"]), g.ints([-1] * n), g.ints([-(2 ** 31)] * n), g.ints(axes), g.ints([-1] * n)])


@_op("roll")
def _roll(g: Converter, a: dict, out: list[Any]) -> str:
    shifts = a["shift"] if isinstance(a["shift"], (list, tuple)) else [a["shift"]]
    if a.get("axis") is None:
        raise ExportError(f"{g.here()}: keras.ops.roll without an axis")
    x = g.value(a["x"])
    for shift, axis in zip(shifts, _axes(a["axis"], len(a["x"].shape))):
        at = int(-shift % a["x"].shape[axis])
        if at:
            tail = g.node("Slice", [x, g.ints([at]), g.ints([2 ** 31]), g.ints([axis])])
            head = g.node("Slice", [x, g.ints([0]), g.ints([at]), g.ints([axis])])
            x = g.node("Concat", [tail, head], axis=axis)
    return x


@_op("get_item")
def _get_item(g: Converter, a: dict, out: list[Any]) -> str:
    key = a["key"] if isinstance(a["key"], tuple) else (a["key"],)
    rank = len(a["x"].shape)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        missing = rank - sum(1 for k in key if k is not None and k is not Ellipsis)
        key = key[:at] + (slice(None),) * missing + key[at + 1:]
    x, axis = g.value(a["x"]), 0
    starts, ends, axes, steps, drop, new = [], [], [], [], [], []
    for k in key:
        if k is None:
            new.append(axis - len(drop) + len(new))
        elif isinstance(k, slice):
            if (k.start, k.stop, k.step) != (None, None, None):
                step = k.step or 1
                starts.append(k.start if k.start is not None else (0 if step > 0 else 2 ** 31 - 1))
                ends.append(k.stop if k.stop is not None else (2 ** 31 - 1 if step > 0 else -(2 ** 31)))
                axes.append(axis)
                steps.append(step)
            axis += 1
        elif isinstance(k, (int, np.integer)):
            starts.append(int(k))
            ends.append(int(k) + 1 if k != -1 else 2 ** 31 - 1)
            axes.append(axis)
            steps.append(1)
            drop.append(axis)
            axis += 1
        else:
            raise ExportError(f"{g.here()}: x[...] with a tensor as an index; keras.ops.take does this")
    if axes:
        x = g.node("Slice", [x, g.ints(starts), g.ints(ends), g.ints(axes), g.ints(steps)])
    if drop:
        x = g.node("Squeeze", [x, g.ints(drop)])
    return g.node("Unsqueeze", [x, g.ints(new)]) if new else x


@_op("slice")
def _slice(g: Converter, a: dict, out: list[Any]) -> str:
    starts, shape = a["start_indices"], a["shape"]
    if isinstance(starts, KerasTensor):
        raise ExportError(f"{g.here()}: keras.ops.slice with a tensor as its start")
    rank = len(shape)
    ends = [2 ** 31 - 1 if size % g.batch == 0 else s + size for s, size in zip(starts, shape)]
    return g.node("Slice", [g.value(a["inputs"]), g.ints(starts), g.ints(ends), g.ints(range(rank))])


@_op("take")
def _take(g: Converter, a: dict, out: list[Any]) -> str:
    x, axis = g.value(a["x"]), a.get("axis")
    if axis is None:
        x, axis = g.node("Reshape", [x, g.ints([-1])]), 0
    indices = a["indices"]
    if not isinstance(indices, KerasTensor) or not _dtype(indices).startswith("int"):
        indices = g.value(indices, "int64")
    else:
        indices = g.value(indices)
    return g.node("Gather", [x, indices], axis=int(axis))


@_op("take_along_axis")
def _take_along_axis(g: Converter, a: dict, out: list[Any]) -> str:
    return g.node("GatherElements", [g.value(a["x"]), g.value(a["indices"], "int64")], axis=int(-1 if a["axis"] is None else a["axis"]))


@_op("one_hot")
def _one_hot(g: Converter, a: dict, out: list[Any]) -> str:
    x = g.value(a["x"], "int64")
    axis = int(a["axis"]) % len(out[0].shape)
    classes = g.node("Reshape", [g.ints(range(a["num_classes"])), g.ints([-1] + [1] * (len(out[0].shape) - axis - 1))])
    return g.node("Cast", [g.node("Equal", [g.node("Unsqueeze", [x, g.ints([axis])]), classes])], to=_TYPES[_dtype(out[0])])


@_op("multi_hot")
def _multi_hot(g: Converter, a: dict, out: list[Any]) -> str:
    x = g.value(a.get("inputs", a.get("x")), "int64")
    rank = len(a.get("inputs", a.get("x")).shape)
    equal = g.node("Equal", [g.node("Unsqueeze", [x, g.ints([rank])]), g.ints(range(a["num_classes"]))])
    hot = g.node("Cast", [equal], to=TensorProto.INT32)
    if rank > 1:
        hot = g.node("ReduceMax", [hot, g.ints([rank - 1])], keepdims=0)
    return g.node("Cast", [hot], to=_TYPES[_dtype(out[0])])


def _triangle(upper: int) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        x = g.value(a["x"], "int32") if _dtype(out[0]) == "bool" else g.value(a["x"])
        made = g.node("Trilu", [x, g.constant(np.asarray(a.get("k", 0), np.int64))], upper=upper)
        return g.node("Cast", [made], to=TensorProto.BOOL) if _dtype(out[0]) == "bool" else made
    return make


_OPS["triu"], _OPS["tril"] = _triangle(1), _triangle(0)


# -------------------------------------------------------------------- convolutions and pools: channels last in Keras, first in ONNX


def _channels_first(g: Converter, x: str, rank: int) -> str:
    if x in g._nchw:
        return g._nchw[x]
    return g.node("Transpose", [x], perm=[0, rank - 1, *range(1, rank - 1)])


def _channels_last(g: Converter, x: str, rank: int) -> str:
    made = g.node("Transpose", [x], perm=[0, *range(2, rank), 1])
    g._nchw[made] = x
    return made


def _is_last(a: dict) -> bool:
    return (a.get("data_format") or "channels_last") == "channels_last"


def _each(value: Any, spatial: int) -> list[int]:
    return [int(value)] * spatial if np.ndim(value) == 0 else [int(v) for v in value]


def _spatial(g: Converter, a: dict, x: Any) -> tuple[str, int]:
    rank = len(x.shape)
    return (_channels_first(g, g.value(x), rank) if _is_last(a) else g.value(x)), rank


def _finish(g: Converter, a: dict, x: str, rank: int) -> str:
    return _channels_last(g, x, rank) if _is_last(a) else x


def _convolve(g: Converter, a: dict, x: str, rank: int, kernel: np.ndarray | str, strides: Any, group: int, size: Any) -> str:
    """`kernel`: [out, in / group, ...]; `padding` is same, valid or causal."""
    n = rank - 2
    padding = a["padding"]
    if padding == "causal":
        reach = (size[0] - 1) * _each(a["dilation_rate"], n)[0]
        return g.node("Conv", [x, kernel], group=group, strides=_each(strides, n), dilations=_each(a["dilation_rate"], n), pads=[reach, 0])
    return g.node("Conv", [x, kernel], group=group, strides=_each(strides, n), dilations=_each(a["dilation_rate"], n),
                  pads=_same_pads(a, size, strides, n) if padding == "same" else None)


def _same_pads(a: dict, size: Any, strides: Any, n: int) -> list[int]:
    shape = a["inputs"].shape[1:-1] if _is_last(a) else a["inputs"].shape[2:]
    begin, end = [], []
    for length, kernel, stride, dilation in zip(shape, size, _each(strides, n), _each(a["dilation_rate"], n)):
        total = max((-(-length // stride) - 1) * stride + (kernel - 1) * dilation + 1 - length, 0)
        begin.append(total // 2)
        end.append(total - total // 2)
    return begin + end


def _numbers(g: Converter, x: Any) -> np.ndarray | None:
    if isinstance(x, KerasTensor):
        return None
    return backend.convert_to_numpy(x.value if isinstance(x, keras.Variable) else x)


def _kernel(g: Converter, x: Any, order: list[int]) -> str:
    numbers = _numbers(g, x)
    if numbers is None:
        return g.node("Transpose", [g.value(x)], perm=order)
    return g.constant(numbers.transpose(order), name=getattr(x, "path", "kernel"))


@_op("conv")
def _conv(g: Converter, a: dict, out: list[Any]) -> str:
    x, rank = _spatial(g, a, a["inputs"])
    kernel = a["kernel"]
    channels = a["inputs"].shape[-1 if _is_last(a) else 1]
    made = _convolve(g, a, x, rank, _kernel(g, kernel, [rank - 1, rank - 2, *range(rank - 2)]), a["strides"], channels // kernel.shape[-2],
                     kernel.shape[:-2])
    return _finish(g, a, made, rank)


def _depthwise(g: Converter, a: dict, x: str, rank: int, kernel: Any) -> str:
    numbers = _numbers(g, kernel)
    if numbers is None:
        raise ExportError(f"{g.here()}: a depthwise kernel that the model computes")
    *size, channels, multiplier = numbers.shape
    kernel = np.moveaxis(numbers.reshape(*size, channels * multiplier), -1, 0)[:, None]
    return _convolve(g, a, x, rank, g.constant(kernel), a["strides"], channels, size)


@_op("depthwise_conv")
def _depthwise_conv(g: Converter, a: dict, out: list[Any]) -> str:
    x, rank = _spatial(g, a, a["inputs"])
    return _finish(g, a, _depthwise(g, a, x, rank, a["kernel"]), rank)


@_op("separable_conv")
def _separable_conv(g: Converter, a: dict, out: list[Any]) -> str:
    x, rank = _spatial(g, a, a["inputs"])
    x = _depthwise(g, a, x, rank, a["depthwise_kernel"])
    point = _kernel(g, a["pointwise_kernel"], [rank - 1, rank - 2, *range(rank - 2)])
    return _finish(g, a, g.node("Conv", [x, point]), rank)


@_op("conv_transpose")
def _conv_transpose(g: Converter, a: dict, out: list[Any]) -> str:
    x, rank = _spatial(g, a, a["inputs"])
    n = rank - 2
    kernel = a["kernel"]  # [..., out, in]
    strides, dilations, size = _each(a["strides"], n), _each(a["dilation_rate"], n), kernel.shape[:n]
    given = a["inputs"].shape[1:-1] if _is_last(a) else a["inputs"].shape[2:]
    made = out[0].shape[1:-1] if _is_last(a) else out[0].shape[2:]
    begin, end, extra = [], [], []
    for i in range(n):
        reach = (size[i] - 1) * dilations[i] + 1
        total = (given[i] - 1) * strides[i] + reach - made[i]  # what is cut off
        if a["padding"] == "same":
            full = max(reach - strides[i], 0) if a.get("output_padding") is None else total
            first = full // 2
        else:
            first = 0
        begin.append(max(first, 0))
        end.append(max(total - first, 0))
        extra.append(max(first - total, 0))
    node = g.node("ConvTranspose", [x, _kernel(g, kernel, [n + 1, n, *range(n)])], strides=strides, dilations=dilations, pads=begin + end,
                  output_padding=extra if any(extra) else None)
    return _finish(g, a, node, rank)


def _pool(op: str) -> Callable:
    def make(g: Converter, a: dict, out: list[Any]) -> str:
        x, rank = _spatial(g, a, a["inputs"])
        n = rank - 2
        extra = {"count_include_pad": 0} if op == "AveragePool" else {}
        node = g.node(op, [x], kernel_shape=_each(a["pool_size"], n), strides=_each(a["strides"] or a["pool_size"], n),
                      auto_pad="SAME_UPPER" if a["padding"] == "same" else "VALID", **extra)
        return _finish(g, a, node, rank)
    return make


_OPS["max_pool"], _OPS["average_pool"] = _pool("MaxPool"), _pool("AveragePool")


@_op("adaptive_average_pool", "adaptive_max_pool")
def _adaptive_pool(g: Converter, a: dict, out: list[Any]) -> str:
    raise ExportError(f"{g.here()}: an adaptive pool: use a pool of a fixed size")


@_layer("Conv1D", "Conv2D", "Conv3D")
def _conv_layer(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    """With groups, Keras finds no shape of its operation for symbols."""
    if layer.groups == 1:
        return [g.value(x) for x in tree.flatten(g.enter(layer, args, kwargs))]
    a = {"inputs": args[0], "kernel": layer.kernel, "strides": layer.strides, "padding": layer.padding, "data_format": layer.data_format,
         "dilation_rate": layer.dilation_rate}
    x = KerasTensor(out[0].shape, _dtype(out[0]))
    g.name(x, _conv(g, a, [x]))
    if layer.use_bias:
        x = x + layer.bias if _is_last(a) else x + keras.ops.reshape(layer.bias, (-1, *[1] * layer.rank))
    if layer.activation is not None:
        x = layer.activation(x)
    g.walk(x)
    return [g.value(x)]


@_layer("Resizing")
def _resizing(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    mode = {"nearest": "nearest", "bilinear": "linear"}.get(layer.interpolation)
    if mode is None or getattr(layer, "antialias", False) or layer.crop_to_aspect_ratio or layer.pad_to_aspect_ratio:
        raise ExportError(f"{g.here()}: only bilinear and nearest, without antialias and without an aspect ratio")
    a = {"data_format": layer.data_format}
    x = KerasTensor(args[0].shape, _dtype(out[0]))
    g.name(x, g.value(args[0], _dtype(out[0])))
    value, rank = _spatial(g, a, x)
    kept = g.node("Slice", [g.node("Shape", [value]), g.ints([0]), g.ints([2])])
    sizes = g.node("Concat", [kept, g.ints([layer.height, layer.width])], axis=0)
    made = g.node("Resize", [value, "", "", sizes], mode=mode, coordinate_transformation_mode="half_pixel",
                  nearest_mode="floor" if mode == "nearest" else None)
    return [_finish(g, a, made, rank)]


@_layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def _upsampling(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    x = args[0]
    rank = len(x.shape)
    mode = {"nearest": "nearest", "bilinear": "linear"}.get(getattr(layer, "interpolation", "nearest"))
    if mode is None:
        raise ExportError(f"{g.here()}: the interpolation {layer.interpolation}")
    a = {"data_format": getattr(layer, "data_format", None)}
    value, _ = _spatial(g, a, x)
    scales = g.constant(np.asarray([1, 1, *_each(layer.size, rank - 2)], np.float32))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if mode == "nearest" else \
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    return [_finish(g, a, g.node("Resize", [value, "", scales], **how), rank)]


# -------------------------------------------------------------------- normalization


@_op("batch_norm", "batch_normalization")
def _batch_norm(g: Converter, a: dict, out: list[Any]) -> str:
    x, axis, rank = a["x"], a["axis"] % len(a["x"].shape), len(a["x"].shape)
    mean, variance, scale, offset = (_numbers(g, a.get(key)) if a.get(key) is not None else None
                                     for key in ("mean", "variance", "scale", "offset"))
    shape = [1] * rank
    shape[axis] = x.shape[axis]
    factor = 1 / np.sqrt(variance.astype(np.float64) + a["epsilon"]) * (1 if scale is None else scale.astype(np.float64))
    shift = (0 if offset is None else offset.astype(np.float64)) - mean.astype(np.float64) * factor
    dtype = _dtype(out[0])
    scaled = g.node("Mul", [g.value(x, dtype), g.constant(factor.reshape(shape), dtype)])
    return g.node("Add", [scaled, g.constant(shift.reshape(shape), dtype)])


@_layer("BatchNormalization")
def _batch_norm_layer(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    return [_batch_norm(g, {"x": args[0], "axis": layer.axis, "epsilon": layer.epsilon, "mean": layer.moving_mean,
                            "variance": layer.moving_variance, "scale": layer.gamma if layer.scale else None,
                            "offset": layer.beta if layer.center else None}, out)]


def _same_layer(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    return [g.value(args[0], _dtype(out[0]))]


for _name in ("RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomErasing", "RandomFlip",
              "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
              "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
              "RandomElasticTransform", "RandAugment", "AugMix", "MixUp", "CutMix", "AlphaDropout", "Dropout",
              "GaussianDropout", "GaussianNoise"):
    _LAYERS[_name] = _same_layer


@_layer("Rescaling")
def _rescaling(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    x, dtype = args[0], _dtype(out[0])
    scaled = g.node("Mul", [g.value(x, dtype), g.constant(np.asarray(layer.scale), dtype)])
    return [g.node("Add", [scaled, g.constant(np.asarray(layer.offset), dtype)])]


@_layer("Normalization")
def _normalization(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    x, dtype = g.value(args[0], _dtype(out[0])), _dtype(out[0])
    mean, variance = (np.asarray(backend.convert_to_numpy(v), np.float64) for v in (layer.mean, layer.variance))
    deviation = np.maximum(np.sqrt(variance), backend.epsilon())
    if layer.invert:
        return [g.node("Add", [g.constant(mean, dtype), g.node("Mul", [x, g.constant(deviation, dtype)])])]
    return [g.node("Div", [g.node("Sub", [x, g.constant(mean, dtype)]), g.constant(deviation, dtype)])]


@_layer("CategoryEncoding")
def _category_encoding(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    rank = len(args[0].shape)
    x = g.value(args[0], "int64")
    if layer.output_mode == "one_hot":
        if args[0].shape[-1] == 1 and rank > 1:
            x = g.node("Squeeze", [x, g.ints([rank - 1])])
            rank -= 1
    elif rank == 1:
        x = g.node("Unsqueeze", [x, g.ints([1])])
        rank = 2
    equal = g.node("Equal", [g.node("Unsqueeze", [x, g.ints([rank])]), g.ints(range(layer.num_tokens))])
    hot = g.node("Cast", [equal], to=TensorProto.FLOAT)
    if layer.output_mode == "multi_hot":
        hot = g.node("ReduceMax", [hot, g.ints([rank - 1])], keepdims=0)
    elif layer.output_mode == "count":
        if kwargs.get("count_weights") is not None:
            weights = g.node("Unsqueeze", [g.value(kwargs["count_weights"], "float32"), g.ints([rank])])
            hot = g.node("Mul", [hot, weights])
        hot = g.node("ReduceSum", [hot, g.ints([rank - 1])], keepdims=0)
    return [hot if _dtype(out[0]) == "float32" else g.node("Cast", [hot], to=_TYPES[_dtype(out[0])])]


def _scaled(g: Converter, x: str, a: dict, axes: list[int], rank: int, shape: Any, scale: Any, offset: Any, dtype: str) -> str:
    wide = [shape[i] if i in axes else 1 for i in range(rank)]
    for op, v in (("Mul", scale), ("Add", offset)):
        if v is not None:
            x = g.node(op, [x, g.node("Reshape", [g.value(v, dtype), g.ints(wide)])])
    return x


@_op("layer_norm", "layer_normalization")
def _layer_norm(g: Converter, a: dict, out: list[Any]) -> str:
    x, dtype, rank = a["x"], _dtype(out[0]), len(a["x"].shape)
    axes = _axes(a["axis"], rank)
    value = g.value(x, dtype)
    mean, variance = _moments_of(g, value, axes, True)
    deviation = g.node("Sqrt", [g.node("Add", [variance, g.constant(np.asarray(a["epsilon"]), dtype)])])
    centered = value if a.get("rms_scaling") else g.node("Sub", [value, mean])
    return _scaled(g, g.node("Div", [centered, deviation]), a, axes, rank, x.shape, a.get("gamma"), a.get("beta"), dtype)


@_op("rms_norm", "rms_normalization")
def _rms_norm(g: Converter, a: dict, out: list[Any]) -> str:
    x, dtype, rank = a["x"], _dtype(out[0]), len(a["x"].shape)
    axes = _axes(a["axis"], rank)
    value = g.value(x, dtype)
    squares = g.node("ReduceMean", [g.node("Mul", [value, value]), g.ints(axes)], keepdims=1)
    root = g.node("Sqrt", [g.node("Add", [squares, g.constant(np.asarray(a["epsilon"]), dtype)])])
    return _scaled(g, g.node("Div", [value, root]), a, axes, rank, x.shape, a.get("scale"), None, dtype)


# -------------------------------------------------------------------- lookups


@_layer("StringLookup", "IntegerLookup")
def _lookup(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    if layer.output_mode != "int" or layer.invert or layer.num_oov_indices > 1:
        raise ExportError(f"{g.here()}: only output_mode int with at most one out-of-vocabulary index, not inverted")
    words = layer.get_vocabulary(include_special_tokens=True)
    oov = 0 if layer.num_oov_indices == 0 else (1 if layer.mask_token is not None else 0)
    default = oov if layer.num_oov_indices else -1
    pairs = [(w, i) for i, w in enumerate(words) if not (layer.num_oov_indices and i == oov)]
    numbers = [int(i) for _, i in pairs]
    if type(layer).__name__ == "StringLookup":
        keys = {"keys_strings": [str(w) for w, _ in pairs]}
        value = g.value(args[0])
    else:
        keys = {"keys_int64s": [int(w) for w, _ in pairs]}
        value = g.value(args[0], "int64")
    made = g.node("LabelEncoder", [value], domain="ai.onnx.ml", values_int64s=numbers, default_int64=default, **keys)
    return [made if _dtype(out[0]) == "int64" else g.node("Cast", [made], to=_TYPES[_dtype(out[0])])]


@_layer("Discretization")
def _discretization(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    if layer.output_mode != "int":
        raise ExportError(f"{g.here()}: only output_mode int")
    x = g.node("Unsqueeze", [g.value(args[0], "float32"), g.ints([len(args[0].shape)])])
    above = g.node("GreaterOrEqual", [x, g.constant(np.asarray(layer.bin_boundaries, np.float32))])
    counts = g.node("ReduceSum", [g.node("Cast", [above], to=TensorProto.INT64), g.ints([len(args[0].shape)])], keepdims=0)
    return [counts if _dtype(out[0]) == "int64" else g.node("Cast", [counts], to=_TYPES[_dtype(out[0])])]


@_layer("Hashing", "HashedCrossing", "TextVectorization")
def _refused(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    raise ExportError(f"{g.here()}: ONNX has no such operation; leave it out of the model, as a transform of a column")


@_layer("KerasVariable")
def _variable(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    return [g.value(layer.value)]


# -------------------------------------------------------------------- recurrences


@_layer("LSTM", "GRU", "SimpleRNN", "RNN")
def _recurrence(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    """A Scan over the steps, whose body is the cell's own `call`. A step that is masked repeats the state and the output."""
    x = args[0] if args else kwargs["sequences"]
    mask = kwargs.get("mask")
    mask = mask[0] if isinstance(mask, (list, tuple)) else mask
    given = kwargs.get("initial_state", args[1] if len(args) > 1 else None)
    cell, dtype = layer.cell, layer.compute_dtype
    sizes = tree.flatten(cell.state_size)
    value = g.value(x, dtype)
    batch = g.node("Slice", [g.node("Shape", [value]), g.ints([0]), g.ints([1])])

    def zeros(size: int) -> str:
        return g.node("Expand", [g.constant(np.zeros((1, 1), dtype)), g.node("Concat", [batch, g.ints([size])], axis=0)])

    start = [zeros(size) for size in sizes] if given is None else [g.value(s, dtype) for s in tree.flatten(given)]
    step, states = KerasTensor((g.batch, *x.shape[2:]), dtype), [KerasTensor((g.batch, size), dtype) for size in sizes]
    inputs = []
    for symbol, label in [*((s, "state") for s in states), (step, "step")]:
        inputs.append(g.fresh(label))
        g.name(symbol, inputs[-1])
    scanned = [value]
    last, kept = g.fresh("last"), g.fresh("kept")
    if mask is not None:  # the last output is a state, too
        start.append(zeros(cell.output_size))
        inputs = [*inputs[:-1], last, inputs[-1], kept]
        scanned.append(g.node("Unsqueeze", [g.value(mask, "bool"), g.ints([2])]))

    def make() -> list[str]:
        made, after = g.enter(cell, (step, tree.pack_sequence_as(cell.state_size, states) if len(sizes) > 1 else states), {})
        output, after = g.value(made, dtype), [g.value(s, dtype) for s in tree.flatten(after)]
        if mask is None:
            return [*after, output]
        after = [g.node("Where", [kept, new, old]) for new, old in zip(after, inputs)]
        other = g.constant(np.zeros((1, 1), dtype)) if layer.zero_output_for_mask else last
        output = g.node("Where", [kept, output, other])
        return [*after, output, output]

    body = g.subgraph(g.fresh(layer.name), inputs, make)
    count = len(scanned)
    results = g.node("Scan", [*start, *scanned], outputs=len(start) + 1, body=body, num_scan_inputs=count, scan_input_axes=[1] * count,
                     scan_input_directions=[int(layer.go_backwards)] * count, scan_output_axes=[1], scan_output_directions=[0])
    sequence = results[-1]
    if not layer.return_sequences:
        last_step = g.node("Slice", [sequence, g.ints([-1]), g.ints([2 ** 31 - 1]), g.ints([1])])
        sequence = g.node("Squeeze", [last_step, g.ints([1])]) if mask is None or layer.zero_output_for_mask else results[len(sizes)]
    return [sequence, *(results[:len(sizes)] if layer.return_state else [])]


@_layer("TimeDistributed")
def _time_distributed(g: Converter, layer: Any, args: tuple, kwargs: dict, out: list[Any]) -> list[str]:
    """The layer on all steps of all records at once."""
    x = args[0]
    flat = KerasTensor((x.shape[0] * x.shape[1], *x.shape[2:]), x.dtype)
    g.name(flat, g.node("Reshape", [g.value(x), g.ints([-1, *x.shape[2:]])]))
    inner = layer.layer
    made = tree.flatten(inner(flat))[0]
    g.walk(made)
    return [g.node("Reshape", [g.value(made), g.ints([-1, *out[0].shape[1:]])])]
