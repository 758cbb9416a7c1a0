#!/usr/bin/env python3
"""Runs a test program beside the programs of the last release.

    beside_release.py DIRECTORY PROGRAM ARGUMENT...

DIRECTORY has the programs of release-*.tar.xz; the test program finds it in COHORT_RELEASE_DIR. If this machine cannot run
them (another architecture, or libraries of another Debian), it says why and exits with 77, which ctest reports as skipped.
"""
import os
import subprocess
import sys

PROGRAMS = ("cohort-chief", "cohort-ps", "cohort-worker")


def why_not(path):
    """Why a program does not run here; empty if it does."""
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:  # another format, or no loader
        return error.strerror
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or "it ended with %d" % done.returncode


def main():
    directory = os.path.abspath(sys.argv[1])
    for name in PROGRAMS:
        path = os.path.join(directory, name)
        if not os.access(path, os.X_OK):
            sys.exit("%s does not exist: build the target last_release" % path)
        reason = why_not(path)
        if reason:
            print("skipped: %s of the last release does not run here: %s" % (name, reason))
            return 77
    os.environ["COHORT_RELEASE_DIR"] = directory
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
