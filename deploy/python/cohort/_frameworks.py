"""What `fit` needs of the framework of a model."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np

from cohort._classes import Classes
from cohort._graph import Graph
from cohort.external import ExternalStep


class _Framework:
    @staticmethod
    def job_keys(model: Any) -> dict[str, Any]:
        """Keys of a job beside `compile`, such as mixed_precision."""
        return {}

    @staticmethod
    def check_weights(sample_weight: Any, class_weight: Any) -> None:
        """Raises TypeError if the framework takes no weights of records."""

    @staticmethod
    def columns(model: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """x and y as columns of the job."""
        return x, y

    @staticmethod
    def environment(model: Any, run_dir: str) -> dict[str, str]:
        """What the workers need in their environment."""
        return {}


class KerasFramework(_Framework):
    """Keras 3."""

    @staticmethod
    def job_keys(model: Any) -> dict[str, Any]:
        from cohort._keras_compile import mixed_precision

        return mixed_precision(model)

    @staticmethod
    def trace(model: Any, x: Any, data: Any) -> Graph:
        from cohort import keras as tracer

        return tracer.trace(model, None if x is None else tracer.example_of(model, x))

    @staticmethod
    def compile_keys(model: Any, loss: Any, optimizer: Any, metrics: Any, graph: Graph, labels: list[Any]) -> dict[str, Any]:
        from cohort._keras_compile import compile_keys
        from cohort._keras_functions import Functions, label_spec

        given = {"loss": loss, "optimizer": optimizer, "metrics": metrics}
        named = next((name for name, value in given.items() if value is not None), None)
        if named is not None:
            raise TypeError(f"`{named}` of a Keras model is that of model.compile()")
        classes = Classes.of_programs()
        functions = Functions(classes, graph.output_shapes, {i: label_spec(y) for i, y in enumerate(labels)})
        return compile_keys(model, classes, functions, graph.output_names or graph.outputs)

    @staticmethod
    def assign(graph: Graph, model: Any, values: dict[str, np.ndarray]) -> None:
        from cohort import keras as tracer

        tracer.assign(graph, values)


class TfKerasFramework(_Framework):
    """Keras 2, as the package tf_keras."""

    @staticmethod
    def trace(model: Any, x: Any, data: Any) -> Any:
        from cohort import tf_keras

        return tf_keras.JsonModel(model)

    @staticmethod
    def compile_keys(model: Any, loss: Any, optimizer: Any, metrics: Any, graph: Any, labels: list[Any]) -> dict[str, Any]:
        from cohort import tf_keras

        if not (loss is None and optimizer is None and metrics is None):
            raise TypeError("`loss`, `optimizer` and `metrics` of a Keras model are those of model.compile()")
        return tf_keras.compile_keys(model)

    @staticmethod
    def assign(graph: Any, model: Any, values: dict[str, np.ndarray]) -> None:
        from cohort import tf_keras

        tf_keras.assign(model, values)


class TorchFramework(_Framework):
    """PyTorch."""

    @staticmethod
    def trace(model: Any, x: Any, data: Any) -> Graph:
        import torch

        from cohort import torch as tracer

        if x is None:
            raise TypeError("a torch module is traced with an example: call cohort.torch.trace, or pass x as arrays")
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
        dtype = torch.float32 if parameter is None else parameter.dtype

        def example(array: Any) -> Any:
            tensor = torch.as_tensor(np.asarray(array[:2]))
            return tensor.to(dtype) if tensor.is_floating_point() else tensor.long()

        if isinstance(x, dict):
            x = [x[name] for name in tracer.argument_names(model) if name in x]
        return tracer.trace(model, tuple(example(a) for a in x) if isinstance(x, (list, tuple)) else (example(x),))

    @staticmethod
    def compile_keys(model: Any, loss: Any, optimizer: Any, metrics: Any, graph: Graph, labels: list[Any]) -> dict[str, Any]:
        from cohort._torch_compile import loss_keys, loss_weight, metric_keys, optimizer_keys

        if loss is None or optimizer is None:
            raise TypeError("a torch module needs `loss` and `optimizer`: torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters())")
        losses = list(loss) if isinstance(loss, (list, tuple)) else [loss] * max(1, len(graph.outputs))
        if len(losses) != len(graph.outputs):
            raise TypeError(f"{len(losses)} losses for {len(graph.outputs)} outputs")
        arrays = [_as_labels(y) for y in labels] or [None] * len(losses)
        made = [loss_keys(one, shape, y, graph.dtype) for one, shape, y in zip(losses, graph.output_shapes, arrays)]
        weights = [loss_weight(one, shape) for one, shape in zip(losses, graph.output_shapes)]
        rates = None
        if isinstance(optimizer, Scheduled):
            rates, optimizer = optimizer.rates, optimizer.optimizer
        keys = {"loss": made if len(made) > 1 else made[0], **optimizer_keys(optimizer, graph, model, rates)}
        if any(weight != 1 for weight in weights):
            keys["loss_weights"] = weights
        if metrics:
            one = len(made) == 1 and isinstance(metrics, (list, tuple))
            keys["metrics"] = metric_keys(metrics, losses[0], graph.output_shapes[0], arrays[0], graph.dtype) if one else metrics
        return keys

    @staticmethod
    def scheduled(optimizer: Any, scheduler: Any, by_step: bool, updates: int, epochs: int) -> Any:
        """The optimizer with the learning rates of a torch.optim.lr_scheduler."""
        from cohort._torch_compile import scheduled

        return Scheduled(optimizer, scheduled(optimizer, scheduler, updates, epochs, by_step))

    @staticmethod
    def assign(graph: Graph, model: Any, values: dict[str, np.ndarray]) -> None:
        from cohort import torch as tracer

        tracer.assign(graph, model, values)


@dataclass
class Scheduled:
    """An optimizer of PyTorch, with the learning rate of each of its groups."""

    optimizer: Any
    rates: list[Any]


def _as_labels(y: Any) -> np.ndarray:
    if hasattr(y, "detach"):
        y = y.detach().cpu()
    return np.asarray(y)


class ExternalFramework(_Framework):
    """Steps of Python beside each worker (cohort.external)."""

    @staticmethod
    def check_weights(sample_weight: Any, class_weight: Any) -> None:
        for name, given in (("sample_weight", sample_weight), ("class_weight", class_weight)):
            if given is not None:
                raise TypeError(f"an external step computes its loss itself, and never sees `{name}`: pass the weights as a column of x")

    @staticmethod
    def columns(model: Any, x: Any, y: Any) -> tuple[dict[str, Any], np.ndarray]:
        """The columns of the step: those of x, and the labels as `label`. The job's own label says nothing."""
        columns = dict(x) if isinstance(x, Mapping) else {"x": x}
        if isinstance(y, Mapping):
            columns.update(y)
        elif y is not None:
            columns["label"] = y
        columns = {f"column/{name}": array for name, array in columns.items()}  # the job's own label is `label`
        return columns, np.zeros(len(next(iter(columns.values()))), np.uint8)

    @staticmethod
    def trace(model: Any, x: Any, data: Any) -> Graph:
        if data is not None:
            raise TypeError("an external step takes arrays: pass x and y")
        dtype = next(iter(model.variables.values())).dtype.name
        graph = Graph(model.name, dtype)
        inputs = []
        for name, array in x.items():
            kind = "int64" if np.asarray(array[:1]).dtype.kind in "iub" else dtype
            shape = np.shape(array)[1:]
            column = graph.input(name, shape or (1,), kind)  # a column of single numbers is [batch, 1] in a model
            inputs.append(column if shape else graph.op("reshape", [column], newshape=[-1]))
        inputs += [graph.variable(name, value, name not in model.frozen) for name, value in model.variables.items()]
        graph.outputs = [graph.add("External", "step", inputs, columns=len(x), results=1 + len(model.metrics),
                                   names=[*(name.removeprefix("column/") for name in x), *model.variables])]
        graph.output_shapes = [(1 + len(model.metrics),)]
        graph.variables = {name: model for name in model.variables}
        return graph

    @staticmethod
    def compile_keys(model: Any, loss: Any, optimizer: Any, metrics: Any, graph: Graph, labels: list[Any]) -> dict[str, Any]:
        if loss is not None or metrics is not None:
            raise TypeError("an external step returns its loss and metrics itself")
        if optimizer is None:
            raise TypeError("an external step needs `optimizer`")

        def column(index: int) -> dict[str, Any]:
            function = Graph("column", graph.dtype)
            prediction = function.input("y_pred", graph.output_shapes[0], graph.dtype)
            function.outputs = [function.op("get_item", [prediction], key=f"..., {index}")]
            return {"layers": function.layers_json()}

        return {"loss": {"Traced": column(0)}, "optimizer": _optimizer(optimizer),
                "metrics": [{"Traced": {"name": name, **column(1 + i)}} for i, name in enumerate(model.metrics)]}

    @staticmethod
    def environment(model: Any, run_dir: str) -> dict[str, str]:
        """What the workers need in their environment."""
        from cohort import external

        step = external.save(model.step, os.path.join(run_dir, "step.pickle"))
        package = os.path.dirname(os.path.dirname(os.path.abspath(external.__file__)))
        return {external.COMMAND: json.dumps([sys.executable, "-m", "cohort.external", step]),
                "PYTHONPATH": os.pathsep.join([package, *filter(None, sys.path)])}

    @staticmethod
    def assign(graph: Graph, model: Any, values: dict[str, np.ndarray]) -> None:
        model.trained(values)


def _optimizer(given: Any) -> Any:
    """An optimizer of Keras or PyTorch, or as a job file has it."""
    if isinstance(given, (str, dict)):
        return given
    if type(given).__module__.startswith("keras."):
        return Classes.of_programs().object_of(given, "optimizers")
    from cohort._torch_compile import optimizer_keys

    return optimizer_keys(given)["optimizer"]


class JaxFramework(_Framework):
    """jax: a `cohort.jax.Model`."""

    @staticmethod
    def trace(model: Any, x: Any, data: Any) -> Graph:
        from cohort import jax as tracer

        return tracer.trace(model.apply, model.params, tracer.example_of(model, x), name=model.name)

    @staticmethod
    def compile_keys(model: Any, loss: Any, optimizer: Any, metrics: Any, graph: Graph, labels: list[Any]) -> dict[str, Any]:
        from cohort._jax_compile import compile_keys

        return compile_keys(loss, optimizer, metrics)

    @staticmethod
    def assign(graph: Graph, model: Any, values: dict[str, np.ndarray]) -> None:
        from cohort import jax as tracer

        model.params = tracer.assign(graph, model.params, values)


def framework_of(model: Any) -> Any:
    """The framework of a model. Raises TypeError for an object that is none."""
    if isinstance(model, ExternalStep):
        return ExternalFramework
    for module, base, framework in (("cohort.jax", "Model", JaxFramework), ("keras", "Model", KerasFramework),
                                    ("tf_keras", "Model", TfKerasFramework), ("torch", None, TorchFramework)):
        if module not in sys.modules:
            continue
        loaded = sys.modules[module]
        if isinstance(model, getattr(loaded, base) if base else loaded.nn.Module):
            return framework
    raise TypeError(f"{type(model).__name__} is no keras.Model, no torch.nn.Module and no cohort.jax.Model(apply, params)")
