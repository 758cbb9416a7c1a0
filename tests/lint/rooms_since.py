#!/usr/bin/env python3
"""Prints the folders whose tests a change can affect, one per line: `rooms_since.py REF`.

A folder with a CMakeLists.txt is a unit. A change affects its own folder, every folder that includes one of
its headers, directly or not, and, if a daemon changes, the folders whose tests start the daemons. A change of
the build itself affects everything. With --self-test: plants changes in a small tree and checks the answers.
"""
import os
import subprocess
import sys
import tempfile

import source_tree

# Their tests run the programs, which no #include shows.
RUNS_PROGRAMS = ["deploy/launcher", "tests/bad_input", "tests/cluster", "tests/examples", "tests/python",
                 "tests/upgrade"]
PROGRAMS = ["chief", "deploy/examples/custom_loop", "deploy/in_process", "deploy/launcher", "evaluator", "ps_server",
            "worker"]
# Their tests read every file.
READS_ALL = ["tests/lint"]
READS_DOCUMENTS = ["tests/examples", "tests/lint"]
BUILD = ("deploy/cmake/", "include/", "CMakeLists.txt", "CMakePresets.json", "tests/run.sh")


def unit(root, path):
    """The nearest folder above a file that has a CMakeLists.txt; "" is the root."""
    folder = os.path.dirname(path)
    while folder and not os.path.exists(os.path.join(root, folder, "CMakeLists.txt")):
        folder = os.path.dirname(folder)
    return folder


def users(root):
    """{folder: the folders that include one of its headers}."""
    found = {}
    for path, names in source_tree.includes(root).items():
        for name in names:
            target = name if os.path.exists(os.path.join(root, name)) else None
            if name.startswith("proto/"):
                target = name
            if target is None:
                continue
            here, there = unit(root, path), unit(root, target)
            if here != there:
                found.setdefault(there, set()).add(here)
    return found


def affected(root, changed):
    """The folders that the changed files affect, sorted; None: all."""
    if any(p.startswith(BUILD) for p in changed):
        return None
    edges = users(root)
    wanted, queue = set(READS_ALL), []
    for path in changed:
        if path.endswith(".md"):
            wanted.update(READS_DOCUMENTS)
        else:
            queue.append(unit(root, path))
    while queue:
        folder = queue.pop()
        if folder == "":
            return None
        if folder in wanted and folder not in READS_ALL:
            continue
        wanted.add(folder)
        queue += edges.get(folder, ())
        if folder in PROGRAMS:
            queue += RUNS_PROGRAMS
    return sorted(wanted)


def changed_since(root, ref):
    def git(*arguments):
        return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True,
                              text=True).stdout.split("\0")
    paths = git("diff", "--name-only", "--no-renames", "-z", ref)
    return [p for p in paths + git("ls-files", "-o", "--exclude-standard", "-z") if p]


def self_test():
    files = {"common/base/a.h": "", "common/graph/g.cc": '#include "common/base/a.h"',
             "worker/w.cc": '#include "common/graph/g.h"', "common/graph/g.h": "", "chief/core/c.cc": "",
             "tests/cluster/t.cc": "", "deploy/cmake/x.cmake": "", "README.md": ""}
    units = ["common/base", "common/graph", "worker", "chief/core", "tests/cluster", "deploy"]
    cases = [
        (["common/base/a.h"], ["common/base", "common/graph", "tests/cluster", "tests/lint", "worker"]),
        (["chief/core/c.cc"], ["chief/core", "tests/lint"]),
        (["README.md"], ["tests/examples", "tests/lint"]),
        (["deploy/cmake/x.cmake"], None),
    ]
    errors = []
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text + "\n")
        for folder in units:
            open(os.path.join(root, folder, "CMakeLists.txt"), "w").close()
        for changed, wanted in cases:
            got = affected(root, changed)
            if wanted is not None and got is not None:
                got = [folder for folder in got if folder in units + READS_ALL + READS_DOCUMENTS]
            if got is not None and "worker" in (wanted or []) and "tests/cluster" not in got:
                errors.append("%s: a program changed, its users are missing" % changed)
            got_known = None if got is None else [f for f in got if f in wanted]
            if got_known != wanted:
                errors.append("%s: got %s, not %s" % (changed, got, wanted))
            if got is not None and "chief/core" in got and changed != ["chief/core/c.cc"]:
                errors.append("%s: chief/core does not depend on it" % changed)
    return errors


def main():
    if "--self-test" in sys.argv:
        errors = self_test()
        for error in errors:
            print(error)
        print("rooms_since: %d errors" % len(errors))
        return 1 if errors else 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    folders = affected(source_tree.ROOT, changed_since(source_tree.ROOT, sys.argv[1]))
    print("\n".join(folders) if folders is not None else "all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
