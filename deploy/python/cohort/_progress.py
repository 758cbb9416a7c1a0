"""The progress of a job, as Keras prints it."""

from __future__ import annotations

import sys
import time
from typing import Any

_SKIPPED = ("time", "set", "kind", "epoch", "step", "seconds", "steps_per_second", "learning_rate")
_WIDTH = 20


def figures_of(event: dict[str, Any]) -> dict[str, float]:
    """The loss and the metrics of a line of metrics.jsonl, by Keras' names."""
    prefix = "val_" if event["set"] == "validation" else ""
    return {prefix + key: value for key, value in event.items() if key not in _SKIPPED and "/" not in key}


class Progress:
    """Prints epochs. verbose: 0: nothing; 1: a bar; 2: a line for each epoch; "auto": a bar in a terminal, else lines."""

    def __init__(self, epochs: int, offset: int, verbose: str | int, steps: int | None, validated: bool):
        self._epochs = epochs
        self._offset = offset  # epochs before the first one of the job
        self._verbose = (1 if sys.stdout.isatty() else 2) if verbose == "auto" else int(verbose)
        self._steps = steps
        self._validated = validated
        self._before = 0  # steps before this epoch
        self._shown = 0  # the epoch that has its headline
        self._began = self._now = time.time()  # when this epoch began; the time of the newest event
        self._line: list[str] | None = None  # that of an epoch that waits for its validation

    def show(self, event: dict[str, Any]) -> None:
        if not self._verbose or event["set"] not in ("train", "validation"):
            return
        self._now = float(event["time"])
        text = [f"{key}: {value:.4f}" if value is None or abs(value) > 1e-3 else f"{key}: {value:.4e}"
                for key, value in figures_of(event).items() if value is not None]
        epoch = int(event["epoch"]) + self._offset
        if event.get("kind") != "epoch":
            if self._verbose == 1 and event["set"] == "train":
                self._headline(epoch)
                self._print(int(event["step"]) - self._before, text, "")
            return
        if event["set"] == "validation":
            if self._line is not None:
                self._finish(self._line + text)
            return
        self.close()
        self._headline(epoch)
        steps = int(event["step"]) - self._before
        self._before, self._steps = int(event["step"]), steps
        self._line = text
        if not self._validated:
            self._finish(text)
        elif self._verbose == 1:
            self._print(steps, text, "")

    def close(self) -> None:
        """Prints the line of an epoch that had no validation."""
        if self._line is not None:
            self._finish(self._line)

    def _finish(self, text: list[str]) -> None:
        self._line = None
        self._print(self._steps or 0, text, "\n")
        self._began = self._now

    def _headline(self, epoch: int) -> None:
        if self._shown != epoch:
            self._shown = epoch
            print(f"Epoch {epoch}/{self._epochs}", flush=True)

    def _print(self, step: int, text: list[str], end: str) -> None:
        seconds = max(0.0, self._now - self._began)
        each = seconds / max(step, 1)
        total = max(self._steps or step, step)
        speed = f"{each * 1e3:.0f}ms/step" if each >= 1e-3 else f"{each * 1e6:.0f}us/step"
        figures = " - ".join([f"{seconds:.0f}s", speed, *text]) if self._verbose == 2 else " - ".join([f"{seconds:.0f}s {speed}", *text])
        if self._verbose == 2:
            if end:
                print(f"{step}/{total} - {figures}", flush=True)
            return
        full = _WIDTH * step // max(total, 1)
        print(f"\r{step}/{total} {'━' * full}{'─' * (_WIDTH - full)} {figures}", end=end, flush=True)
