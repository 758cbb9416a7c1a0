"""The model of a checkpoint: its layers, its columns and the values of its variables."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cohort import _programs
from cohort._run import checkpoint_values


class ExportError(ValueError):
    """A model that a format cannot express: says what, where, and what to do."""


@dataclass
class Layer:
    """A layer as a job has it, with all its arguments; an object among these is {"class_name", "config"}."""

    class_name: str
    name: str
    inputs: list[str]
    shares: str = ""  # the layer whose variables it uses
    masks: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)


@dataclass
class Transform:
    """A step of the preprocessing of columns."""

    class_name: str
    columns: list[str]
    output: str
    dtype: str
    config: dict[str, Any]


@dataclass
class TrainedModel:
    """The model of a checkpoint with its values."""

    checkpoint: str
    job: str
    name: str
    dtype: str  # that of floating values and variables
    layers: list[Layer]
    outputs: list[str]  # names of layers
    output_names: list[str]
    transforms: list[Transform]
    reads: dict[str, str]  # dtypes of columns
    targets: list[str]
    values: dict[str, np.ndarray]  # in the order in which the model declares them

    def values_of(self, layer: str) -> dict[str, np.ndarray]:
        """The values below a layer, in the order of Keras, by their names below it."""
        others = [other.name + "/" for other in self.layers if other.name != layer and other.name.startswith(layer + "/")]
        return {name[len(layer) + 1:]: value for name, value in self.values.items()
                if name.startswith(layer + "/") and not any(name.startswith(other) for other in others)}

    def column_of(self, layer: Layer) -> str:
        """The column that an Input reads."""
        return layer.config.get("feature") or layer.name


def path_of(given: Any) -> str:
    """The checkpoint, or the folder of checkpoints, that is meant: a path, a run directory, or what `fit` returned."""
    path = os.fspath(getattr(given, "run_dir", given) or "")
    if not path:
        raise ValueError("name a checkpoint, a folder of checkpoints, a run directory, or the History of cohort.fit")
    inner = os.path.join(path, "checkpoints")
    if os.path.isdir(inner):
        return inner
    folder, last = os.path.split(os.path.normpath(path))
    if last == "best" and not os.path.exists(path) and os.path.isdir(os.path.join(folder, "checkpoints")):
        return os.path.join(folder, "checkpoints", "best")
    return path


def read(given: Any) -> TrainedModel:
    """Reads the newest whole checkpoint of a folder, the one that is named, or the best one (`FOLDER/best`).

    Raises ProgramError if there is none, or a damaged one.
    """
    text = json.loads(_programs.output("inspect", "--json", path_of(given)))
    with tempfile.TemporaryDirectory(prefix="cohort-") as scratch:
        values = checkpoint_values(text["checkpoint"], scratch)
    model = text["model"]
    layers = [Layer(**layer) for layer in model["functional"]]
    transforms = [Transform(t["class_name"], t["columns"] or [t["column"]], t["output"] or t["columns"][0], t["dtype"], t["config"])
                  for t in text["transforms"]]
    return TrainedModel(
        text["checkpoint"], text["job"], model["name"], model["dtype"] or "float32", layers, model["outputs"], model["output_names"],
        transforms, {r["column"]: r["dtype"] for r in text["reads"] if r["dtype"]}, text["targets"], values)
