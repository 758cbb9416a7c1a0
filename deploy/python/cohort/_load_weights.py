"""`cohort.load_weights`: the values of a checkpoint for a model of a Python program."""

from __future__ import annotations

import json
import re
import tempfile
from typing import Any

import numpy as np

from cohort import _programs
from cohort._export_model import path_of
from cohort._frameworks import framework_of
from cohort._graph import Graph, TraceError, owner
from cohort._run import checkpoint_values
from cohort.external import ExternalStep


def load_weights(model: Any, checkpoint: Any) -> None:
    """Gives a model the trained values of a checkpoint of `cohort.fit`, in another process too.

    The model is traced as in `fit`, so it is made by the same code: `save_weights` of Keras and `state_dict` of PyTorch write its values then.

    Args:
        model: as for `cohort.fit`. A subclassed model of Keras need not be built: its inputs are those of the checkpoint.
        checkpoint: a checkpoint, a folder of checkpoints (the newest whole one counts), FOLDER/best, a run directory, or the History
            that `cohort.fit` returned.

    Raises:
        ValueError: the model has other layers or shapes than that of the checkpoint; names the first difference.
        ProgramError: there is no whole checkpoint.
    """
    framework = framework_of(model)
    there = json.loads(_programs.output("inspect", "--json", path_of(checkpoint)))
    layers = there["model"]["functional"]
    with tempfile.TemporaryDirectory(prefix="cohort-") as scratch:
        values = checkpoint_values(there["checkpoint"], scratch)
    if isinstance(model, ExternalStep):  # its variables have names, and its columns tell nothing about them
        framework.assign(None, model, values)
        return
    example = _example(layers)
    try:
        graph = framework.trace(model, example, None)
    except TraceError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{layer['name']} {layer['config']['shape']}" for layer in layers if layer["class_name"] == "Input")
        raise ValueError(f"{type(model).__name__} cannot be called with the inputs of the checkpoint ({shapes}): {error}") from error
    if isinstance(graph, Graph):
        values = _renamed(values, [(layer["class_name"], layer["name"]) for layer in layers],
                          [(name, body["name"]) for layer in graph.layers for name, body in layer.items()], model)
    framework.assign(graph, model, values)


def _example(layers: list[dict[str, Any]]) -> Any:
    """Two records of zeros: an array for one input; for several a dict by their names, or a list if they have none of their own."""
    columns = {layer["name"]: np.zeros((2, *layer["config"]["shape"]), _dtype(layer["config"].get("dtype")))
               for layer in layers if layer["class_name"] == "Input"}
    if len(columns) == 1:
        return next(iter(columns.values()))
    return list(columns.values()) if all(re.fullmatch(r"(input|keras_tensor)(_\d+)?", name) for name in columns) else columns


def _dtype(name: str | None) -> Any:
    return object if name == "string" else name or "float32"


def _renamed(values: dict[str, np.ndarray], there: list[tuple[str, str]], here: list[tuple[str, str]], model: Any) -> dict[str, np.ndarray]:
    """Values by the names that the layers have here: Keras counts its names on (dense_2) with each model of a process."""
    for i in range(max(len(there), len(here))):
        theirs, mine = (layers[i][0] if i < len(layers) else "none" for layers in (there, here))
        if theirs != mine:
            raise ValueError(f"{type(model).__name__} has other layers than the model of the checkpoint: layer {i} is {mine} here, and "
                             f"{theirs} there, {there[i][1] if i < len(there) else ''}")
    names = {theirs: mine for (_, theirs), (_, mine) in zip(there, here)}
    renamed = {}
    for name, value in values.items():
        layer = owner(name, names)
        renamed[name if layer is None else names[layer] + name[len(layer):]] = value
    return renamed
