"""Keras 2 (tf_keras): functional and sequential models of layers that Cohort has, by their JSON."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tf_keras

from cohort._classes import Classes
from cohort._graph import TraceError


class JsonModel:
    """A model as `model: {keras_json: FILE}` of a job, with the part of `Graph` that `fit` uses."""

    def __init__(self, model: Any):
        if not getattr(model, "_is_graph_network", False):
            raise TraceError(f"{model.name}: a subclassed model of tf_keras cannot be traced: build it with Keras 3 (`import keras`), or as a "
                             f"functional or sequential model")
        self.name = model.name
        self.outputs = list(model.output_names)
        self.layers = [{"Input": {"name": i.name.split(":")[0], "shape": list(i.shape[1:])}} for i in model.inputs]
        self.values: dict[str, Any] = {}
        self._model = model

    def save(self, path: str | os.PathLike) -> None:
        """Writes model.json and model.weights.h5 beside `path`."""
        folder = os.path.dirname(os.fspath(path))
        with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
            file.write(self._model.to_json())
        self._model.save_weights(os.path.join(folder, "model.weights.h5"))

    @staticmethod
    def job_keys() -> dict[str, Any]:
        return {"model": {"keras_json": "model.json"}, "initial_weights": {"path": "model.weights.h5"}}


def compile_keys(model: Any) -> dict[str, Any]:
    """Returns loss, loss weights, metrics and optimizer of `model.compile()`."""
    if model.optimizer is None or model.loss is None:
        raise TypeError(f"{model.name}: call model.compile(optimizer, loss) first")
    classes = Classes.of_programs()

    def plain(given: Any, kind: str) -> Any:
        if isinstance(given, dict):
            return {name: plain(x, kind) for name, x in given.items()}
        if isinstance(given, (list, tuple)):
            return [plain(x, kind) for x in given]
        if given is None or isinstance(given, str):
            return given
        if hasattr(given, "__name__") and getattr(given, "__module__", "").startswith("tf_keras."):
            return given.__name__
        return classes.object_of(given, kind)

    keys = {"optimizer": plain(model.optimizer, "optimizers"), "loss": plain(model.loss, "losses")}
    metrics = getattr(model.compiled_metrics, "_user_metrics", None)
    if metrics:
        keys["metrics"] = plain(metrics, "metrics")
    weights = getattr(model.compiled_loss, "_user_loss_weights", None)
    if weights is not None:
        keys["loss_weights"] = weights
    return keys


def assign(model: Any, values: dict[str, np.ndarray]) -> None:
    """Gives the model the values of a checkpoint by the names of its variables."""
    for variable in model.weights:
        name = variable.name.split(":")[0]
        if name not in values:
            raise TraceError(f"the checkpoint has no values for the variable {name}; it has {', '.join(values)}")
        variable.assign(values[name].reshape(variable.shape))


Model = tf_keras.Model
