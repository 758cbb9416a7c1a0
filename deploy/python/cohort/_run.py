"""Starts a cluster on this machine, follows it, and fetches what it trained."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import threading
import time
import warnings
from typing import Any, Iterator

import numpy as np

from cohort import _programs
from cohort._safetensors import safe_open

_ERROR = re.compile(r"^\s*cohort[\w-]*: error: ")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_CONFIG = 78  # what a chief ends with if the job is finished already
_STOPPED = 79  # what the chief ends with after `cohort ctl RUN stop`


class JobError(RuntimeError):
    """A job failed: has what the programs printed, and where the logs are."""


def _end_with_parent(parent: int) -> None:
    """In the child: SIGTERM when this process dies, also by SIGKILL. The launcher then ends the cluster."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def start(command: list[str], **arguments: Any) -> subprocess.Popen:
    """Starts a program that ends with this process. `arguments`: those of Popen."""
    parent = os.getpid()
    with warnings.catch_warnings():
        # jax warns of a fork, because threads may hold locks. The child calls prctl alone before it becomes the program.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        return subprocess.Popen(command, preexec_fn=lambda: _end_with_parent(parent), **arguments)


def wait_for(process: subprocess.Popen) -> int:
    """Waits for the end of a program; returns its code. An exception, such as that of Ctrl-C, and SIGTERM end the program first."""

    def terminated(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    handled = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    try:
        if handled:
            signal.signal(signal.SIGTERM, terminated)
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        if handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Followed:
    """A job that runs, in its run directory."""

    def __init__(self, run_dir: str, log_dir: str):
        self.run_dir = run_dir
        self._metrics = os.path.join(log_dir, "metrics.jsonl")
        self._position = 0

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.run_dir, "checkpoints")

    @property
    def ended(self) -> bool:
        """True if the last checkpoint of the job is there."""
        return any(_manifest(path).get("finished") for path in glob.glob(os.path.join(self.checkpoints, "ckpt-*", "manifest.json")))

    def _wait(self, seconds: float) -> None:
        """Waits for the end of the job, but not longer."""
        time.sleep(seconds)

    def events(self) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl, as they are written, until the job has ended."""
        rest = b""
        while True:
            ended = self.ended
            try:
                with open(self._metrics, "rb") as file:
                    file.seek(self._position)
                    block = file.read()
            except FileNotFoundError:
                block = b""
            self._position += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())
            if ended and not block:
                return
            if not block:
                self._wait(0.05)

    def wait_for_checkpoint(self, step: int) -> str | None:
        """Waits until a checkpoint has this step; returns the first one from there on. None: the job ended without one."""
        while True:
            ended = self.ended
            steps = {path: int(_manifest(path).get("step", 0)) for path in glob.glob(os.path.join(self.checkpoints, "ckpt-*", "manifest.json"))}
            later = [path for path, at in steps.items() if at >= step]
            if later:
                return os.path.dirname(min(later, key=steps.__getitem__))
            if ended:
                return None
            self._wait(0.02)

    def control(self, *command: str) -> None:
        """Sends a command of `cohort ctl` to the job."""
        _programs.output("ctl", self.checkpoints, *command)

    def check_initial_values(self, count: int) -> None:
        """Raises JobError if the job did not begin with all `count` values of the model, which may not happen."""
        path = os.path.join(self.checkpoints, "initial_weights.safetensors")
        if not os.path.exists(path):
            return
        with safe_open(path, "np") as file:
            taken = len(file.keys())
        if taken < count:
            raise JobError(f"only {taken} of the {count} values of the model were taken: the programs and the package are of two versions, or "
                           f"have other names for variables of a layer of layers (logs: {self.run_dir})")

    def finish(self) -> None:
        """Others see to the end of the job."""

    def stop(self) -> None:
        """Others see to the end of the job."""


class Run(Followed):
    """A job that this process has started."""

    def __init__(self, command: list[str], run_dir: str, log_dir: str, environment: dict[str, str]):
        super().__init__(run_dir, log_dir)
        self._position = _size(self._metrics)  # what an earlier job has written is not of this one
        self._log_path = os.path.join(run_dir, "cohort.log")
        self._log_begin = _size(self._log_path)
        self._was_stopped = False
        self._log = open(self._log_path, "ab")
        try:
            # A group of its own: Ctrl-C in a terminal reaches this process alone, which asks the job to end.
            self._process = start(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True,
                                  env={**os.environ, **environment})
        except BaseException:
            self._log.close()
            raise

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def _wait(self, seconds: float) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def control(self, *command: str) -> None:
        """Sends a command of `cohort ctl` to the job, unless it has ended."""
        self._was_stopped |= command == ("stop",)
        try:
            super().control(*command)
        except _programs.ProgramError:
            try:
                self._process.wait(5)  # a job that ends takes no commands any more
            except subprocess.TimeoutExpired:
                raise

    def finish(self) -> None:
        """Waits for the end. Raises JobError if the job failed."""
        code = self._process.wait()
        self._log.close()
        if code == 0 or (self._was_stopped and code == _STOPPED):
            return
        errors = self._errors()
        if code == _CONFIG and "this job is finished" in errors:
            return  # an earlier call has trained it
        raise JobError(f"the job failed with {code}: {errors}\n(logs: {self.run_dir})")

    def stop(self) -> None:
        """Asks the job to take a checkpoint and to end, and waits for it. A further Ctrl-C ends it without one."""
        try:
            if not self.ended:
                super().control("stop")
                self._process.wait(60)
        except (_programs.ProgramError, subprocess.TimeoutExpired):
            pass  # it has not begun, or does not answer
        finally:
            if not self.ended:
                self._process.send_signal(signal.SIGTERM)
                self._process.wait()
            self._log.close()

    def _errors(self) -> str:
        """What the programs printed, from the first error on."""
        with open(self._log_path, "rb") as file:
            file.seek(self._log_begin)
            lines = file.read().decode("utf-8", "replace").splitlines()
        first = next((i for i, line in enumerate(lines) if _ERROR.match(line)), None)
        if first is None:
            return "\n".join(lines[-20:]) or "it printed nothing"
        lines[first] = _ERROR.sub("", lines[first])
        return "\n".join(lines[first:first + 100])


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _manifest(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):  # one that is written, or deleted, now
        return {}


def _listed(checkpoint: str) -> list[str]:
    """The checkpoints of a directory of them."""
    return sorted(name for name in os.listdir(checkpoint) if name.startswith("ckpt-")) if os.path.isdir(checkpoint) else []


def checkpoint_values(checkpoint: str, scratch: str) -> dict[str, np.ndarray]:
    """The values of a checkpoint's variables by their names, in the order in which the model declares them.

    A table without bounds has its rows, and before them `name@keys`, the key of each.
    """
    out = os.path.join(scratch, "weights.safetensors")
    while True:
        before = _listed(checkpoint)
        try:
            _programs.output("export", "--format", "safetensors", "--out", out, checkpoint)
            break
        except _programs.ProgramError:
            if _listed(checkpoint) == before:  # else the job has deleted it meanwhile, as it writes newer ones
                raise
    try:
        with safe_open(out, "np") as file:
            there = set(file.keys())
            variables = json.loads(file.metadata()["variables"])
            return {name: file.get_tensor(name) for variable in variables for name in (f"{variable}@keys", variable) if name in there}
    finally:
        os.unlink(out)
