"""`cohort.job`: a model of Python and its data as the files of a job."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import yaml

from cohort._callbacks import Callbacks
from cohort._data import DATA_LIMIT, Columns, Writer, arrays_of, batches_of, dataset_of, is_dataset, split_inputs, split_labels, split_weights
from cohort._frameworks import framework_of
from cohort._manifest import jobset


class Job:
    """A job: `model.cohort`, the data, and `job.yaml` in a folder. `cohort.fit` makes one and trains it on this machine.

    The arguments are those of `cohort.fit`. `folder` is where the files are written; a new temporary directory by default. `mounted_at` is
    the path of this folder on the machines of the cluster, if it is another one there.
    """

    def __init__(self, model: Any, x: Any = None, y: Any = None, *, data: str | dict[str, Any] | None = None, label: str | list[str] | None = None,
                 batch_size: int | None = None, epochs: int = 1, callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None,
                 shuffle: bool = True, class_weight: dict[int, float] | None = None, sample_weight: Any = None, steps_per_epoch: int | None = None,
                 validation_steps: int | None = None, validation_freq: int | list[int] = 1, loss: Any = None, optimizer: Any = None,
                 metrics: Any = None, strategy: str = "parameter_server", mode: str = "async", workers: int = 1, ps: int = 1, seed: int = 0,
                 initial_epoch: int = 0, data_limit: int = DATA_LIMIT, scheduler: Any = None, scheduler_interval: str = "epoch",
                 folder: str | None = None, mounted_at: str | None = None):
        if epochs <= initial_epoch:
            raise ValueError(f"epochs, {epochs}, is the number of the last epoch: it must be above initial_epoch, {initial_epoch}")
        framework = framework_of(model)
        framework.check_weights(sample_weight, class_weight)
        self.model = model
        self.folder = os.path.abspath(folder or tempfile.mkdtemp(prefix="cohort-"))
        self.mounted_at = mounted_at or self.folder
        self.strategy, self.workers, self.ps = strategy, workers, ps
        self.initial_epoch = initial_epoch
        self._framework = framework
        os.makedirs(self.folder, exist_ok=True)
        if is_dataset(x):
            if batch_size is not None:
                raise TypeError("`batch_size` must not be given for a dataset, which has batches")
            first = next(iter(batches_of(x)))
            batch_size = _records_of(first[0])
        else:
            x, y = framework.columns(model, arrays_of(x, len(getattr(model, "inputs", None) or [x])), y)
            if x is not None and validation_data is not None and not is_dataset(validation_data):
                validation_data = (*framework.columns(model, *validation_data[:2]), *validation_data[2:])
            first = (x, y, sample_weight)
        if scheduler is not None:
            if not hasattr(framework, "scheduled") or scheduler_interval not in ("epoch", "step"):
                raise TypeError("`scheduler` is one of torch.optim.lr_scheduler for a torch module, and steps by \"epoch\" or \"step\"")
            synchronous = strategy == "multi_worker_mirrored" or (strategy == "parameter_server" and mode == "sync")
            batches = steps_per_epoch or _batches(y, validation_split, batch_size or 32)
            optimizer = framework.scheduled(optimizer, scheduler, scheduler_interval == "step", -(-batches // (workers if synchronous else 1)),
                                            epochs)
        self.graph = framework.trace(model, first[0], data)
        self.graph.save(os.path.join(self.folder, "model.cohort"))
        labels = [] if first[1] is None else list(split_labels(first[1], self.graph.output_names or self.graph.outputs).values())
        data_keys = _Data(self.folder, self.graph, shuffle, data_limit).keys(x, y, sample_weight, data, label, validation_data)
        self.is_validated = "validation" in data_keys or bool(validation_split)
        self.callbacks = Callbacks(callbacks, model, range(initial_epoch, epochs))
        self.spec: dict[str, Any] = {
            "name": self.graph.name,
            "seed": seed,
            **self.graph.job_keys(),
            **framework.job_keys(model),
            "compile": framework.compile_keys(model, loss, optimizer, metrics, self.graph, labels),
            "data": {"batch_size": batch_size or 32, "visitation": "independent" if steps_per_epoch else "exactly_once", **data_keys},
            "fit": {key: value for key, value in {
                "epochs": epochs - initial_epoch, "validation_split": validation_split or None, "class_weight": class_weight,
                "steps_per_epoch": steps_per_epoch, "validation_steps": validation_steps,
                "validation_freq": validation_freq if validation_freq != 1 else None, "callbacks": self.callbacks.there or None,
            }.items() if value is not None},
            # Callbacks here see the weights of an epoch while the job trains the next ones.
            "checkpoint": {"directory": "checkpoints", "every_epochs": 1, **({"max_to_keep": 20} if self.callbacks.here else {})},
            "report": {"log_dir": self.callbacks.log_dir or "logs"},
            "strategy": {"name": strategy, **({"mode": mode} if strategy == "parameter_server" else {})},
        }

    def save(self, path: str | None = None) -> str:
        """Writes the job file, by default job.yaml in the folder; returns its path. `cohort check` and `cohort run` take it."""
        path = os.path.abspath(path or os.path.join(self.folder, "job.yaml"))
        spec = self.spec if self.mounted_at == self.folder else _moved(self.spec, self.folder, self.mounted_at)
        if os.path.dirname(path) != self.folder and "traced" in spec["model"]:
            spec = {**spec, "model": {**spec["model"], "traced": os.path.join(self.mounted_at, spec["model"]["traced"])}}
        with open(path + ".new", "w", encoding="utf-8") as file:
            yaml.safe_dump(spec, file, sort_keys=False, allow_unicode=True)
        os.replace(path + ".new", path)
        return path

    def manifest(self, kind: str = "jobset", *, image: str, claim: str) -> str:
        """Returns the objects of Kubernetes that train the job, as YAML for `kubectl apply -f -`.

        The files of the folder lie on the persistent volume claim `claim` at `mounted_at`, which is below /data. Only "jobset" is supported;
        deploy/kubernetes has the others. Certificates are secrets, as its README.md says.
        """
        if kind != "jobset":
            raise ValueError(f"the manifest is \"jobset\", not {kind!r}: for TFJob, Volcano and plain Jobs take those of deploy/kubernetes")
        if not self.mounted_at.startswith("/data/"):
            raise ValueError(f"the job is made with mounted_at=\"/data/...\", where the pods see its files, not {self.mounted_at}")
        return jobset(os.path.join(self.mounted_at, "job.yaml"), image, claim, self.workers, self.ps)

    def environment(self) -> dict[str, str]:
        """What the workers need in their environment."""
        needed = self._framework.environment(self.model, self.folder)
        if needed and "OMP_NUM_THREADS" not in os.environ:  # the processes of steps share the cores
            needed["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // max(1, self.workers)))
        return needed

    def assign(self, values: dict[str, Any]) -> None:
        """Gives the model the values of a checkpoint."""
        self._framework.assign(self.graph, self.model, values)


def _moved(value: Any, old: str, new: str) -> Any:
    """Keys of a job with paths in another folder."""
    if isinstance(value, dict):
        return {key: _moved(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    return new + value[len(old):] if isinstance(value, str) and value.startswith(old + "/") else value


def _records_of(x: Any) -> int:
    while isinstance(x, (dict, list, tuple)):
        x = next(iter(x.values())) if isinstance(x, dict) else x[0]
    return len(x)


class _Data:
    """Writes the data of a job into its run directory."""

    def __init__(self, run_dir: str, graph: Any, shuffle: bool, limit: int):
        self._run_dir = run_dir
        self._shapes = {layer["Input"]["name"]: layer["Input"]["shape"] for layer in graph.layers if "Input" in layer}
        self._outputs = graph.output_names or graph.outputs
        self._shuffle = shuffle
        self._limit = limit

    def keys(self, x: Any, y: Any, sample_weight: Any, data: Any, label: Any, validation_data: Any) -> dict[str, Any]:
        """The keys train and validation of a job's data."""
        if data is not None:
            if x is not None or y is not None:
                raise TypeError("pass either x and y, or data and label")
            datasets = {"train": {**dataset_of(data, label, self._shapes), "shuffle": bool(self._shuffle)}}
            if validation_data is not None:
                datasets["validation"] = dataset_of(validation_data, label, self._shapes)
            return datasets
        if x is None:
            raise TypeError("x and y, or data and label, are required")
        datasets = {"train": {**self._write("train", x, y, sample_weight), "shuffle": bool(self._shuffle)}}
        if validation_data is not None:
            parts = (validation_data,) if is_dataset(validation_data) else tuple(validation_data)
            if len(parts) > 3:
                raise TypeError("validation_data is (x, y), (x, y, sample_weight), or a dataset")
            datasets["validation"] = self._write("validation", *(*parts, None, None)[:3])
            if "sample_weight" in datasets["train"]:  # null: its records have no weights, although those of the training set have
                datasets["validation"].setdefault("sample_weight", None)
        return datasets

    def _write(self, name: str, x: Any, y: Any, weight: Any) -> dict[str, Any]:
        if not is_dataset(x):
            return self._columns(x, y, weight).write(self._run_dir, name, self._limit)
        if y is not None or weight is not None:
            raise TypeError("`y` and `sample_weight` must not be given with a dataset, which has them")
        batches = batches_of(x)
        first = self._columns(*next(batches))
        with Writer(self._run_dir, name, first, self._limit) as writer:
            writer.append(first)
            for batch in batches:
                writer.append(self._columns(*batch))
            return writer.finish()

    def _columns(self, x: Any, y: Any, weight: Any) -> Columns:
        return Columns(split_inputs(x, list(self._shapes), self._shapes), split_labels(y, self._outputs), split_weights(weight, self._outputs))


def _batches(y: Any, validation_split: float, batch_size: int) -> int:
    """Batches of an epoch."""
    if y is None:
        raise TypeError("a scheduler needs steps_per_epoch if the data is no array")
    first = next(iter(y.values())) if isinstance(y, dict) else y
    return max(1, -(-int(len(first) * (1 - validation_split)) // batch_size))
