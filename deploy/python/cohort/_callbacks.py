"""The callbacks of a call of `fit`: what the chief runs, and what this process runs at the ends of epochs."""

from __future__ import annotations

import os
from typing import Any, Callable

from cohort._classes import Classes

# Callbacks of Keras whose work `fit` does in any case.
_IGNORED = ("History", "ProgbarLogger", "BaseLogger")
# Those that need this process, although Cohort has a class of the name: they call functions or write files of Keras.
_HERE = ("LambdaCallback", "ModelCheckpoint")
_PATHS = ("filename", "backup_dir", "embeddings_metadata")
_OF_BATCHES = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class Callbacks:
    """`there`: keys of `fit.callbacks` of the job. `here`: objects that run in this process. `log_dir`: that of TensorBoard, or None.

    given: Keras' callbacks, objects with some of the methods of keras.callbacks.Callback, or keys of a job.
    epochs: the numbers of the epochs that the job will run.
    Raises TypeError for a callback that needs each batch.
    """

    def __init__(self, given: Any, model: Any, epochs: range):
        self.there: list[Any] = []
        self.here: list[Any] = []
        self.log_dir: str | None = None  # that of TensorBoard
        self._model = model
        for callback in given if isinstance(given, (list, tuple)) else [] if given is None else [given]:
            self._add(callback, epochs)

    def _add(self, callback: Any, epochs: range) -> None:
        name = type(callback).__name__
        if isinstance(callback, (str, dict)):
            self.there.append(callback)
            return
        of_keras = type(callback).__module__.startswith("keras.src.callbacks")
        classes = Classes.of_programs()
        if of_keras and name in _IGNORED:
            return
        if of_keras and name == "LearningRateScheduler":
            self.there.append({name: {"schedule": _rates(callback, self._model, epochs)}})
        elif of_keras and name in classes.reference["callbacks"] and name not in _HERE:
            keys = classes.callback_keys(callback)
            for key in _PATHS:
                if isinstance(keys, dict) and keys[name].get(key):
                    keys[name][key] = os.path.abspath(keys[name][key])
            if name == "TensorBoard":
                self.log_dir = os.path.abspath(callback.log_dir)
                if isinstance(keys, dict):
                    keys[name].pop("log_dir", None)
                    keys = keys if keys[name] else name
            if hasattr(callback, "sep") and callback.sep != ",":
                keys[name]["separator"] = callback.sep
            self.there.append(keys)
        elif of_keras and name not in _HERE:
            raise TypeError(f"the callback {name} of Keras is not supported: write one with on_epoch_end(epoch, logs)")
        elif not any(hasattr(callback, method) for method in ("on_epoch_end", "on_train_begin", "on_train_end")):
            raise TypeError(f"the callback {name} has no on_epoch_end: `fit` calls on_train_begin, on_epoch_end and on_train_end")
        else:
            _refuse_batches(callback, name)
            self.here.append(callback)

    @property
    def set_rates(self) -> bool:
        """True if a callback of the chief sets learning rates."""
        return any(next(iter(x), None) in ("LearningRateScheduler", "ReduceLROnPlateau") if isinstance(x, dict) else x == "ReduceLROnPlateau"
                   for x in self.there)

    def begin(self, params: dict[str, Any]) -> None:
        for callback in self.here:
            if hasattr(callback, "set_params"):
                callback.set_params(params)
            if hasattr(callback, "set_model"):
                callback.set_model(self._model)
        if self.here and hasattr(self._model, "stop_training"):
            self._model.stop_training = False
        self._call("on_train_begin")

    def epoch_end(self, epoch: int, logs: dict[str, float]) -> tuple[bool, float | None]:
        """Runs on_epoch_end. Returns True if a callback stopped the training, and the learning rate that one has set."""
        before = _rate(self._model)
        self._call("on_epoch_end", epoch, logs)
        after = _rate(self._model)
        return bool(getattr(self._model, "stop_training", False)), after if after != before else None

    def end(self, logs: dict[str, float]) -> None:
        self._call("on_train_end", logs)

    def _call(self, method: str, *arguments: Any) -> None:
        for callback in self.here:
            function: Callable[..., Any] | None = getattr(callback, method, None)
            if function is not None:
                function(*arguments)


def _refuse_batches(callback: Any, name: str) -> None:
    """Batches are on the workers, which run no Python."""
    for method in _OF_BATCHES:
        function = getattr(callback, method, None)
        defined = getattr(type(callback), method, None)
        if function is None or "keras.src.callbacks" in str(getattr(defined, "__module__", "")) and method not in vars(callback):
            continue
        if name == "LambdaCallback" and "lambda_callback" in str(getattr(function, "__module__", "")):
            continue
        raise TypeError(f"the callback {name} has {method}: batches are on the workers, which run no Python; use on_epoch_end")
    if name == "ModelCheckpoint" and callback.save_freq != "epoch":
        raise TypeError("ModelCheckpoint with save_freq in batches: use 'epoch', or the key `checkpoint` of a job")


def _rate(model: Any) -> float | None:
    """The learning rate of a model's optimizer; None if it is a schedule, or if there is none."""
    optimizer = getattr(model, "optimizer", None)
    rate = getattr(optimizer, "_learning_rate", None)
    return float(rate.numpy() if hasattr(rate, "numpy") else rate.value) if hasattr(rate, "assign") else None


def _rates(callback: Any, model: Any, epochs: range) -> list[float]:
    """The learning rates that a function gives for these epochs."""
    rate = _rate(model)
    if rate is None:
        raise TypeError("LearningRateScheduler: the optimizer has a schedule of its own")
    rates = []
    for epoch in epochs:
        try:
            rate = callback.schedule(epoch, rate)
        except TypeError:
            rate = callback.schedule(epoch)
        rate = float(rate)
        rates.append(rate)
    return rates
