#!/usr/bin/env python3
"""Runs a Python test with an interpreter that has the modules which it needs.

Usage: with_python.py --modules=a,b SCRIPT ARGUMENT...

It tries $COHORT_PYTHON, build/venv, build/venv-keras and build/venv-frameworks of the source tree (tests/run.sh makes
them, the last one with --all), and the interpreter that runs this. If none has the modules, it exits with 77, which ctest
reports as skipped.
"""
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = "import importlib.util, sys\nsys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))"


def main():
    modules = [m for m in sys.argv[1].removeprefix("--modules=").split(",") if m]
    script = sys.argv[2:]
    candidates = [os.environ.get("COHORT_PYTHON"), os.path.join(SOURCE, "build/venv/bin/python"),
                  os.path.join(SOURCE, "build/venv-keras/bin/python"),
                  os.path.join(SOURCE, "build/venv-frameworks/bin/python"), sys.executable]
    for python in candidates:
        if not python or not os.path.exists(python):
            continue
        if subprocess.call([python, "-c", CHECK, *modules]) == 0:
            os.execv(python, [python, *script])
    print("skipped: no Python here has the modules " + ", ".join(modules))
    return 77


if __name__ == "__main__":
    sys.exit(main())
