#!/usr/bin/env python3
"""Reads `ctest --show-only=json-v1` and prints the build targets that its tests need, one per line."""
import json
import os
import sys

# What tests in Python start.
PROGRAMS = ["cohort", "cohort-chief", "cohort-custom-loop", "cohort-evaluator", "cohort-in-process", "cohort-ps", "cohort-worker",
            "checkpoint_sample", "check_apply_logs"]


def main():
    targets = set()
    for test in json.load(sys.stdin)["tests"]:
        command = test.get("command", [])
        if not command:
            continue
        if os.path.basename(os.path.dirname(command[0])) == "tests":
            targets.add(os.path.basename(command[0]))
        elif any(part.endswith("with_python.py") for part in command):
            targets.update(PROGRAMS)
            targets.update(os.path.basename(part) for part in command if "/build/" in part
                           and os.path.basename(os.path.dirname(part)) == "tests")
    print("\n".join(sorted(targets)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
