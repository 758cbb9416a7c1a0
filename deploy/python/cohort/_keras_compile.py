"""What `model.compile()` was called with, as the keys of `compile` in a job file."""

from __future__ import annotations

from typing import Any

import keras

from cohort._classes import Classes
from cohort._graph import TraceError
from cohort._keras_functions import Functions


def compile_keys(model: keras.Model, classes: Classes, functions: Functions, outputs: list[str]) -> dict[str, Any]:
    """Returns loss, loss weights, metrics, weighted metrics and optimizer. Raises TraceError for what Cohort lacks."""
    if not getattr(model, "compiled", False) or model.loss is None:
        raise TypeError(f"{model.name}: call model.compile(optimizer, loss) first")
    for own in ("train_step", "compute_loss"):
        if getattr(type(model), own) is not getattr(keras.Model, own):
            raise TraceError(f"{model.name}: it has a `{own}` of its own, which workers cannot run: give compile() a loss of your own, or run the "
                             f"step in Python (cohort.external_step)")

    def loss(given: Any, output: int) -> Any:
        if _is_own(given, keras.losses.Loss):
            return functions.loss(given, output)
        return _object(given, "losses", classes)

    def metric(given: Any, output: int) -> Any:
        if _is_own(given, keras.metrics.Metric) or isinstance(given, keras.metrics.MeanMetricWrapper):
            if type(given).__name__ in classes.reference["metrics"] and type(given).__module__.startswith("keras.src."):
                return _object(given, "metrics", classes)
            return functions.metric(given, output)
        return _object(given, "metrics", classes)

    keys = {"optimizer": _object(_inner_optimizer(model), "optimizers", classes), "loss": _by_output(model.loss, outputs, loss)}
    metrics = model._compile_metrics
    if metrics is not None:
        for key, given in (("metrics", metrics._user_metrics), ("weighted_metrics", metrics._user_weighted_metrics)):
            if given:
                keys[key] = _by_output(given, outputs, metric)
    weights = getattr(model._compile_loss, "_user_loss_weights", None)
    if weights is not None:
        keys["loss_weights"] = weights
    return keys


def mixed_precision(model: keras.Model) -> dict[str, Any]:
    """The key mixed_precision of a job, from the dtype policy of the model and its LossScaleOptimizer."""
    policy = model.dtype_policy
    if policy.compute_dtype == policy.variable_dtype:
        return {}
    keys: dict[str, Any] = {"dtype": policy.compute_dtype}
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        keys["initial_scale"] = float(model.optimizer.initial_scale)
        keys["dynamic_growth_steps"] = int(model.optimizer.dynamic_growth_steps)
    return {"mixed_precision": keys}


def _inner_optimizer(model: keras.Model) -> Any:
    optimizer = model.optimizer
    return optimizer.inner_optimizer if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else optimizer


def _by_output(given: Any, outputs: list[str], make: Any) -> Any:
    """One for all outputs, a list in their order, or a dict by their names; of a model with one output, a list is for it."""
    if isinstance(given, dict):
        return {name: _each(x, outputs.index(name) if name in outputs else 0, make) for name, x in given.items()}
    if isinstance(given, (list, tuple)) and len(outputs) > 1 and len(given) == len(outputs):
        return [_each(x, i, make) for i, x in enumerate(given)]
    return _each(given, 0, make)


def _each(given: Any, output: int, make: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_each(x, output, make) for x in given]
    return make(given, output)


def _is_own(given: Any, base: type) -> bool:
    """True for a function or class that is not Keras' own."""
    if given is None or isinstance(given, str):
        return False
    module = (type(given) if isinstance(given, base) else given).__module__
    return (isinstance(given, base) or callable(given)) and not module.startswith("keras.src.")


def _object(given: Any, kind: str, classes: Classes) -> Any:
    if given is None or isinstance(given, str):
        return given
    if callable(given) and hasattr(given, "__name__"):
        return given.__name__
    return classes.object_of(given, kind)
