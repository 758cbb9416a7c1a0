"""Tensors of a traced jax function as values of a graph.

A tensor is a value of the graph and a *layout*: which of the value's axes make which axis of the tensor. Transpositions,
reshapes and broadcasts change the layout alone. So the batch stays the first axis of every value, as Cohort needs it, wherever
the function moves it, and a broadcast costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from cohort._graph import Graph, TraceError

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(eq=False)
class Value:
    """A tensor of the traced function.

    name: of the value in the graph, whose axes have the sizes `sizes`.
    axes: the axes of the value that make each axis of the tensor; an axis without any repeats what is there.
    shape: of the tensor.
    kind: "float", "int" or "bool".
    """

    name: str
    sizes: list[int]
    axes: list[tuple[int, ...]]
    shape: list[int]
    kind: str = "float"

    def size(self, axis: int) -> int:
        """The size of an axis in the graph: 1 if the tensor repeats along it."""
        return math.prod(self.sizes[i] for i in self.axes[axis])

    def repeats(self, axis: int) -> bool:
        return self.shape[axis] != self.size(axis)


def plain(name: str, shape: Sequence[int], kind: str) -> Value:
    """A tensor whose layout is that of its value."""
    return Value(name, list(shape), [(i,) for i in range(len(shape))], list(shape), kind)


def _cuts(groups: Sequence[Sequence[int]]) -> list[int] | None:
    """Common factors of several factorings of one size, or None if there are none."""
    cuts: set[int] = set()
    for factors in groups:
        have = 1
        for factor in factors:
            have *= factor
            cuts.add(have)
    previous, result = 1, []
    for cut in sorted(c for c in cuts if c > 1):
        if cut % previous:
            return None
        result.append(cut // previous)
        previous = cut
    return result


class Layouts:
    """Operations on tensors that respect their layouts."""

    def __init__(self, graph: Graph, batch: int) -> None:
        self.graph = graph
        self.batch = batch

    def error(self, what: str) -> TraceError:
        """The error at the place of the function that is traced."""
        raise NotImplementedError

    def as_value(self, x: Any) -> Value:
        """A tensor, or numbers as a constant of the graph."""
        raise NotImplementedError

    # ---------------------------------------------------------------- layouts

    def reshaped(self, name: str, sizes: Sequence[int], wanted: Sequence[int]) -> str:
        if list(sizes) == list(wanted):
            return name
        shape = [-1 if size and size % self.batch == 0 else size for size in wanted]
        return self.graph.op("reshape", [name], newshape=shape)

    def arranged(self, value: Value, groups: Sequence[Sequence[int]]) -> Value:
        """The value with one axis for each group of its axes. `groups` names all axes that are larger than 1, the batch first."""
        flat = [i for group in groups for i in group]
        order = flat + [i for i in range(len(value.sizes)) if i not in flat]
        batch = [i for i in flat if value.sizes[i] % self.batch == 0]
        if batch and any(value.sizes[i] > 1 for i in flat[: flat.index(batch[0])]):
            raise self.error("the result has an axis before that of the batch")
        name, sizes = value.name, value.sizes
        meaningful = [i for i in order if value.sizes[i] != 1]
        if meaningful != sorted(meaningful):
            name = self.graph.op("transpose", [name], axes=order)
            sizes = [value.sizes[i] for i in order]
        merged = [math.prod(value.sizes[i] for i in group) for group in groups]
        name = self.reshaped(name, sizes, merged)
        place = {i: g for g, group in enumerate(groups) for i in group}
        axes = [tuple(dict.fromkeys(place[i] for i in axis if i in place)) for axis in value.axes]
        return Value(name, merged, axes, list(value.shape), value.kind)

    def last(self, value: Value, axes: Sequence[int]) -> Value:
        """The value with one axis for each of these axes of the tensor, at the end and in this order."""
        value = self.filled(value, axes)
        tail = [list(value.axes[i]) for i in axes]
        taken = {i for group in tail for i in group}
        used = {i for axis in value.axes for i in axis}
        groups = [[i] for i in range(len(value.sizes)) if i not in taken and (value.sizes[i] != 1 or i in used)] + tail
        result = self.arranged(value, groups)
        for n, i in enumerate(axes):
            result.axes[i] = (len(groups) - len(tail) + n,)
        return result

    def in_order(self, value: Value, order: Sequence[int] | None = None) -> Value:
        """The value with exactly one axis for each axis of the tensor, in this order; axes along which it repeats have size 1."""
        order = list(range(len(value.axes))) if order is None else list(order)
        result = self.arranged(value, [list(value.axes[i]) for i in order])
        axes: list[tuple[int, ...]] = [()] * len(order)
        for place, i in enumerate(order):
            axes[i] = (place,)
        return Value(result.name, result.sizes, axes, list(value.shape), value.kind)

    def records(self) -> str:
        """Zeros of the shape [records]."""
        first = next((layer["Input"] for layer in self.graph.layers if "Input" in layer), None)
        if first is None:
            raise self.error("it depends on the number of records of a batch, and the function has no inputs")
        name = first["name"] if first["dtype"].startswith("float") else self.graph.op("cast", [first["name"]], dtype=self.graph.dtype)
        flat = self.graph.op("reshape", [name], newshape=[-1, max(1, math.prod(first["shape"]))])
        return self.graph.op("zeros_like", [self.graph.op("sum", [flat], axis=[1])])

    def filled(self, value: Value, axes: Sequence[int] | None = None) -> Value:
        """The value without repetition along these axes of the tensor, or along all."""
        axes = [i for i in (range(len(value.axes)) if axes is None else axes) if value.repeats(i)]
        if not axes:
            return value
        kind = value.kind
        value = self.cast(value, "float") if kind != "float" else value
        shape = [value.shape[i] if i in axes and value.shape[i] % self.batch else 1 for i in range(len(value.shape))]
        zeros = plain(self.graph.constant(np.zeros(shape)), shape, "float")
        if any(value.shape[i] % self.batch == 0 for i in axes):
            at = next(i for i in axes if value.shape[i] % self.batch == 0)
            if value.shape[at] != self.batch:
                raise self.error("an axis that repeats for each record together with others")
            rows = Value(self.records(), [self.batch], [(0,) if i == at else () for i in range(len(shape))],
                         [self.batch if i == at else 1 for i in range(len(shape))], "float")
            zeros = self.elementwise("add", rows, zeros)
        return self.cast(self.elementwise("add", value, zeros), kind)

    def split(self, value: Value, factors: dict[int, list[int]]) -> Value:
        """Splits axes of the value into factors."""
        sizes: list[int] = []
        parts: dict[int, tuple[int, ...]] = {}
        for i, size in enumerate(value.sizes):
            mine = factors.get(i, [size])
            parts[i] = tuple(range(len(sizes), len(sizes) + len(mine)))
            sizes.extend(mine)
        name = self.reshaped(value.name, value.sizes, sizes)
        return Value(name, sizes, [tuple(p for i in axis for p in parts[i]) for axis in value.axes], list(value.shape), value.kind)

    def view(self, value: Value, shape: Sequence[int]) -> Value:
        """The same numbers in the same order with other axes."""
        shape = list(shape)
        kept: list[int] = []  # new axes along which the value repeats
        old = list(range(len(value.shape)))
        # Axes of both shapes, from left to right, in the smallest groups of equal size.
        groups: list[tuple[list[int], list[int]]] = []
        i = j = 0
        while i < len(value.shape) or j < len(shape):
            mine: list[int] = []
            theirs: list[int] = []
            a = b = 1
            while not mine and not theirs or a != b:
                if a <= b and i < len(value.shape):
                    mine.append(i)
                    a *= value.shape[i]
                    i += 1
                else:
                    theirs.append(j)
                    b *= shape[j]
                    j += 1
            groups.append((mine, theirs))
        fill = []
        for mine, theirs in groups:
            if any(value.repeats(n) for n in mine):
                if all(value.size(n) == 1 for n in mine):
                    kept += theirs
                    old = [n for n in old if n not in mine]
                else:
                    fill += mine
        value = self.filled(value, fill)
        rest = Value(value.name, value.sizes, [value.axes[n] for n in old], [value.shape[n] for n in old], value.kind)
        result = self._view(rest, [size for n, size in enumerate(shape) if n not in kept])
        axes = iter(result.axes)
        return Value(result.name, result.sizes, [() if n in kept else next(axes) for n in range(len(shape))], shape, value.kind)

    def _view(self, value: Value, shape: list[int]) -> Value:
        atoms = [i for axis in value.axes for i in axis if value.sizes[i] != 1]
        left = [value.sizes[i] for i in atoms]
        factors: dict[int, list[int]] = {i: [] for i in atoms}
        plan: list[list[tuple[int, int]]] = []  # for each axis: atoms and the numbers of their parts
        at = 0
        for size in shape:
            mine, have = [], 1
            while have < size:
                need = size // have
                if at >= len(atoms) or size % have or (need % left[at] if left[at] <= need else left[at] % need):
                    return self._copied(value, shape)
                take = min(left[at], need)
                mine.append((atoms[at], len(factors[atoms[at]])))
                factors[atoms[at]].append(take)
                left[at] //= take
                have *= take
                if left[at] == 1:
                    at += 1
            plan.append(mine)
        starts: dict[int, int] = {}
        sizes: list[int] = []
        for i, size in enumerate(value.sizes):
            starts[i] = len(sizes)
            sizes += factors.get(i) or [size]
        name = self.reshaped(value.name, value.sizes, sizes)
        return Value(name, sizes, [tuple(starts[a] + n for a, n in axis) for axis in plan], shape, value.kind)

    def _copied(self, value: Value, shape: list[int]) -> Value:
        """A view across axes of the value: all axes in the order of the tensor, and a reshape."""
        value = self.arranged(value, [[i] for axis in value.axes for i in axis])
        return plain(self.reshaped(value.name, value.sizes, shape), shape, value.kind)

    # ---------------------------------------------------------------- elementwise

    def _refined(self, values: Sequence[Value], letters: Sequence[Sequence[Any]], factors: dict[Any, list[int]]) -> list[Value]:
        """Splits the axes of tensors, so that axes of one letter have the factors of the letter."""
        refined = []
        for v, mine in zip(values, letters):
            splits: dict[int, list[int]] = {}
            for axis, letter in zip(v.axes, mine):
                pending = list(factors[letter])
                for i in axis:
                    parts: list[int] = []
                    while math.prod(parts) < v.sizes[i]:
                        parts.append(pending.pop(0))
                    if v.sizes[i] > 1:
                        splits[i] = parts
            refined.append(self.split(v, splits))
        return refined

    def _factors(self, values: Sequence[Value], letters: Sequence[Sequence[Any]]) -> dict[Any, list[int]]:
        by_letter: dict[Any, list[list[int]]] = {}
        for v, mine in zip(values, letters):
            for axis, letter in zip(v.axes, mine):
                by_letter.setdefault(letter, []).append([v.sizes[i] for i in axis])
        result = {}
        for letter, groups in by_letter.items():
            factors = _cuts(groups)
            if factors is None:
                raise self.error("two reshapes of one axis that have no common factors")
            result[letter] = factors
        return result

    def aligned(self, values: Sequence[Value]) -> tuple[list[str], list[int], list[tuple[int, ...]], list[int]]:
        """Brings tensors that broadcast into one layout: their names, and sizes, axes and shape of the result."""
        rank = max(len(v.axes) for v in values)
        padded = []
        for v in values:
            missing = rank - len(v.axes)
            padded.append(Value(v.name, v.sizes, [()] * missing + v.axes, [1] * missing + v.shape, v.kind))
        letters = [range(rank)] * len(padded)
        factors = self._factors(padded, letters)
        refined = self._refined(padded, letters, factors)
        labels = {}
        for n, v in enumerate(refined):
            for axis in range(rank):
                for f, i in enumerate(i for i in v.axes[axis] if v.sizes[i] != 1):
                    labels[(n, i)] = (axis, f)
        lead = max(range(len(refined)), key=lambda n: (any(size % self.batch == 0 for size in refined[n].sizes),
                                                       sum(size > 1 for size in refined[n].sizes)))
        order = [labels[(lead, i)] for i in range(len(refined[lead].sizes)) if (lead, i) in labels]
        order += [(axis, f) for axis in range(rank) for f in range(len(factors[axis])) if (axis, f) not in order]
        sizes = [factors[axis][f] for axis, f in order]
        at = next((i for i, size in enumerate(sizes) if size % self.batch == 0), 0)
        order.insert(0, order.pop(at)) if order else None
        sizes.insert(0, sizes.pop(at)) if sizes else None
        names = []
        for n, v in enumerate(refined):
            where = {labels[(n, i)]: i for i in range(len(v.sizes)) if (n, i) in labels}
            groups = [[where[label]] if label in where else [] for label in order]
            while groups and not groups[0]:
                groups.pop(0)  # broadcasting adds them
            alone = not groups and len(v.sizes) <= len(order)
            names.append(v.name if alone else self.arranged(v, groups).name)
        axes = [tuple(order.index((axis, f)) for f in range(len(factors[axis]))) for axis in range(rank)]
        shape = [max(v.shape[i] for v in padded) for i in range(rank)]
        return names, sizes, axes, shape

    def elementwise(self, function: str, *operands: Any, kind: str | None = None, **config: Any) -> Value:
        """An operation of tensors, element by element."""
        values = [self.as_value(x) for x in operands]
        if len(values) == 1:
            v = values[0]
            return Value(self.graph.op(function, [v.name], **config), v.sizes, v.axes, v.shape, kind or v.kind)
        names, sizes, axes, shape = self.aligned(values)
        return Value(self.graph.op(function, names, **config), sizes, axes, shape, kind or values[-1].kind)

    def with_numbers(self, function: str, *operands: Any, kind: str | None = None) -> Value:
        """An operation of `x1` and `x2`, of which one may be a number for the whole tensor."""
        numbers = [number_of(x) for x in operands]
        at = next((n for n, x in enumerate(numbers) if x is not None and not isinstance(operands[1 - n], np.ndarray)), None)
        if at is None:
            return self.elementwise(function, *operands, kind=kind)
        v = self.as_value(operands[1 - at])
        shape = list(np.broadcast_shapes(tuple(v.shape), np.shape(operands[at])))
        axes = [()] * (len(shape) - len(v.axes)) + v.axes
        config = {"x2": numbers[1]} if at == 1 else {"x1": numbers[0]}
        return Value(self.graph.op(function, [v.name], **config), v.sizes, axes, shape, kind or v.kind)

    def cast(self, v: Value, kind: str) -> Value:
        if v.kind == kind:
            return v
        dtype = {"float": self.graph.dtype, "int": "int64", "bool": "bool"}[kind]
        return Value(self.graph.op("cast", [v.name], dtype=dtype), v.sizes, v.axes, v.shape, kind)

    # ---------------------------------------------------------------- products and reductions

    def contract(self, a: Value, b: Value, letters_a: list[str], letters_b: list[str], out: list[str]) -> Value:
        """Einstein's sum over the axes of two tensors."""
        a = self.filled(a, [i for i, letter in enumerate(letters_a) if letter not in out])
        b = self.filled(b, [i for i, letter in enumerate(letters_b) if letter not in out])
        factors = self._factors([a, b], [letters_a, letters_b])
        names: dict[tuple[str, int], str] = {}
        free = iter(_LETTERS)
        texts, operands = [], []
        for v, letters in zip(self._refined([a, b], [letters_a, letters_b], factors), (letters_a, letters_b)):
            v = self.arranged(v, [[i] for i in range(len(v.sizes)) if v.sizes[i] != 1])
            text = [""] * len(v.sizes)
            for axis, letter in zip(v.axes, letters):
                for f, i in enumerate(axis):
                    if (letter, f) not in names:
                        names[(letter, f)] = next(free)
                    text[i] = names[(letter, f)]
            texts.append("".join(text))
            operands.append(v)
        size_of = {c: factors[letter][f] for (letter, f), c in names.items()}
        kept = {c for (letter, _), c in names.items() if letter in out}
        order = [c for c in dict.fromkeys(texts[0] + texts[1]) if c in kept]
        at = next((i for i, c in enumerate(order) if size_of[c] % self.batch == 0), 0)
        if order:
            order.insert(0, order.pop(at))
        shapes = {**dict(zip(letters_b, b.shape)), **dict(zip(letters_a, a.shape))}
        axes = [tuple(order.index(names[(letter, f)]) for f in range(len(factors[letter]))) for letter in out]
        left, right = texts
        if len(left) > 1 and len(right) == 2 and left[-1] == right[0] and right[1] not in left and order == [*left[:-1], right[1]]:
            name = self.graph.op("matmul", [v.name for v in operands])
        else:
            name = self.graph.op("einsum", [v.name for v in operands], subscripts=f"{left},{right}->{''.join(order)}")
        return Value(name, [size_of[c] for c in order], axes, [shapes[letter] for letter in out])

    def reduced(self, function: str, v: Value, axes: Sequence[int], what: str, **config: Any) -> Value:
        """Reduces axes of a tensor."""
        if any(v.shape[i] % self.batch == 0 for i in axes if v.shape[i]):
            raise self.error(f"{what} over the records of a batch")
        v = self.filled(v, axes)
        over = sorted(i for axis in axes for i in v.axes[axis])
        kept = [i for i in range(len(v.sizes)) if i not in over]
        name = self.graph.op(function, [v.name], axis=over, **config) if over else v.name
        place = {i: n for n, i in enumerate(kept)}
        rest = [n for n in range(len(v.axes)) if n not in axes]
        reduced = [tuple(place[i] for i in v.axes[n]) for n in rest]
        return Value(name, [v.sizes[i] for i in kept], reduced, [v.shape[n] for n in rest], v.kind)

    def along(self, v: Value, axis: int, function: Callable[[str, int], str], size: int | None = None) -> Value:
        """A function of the last axis of a value, for one axis of the tensor; `size` is that of the axis afterwards."""
        v = self.last(v, [axis])
        name = function(v.name, len(v.sizes) - 1)
        size = v.shape[axis] if size is None else size
        return Value(name, v.sizes[:-1] + [size], v.axes, [size if n == axis else s for n, s in enumerate(v.shape)], v.kind)


def number_of(x: Any) -> float | int | None:
    """The number that all elements of an array are, or None."""
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return x
    if isinstance(x, np.ndarray) and x.dtype != bool and x.size and (x.size == 1 or (x == x.flat[0]).all()):
        number = x.flat[0].item()
        return number if math.isfinite(number) else None
    return None


def compact(array: np.ndarray) -> tuple[np.ndarray, list[bool]]:
    """The array with size 1 along the axes that repeat, and which axes do."""
    repeats = []
    for axis in range(array.ndim):
        first = np.take(array, [0], axis) if array.shape[axis] > 1 else array
        same = array.shape[axis] > 1 and bool((array == first).all())
        array = first if same else array
        repeats.append(same)
    return array, repeats
