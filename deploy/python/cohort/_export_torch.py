"""The `state_dict` of a checkpoint: of a traced module with its own names and layouts, of another model with those of the checkpoint."""

from __future__ import annotations

import base64
import json
import os
import zlib
from typing import Any

import numpy as np

from cohort._export_model import ExportError, TrainedModel
from cohort._safetensors import safe_open

KEY = "torch"  # in the metadata of model.cohort


def layout_of(graph: Any, module: Any) -> str:
    """Where each tensor of a module lies in the variables of its graph: an offset and a stride for each axis.

    Text for the metadata of model.cohort. `graph.variables` has a name of the state dict, or several, and a function that makes their
    arrays from a variable's.
    """
    state = {name: [list(t.shape), str(t.dtype).removeprefix("torch.")] for name, t in module.state_dict().items()}
    places: dict[str, Any] = {}
    for key, (target, back) in graph.variables.items():
        probe = np.arange(graph.values[key].size).reshape(graph.values[key].shape)
        made = back(probe)
        for name, array in [(target, made)] if isinstance(target, str) else zip(target, made):
            array = np.asarray(array)
            if array.size == np.prod(state[name][0]):
                places[name] = [key, _views(array)]
    # Two names of one tensor.
    by_memory: dict[tuple, str] = {}
    for name, t in module.state_dict().items():
        if name in places:
            by_memory[t.data_ptr(), tuple(t.shape)] = name
    for name, t in module.state_dict().items():
        same = by_memory.get((t.data_ptr(), tuple(t.shape)))
        if name not in places and same is not None and t.numel():
            places[name] = places[same]
    kept = {name: _packed(t.detach().cpu().numpy()) for name, t in module.state_dict().items()
            if name not in places and str(t.dtype) != "torch.bfloat16" and not t.is_sparse}
    return json.dumps({"state": state, "places": places, "kept": kept})


def _packed(array: np.ndarray) -> str:
    """The numbers of a tensor that training does not change, as text."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()


def _views(indices: np.ndarray) -> list[Any] | None:
    """The views that the numbers are when they stand below one another: a GRU has its gates in another order."""
    whole = _strides(indices)
    if whole is not None or indices.ndim == 0:
        return None if whole is None else [whole]
    steps = np.diff(indices.reshape(len(indices), -1), axis=0)
    breaks = np.flatnonzero((steps[1:] != steps[:-1]).any(axis=1)) + 1
    views, begin = [], 0
    for end in [*(int(b) + 1 for b in breaks), len(indices)]:
        if end > begin:
            views.append(_strides(indices[begin:end]))
            begin = end
    return None if len(views) > 64 or any(view is None for view in views) else views


def _strides(indices: np.ndarray) -> list[Any] | None:
    """The start, shape and strides of a view; None: the numbers are no view."""
    start = int(indices.reshape(-1)[0]) if indices.size else 0
    strides = [int(np.take(indices, 1, axis).reshape(-1)[0]) - start if size > 1 else 0 for axis, size in enumerate(indices.shape)]
    expected = np.full(indices.shape, start)
    for axis, stride in enumerate(strides):
        shape = [1] * indices.ndim
        shape[axis] = -1
        expected = expected + (np.arange(indices.shape[axis]) * stride).reshape(shape)
    return [start, list(indices.shape), strides] if (expected == indices).all() else None


def save(trained: TrainedModel, path: str) -> None:
    """Writes the file by `torch.save`; `torch.load(FILE)` returns the dict."""
    import torch

    torch.save({name: torch.from_numpy(array) for name, array in state_dict(trained).items()}, path)


def state_dict(trained: TrainedModel) -> dict[str, np.ndarray]:
    """The tensors by their names."""
    text = _layout(trained)
    if text is None:
        return {name: np.array(value) for name, value in trained.values.items()}
    layout = json.loads(text)
    arrays = {}
    for name, (shape, dtype) in layout["state"].items():
        if name not in layout["places"]:
            if name.endswith("num_batches_tracked"):
                arrays[name] = np.zeros(shape, np.int64)
            elif name in layout.get("kept", {}):  # a tensor that training does not change
                arrays[name] = np.frombuffer(zlib.decompress(base64.b64decode(layout["kept"][name])), dtype).reshape(shape).copy()
            continue
        key, views = layout["places"][name]
        if views is None:
            raise ExportError(f"{name}: the checkpoint has it in another order, which model.cohort does not tell; cohort.fit has left "
                              f"the trained weights in the module")
        value = np.ascontiguousarray(_value(trained, key)).reshape(-1)
        parts = [_view(value, *view, name=name) for view in views]
        arrays[name] = np.concatenate([part.reshape(-1) for part in parts]).reshape(shape).astype(dtype)
    return arrays


def _view(value: np.ndarray, start: int, sizes: list[int], strides: list[int], name: str) -> np.ndarray:
    """A view of the numbers of a variable. Raises ExportError if it leaves them."""
    inside = len(sizes) == len(strides) and start >= 0 and all(x >= 0 for x in [*sizes, *strides])
    if not inside or (0 not in sizes and start + sum((size - 1) * stride for size, stride in zip(sizes, strides)) >= value.size):
        raise ExportError(f"{name}: model.cohort tells a place outside the variable, which has {value.size} numbers: it is damaged, or of "
                          f"another model")
    return np.lib.stride_tricks.as_strided(value[start:], sizes, [stride * value.itemsize for stride in strides])


def _value(trained: TrainedModel, key: str) -> np.ndarray:
    if key in trained.values:
        return trained.values[key]
    layer, _, number = key.rpartition("/")
    return list(trained.values_of(layer).values())[int(number)]


def _layout(trained: TrainedModel) -> str | None:
    """What model.cohort of the run directory tells; None: the model was not traced from PyTorch, or the file is gone."""
    path = os.path.join(os.path.dirname(os.path.dirname(trained.checkpoint)), "model.cohort")
    if not os.path.exists(path):
        return None
    with safe_open(path, "np") as file:
        return (file.metadata() or {}).get(KEY)
