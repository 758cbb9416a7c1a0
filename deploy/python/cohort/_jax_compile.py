"""What `fit` was called with for a function of jax, as the keys of `compile` in a job file."""

from __future__ import annotations

from typing import Any

_OPTAX_LOSSES: dict[str, Any] = {
    "softmax_cross_entropy_with_integer_labels": {"SparseCategoricalCrossentropy": {"from_logits": True}},
    "softmax_cross_entropy": {"CategoricalCrossentropy": {"from_logits": True}},
    "sigmoid_binary_cross_entropy": {"BinaryCrossentropy": {"from_logits": True}},
    "squared_error": "MeanSquaredError",
    "huber_loss": "Huber",
    "log_cosh": "LogCosh",
}


def compile_keys(loss: Any, optimizer: Any, metrics: Any) -> dict[str, Any]:
    """Returns loss, optimizer and metrics. Raises TypeError for what only a program of Python could compute."""
    if loss is None or optimizer is None:
        raise TypeError('a function of jax needs `loss` and `optimizer`: loss={"SparseCategoricalCrossentropy": {"from_logits": True}}, '
                        'optimizer={"Adam": {"learning_rate": 1e-3}}')
    keys = {"loss": _loss(loss), "optimizer": _optimizer(optimizer)}
    if metrics:
        keys["metrics"] = metrics
    return keys


def _loss(loss: Any) -> Any:
    if isinstance(loss, (str, dict, list, tuple)):
        return loss
    name = getattr(loss, "__name__", type(loss).__name__)
    if getattr(loss, "__module__", "").startswith("optax") and name in _OPTAX_LOSSES:
        return _OPTAX_LOSSES[name]
    raise TypeError(f"the loss {name} is no loss of a job: pass the name of a loss of Keras, or its class with arguments, "
                    f"as {{'SparseCategoricalCrossentropy': {{'from_logits': True}}}}")


def _optimizer(optimizer: Any) -> Any:
    if isinstance(optimizer, (str, dict, list)):
        return optimizer
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):
        raise TypeError("an optimizer of optax is a closure, whose arguments cannot be read: pass the name of an optimizer of Keras, or "
                        "its class with arguments, as {'Adam': {'learning_rate': 1e-3, 'epsilon': 1e-8}}")
    raise TypeError(f"{type(optimizer).__name__} is no optimizer of a job: pass a name, as 'Adam', or "
                    f"{{'Adam': {{'learning_rate': 1e-3}}}}")
