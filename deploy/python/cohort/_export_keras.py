"""Builds the Keras model of a checkpoint.

Keras' layers become Keras' layers, a function of `keras.ops` becomes a call in the functional model, and a `Variable` becomes
`KerasVariable`. Lookups, normalization and other transforms of columns become layers in front of the inputs.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

import keras
import numpy as np
from keras import ops

from cohort._export_model import ExportError, Layer, TrainedModel, Transform

_MERGES = {"Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract", "HashedCrossing", "CustomScaleLayer"}
_LISTS = {"Attention", "AdditiveAttention"}
_CALLS = {"MultiHeadAttention": ["query", "value", "key", "attention_mask"],
          "GroupQueryAttention": ["query", "value", "key", "attention_mask"]}
_RECURRENT = {"LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"}
# A job writes one number for all axes as a list of one, which Keras refuses.
_SIZES = {"kernel_size", "strides", "pool_size", "dilation_rate", "size", "padding", "cropping", "output_padding", "output_size"}
_SLICE = {"...": Ellipsis, "None": None}


@keras.saving.register_keras_serializable("cohort")
class KerasVariable(keras.layers.Layer):
    """A variable as a layer: returns its value, whatever it is called on.

    Keras has no such layer. So `import cohort` and `cohort.register_keras()` come before `keras.saving.load_model` for a file that has one.
    """

    def __init__(self, shape: Any, **kwargs: Any):
        super().__init__(**kwargs)
        self.shape = tuple(shape)

    def build(self, input_shape: Any = None) -> None:
        self.value = self.add_weight(shape=self.shape, initializer="zeros", name="value")

    def call(self, inputs: Any) -> Any:
        return ops.convert_to_tensor(self.value)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor(self.shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "shape": list(self.shape)}


class KerasModel:
    """A Keras model with the values of a checkpoint, and what is known of its inputs."""

    def __init__(self, model: keras.Model, inside: list[str], outside: list[str], has_variables: bool):
        self.model = model
        self.inside = inside  # the transforms that are in the model: "StringLookup of features"
        self.outside = outside  # those that are not, with the reason
        self.has_variables = has_variables


def build(trained: TrainedModel, transforms: Callable[[Transform], str] | None = None) -> KerasModel:
    """Returns the functional model of a checkpoint.

    transforms: says why a transform of columns cannot be in the model ("": it can); None: no transform is.
    Raises ExportError for a layer that Keras lacks, or one whose variables differ.
    """
    return _Builder(trained, transforms).build()


class _Builder:
    def __init__(self, trained: TrainedModel, transforms: Callable[[Transform], str] | None):
        self.trained = trained
        self.values: dict[str, Any] = {}  # by layer: a tensor, or a list of them
        self.objects: dict[str, keras.layers.Layer] = {}
        self.names: set[str] = set()
        self.inputs: list[Any] = []
        self.has_variables = False
        self.columns = _Columns(self, transforms)

    def build(self) -> KerasModel:
        for layer in _of_inference(self.trained):
            try:
                self.values[layer.name] = self.value(layer)
            except ExportError:
                raise
            except Exception as error:
                raise ExportError(f"the layer {layer.name} ({layer.class_name}) cannot be written: {error}") from error
        outputs = [_first(self.values[name]) for name in self.trained.outputs]
        names = self.trained.output_names or self.trained.outputs
        seen: dict[int, int] = {}
        for i, x in enumerate(outputs):  # an output of its own name, if two are the same tensor
            if id(x) in seen:
                outputs[i] = keras.layers.Identity(name=self.unique(names[i]))(x)
            seen[id(x)] = i
        model = keras.Model(self.inputs[0] if len(self.inputs) == 1 else self.inputs, outputs[0] if len(outputs) == 1 else outputs,
                            name=_plain_name(self.trained.name))
        for name, layer in self.objects.items():
            self.assign(name, layer)
        return KerasModel(model, self.columns.inside, self.columns.outside, self.has_variables)

    def unique(self, name: str) -> str:
        name = _plain_name(name)
        candidate, n = name, 0
        while candidate in self.names:
            n += 1
            candidate = f"{name}_{n}"
        self.names.add(candidate)
        return candidate

    def input(self, name: str, shape: tuple[int, ...], dtype: str) -> Any:
        x = keras.Input(shape, dtype=dtype, name=self.unique(name))
        self.inputs.append(x)
        return x

    # ---------------------------------------------------------------- layers

    def value(self, layer: Layer) -> Any:
        if layer.class_name == "Input":
            return self.columns.input(layer)
        given = [self.values[name] for name in (layer.inputs[1:] if layer.class_name == "ops.in_training" else layer.inputs)]
        if layer.class_name == "ops.part":
            parts = given[0] if isinstance(given[0], (list, tuple)) else [given[0]]
            return parts[int(layer.config["index"])]
        given = [_first(x) for x in given]
        if layer.class_name.startswith("ops."):
            return self.operation(layer, given)
        if layer.class_name == "Variable":
            return self.variable(layer)
        if layer.class_name in ("DynamicEmbedding", "DynamicEmbeddingBag"):
            raise ExportError(f"the layer {layer.name} ({layer.class_name}) has a table without bounds, which Keras and ONNX lack: export "
                              f"the format safetensors or torch, which have its rows and the key of each")
        first = layer.shares or layer.name
        if first not in self.objects:
            config = next(other.config for other in self.trained.layers if other.name == first)
            self.objects[first] = make_layer(layer.class_name, config, self.trained.dtype, self.unique(first))
        return self.call(self.objects[first], layer, given)

    def call(self, made: keras.layers.Layer, layer: Layer, given: list[Any]) -> Any:
        signature = inspect.signature(made.call).parameters
        keywords = {key: x for key, x in layer.config.items()
                    if key in signature and key not in inspect.signature(type(made).__init__).parameters and x is not None}
        masks = [None if not name else _first(self.values[name]) for name in layer.masks]
        if any(mask is not None for mask in masks) and "mask" in signature:
            masks += [None] * (len(given) - len(masks))
            keywords["mask"] = masks if len(given) > 1 else masks[0]
        names = layer.config.get("input_names")
        if layer.class_name in _CALLS:
            return made(**dict(zip(names or _CALLS[layer.class_name], given)), **keywords)
        if layer.class_name in _MERGES or layer.class_name in _LISTS:
            return made(given, **keywords)
        if layer.class_name in _RECURRENT and len(given) > 1:
            return made(given[0], initial_state=given[1:], **keywords)
        return made(*given, **keywords)

    def variable(self, layer: Layer) -> Any:
        if not self.inputs:
            raise ExportError(f"the variable {layer.name} stands before every Input: move an Input to the front")
        self.has_variables = True
        made = KerasVariable(layer.config["shape"], name=self.unique(layer.name), dtype=self.trained.dtype,
                             trainable=bool(layer.config.get("trainable", True)))
        self.objects[layer.name] = made
        return made(self.inputs[0])

    def operation(self, layer: Layer, given: list[Any]) -> Any:
        name = layer.class_name[4:]
        config = {key: x for key, x in layer.config.items() if x is not None and key not in ("trainable", "dtype", "activity_regularizer")
                  or key == "dtype" and name in ("cast", "array", "one_hot", "full_like", "convert_to_tensor") and x is not None}
        names = config.pop("input_names", None)
        if name == "tensordot":
            axes = config["axes"]
            config["axes"] = axes[0] if len(axes) == 1 else [axes[:len(axes) // 2], axes[len(axes) // 2:]]
        if name == "pad" and len(config["pad_width"]) > 2:  # both sides of each axis
            config["pad_width"] = [tuple(pair) for pair in zip(config["pad_width"][::2], config["pad_width"][1::2])]
        if name == "array":
            value = np.array(config["value"], config.get("dtype") or self.trained.dtype)
            return value.reshape(config["shape"]) if "shape" in config else value
        if name == "get_item":
            return given[0][_key(config["key"])]
        if name == "in_training":
            return given[0]
        if name == "add_along_axis":
            return _add_along_axis(*given, int(config["axis"]))
        if name == "einsum":
            return ops.einsum(config["subscripts"], *given)
        if name == "hard_sigmoid_of_keras_2":
            return ops.clip(given[0] * 0.2 + 0.5, 0.0, 1.0)
        function = getattr(ops, name, None)
        if function is None:
            raise ExportError(f"the layer {layer.name}: Keras has no ops.{name}")
        known = inspect.signature(function).parameters
        config = {key: x for key, x in config.items() if key in known}
        if name in ("concatenate", "stack"):
            return function(given, **config)
        if names:
            return function(**dict(zip(names, given)), **config)
        if set(config) & set(list(known)[:len(given)]):  # a number stands in the place of a tensor: 1 - x
            return function(**dict(zip((key for key in known if key not in config), given)), **config)
        return function(*given, **config)

    # ---------------------------------------------------------------- values

    def assign(self, name: str, layer: keras.layers.Layer) -> None:
        if isinstance(layer, KerasVariable):
            layer.value.assign(self.trained.values[name].reshape(layer.shape))
            return
        found = self.trained.values_of(name)
        offsets = {key for key in found if key.endswith("kernel_offset")}  # SpectralNormalization: the kernel is a sum
        values = [(key, x + found.get(key + "_offset", 0)) for key, x in found.items() if key not in offsets]
        variables = [v for v in layer.weights if "seed_generator" not in v.path]
        if hasattr(layer, "finalize_state"):  # Normalization counts what it has seen; nothing reads the number
            variables = [v for v in variables if v.name != "count"]
        mine, theirs = [tuple(v.shape) for v in variables], [x.shape for _, x in values]
        if [int(np.prod(s)) for s in mine] != [int(np.prod(s)) for s in theirs]:
            raise ExportError(f"the layer {name} has variables of shapes {mine} in Keras, and {theirs} in the checkpoint")
        for variable, (_, value) in zip(variables, values):
            variable.assign(value.reshape(variable.shape))
        if values and hasattr(layer, "finalize_state"):
            layer.finalize_state()


def _of_inference(trained: TrainedModel) -> list[Layer]:
    """The layers that prediction computes: ops.in_training has its second input there."""
    if all(layer.class_name != "ops.in_training" for layer in trained.layers):
        return trained.layers
    used, kept = set(trained.outputs), []
    for layer in reversed(trained.layers):
        if layer.name not in used and layer.class_name != "Input":
            continue
        inputs = layer.inputs[1:] if layer.class_name == "ops.in_training" else [*layer.inputs, *filter(None, layer.masks)]
        used.update(inputs)
        kept.append(layer)
    return kept[::-1]


# -------------------------------------------------------------------- columns

_INTEGERS = {"StringLookup", "IntegerLookup", "Discretization", "Hashing", "HashedCrossing"}
_ONLY_TRAINING = {"MixUp", "CutMix", "RandAugment", "AugMix"}


class _Columns:
    """The Inputs of a model, behind the transforms of their columns."""

    def __init__(self, builder: _Builder, why_not: Callable[[Transform], str] | None):
        self.builder = builder
        self.trained = builder.trained
        self.why_not = why_not
        self.inside: list[str] = []
        self.outside: list[str] = []
        self._made: dict[tuple[str, int], Any] = {}  # by column, and the number of transforms that it has passed

    def input(self, layer: Layer) -> Any:
        column = self.trained.column_of(layer)
        shape = tuple(layer.config.get("shape") or (1,))
        dtype = layer.config.get("dtype") or self.trained.reads.get(column) or self.trained.dtype
        chain = self._chain(column, len(self.trained.transforms))
        refusal = "left out" if self.why_not is None else next(
            (f"{_title(t)}: {why}" for t, why in ((t, self._refusal(t, shape)) for t in chain) if why), "")
        if not chain or refusal:
            if chain and self.why_not is not None:
                self.outside.append(f"the input {layer.name} is what {_title(chain[-1])} gives ({refusal})")
            key = (column, -1)
            if key not in self._made:
                self._made[key] = self.builder.input(layer.name, shape, dtype)
            return self._made[key]
        return self._value(column, len(self.trained.transforms), shape, dtype)

    def _last(self, column: str, before: int) -> int:
        """The last transform that makes a column; -1: the data has it."""
        return next((i for i in reversed(range(before)) if self.trained.transforms[i].output == column
                     and self.trained.transforms[i].class_name not in _ONLY_TRAINING
                     and not self.trained.transforms[i].class_name.startswith("Random")), -1)

    def _chain(self, column: str, before: int) -> list[Transform]:
        at = self._last(column, before)
        if at < 0:
            return []
        own = self.trained.transforms[at]
        return [t for c in own.columns for t in self._chain(c, at)] + [own]

    def _refusal(self, t: Transform, shape: tuple[int, ...]) -> str:
        if t.class_name in _INTEGERS:
            if t.config.get("output_mode", "int") != "int":
                return f"output_mode {t.config['output_mode']} changes the shape of the column"
        elif t.class_name not in ("", "Stack", "Cast", "Normalization", "Rescaling"):
            return "the formats have no such layer for columns"
        if (t.class_name in ("", "Stack") and len(t.columns) > 1 or t.class_name == "HashedCrossing") and len(shape) != 1:
            return "its columns are no single numbers"
        return self.why_not(t)

    def _value(self, column: str, before: int, shape: tuple[int, ...], dtype: str) -> Any:
        at = self._last(column, before)
        if (column, at) in self._made:
            return self._made[column, at]
        if at < 0:
            return self._made.setdefault((column, at), self.builder.input(column, shape, dtype))
        t = self.trained.transforms[at]
        if len(t.columns) > 1:
            shape = (1,)
        inner = "string" if t.class_name in ("StringLookup", "Hashing") else \
            "int64" if t.class_name == "IntegerLookup" else self.trained.dtype
        if t.class_name == "HashedCrossing":
            integers = t.config.get("integer_columns") or []
            given = [self._value(c, at, (1,), "int64" if c in integers else "string") for c in t.columns]
        else:
            given = [self._value(c, at, shape, inner) for c in t.columns]
        self.inside.append(_title(t))
        self._made[column, at] = self._apply(t, given, dtype)
        return self._made[column, at]

    def _apply(self, t: Transform, given: list[Any], dtype: str) -> Any:
        name = self.builder.unique(f"{t.output}_{(t.class_name or 'Stack').lower()}")
        if t.class_name in ("", "Stack", "Cast"):
            x = keras.layers.Concatenate(name=name)(given) if len(given) > 1 else given[0]
            wanted = t.config.get("dtype") or t.dtype
            return ops.cast(x, wanted) if wanted and wanted != "string" else x
        made = make_layer(t.class_name, t.config, self.trained.dtype, name)
        if t.class_name in ("HashedCrossing",):
            return made(given)
        return made(given[0])


def _title(t: Transform) -> str:
    return f"{t.class_name or 'Stack'} of {', '.join(t.columns)}"


# -------------------------------------------------------------------- objects

def make_layer(class_name: str, config: dict[str, Any], dtype: str, name: str | None = None) -> keras.layers.Layer:
    """A Keras layer with the arguments of a job."""
    if class_name == "CustomScaleLayer":
        from keras.src.applications.inception_resnet_v2 import CustomScaleLayer as made
    else:
        made = getattr(keras.layers, class_name, None)
    if made is None:
        raise ExportError(f"the layer {name or ''} ({class_name}) is none of Keras {keras.__version__}")
    known = dict(inspect.signature(made.__init__).parameters)
    passes = any(p.kind is p.VAR_KEYWORD for p in known.values())
    arguments = {}
    for key, x in config.items():
        if x is None or key == "input_names" or key == "dtype":
            continue
        if key in known or passes and key in ("trainable", "activity_regularizer"):
            arguments[key] = _object(key, x, dtype)
    if class_name == "EinsumDense":  # a job writes -1 for an axis without a size
        arguments["output_shape"] = [None if size == -1 else size for size in arguments["output_shape"]]
    if class_name in _INTEGERS or class_name == "TextVectorization":
        arguments.pop("trainable", None)
        if arguments.get("output_mode", "int") == "int":
            arguments["dtype"] = "int64"
    else:
        arguments["dtype"] = config.get("dtype") or dtype
    if name is not None:
        arguments["name"] = name
    return made(**arguments)


def _object(key: str, x: Any, dtype: str) -> Any:
    if key in _SIZES and isinstance(x, list) and len(x) == 1 and not isinstance(x[0], list):
        return x[0]
    if key in ("padding", "cropping") and isinstance(x, list) and len(x) in (4, 6):  # both sides of each axis
        return tuple(zip(x[::2], x[1::2]))
    if isinstance(x, list):
        return [_object(key, item, dtype) for item in x]
    if not isinstance(x, dict) or "class_name" not in x:
        return x
    name, config = x["class_name"], x.get("config", {})
    if key.endswith("activation"):
        return _activation(name, config)
    for ending, module in (("initializer", keras.initializers), ("regularizer", keras.regularizers), ("constraint", keras.constraints)):
        if key.endswith(ending):
            made = getattr(module, name)
            known = inspect.signature(made.__init__).parameters
            return made(**{k: v for k, v in config.items() if v is not None and k in known})
    return make_layer(name, config, dtype)


def _activation(name: str, config: dict[str, Any]) -> Any:
    function = getattr(keras.activations, name, None)
    if function is None:
        raise ExportError(f"Keras {keras.__version__} has no activation {name}")
    for key, x in config.items():
        parameter = inspect.signature(function).parameters.get(key)
        if parameter is not None and x is not None and x != parameter.default:
            if name == "relu" and config.get("max_value") == 6 and not config.get("negative_slope") and not config.get("threshold"):
                return "relu6"
            raise ExportError(f"the activation {name} with {key}={x}: use a layer of its own for it, as ReLU or LeakyReLU")
    return name


def _add_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Any:
    """x with values added at places of an axis: Keras has no such function."""
    axis %= len(x.shape)
    size = x.shape[axis]
    hot = ops.one_hot(ops.where(indices < 0, indices + size, indices), size, axis=axis, dtype=x.dtype)
    return x + ops.sum(hot * ops.expand_dims(ops.cast(values, x.dtype), axis), axis=axis + 1)


def _key(text: str) -> tuple:
    def item(part: str) -> Any:
        part = part.strip()
        if part in _SLICE:
            return _SLICE[part]
        if ":" in part:
            return slice(*(int(p) if p.strip() else None for p in part.split(":")))
        return int(part)

    return tuple(item(part) for part in text.split(","))


def _first(x: Any) -> Any:
    return x[0] if isinstance(x, (list, tuple)) else x


def _plain_name(name: str) -> str:
    """Keras allows no slash in the name of a layer, and its backend torch no point."""
    return name.replace("/", "_").replace(":", "_").replace(".", "_")


def expressible(t: Transform) -> str:
    """Why Keras cannot have a transform in a model; "": it can."""
    return ""


def save(trained: TrainedModel, path: str, preprocessing: bool) -> KerasModel:
    """Writes a `.keras` file."""
    built = build(trained, expressible if preprocessing else None)
    built.model.save(path)
    return built


def save_weights(trained: TrainedModel, path: str) -> KerasModel:
    """Writes a `.weights.h5` file for a model of the same layers."""
    built = build(trained)
    built.model.save_weights(path)
    return built
