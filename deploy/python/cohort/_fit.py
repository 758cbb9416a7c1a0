"""`cohort.fit`: trains a model of Python on a cluster."""

from __future__ import annotations

import glob
import json
import os
import sys
import tempfile
from typing import Any

from cohort import _programs
from cohort._data import DATA_LIMIT
from cohort._job import Job
from cohort._progress import Progress, figures_of
from cohort.external import IN_STEP
from cohort._run import Followed, JobError, Run, checkpoint_values, start, wait_for


class History:
    """What training gave: `history["loss"]` has a number for each epoch, as `keras.callbacks.History` has."""

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []
        self.params: dict[str, Any] = {}
        self.run_dir = ""
        self._epochs: dict[str, list[int]] = {}  # that of each value of `history`
        self._has_rate = False  # the learning rate too, as with Keras' callbacks that set it

    def _add(self, event: dict[str, Any], offset: int = 0) -> None:
        """Takes the figures of an epoch. `offset`: the epochs before the first one of the job."""
        if event["set"] not in ("train", "validation") or event.get("kind") != "epoch":
            return
        is_training = event["set"] == "train"
        epoch = int(event["epoch"]) - 1 + offset
        if is_training and epoch in self.epoch:  # an epoch that was repeated after a rollback
            del self.epoch[self.epoch.index(epoch):]
            for key, values in self.history.items():
                epochs = self._epochs[key]
                kept = sum(one < epoch for one in epochs)
                del values[kept:], epochs[kept:]
        if is_training:
            self.epoch.append(epoch)
        figures = figures_of(event)
        if is_training and self._has_rate and "learning_rate" in event:
            figures["learning_rate"] = event["learning_rate"]
        for key, value in figures.items():
            self.history.setdefault(key, []).append(float("nan") if value is None else value)
            self._epochs.setdefault(key, []).append(epoch)


def fit(model: Any, x: Any = None, y: Any = None, *, data: str | dict[str, Any] | None = None, label: str | list[str] | None = None,
        batch_size: int | None = None, epochs: int = 1, verbose: str | int = "auto", callbacks: Any = None, validation_split: float = 0.0,
        validation_data: Any = None, shuffle: bool = True, class_weight: dict[int, float] | None = None, sample_weight: Any = None,
        steps_per_epoch: int | None = None, validation_steps: int | None = None, validation_freq: int | list[int] = 1, loss: Any = None,
        optimizer: Any = None, metrics: Any = None, strategy: str = "parameter_server", mode: str = "async", workers: int = 1, ps: int = 1,
        cluster: str = "local", flags: list[str] | tuple[str, ...] = (), run_dir: str | None = None, resume: str | None = None, seed: int = 0, initial_epoch: int = 0, data_limit: int = DATA_LIMIT,
        scheduler: Any = None, scheduler_interval: str = "epoch") -> History:
    """Trains a model on a cluster of this machine, as `Model.fit` of Keras does in one process.

    Args:
        model: a compiled Keras 3 model, or a `torch.nn.Module`. At the end it holds the trained weights.
        x: arrays of shape [records, ...] by the model's inputs: one, a list, a dict by their names, or a table of pandas. Columns of words are
            for models with StringLookup and its like. Or a dataset, which is read once: tf.data.Dataset, keras.utils.PyDataset, a DataLoader.
        y: the labels, of shape [records] or [records, ...]; several as `x`.
        data: instead of x and y: a file of records (.csv, .tsv, .jsonl, .npz, .parquet) or a folder with a folder of images for each class,
            which are not copied, or the keys of a dataset of a job, as {"tfrecord": {"path": ..., "features": ...}}. Columns have the names
            of the inputs.
        label: the column of `data` that is the label; that of images is "label" by default.
        batch_size: records of a step of one worker; 32 by default, and that of the batches of a dataset.
        verbose: 0: prints nothing; 1: a bar; 2: a line for each epoch; "auto": a bar in a terminal.
        callbacks: Keras' callbacks that Cohort has (EarlyStopping, ReduceLROnPlateau, ...), which the chief runs, and objects with
            `on_epoch_end(epoch, logs)`, which run here while training continues: the model has the weights of the newest checkpoint then,
            `model.stop_training = True` stops the job, and a new learning rate of the optimizer is sent to it.
        initial_epoch: the number of the first epoch, so that `epochs` - `initial_epoch` epochs are trained.
        epochs, validation_split, validation_data, class_weight, sample_weight, steps_per_epoch, validation_steps, validation_freq:
            as in `Model.fit`.
        loss, optimizer, metrics: of a torch module: objects of torch.nn and torch.optim, or Keras' names; of a Keras model those of
            `compile()` by default.
        scheduler, scheduler_interval: of a torch module: an object of torch.optim.lr_scheduler for the optimizer, and whether it steps by
            "epoch" or by "step".
        strategy: "parameter_server", "multi_worker_mirrored", "mirrored" or "one_device".
        mode: of parameter servers: "async" or "sync".
        workers, ps: processes of the cluster.
        cluster: "local": all tasks run on this machine. "tf_config": this program runs on each machine of a cluster with its TF_CONFIG in
            the environment, and becomes its task; the chief has the model, the others return an empty History at the end. "running": others
            run the job of `cohort.job(...).save()`, such as Slurm or Kubernetes; this program follows it in `run_dir`.
        flags: further flags of `cohort local` or `cohort run`, such as "--tls_dir=DIR".
        run_dir: where checkpoints, logs and the report stay; a new temporary directory by default. One that has checkpoints of this job
            continues from the newest, until it has `epochs` epochs in all; a finished one gives its weights to the model at once.
        resume: a `run_dir` that has checkpoints; an error if it has none.
        data_limit: bytes that may be copied into files of the run directory.

    Returns:
        A History, with the figures of each epoch.

    Raises:
        TypeError: an argument that is not supported, with what to use.
        TraceError: the model, its loss or its optimizer cannot be traced.
        JobError: the job failed.
    """
    if os.environ.get(IN_STEP):
        raise RuntimeError("cohort.fit is called in the process of an external step: put it below `if __name__ == \"__main__\":`")
    if cluster not in ("local", "tf_config", "running"):
        raise ValueError(f"cluster is \"local\", \"tf_config\" or \"running\", not {cluster!r}")
    if resume is not None:
        if not glob.glob(os.path.join(resume, "checkpoints", "ckpt-*")):
            raise ValueError(f"resume: {resume} has no checkpoints of a job")
        run_dir = resume
    if cluster == "running" and run_dir is None:
        raise ValueError("cluster=\"running\" needs the `run_dir` of the job")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size is at least 1, not {batch_size}")
    if cluster == "tf_config" and _task() not in ("chief", "master"):
        return _serve(flags)
    run_dir = os.path.abspath(run_dir or tempfile.mkdtemp(prefix="cohort-"))
    continues = cluster != "running" and bool(glob.glob(os.path.join(run_dir, "checkpoints", "ckpt-*")))
    job = Job(model, x, y, data=data, label=label, batch_size=batch_size, epochs=epochs, callbacks=callbacks, validation_split=validation_split,
              validation_data=validation_data, shuffle=shuffle, class_weight=class_weight, sample_weight=sample_weight,
              steps_per_epoch=steps_per_epoch, validation_steps=validation_steps, validation_freq=validation_freq, loss=loss, optimizer=optimizer,
              metrics=metrics, strategy=strategy, mode=mode, workers=workers, ps=ps, seed=seed, initial_epoch=0 if continues else initial_epoch,
              data_limit=data_limit, scheduler=scheduler, scheduler_interval=scheduler_interval, folder=run_dir)
    log_dir = job.callbacks.log_dir or os.path.join(run_dir, "logs")
    path = job.save()
    progress = Progress(epochs, job.initial_epoch, verbose, steps_per_epoch, job.is_validated)
    if cluster == "running":
        run: Any = Followed(run_dir, log_dir)
    else:
        command = _local(job, run_dir, log_dir) if cluster == "local" else [
            _programs.find("cohort"), "run", "--checkpoint_dir", os.path.join(run_dir, "checkpoints"), "--log_dir", log_dir, "--finished_ok"]
        run = Run([*command, *flags, path], run_dir, log_dir, job.environment())
    history = History()
    history.params = {"epochs": epochs, "verbose": verbose, "steps": steps_per_epoch}
    history.run_dir = run_dir
    history._has_rate = job.callbacks.set_rates
    return _Training(job, run, history, progress).follow(continues)


class _Training:
    """Follows a job: figures, callbacks of this process, and the weights at the end."""

    def __init__(self, job: Job, run: Any, history: History, progress: Progress):
        self._job, self._run, self._history, self._progress = job, run, history, progress

    def follow(self, continues: bool) -> History:
        callbacks, offset = self._job.callbacks, self._job.initial_epoch
        try:
            callbacks.begin(self._history.params)
            waiting = None  # the end of an epoch whose validation is not there yet
            for number, event in enumerate(self._run.events()):
                if number == 0 and not continues:
                    self._run.check_initial_values(len(self._job.graph.values))
                self._history._add(event, offset)
                self._progress.show(event)
                if not callbacks.here or event.get("kind") != "epoch" or event["set"] not in ("train", "validation"):
                    continue
                if waiting is not None:
                    self._end_epoch(waiting)
                    waiting = None
                if event["set"] == "train" and self._job.is_validated:
                    waiting = event
                elif event["set"] == "train":
                    self._end_epoch(event)
            self._progress.close()
            self._run.finish()
            if waiting is not None:
                self._end_epoch(waiting)
        except BaseException as error:
            self._run.stop()
            if isinstance(error, KeyboardInterrupt):
                print(f"\nstopped; cohort.fit(..., run_dir={self._run.run_dir!r}) continues", file=sys.stderr)
            raise
        self._take_weights(self._run.checkpoints)
        callbacks.end(self._figures())
        return self._history

    def _figures(self) -> dict[str, float]:
        return {key: values[-1] for key, values in self._history.history.items()}

    def _take_weights(self, checkpoint: str) -> None:
        self._job.assign(checkpoint_values(checkpoint, self._run.run_dir))

    def _end_epoch(self, event: dict[str, Any]) -> None:
        checkpoint = self._run.wait_for_checkpoint(int(event["step"]))
        if checkpoint is not None:
            try:
                self._take_weights(checkpoint)
            except _programs.ProgramError:  # the job has deleted it meanwhile
                self._take_weights(self._run.checkpoints)
        stop, rate = self._job.callbacks.epoch_end(int(event["epoch"]) - 1 + self._job.initial_epoch, self._figures())
        if rate is not None:
            self._run.control("set", "learning_rate", repr(rate))
        if stop:
            self._run.control("stop")


def _local(job: Job, run_dir: str, log_dir: str) -> list[str]:
    """The command that trains on this machine."""
    places = ["--run_dir", run_dir, "--log_dir", log_dir]
    if job.strategy in ("one_device", "mirrored", "central_storage"):
        return [_programs.find("cohort"), "train", *places]
    servers = ["--ps", str(job.ps)] if job.strategy == "parameter_server" else ["--strategy", job.strategy]
    return [_programs.find("cohort"), "local", "--workers", str(job.workers), *servers, "--restart", *places]


def _task() -> str:
    """The type of this task, of TF_CONFIG."""
    try:
        return str(json.loads(os.environ["TF_CONFIG"])["task"]["type"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("cluster=\"tf_config\" needs TF_CONFIG in the environment, with the `cluster` and the `task` of this program") from error


def _serve(flags: Any) -> History:
    """Becomes a task that is no chief; returns at its end."""
    code = wait_for(start([_programs.find("cohort"), "run", *flags]))
    if code != 0:
        raise JobError(f"the task {_task()} ended with {code}")
    return History()
