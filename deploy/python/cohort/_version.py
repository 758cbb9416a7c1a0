"""The version of this package, which is that of the programs."""

from __future__ import annotations

import os
import re


def _version() -> str:
    """An installed package has a file with it; in the source tree the CMake project names it."""
    here = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(here, "VERSION")
    if os.path.exists(installed):
        with open(installed, encoding="utf-8") as file:
            return file.read().strip()
    with open(os.path.join(here, "..", "..", "..", "CMakeLists.txt"), encoding="utf-8") as file:
        found = re.search(r"project\(cohort VERSION ([0-9.]+)", file.read())
    if found is None:
        raise ImportError(f"{here}: the source tree of this package names no version in its CMakeLists.txt")
    return found[1]


__version__ = _version()
