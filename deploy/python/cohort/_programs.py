"""Finds Cohort's programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache

from cohort._version import __version__


class ProgramError(RuntimeError):
    """A program of Cohort is missing or failed: says which, and what it printed."""


@lru_cache
def find(name: str) -> str:
    """Returns the path of a program: in COHORT_BIN_DIR, in the package, or on PATH.

    Raises ProgramError if it is not there, or if `cohort` has another version than this package.
    """
    path = _path_of(name)
    if name == "cohort":
        _check_version(path)
    return path


def _check_version(path: str) -> None:
    """Raises ProgramError if a program has another version than this package."""
    try:
        printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ProgramError(f"the program {path} cannot run here: {error}") from error
    if not printed or printed[-1] != __version__:
        raise ProgramError(f"the program {path} has the version {printed[-1] if printed else 'unknown'}, and the package cohort in "
                           f"{os.path.dirname(__file__)} the version {__version__}: install both from one release, or name the folder of "
                           f"programs that fit in COHORT_BIN_DIR")


def _path_of(name: str) -> str:
    given = os.environ.get("COHORT_BIN_DIR")
    for folder in filter(None, (given, os.path.join(os.path.dirname(__file__), "bin"))):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    found = None if given else shutil.which(name)
    if found is None or _is_this(found):
        raise ProgramError(f"the program {name} is not there: install Cohort, or name the folder of its programs in COHORT_BIN_DIR")
    return found


def _is_this(path: str) -> bool:
    """True for the command of this package, which starts the program of its name."""
    return os.path.realpath(path) == os.path.realpath(sys.argv[0])


def main() -> None:
    """The command `cohort` of the wheel: becomes the program, for which `python3` is this interpreter."""
    try:
        path = find("cohort")
    except ProgramError as error:
        sys.exit(f"cohort: error: {error}")
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.execv(path, ["cohort", *sys.argv[1:]])


def output(*arguments: str) -> str:
    """Runs `cohort` and returns what it prints. Raises ProgramError with its error text."""
    done = subprocess.run([find("cohort"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"cohort {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout
