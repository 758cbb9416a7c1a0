"""Primitives of jax that sort, and that write to places: sort, top_k, scatter, dynamic_update_slice."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from cohort._jax_layout import Value, plain
from cohort._jax_ops import _Axis, _concatenate, _handles, _ids, _params, _taken


# -------------------------------------------------------------------- order


def _axis_last(t: Any, v: Value, axis: int) -> Value:
    """The value with an axis for each axis of the tensor, `axis` the last one."""
    return t.in_order(t.filled(v), [i for i in range(len(v.shape)) if i != axis] + [axis])


def _is_places(x: Any, axis: int) -> bool:
    """True for 0, 1, 2, ... along an axis."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu":
        return False
    places = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return bool((x == places).all())


@_handles("sort")
def _sort(t: Any, equation: Any, *xs: Any) -> Any:
    axis, keys = _params(equation, "dimension", "num_keys")
    first = t.as_value(xs[0])
    if first.shape[axis] % t.batch == 0:
        raise t.error("an order of the records of a batch")
    last = len(first.shape) - 1
    places = ""
    for x in reversed(xs[:keys]):  # the first key is the last to be sorted by, and equal ones keep their order
        v = _axis_last(t, t.as_value(x), axis)
        name = v.name if not places else t.graph.op("take_along_axis", [v.name, places], axis=last)
        order = t.graph.op("argsort", [name], axis=-1)
        places = order if not places else t.graph.op("take_along_axis", [places, order], axis=last)
    results = []
    for x in xs:
        v = _axis_last(t, t.as_value(x), axis)
        name = places if _is_places(x, axis) else t.graph.op("take_along_axis", [v.name, places], axis=last)
        results.append(Value(name, v.sizes, v.axes, v.shape, v.kind))
    return results


@_handles("top_k")
def _top_k(t: Any, equation: Any, x: Any) -> Any:
    (k,) = _params(equation, "k")
    v = t.as_value(x)
    axis = equation.params.get("axis", -1) % len(v.shape)
    if v.shape[axis] % t.batch == 0:
        raise t.error("the largest of the records of a batch")
    v = t.last(v, [axis])
    name = t.graph.op("top_k", [v.name], k=int(k))
    shape = [int(k) if i == axis else s for i, s in enumerate(v.shape)]
    sizes = v.sizes[:-1] + [int(k)]
    return [Value(name, sizes, v.axes, shape, v.kind), Value(t.graph.op("part", [name], index=1), sizes, v.axes, shape, "int")]


# -------------------------------------------------------------------- places


@_handles("dynamic_update_slice")
def _dynamic_update_slice(t: Any, equation: Any, x: Any, update: Any, *starts: Any) -> Any:
    if not all(isinstance(start, np.ndarray) for start in starts):
        raise t.error("a slice whose place is computed")
    v, u = t.as_value(x), t.as_value(update)
    return _updated(t, v, u, [min(max(int(s), 0), v.shape[i] - u.shape[i]) for i, s in enumerate(starts)], False)


def _updated(t: Any, x: Value, u: Value, starts: Sequence[int], adds: bool) -> Value:
    """x with u in a box that begins at `starts`, or added there."""
    axis = next((i for i in range(len(x.shape)) if u.shape[i] != x.shape[i]), None)
    if axis is None:
        return t.elementwise("add", x, u, kind=x.kind) if adds else u
    begin, end = starts[axis], starts[axis] + u.shape[axis]
    parts = [_taken(t, x, axis, range(begin))] if begin else []
    parts.append(_updated(t, _taken(t, x, axis, range(begin, end)), u, starts, adds))
    if end < x.shape[axis]:
        parts.append(_taken(t, x, axis, range(end, x.shape[axis])))
    return _concatenate(t, _Axis(axis), *parts)


@_handles("scatter", "scatter-add", "scatter_add")
def _scatter(t: Any, equation: Any, x: Any, indices: Any, updates: Any) -> Any:
    numbers, mode = _params(equation, "dimension_numbers", "mode")
    adds = equation.primitive.name != "scatter"
    v, u = t.as_value(x), t.as_value(updates)
    mapped = list(numbers.scatter_dims_to_operand_dims)
    batching = list(numbers.operand_batching_dims)
    inserted = list(numbers.inserted_window_dims)
    if isinstance(indices, np.ndarray) and not batching and indices.ndim == 1:  # one box
        for i in sorted(inserted):
            u = Value(u.name, u.sizes, u.axes[:i] + [()] + u.axes[i:], u.shape[:i] + [1] + u.shape[i:], u.kind)
        starts = [0] * len(v.shape)
        for place, i in zip(indices, mapped):
            starts[i] = int(place)
        if any(s < 0 or s + u.shape[i] > v.shape[i] for i, s in enumerate(starts)):
            raise t.error("an update outside of the array")
        return _updated(t, v, u, starts, adds)
    window = [i for i in range(len(v.shape)) if i not in inserted and i not in batching]
    whole = all(u.shape[at] == v.shape[i] for at, i in zip(numbers.update_window_dims, window))
    if sorted(inserted) != sorted(mapped) or not whole:
        raise t.error("an update of windows (scatter): use slices of static sizes")
    if any(v.shape[i] % t.batch == 0 for i in mapped):
        raise t.error("an update of records by places: write it for one record, and use jax.vmap")
    # [batching axes, axes of the window, places]: the same order for the array and the updates.
    rest = [i for i in range(len(u.shape)) if i not in numbers.update_window_dims]
    kept = list(numbers.scatter_indices_batching_dims)  # their places among the axes of the indices
    ids_rest = [n for n in range(len(rest)) if n not in kept]
    count = math.prod(u.shape[rest[n]] for n in ids_rest)
    v = _permuted(v, [*batching, *window, *mapped])
    lead = v.shape[:len(batching) + len(window)]
    sizes = v.shape[len(lead):]
    size = math.prod(sizes)
    u = _permuted(u, [*(rest[n] for n in kept), *numbers.update_window_dims, *(rest[n] for n in ids_rest)])
    u = t.in_order(t.filled(t.view(u, [*lead, count])))
    flat = t.in_order(t.filled(t.view(t.filled(v), [*lead, size])))
    clips = "CLIP" in str(mode)
    if isinstance(indices, np.ndarray) and not batching:
        places = _static_places(indices, sizes, clips)
        name = _written(t, flat, u, places, adds)
    else:
        if len(mapped) != 1:
            raise t.error("an update at computed places of several axes")
        ids = _ids(t, t.as_value(indices))
        if any(s % t.batch == 0 for n, s in enumerate(ids.shape) if n not in kept):
            raise t.error("sums over the records of a batch: write the function for one record, and use jax.vmap")
        ids = _permuted(ids, [*kept, *ids_rest])
        ids = t.view(t.filled(ids), [*ids.shape[:len(kept)], *(1 for _ in window), count])
        if clips:
            ids = t.with_numbers("minimum", t.with_numbers("maximum", ids, 0, kind="int"), size - 1, kind="int")
        ids = t.in_order(t.filled(ids))
        name = _added(t, flat, ids.name, u) if adds else _set(t, flat, ids, u)
    y = t.view(plain(name, [*lead, size], v.kind), [*lead, *sizes])
    return _permuted(y, [int(i) for i in np.argsort([*batching, *window, *mapped])])


def _permuted(v: Value, order: Sequence[int]) -> Value:
    return Value(v.name, v.sizes, [v.axes[i] for i in order], [v.shape[i] for i in order], v.kind)


def _static_places(indices: np.ndarray, sizes: Sequence[int], clips: bool) -> np.ndarray:
    """The places of indices in the flat axes; that after the last one for an index outside."""
    flat = np.zeros(indices.shape[:-1], np.int64)
    outside = np.zeros(indices.shape[:-1], bool)
    for n, size in enumerate(sizes):
        at = indices[..., n].astype(np.int64)
        outside |= (at < 0) | (at >= size)
        flat = flat * size + np.clip(at, 0, size - 1)
    return (flat if clips else np.where(outside, math.prod(sizes), flat)).reshape(-1)


def _added(t: Any, x: Value, places: str, u: Value) -> str:
    return t.graph.op("add_along_axis", [x.name, places, u.name], axis=len(x.sizes) - 1)


def _written(t: Any, x: Value, u: Value, places: np.ndarray, adds: bool) -> str:
    """x with u at places that are numbers, along the last axis."""
    last = len(x.sizes) - 1
    if adds:
        return _added(t, x, t.graph.constant(places.reshape([1] * last + [-1])), u)
    sources = list(range(x.sizes[-1]))
    for n, place in enumerate(places):
        if place < x.sizes[-1]:
            sources[place] = x.sizes[-1] + n
    return t.graph.op("take", [t.graph.op("concatenate", [x.name, u.name], axis=last)], indices=sources, axis=last)


def _set(t: Any, x: Value, ids: Value, u: Value) -> str:
    """x with u at computed places, each of which may be there once."""
    zeros = Value(t.graph.op("zeros_like", [x.name]), x.sizes, x.axes, x.shape, x.kind)
    ones = plain(t.graph.constant(np.ones([1] * len(u.sizes[:-1]) + [u.sizes[-1]])), [1] * len(u.sizes[:-1]) + [u.sizes[-1]], "float")
    there = t.graph.op("greater", [_added(t, zeros, ids.name, ones)], x2=0.5)
    return t.graph.op("where", [there, _added(t, zeros, ids.name, u), x.name])
