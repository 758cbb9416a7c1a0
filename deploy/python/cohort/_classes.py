"""What Cohort has: the classes of `cohort reference --json`, and how the objects of Keras are written with them."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from functools import lru_cache, partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from cohort import _programs
from cohort._graph import TraceError

# Functions whose class in Keras has another name than the function.
_FUNCTIONS = {"re_lu": "relu", "arg_max": "argmax", "arg_min": "argmin"}
# Arguments of every Keras layer that say nothing here.
_COMMON = {"name", "dtype", "trainable", "build_config", "batch_shape", "input_shape", "data_format", "batch_input_shape", "sparse", "ragged",
           "registered_name", "activity_regularizer", "synchronized", "quantization_config"}


def snake_case(name: str) -> str:
    """LogicalAnd → logical_and, as Keras names operations."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class Classes:
    """The classes of the programs that will read a job."""

    def __init__(self, reference: dict[str, Any]):
        self.reference = reference
        self._aliases = {alias: name for name, entry in reference["layers"].items() for alias in entry.get("aliases", [])}

    @staticmethod
    @lru_cache
    def of_programs() -> "Classes":
        """Asks `cohort`. Raises ProgramError if it is not there."""
        return Classes(json.loads(_programs.output("reference", "--json")))

    # ---------------------------------------------------------------- layers

    def layer_name(self, layer: Any) -> str:
        """Cohort's name of a layer's class; Keras exports GroupedQueryAttention as GroupQueryAttention."""
        name = type(layer).__name__
        return self._aliases.get(name, name)

    def has_layer(self, layer: Any) -> bool:
        """True for a layer of Keras that Cohort has, with arguments that it takes. Raises TraceError for a recurrence of functions."""
        name = self.layer_name(layer)
        if not type(layer).__module__.startswith(("keras.src.layers.", "tf_keras.src.layers.")):
            return False
        if name not in self.reference["layers"] or name in ("Variable", "Input", "InputLayer"):
            return False
        if not _has_function(layer):
            return True
        if hasattr(layer, "cell") or hasattr(layer, "forward_layer"):
            raise TraceError(f"{layer.name}: an argument of {name} is a function of your own: use one of Keras by its name, or write the "
                             f"steps of the recurrence in a layer of your own")
        return False

    def config_of_layer(self, layer: Any, compute_dtype: str | None = None) -> dict[str, Any]:
        """The arguments of a layer, without those that have Keras' default and mean nothing here.

        compute_dtype: that of the model, in which a layer with a type of its own is float32.
        """
        known = self.reference["layers"][self.layer_name(layer)]["arguments"]
        config = {}
        for key, value in layer.get_config().items():
            if key == "trainable":
                if not value:
                    config[key] = False
                continue
            if key in _COMMON and key not in known:
                if key == "data_format" and value == "channels_first":
                    raise TraceError(f"{layer.name}: data_format channels_first is not supported: images are channels_last")
                continue
            if key in ("name", "dtype"):
                continue
            plain = self.plain(value, f"{layer.name}: {key}")
            if key not in known:
                if plain is not None and not _is_default(layer, key, value):
                    raise TraceError(f"{layer.name}: {self.layer_name(layer)} has no argument `{key}` in Cohort")
                continue
            if plain is None and known[key].get("default", "none") == "none":
                continue
            if known[key].get("planned") and _same(plain, known[key].get("default")):
                continue
            config[key] = plain
        if compute_dtype is not None and _dtype_of(layer, compute_dtype) is not None:
            config["dtype"] = "float32"
        learned = _adapted(layer)
        return {key: value for key, value in {**config, **learned}.items() if value is not None or key not in learned}

    def plain(self, value: Any, where: str) -> Any:
        """A serialized value of Keras as a job file has it."""
        if isinstance(value, dict):
            if "class_name" in value:
                if value["class_name"] in ("function", "__lambda__"):
                    raise TraceError(f"{where}: a function of your own is not supported here: use one of Keras by its name")
                config = {k: self.plain(v, where) for k, v in value.get("config", {}).items() if v is not None}
                config.pop("dtype", None)
                config.pop("name", None)
                return {value["class_name"]: config} if config else value["class_name"]
            return {k: self.plain(v, where) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(v, where) for v in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if hasattr(value, "tolist"):
            return value.tolist()
        raise TraceError(f"{where}: {value!r} is not supported")

    def call_of_layer(self, layer: Any, args: tuple, kwargs: dict) -> tuple[list[Any], dict[str, Any]]:
        """The tensors of a call in Cohort's order, and further arguments of the layer."""
        entry = self.reference["layers"][self.layer_name(layer)]
        call = entry["call"]
        config: dict[str, Any] = {}
        named = {k: v for k, v in kwargs.items() if v is not None and k != "training" and not is_mask(k)}
        if not call:
            tensors = []
            for x in args:
                tensors.extend(x if isinstance(x, (list, tuple)) else [x])
            for key in ("inputs", "sequences"):
                if key in named:
                    x = named.pop(key)
                    tensors.extend(x if isinstance(x, (list, tuple)) else [x])
            if named:
                raise TraceError(f"{layer.name}: the argument `{next(iter(named))}` of its call is not supported")
            return tensors, config
        given: dict[str, Any] = {}
        position = 0
        for x in args:
            for item in x if isinstance(x, (list, tuple)) else [x]:
                if position < len(call):
                    given[call[position]] = item
                position += 1
        for key, x in named.items():
            if key in call:
                given[key] = x
            elif key in entry["arguments"]:
                config[key] = x
            else:
                raise TraceError(f"{layer.name}: the argument `{key}` of its call is not supported")
        order = [name for name in call if given.get(name) is not None]
        if order != call[: len(order)]:
            config["input_names"] = order
        return [given[name] for name in order], config

    # ---------------------------------------------------------------- other objects

    def object_of(self, given: Any, kind: str) -> Any:
        """A Keras object, such as an optimizer with its schedule, as a job file has it. `kind`: "optimizers", "losses", ..."""
        name = type(given).__name__
        entry = self.reference[kind].get(name)
        if entry is None or not type(given).__module__.startswith(("keras.src.", "tf_keras.src.")):
            raise TraceError(f"{name} is none of the {kind} that Cohort has")
        config = {"name": given.name} if kind == "metrics" else {}
        for key, value in given.get_config().items():
            if key in ("name", "dtype", "fn", "is_legacy_optimizer", "jit_compile", "loss_scale_factor") or _is_default(given, key, value):
                continue
            if key not in entry["arguments"]:
                raise TraceError(f"{name} has no argument `{key}` in Cohort")
            config[key] = self._nested(getattr(given, f"_{key}", None), value, f"{name}: {key}")
        return {name: config} if config else name

    def _nested(self, attribute: Any, value: Any, where: str) -> Any:
        if isinstance(value, dict) and "class_name" in value and attribute is not None:
            for kind in ("schedules",):
                if type(attribute).__name__ in self.reference[kind]:
                    return self.object_of(attribute, kind)
        return self.plain(value, where)

    def callback_keys(self, callback: Any) -> Any:
        """A callback of Keras as a job file has it: its arguments are attributes of the object."""
        name = type(callback).__name__
        config = {}
        for argument in self.reference["callbacks"][name]["arguments"]:
            if not hasattr(callback, argument):
                continue
            value = getattr(callback, argument)
            if not _is_default(callback, argument, value):
                config[argument] = self.plain(value, f"{name}: {argument}")
        if "min_delta" in config:  # Keras negates it for a metric that falls
            config["min_delta"] = abs(config["min_delta"])
        return {name: config} if config else name

    # ---------------------------------------------------------------- operations

    def function_name(self, operation: Any) -> str:
        """The function of keras.ops of an operation."""
        name = snake_case(type(operation).__name__)
        return _FUNCTIONS.get(name, name)

    def operation(self, function: str, where: str) -> tuple[list[str], dict[str, Any]]:
        """The tensors and the other arguments of a function. Raises TraceError if Cohort lacks it."""
        entry = self.reference["operations"].get(f"ops.{function}")
        if entry is None:
            raise TraceError(f"{where}: Cohort has no such operation; write it with others, or use cohort.external_step")
        return entry["call"], entry["arguments"]

    @staticmethod
    def attributes_of(operation: Any) -> dict[str, Any]:
        """What an operation keeps of the arguments of its function, beside tensors."""
        return {k: v for k, v in vars(operation).items() if not k.startswith("_") and k not in ("name", "built")}


def _has_function(layer: Any) -> bool:
    """True if an argument of a layer, or of a layer in it, is a function of the user, which no job file can have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns that a lambda cannot be loaded elsewhere
        arguments = [getattr(layer, key, None) for key in layer.get_config()]
    for x in arguments:
        if isinstance(x, (FunctionType, BuiltinFunctionType, partial)):
            if not str(getattr(x, "__module__", "")).startswith(("keras.src.activations", "tf_keras.src.activations")):
                return True
        elif hasattr(x, "compute_dtype") and _has_function(x):
            return True
    return False


def _dtype_of(layer: Any, compute_dtype: str) -> str | None:
    """The floating type of a layer if it is not the model's: float32 in a model of mixed precision. Raises TraceError for another one."""
    for part in ("forward_layer", "layer", "cell"):  # what a wrapper or an RNN computes
        if hasattr(getattr(layer, part, None), "compute_dtype"):
            return _dtype_of(getattr(layer, part), compute_dtype)
    dtype = str(layer.compute_dtype)
    if dtype == compute_dtype or "float" not in dtype:
        return None
    if dtype == "float32" and compute_dtype in ("float16", "bfloat16"):
        return dtype
    raise TraceError(f"{layer.name}: its dtype is {layer.dtype_policy.name}, and the model computes in {compute_dtype}: give the layer "
                     f"no dtype, or \"float32\" in a model of mixed precision")


def _adapted(layer: Any) -> dict[str, Any]:
    """What a preprocessing layer has learned from data; its config has only what its constructor got."""
    name = type(layer).__name__
    if name in ("StringLookup", "IntegerLookup", "TextVectorization") and layer.vocabulary_size() > (0 if name == "TextVectorization" else 1):
        words = layer.get_vocabulary(include_special_tokens=False)
        if not words:
            return {}
        learned: dict[str, Any] = {"vocabulary": [int(w) if name == "IntegerLookup" else str(w) for w in words]}
        if getattr(layer, "output_mode", None) == "tf_idf":
            lookup = getattr(layer, "_lookup_layer", layer)
            weights = np.asarray(lookup.idf_weights_const)
            learned["idf_weights"] = [float(w) for w in weights[len(weights) - len(words):]]
        return learned
    if name == "Normalization" and layer.mean is not None:
        mean, variance = (np.asarray(x, np.float64).reshape(-1).tolist() for x in (layer.mean, layer.variance))
        return {"mean": mean[0] if len(mean) == 1 else mean, "variance": variance[0] if len(variance) == 1 else variance}
    if name == "Discretization" and layer.bin_boundaries is not None:
        return {"bin_boundaries": [float(x) for x in layer.bin_boundaries], "num_bins": None}
    return {}


def is_mask(key: str) -> bool:
    """True for the argument of a call that has a mask of its inputs, as Keras passes it."""
    return key == "mask" or key.endswith("_mask") and key not in ("attention_mask", "use_causal_mask")


def _is_default(layer: Any, key: str, value: Any) -> bool:
    """True if an argument has the default of Keras."""
    parameter = inspect.signature(type(layer).__init__).parameters.get(key)
    return parameter is None or parameter.default == value


def _same(value: Any, text: Any) -> bool:
    if text is None:
        return False
    if value is None:
        return text == "none"
    if isinstance(value, bool):
        return text == str(value).lower()
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return str(value) == str(text)
