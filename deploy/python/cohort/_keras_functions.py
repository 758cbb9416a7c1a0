"""Traces losses and metrics that are functions of a Python program: `(y_true, y_pred)` of keras.ops."""

from __future__ import annotations

from typing import Any, Callable

import keras
from keras import KerasTensor
from keras.src import backend, losses
from keras.src.losses.loss import squeeze_or_expand_to_same_rank

from cohort._classes import Classes
from cohort._graph import Graph, TraceError, batch_marker
from cohort.keras import Tracer


class Functions:
    """Traces functions of labels and predictions.

    predictions: shape of a record, by output of the model. labels: shape of a record and dtype, by output; without an entry
    a label is one number.
    """

    def __init__(self, classes: Classes, predictions: list[tuple[int, ...]], labels: dict[int, tuple[tuple[int, ...], str]]):
        self._classes = classes
        self._predictions = predictions
        self._labels = labels

    def loss(self, given: Any, output: int) -> dict[str, Any]:
        """A function, or an object of a subclass of keras.losses.Loss, as a job has it. Raises TraceError."""
        if isinstance(given, losses.Loss):
            traced = self._trace(given.call, given.name, output, cast=True)
            if given.reduction != "sum_over_batch_size":
                traced["reduction"] = given.reduction
        else:
            traced = self._trace(_of_same_rank(given), _name_of(given), output, cast=True)
        return {"Traced": traced}

    def metric(self, given: Callable[..., Any], output: int) -> dict[str, Any]:
        """A function, whose mean is reported under its name. Raises TraceError."""
        if isinstance(given, keras.metrics.Metric):
            if not isinstance(given, keras.metrics.MeanMetricWrapper):
                raise TraceError(f"{given.name} ({type(given).__name__}): a metric of your own is a function (y_true, y_pred), "
                                 f"whose mean over the records is reported; classes with a state of their own are not supported")
            function, arguments, name = given._fn, given._fn_kwargs, given.name
            return {"Traced": {**self._trace(lambda y, p: function(y, p, **arguments), name, output, cast=False), "name": name}}
        return {"Traced": {**self._trace(given, _name_of(given), output, cast=False), "name": _name_of(given)}}

    def _trace(self, function: Callable[..., Any], name: str, output: int, cast: bool) -> dict[str, Any]:
        floatx = keras.config.floatx()
        graph = Graph(name, floatx)
        shape, dtype = self._labels.get(output, ((), floatx))
        batch = batch_marker((*shape, *self._predictions[output]), name)
        tracer = Tracer(graph, batch, self._classes, training=True)
        dtype = floatx if cast or dtype.startswith("float") else "int64"
        label = KerasTensor((batch, *shape), dtype)
        prediction = KerasTensor((batch, *self._predictions[output]), floatx)
        # A column of single numbers is [batch, 1] in a model.
        column = graph.input("y_true", shape or (1,), dtype)
        tracer.bind(label, column if shape else graph.op("reshape", [column], newshape=[-1]))
        tracer.bind(prediction, graph.input("y_pred", self._predictions[output], floatx))
        result = tracer.call(function, (label, prediction), name)
        if not isinstance(result, KerasTensor):
            raise TraceError(f"{name}: it returns {type(result).__name__}, and must return the losses or numbers of the records")
        graph.outputs = [tracer.value(result, "its value")]
        graph.prune()
        if graph.values and any("Variable" in layer for layer in graph.layers):
            raise TraceError(f"{name}: a loss or metric may not read variables")
        return {"layers": graph.layers_json()}


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _of_same_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """What Keras does around a function that is a loss (LossFunctionWrapper)."""

    def call(y_true: Any, y_pred: Any) -> Any:
        return function(*squeeze_or_expand_to_same_rank(y_true, y_pred))

    return call


def label_spec(y: Any) -> tuple[tuple[int, ...], str]:
    """The shape of one label, and its dtype."""
    dtype = backend.standardize_dtype(y.dtype) if hasattr(y, "dtype") and str(y.dtype) != "object" else keras.config.floatx()
    shape = tuple(y.shape[1:]) if hasattr(y, "shape") else ()
    return shape, dtype
