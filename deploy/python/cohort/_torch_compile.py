"""Losses, optimizers and schedules of PyTorch as the keys of `compile` in a job file."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Sequence

import torch
from torch import nn
from torch.optim import lr_scheduler

from cohort._graph import Graph, TraceError

_REDUCTIONS = {"mean": "sum_over_batch_size", "sum": "sum"}
_MOST_PIECES = 10000  # the longest table of a schedule


# -------------------------------------------------------------------- losses


def loss_keys(loss: Any, prediction: tuple[int, ...] | None = None, label: Any = None, dtype: str = "float32") -> Any:
    """The loss of a job that is this loss of torch.nn, or one of Keras' by name.

    loss: a module of torch.nn, or a function `(prediction, target)` that returns a number for each record or element; their mean is the
        loss. A class of Keras is taken where it computes the same; any other is traced.
    prediction: the shape of the output for one record. label: the array of labels.
    Raises TraceError for what neither way can do.
    """
    if isinstance(loss, (str, dict)):
        return loss
    name = _name_of(loss)
    reduction = getattr(loss, "reduction", "mean")
    batch_mean = reduction == "batchmean" and isinstance(loss, nn.KLDivLoss)
    if reduction not in _REDUCTIONS and not batch_mean:
        raise TraceError(f"{name} with reduction={reduction!r}: a job needs one number, mean or sum")
    if getattr(loss, "weight", None) is not None and not isinstance(loss, (nn.BCELoss, nn.BCEWithLogitsLoss)):
        raise TraceError(f"{name} with weight: its mean is one over the weights of a batch. Pass class_weight to fit, with which the mean is "
                         f"one over the records")
    if getattr(loss, "ignore_index", -100) >= 0:
        raise TraceError(f"{name} with ignore_index: its mean is one over the other records of a batch. Pass sample_weight to fit, or "
                         f"loss={{'SparseCategoricalCrossentropy': {{'from_logits': True, 'ignore_class': {loss.ignore_index}}}}}")
    known = _class_of(loss, prediction, label) if reduction == "mean" else None
    if known is not None:
        return known
    if prediction is None or label is None:
        raise TraceError(f"the loss {name} is traced with labels: pass x and y as arrays, or name a loss of `cohort reference`")
    from cohort.torch import trace_loss

    traced: dict[str, Any] = {"layers": trace_loss(loss, prediction, label, dtype).layers_json()}
    if reduction == "sum":
        traced["reduction"] = "sum"
    return {"Traced": traced}


def loss_weight(loss: Any, prediction: tuple[int, ...] | None) -> float:
    """What the mean over all elements is multiplied by."""
    if isinstance(loss, nn.KLDivLoss) and loss.reduction == "batchmean":
        weight = 1.0
        for size in prediction or ():
            weight *= size
        return weight
    return 1.0


def _name_of(loss: Any) -> str:
    return getattr(loss, "__name__", type(loss).__name__)


def _class_of(loss: Any, prediction: tuple[int, ...] | None, label: Any) -> Any:
    """A class of Keras that computes the same for such labels, or None."""
    same_shape = prediction is None or label is None or tuple(label.shape[1:]) == tuple(prediction)
    if type(loss) is nn.CrossEntropyLoss:
        if prediction is not None and len(prediction) != 1:
            return None
        if label is not None and getattr(label, "ndim", 1) > 1:
            smoothing = {"label_smoothing": loss.label_smoothing} if loss.label_smoothing else {}
            return {"CategoricalCrossentropy": {"from_logits": True, **smoothing}} if same_shape else None
        return None if loss.label_smoothing else {"SparseCategoricalCrossentropy": {"from_logits": True}}
    if not same_shape:
        return None
    if type(loss) is nn.BCEWithLogitsLoss and loss.weight is None and loss.pos_weight is None:
        return {"BinaryCrossentropy": {"from_logits": True}}
    if type(loss) is nn.MSELoss:
        return "MeanSquaredError"
    if type(loss) is nn.L1Loss:
        return "MeanAbsoluteError"
    if type(loss) is nn.HuberLoss:
        return {"Huber": {"delta": float(loss.delta)}}
    if type(loss) is nn.SmoothL1Loss and loss.beta == 1:
        return {"Huber": {"delta": 1.0}}
    return None


def metric_keys(metrics: Sequence[Any], loss: Any, prediction: tuple[int, ...], label: Any, dtype: str) -> list[Any]:
    """Metrics of a job: names and classes of Keras, functions `(prediction, target)` whose mean is reported, and "accuracy" for a loss."""
    return [_metric(metric, loss, prediction, label, dtype) for metric in metrics]


def _metric(metric: Any, loss: Any, prediction: tuple[int, ...], label: Any, dtype: str) -> Any:
    name = metric if isinstance(metric, str) else _name_of(metric)
    if metric in ("accuracy", "acc") and label is not None:
        if isinstance(loss, nn.BCEWithLogitsLoss):
            return {"BinaryAccuracy": {"threshold": 0.0, "name": name}}
        if isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss)):
            if len(prediction) == 1:
                return {"SparseCategoricalAccuracy" if label.ndim < 2 else "CategoricalAccuracy": {"name": name}}
            metric = _same_class if label.ndim == len(prediction) else _same_largest
    if not callable(metric):
        return metric
    from cohort.torch import trace_loss

    function = metric

    def numbers(y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
        return function(y_pred, y_true).to(y_pred.dtype)

    numbers.__name__ = name
    return {"Traced": {"layers": trace_loss(numbers, prediction, label, dtype).layers_json(), "name": name}}


def _same_class(y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
    return y_pred.argmax(1) == y_true


def _same_largest(y_pred: torch.Tensor, y_true: torch.Tensor) -> torch.Tensor:
    return y_pred.argmax(1) == y_true.argmax(1)


# -------------------------------------------------------------------- optimizers


def optimizer_keys(optimizer: Any, graph: Graph | None = None, module: nn.Module | None = None, rates: Sequence[Any] | None = None) -> dict[str, Any]:
    """The key `optimizer`, or `optimizers` for several groups of parameters, of a job.

    rates: the learning rate of each group, a number or a schedule; by default those of the groups.
    Raises TraceError for an optimizer that has no counterpart.
    """
    if isinstance(optimizer, (str, dict)):
        return {"optimizer": optimizer}
    if isinstance(optimizer, list):
        return {"optimizers": optimizer}
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"`optimizer` is an object of torch.optim, such as torch.optim.Adam(module.parameters()), or a name; "
                        f"not {type(optimizer).__name__}")
    groups = optimizer.param_groups
    made = [_class_of_group(type(optimizer).__name__, group, group["lr"] if rates is None else rates[i]) for i, group in enumerate(groups)]
    if module is not None:
        _check_parameters(groups, module)
    if len(groups) == 1 or all(m == made[0] for m in made):
        return {"optimizer": made[0]}
    if graph is None or module is None:
        raise TraceError("an optimizer with several groups of parameters needs the module")
    return {"optimizers": _by_variable(made, groups, graph, module)}


def _check_parameters(groups: list[dict[str, Any]], module: nn.Module) -> None:
    given = {id(p) for group in groups for p in group["params"]}
    own = {name: p for name, p in module.named_parameters()}
    if not given & {id(p) for p in own.values()}:
        raise TypeError("the optimizer has none of the module's parameters: make it after the module, with module.parameters()")
    for name, p in own.items():
        if p.requires_grad and id(p) not in given:
            raise TypeError(f"the optimizer does not have the parameter {name}: call requires_grad_(False) on what does not train")


def _by_variable(made: list[Any], groups: list[dict[str, Any]], graph: Graph, module: nn.Module) -> list[dict[str, Any]]:
    """An entry of `optimizers` for each variable of all groups but the largest, which has the rest."""
    of_parameter = {id(p): i for i, group in enumerate(groups) for p in group["params"]}
    group_of = {name: of_parameter.get(id(p)) for name, p in module.named_parameters()}
    largest = max(range(len(groups)), key=lambda i: len(groups[i]["params"]))
    entries = []
    for key, (target, _) in graph.variables.items():
        targets = [target] if isinstance(target, str) else list(target)
        mine = {group_of[t] for t in targets if group_of.get(t) is not None}
        if len(mine) > 1:
            raise TraceError(f"{' and '.join(targets)} are one variable, and belong to different groups of the optimizer")
        if mine and mine != {largest}:
            entries.append({"variables": graph.variable_name(key), "optimizer": made[mine.pop()]})
    return [*entries, {"variables": "*", "optimizer": made[largest]}]


def _class_of_group(name: str, group: dict[str, Any], rate: Any) -> Any:
    """A class of a job for an optimizer of PyTorch with the arguments of a group."""
    if group.get("maximize"):
        raise TraceError(f"{name} with maximize: negate the loss")
    config: dict[str, Any] = {"learning_rate": float(rate) if isinstance(rate, (int, float, torch.Tensor)) else rate}
    decay = float(group.get("weight_decay", 0))
    if decay:
        config["weight_decay"] = decay
    if name == "SGD":
        for key in ("momentum", "dampening", "nesterov"):
            if group[key]:
                config[key] = bool(group[key]) if key == "nesterov" else float(group[key])
        return {"TorchSGD": config}
    if name in ("Adam", "AdamW"):
        beta_1, beta_2 = (float(b) for b in group["betas"])
        config.update(beta_1=beta_1, beta_2=beta_2, epsilon=group["eps"], amsgrad=bool(group["amsgrad"]), weight_decay=decay)
        decoupled = name == "AdamW" or group.get("decoupled_weight_decay")
        return {"TorchAdamW" if decoupled else "TorchAdam": config}
    if name == "Adagrad":
        config.update(initial_accumulator_value=float(group["initial_accumulator_value"]), epsilon=group["eps"], lr_decay=float(group["lr_decay"]))
        return {"TorchAdagrad": config}
    if name == "RMSprop":
        config.update(rho=group["alpha"], momentum=float(group["momentum"]), epsilon=group["eps"], centered=bool(group["centered"]))
        return {"TorchRMSprop": config}
    if name == "Adadelta":
        if decay:
            raise TraceError("Adadelta with weight_decay, which PyTorch adds to the gradient: use SGD, Adam, Adagrad or RMSprop")
        return {"Adadelta": {**config, "rho": group["rho"], "epsilon": group["eps"]}}
    other = {"NAdam": "Nadam", "Adamax": "Adamax", "RAdam": "Adam", "SparseAdam": "Adam", "Adafactor": "Adafactor", "Muon": "Muon"}.get(name)
    instead = f"Cohort has Keras' formulas: optimizer={{'{other}': {{'learning_rate': ...}}}}" if other else "name one of `cohort reference`"
    raise TraceError(f"the optimizer {name} of PyTorch has no counterpart that computes the same; {instead}")


# -------------------------------------------------------------------- schedules


def scheduled(optimizer: Any, scheduler: Any, updates: int, epochs: int, by_step: bool) -> list[Any]:
    """The learning rate of each group of an optimizer under a scheduler, as a job has it.

    updates: of a variable in an epoch. by_step: the user would call scheduler.step() after each batch, not after each epoch.
    Raises TraceError for what depends on figures, or has too many pieces.
    """
    name = type(scheduler).__name__
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        raise TraceError("ReduceLROnPlateau has a relative threshold: pass the callback {'ReduceLROnPlateau': {'factor': ..., 'patience': ...}} in "
                         "`callbacks`, which the chief runs")
    if not isinstance(scheduler, lr_scheduler.LRScheduler):
        raise TypeError(f"`scheduler` is an object of torch.optim.lr_scheduler, not {name}")
    if scheduler.optimizer is not optimizer:
        raise TypeError("the scheduler is one of another optimizer")
    if getattr(scheduler, "cycle_momentum", False):
        raise TraceError(f"{name} with cycle_momentum, which changes the optimizer's momentum: pass cycle_momentum=False")
    unit = 1 if by_step else updates
    closed = _closed_form(scheduler, unit, updates * epochs)
    return closed if closed is not None else _pieces(scheduler, unit, updates * epochs if by_step else epochs)


def _closed_form(scheduler: Any, unit: int, total: int) -> list[Any] | None:
    if scheduler.last_epoch != 0:
        return None
    rates = [float(rate) for rate in scheduler.get_last_lr()]
    if type(scheduler) is lr_scheduler.ExponentialLR:
        return [{"ExponentialDecay": {"initial_learning_rate": rate, "decay_steps": unit, "decay_rate": scheduler.gamma, "staircase": True}}
                for rate in rates]
    if type(scheduler) is lr_scheduler.StepLR:
        return [{"ExponentialDecay": {"initial_learning_rate": rate, "decay_steps": unit * scheduler.step_size, "decay_rate": scheduler.gamma,
                                      "staircase": True}} for rate in rates]
    if type(scheduler) is lr_scheduler.CosineAnnealingLR and unit == 1 and total <= scheduler.T_max and all(rates):
        return [{"CosineDecay": {"initial_learning_rate": rate, "decay_steps": scheduler.T_max, "alpha": scheduler.eta_min / rate}} for rate in rates]
    return None


def _pieces(scheduler: Any, unit: int, count: int) -> list[Any]:
    """The rates of `count` intervals of `unit` steps, by running the scheduler on an optimizer of its own."""
    if count > _MOST_PIECES:
        raise TraceError(f"{type(scheduler).__name__} by steps has {count} learning rates, more than {_MOST_PIECES}: let it step by epochs, or use "
                         f"StepLR, ExponentialLR or CosineAnnealingLR")
    groups = scheduler.optimizer.param_groups
    alone = torch.optim.SGD([{"params": [torch.zeros(1)], "lr": float(g["lr"])} for g in groups], lr=1.0)
    for mine, theirs in zip(alone.param_groups, groups):
        mine.update({k: v for k, v in theirs.items() if k in ("initial_lr", "max_lr", "min_lr", "swa_lr")})
    runs = copy.deepcopy(scheduler, {id(scheduler.optimizer): alone})
    rates = [[float(g["lr"]) for g in alone.param_groups]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step of the optimizer came before
        for _ in range(count - 1):
            runs.step()
            rates.append([float(g["lr"]) for g in alone.param_groups])
    result: list[Any] = []
    for group in range(len(groups)):
        mine = [rate[group] for rate in rates]
        starts = [i for i in range(1, count) if mine[i] != mine[i - 1]]
        values = [mine[0], *(mine[i] for i in starts)]
        boundaries = [i * unit - 1 for i in starts]  # the last step of each piece
        result.append({"PiecewiseConstantDecay": {"boundaries": boundaries, "values": values}} if starts else values[0])
    return result
