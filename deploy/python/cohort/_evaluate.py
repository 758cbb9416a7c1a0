"""`cohort.evaluate`: the figures of a trained model."""

from __future__ import annotations

import json
from typing import Any

from cohort import _programs
from cohort._export_model import path_of
from cohort._progress import figures_of


def evaluate(checkpoint: Any) -> dict[str, float]:
    """Evaluates a checkpoint on the validation data of its job; returns loss and metrics by name.

    Args:
        checkpoint: as `cohort.predict` takes it: a run directory, a folder of checkpoints, FOLDER/best, or a History of `fit`.

    For other records evaluate the model itself, which has the trained weights after `fit`, or compare `cohort.predict` with the labels.

    Raises:
        ProgramError: no whole checkpoint, or the job has no validation data; says what to do.
    """
    lines = _programs.output("evaluate", path_of(checkpoint)).strip().splitlines()
    return {name.removeprefix("val_"): value for name, value in figures_of(json.loads(lines[-1])).items()}
