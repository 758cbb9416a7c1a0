"""Evaluates a traced graph with Keras, so that tracers can be tested without daemons."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src import backend

from cohort._graph import owner

_SLICE = {"...": Ellipsis, "None": None}


def _key(text: str) -> tuple:
    def item(part: str) -> Any:
        part = part.strip()
        if part in _SLICE:
            return _SLICE[part]
        if ":" in part:
            return slice(*(int(p) if p else None for p in part.split(":")))
        return int(part)

    return tuple(item(part) for part in text.split(","))


class Interpreter:
    """The layers of a Graph as Keras objects with the values of the graph."""

    def __init__(self, graph: Any):
        self.graph = graph
        self.objects: dict[str, keras.layers.Layer] = {}
        self.variables: dict[str, keras.Variable] = {}

    def __call__(self, inputs: dict[str, Any], training: bool = False) -> list[Any]:
        """The outputs for arrays by the names of the inputs."""
        values: dict[str, Any] = {}
        for layer in self.graph.layers:
            ((class_name, body),) = layer.items()
            values[body["name"]] = self._value(class_name, dict(body), values, inputs, training)
        outputs = [values[name] for name in self.graph.outputs]
        return [x[0] if isinstance(x, (list, tuple)) else x for x in outputs]

    def _value(self, class_name: str, body: dict[str, Any], values: dict[str, Any], inputs: dict[str, Any], training: bool) -> Any:
        name = body.pop("name")
        given = [values[n] for n in body.pop("inputs", [])]
        if class_name == "Input":
            return ops.reshape(ops.convert_to_tensor(inputs[name], dtype=body["dtype"]), (-1, *body["shape"]))
        if class_name == "Variable":
            if name not in self.variables:
                self.variables[name] = keras.Variable(self.graph.values[name], trainable=body["trainable"], name="variable", dtype=self.graph.dtype)
            return self.variables[name].value
        if class_name == "ops.part":
            return given[0][body["index"]] if isinstance(given[0], (list, tuple)) else given[0]
        given = [x[0] if isinstance(x, (list, tuple)) else x for x in given]
        if class_name == "ops.in_training":
            return given[0 if training else 1]
        if class_name.startswith("ops."):
            return self._operation(class_name[4:], body, given)
        given = [self._masked(x, values.get(mask)) for x, mask in zip(given, body.pop("masks", []) + [""] * len(given))]
        shares = body.pop("shares", None)
        layer = self.objects.get(shares or name) or self._layer(class_name, name, body, given)
        names = body.pop("input_names", None)
        keywords = {"training": training} if "training" in layer._call_signature.parameters else {}
        if names is not None:
            return layer(**dict(zip(names, given)), **keywords)
        several = len(given) > 1 and isinstance(layer, keras.layers.Layer) and class_name in (
            "Add", "Multiply", "Subtract", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
        return layer(given, **keywords) if several else layer(*given, **keywords)

    @staticmethod
    def _masked(x: Any, mask: Any) -> Any:
        """x with a mask of its own."""
        if mask is None:
            return x
        x = ops.copy(x)
        backend.set_keras_mask(x, mask)
        return x

    def _layer(self, class_name: str, name: str, body: dict[str, Any], given: list[Any]) -> keras.layers.Layer:
        config = {k: self._config(v) for k, v in body.items() if k not in ("input_names", "unbiased_variance")}
        layer = getattr(keras.layers, class_name).from_config({**config, "dtype": self.graph.dtype})
        keywords = {}
        if body.get("input_names"):
            layer(**dict(zip(body["input_names"], given)))
        elif class_name == "Concatenate" or len(given) > 1 and class_name in ("Add", "Multiply", "Subtract", "Average", "Maximum", "Minimum", "Dot"):
            layer(given)
        else:
            layer(*given, **keywords)
        weights = [w for w in layer.weights if "seed" not in w.path]
        names = {next(iter(layer.values()))["name"] for layer in self.graph.layers}
        values = [value for key, value in self.graph.values.items() if owner(key, names) == name and key != name]
        for w, value in zip(weights, values, strict=True):
            w.assign(value.reshape(w.shape))
        self.objects[name] = layer
        return layer

    def _config(self, value: Any) -> Any:
        if isinstance(value, dict) and len(value) == 1:
            ((class_name, config),) = value.items()
            if class_name[:1].isupper() and isinstance(config, dict):
                module = "keras.layers" if hasattr(keras.layers, class_name) else "keras.initializers"
                inner = {k: self._config(v) for k, v in config.items()}
                return {"module": module, "class_name": class_name, "config": inner, "registered_name": None}
        return tuple(value) if isinstance(value, list) else value

    def _operation(self, name: str, config: dict[str, Any], given: list[Any]) -> Any:
        config = dict(config)
        if name == "array":
            return ops.reshape(ops.convert_to_tensor(np.array(config["value"], config["dtype"])), config["shape"])
        if name == "get_item":
            return given[0][_key(config["key"])]
        if name == "add_along_axis":  # its axis is the last one
            x, index, values = given
            size = ops.shape(x)[-1]
            hot = ops.one_hot(ops.where(index < 0, index + size, index), size, dtype=x.dtype)
            return x + ops.sum(hot * ops.cast(values, x.dtype)[..., None], axis=-2)
        if name == "einsum":
            return ops.einsum(config["subscripts"], *given)
        names = config.pop("input_names", ["x2"] if "x1" in config else None)
        config.update({key: tuple(config[key]) for key in ("pool_size", "strides") if key in config})
        function = keras.activations.relu if name == "relu" else getattr(ops, name)
        if "x1" in config:
            return function(config.pop("x1"), *given, **config)
        if name in ("concatenate", "stack"):
            return function(given, **config)
        if names is not None:
            return function(**dict(zip(names, given)), **config)
        return function(*given, **config)
