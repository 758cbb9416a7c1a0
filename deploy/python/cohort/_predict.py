"""`cohort.predict`: what a trained model answers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Mapping

import numpy as np

from cohort import _programs
from cohort._data import split_inputs
from cohort._export_model import path_of


def predict(checkpoint: Any, x: Any = None, *, threads: int = 0, workers: int = 1, cluster: str | None = None) -> Any:
    """Returns the outputs of a trained model for records: exactly the numbers that its evaluation saw.

    Args:
        checkpoint: a checkpoint, a folder of checkpoints (the newest whole one counts), FOLDER/best, a run directory, or the History
            that `cohort.fit` returned.
        x: arrays of shape [records, ...] by the columns that the model reads, as in `fit`: one, a list, or a dict by their names; or the
            name of a file or folder of records. None: the validation set of the job. Records pass the transforms of the job.
        threads: that each process has; 0: the processes share the cores.
        workers: processes on this machine, each of which predicts a part of the records. The numbers do not depend on it.
        cluster: refused. The tasks of a cluster only train: run `cohort predict --part I/N` on each machine, then `cohort predict --join`.

    Returns:
        An array [records, ...]; of a model with several outputs a dict of them by their names.

    Raises:
        TypeError: `cluster` is given, or x is none of these.
        ProgramError: no whole checkpoint, or the records lack a column or have other shapes; says which.
    """
    if cluster is not None:
        raise TypeError(f"cluster={cluster!r}: the tasks of a cluster only train, and predictions run on this machine, in `workers` processes. For "
                        f"several machines run `cohort predict --part I/N` on each of them, and then `cohort predict --join`")
    path = path_of(checkpoint)
    with tempfile.TemporaryDirectory(prefix="cohort-") as scratch:
        out = os.path.join(scratch, "predictions.npz")
        command = [path]
        if isinstance(x, (str, os.PathLike)):
            command.append(os.fspath(x))
        elif x is not None:
            command.append(_write(_columns(path, x), scratch))
        _run("--out", out, "--threads", str(threads), "--workers", str(workers), *command)
        with np.load(out) as file:
            arrays = {name: file[name] for name in file.files}
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _run(*arguments: str) -> None:
    done = subprocess.run([_programs.find("cohort-predict"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _programs.ProgramError(done.stderr.strip() or f"cohort-predict ended with {done.returncode}")


def _columns(path: str, x: Any) -> dict[str, np.ndarray]:
    """The columns that the transforms and the model read."""
    job = json.loads(_programs.output("inspect", "--json", path))
    names: list[str] = []
    made = {t["output"]: t["columns"] or [t["column"]] for t in reversed(job["transforms"])}
    for layer in job["model"]["functional"]:
        if layer["class_name"] == "Input":
            _sources(layer["config"].get("feature") or layer["name"], made, names, set())
    if isinstance(x, Mapping) or hasattr(x, "columns"):
        # Columns may have the names of the data as well as those of the Inputs: the program finds them.
        given = {str(name): x[name] for name in (x if isinstance(x, Mapping) else x.columns)}
    elif isinstance(x, (list, tuple)) and len(names) > 1 and made:
        raise TypeError(f"the job makes inputs of columns, which have no order: pass x as a dict by their names ({', '.join(names)})")
    else:
        given = split_inputs(x, names)
    arrays = {}
    for name, value in given.items():
        if name in job["targets"]:
            continue
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        if hasattr(value, "to_numpy"):
            value = value.to_numpy()
        array = np.asarray(value)
        if array.ndim == 0:
            raise TypeError(f"the column {name!r} is a single number: records are along the first axis")
        arrays[name] = array.astype(np.uint8) if array.dtype == bool else array
    counts = {name: len(a) for name, a in arrays.items()}
    if not arrays or len(set(counts.values())) != 1:
        raise ValueError(f"the columns have different numbers of records: {counts}" if arrays else "x has no columns")
    if not next(iter(counts.values())):
        raise ValueError("there are no records")
    return arrays


def _sources(column: str, made: dict[str, list[str]], names: list[str], seen: set[str]) -> None:
    if column in made and column not in seen and made[column] != [column]:
        for source in made[column]:
            _sources(source, made, names, seen | {column})
    elif column not in names:
        names.append(column)


def _write(arrays: dict[str, np.ndarray], scratch: str) -> str:
    """One file of all columns: arrays that the program reads in place, or lines of JSON if there are words."""
    if all(a.dtype.kind in "biuf" for a in arrays.values()):
        path = os.path.join(scratch, "records.npz")
        np.savez(path, **{name: np.ascontiguousarray(a) for name, a in arrays.items()})
        return path
    path = os.path.join(scratch, "records.jsonl")
    plain = {name: [w.decode() if isinstance(w, bytes) else w for w in a.tolist()] if a.dtype.kind in "SO" else a.tolist()
             for name, a in arrays.items()}
    with open(path, "w", encoding="utf-8") as file:
        for record in zip(*plain.values()):
            file.write(json.dumps(dict(zip(plain, record)), ensure_ascii=False) + "\n")
    return path
