#!/usr/bin/env python3
"""Proves on the link graph that the core libraries do not need gRPC.

The link line of a program lists each static library that it uses together with everything that this library was
declared to need, directly or through others. So a library on a line without gRPC does not need gRPC. The lines
are those of build.ninja; cohort-simulate is such a program for all core libraries.

With --self-test: plants a core library that needs gRPC, and one that no program links, and fails if they are
not found.
"""
import os
import re
import sys

import source_tree

BINARY = os.environ.get("COHORT_BINARY_DIR") or os.path.join(source_tree.ROOT, "build", "dev")
# The protocol and the training step, which the simulator and in-process strategies use without a network.
CORE = ["cohort_chief_core", "cohort_exchange", "cohort_ps_core", "cohort_simulator", "cohort_step_loop",
        "cohort_tablet", "cohort_tablet_store", "cohort_worker_core"]
PROGRAM = re.compile(r"^build (\S+): CXX_EXECUTABLE_LINKER\S* .*\n((?:  .*\n)*)", re.M)
LIBRARIES = re.compile(r"^  LINK_LIBRARIES = (.*)$", re.M)


def link_lines(ninja):
    """{program: the libraries on its link line, without folder} of a build.ninja."""
    lines = {}
    for program, variables in PROGRAM.findall(ninja):
        found = LIBRARIES.search(variables)
        lines[program] = [os.path.basename(word) for word in found.group(1).split()] if found else []
    return lines


def check(ninja):
    """One line per core library that is not proven to be free of gRPC."""
    lines = link_lines(ninja)
    if not lines:
        return ["no program is linked at all: the pattern of link_graph_test.py does not fit build.ninja"]
    errors = []
    for library in CORE:
        users = sorted(p for p, words in lines.items() if "lib%s.a" % library in words)
        if not users:
            errors.append("%s: no program links it: correct the list CORE" % library)
        elif all(any("grpc" in word.lower() for word in lines[p]) for p in users):
            errors.append("%s: every program that links it links gRPC, too: %s" % (library, ", ".join(users)))
    return errors


def self_test():
    def program(name, libraries):
        return ("build %s: CXX_EXECUTABLE_LINKER__x_ a.o | b.a\n  FLAGS = -O1\n  LINK_LIBRARIES = %s\n  TARGET_FILE = x\n\n"
                % (name, " ".join(libraries)))

    files = ["common/lib%s.a" % library for library in CORE]
    grpc = "/usr/lib/libgrpc++.so.1.51.1"
    good = program("tests/simulate", [*files, "-lpthread"]) + program("bin/daemon", [*files, grpc])
    planted = {
        "links gRPC": program("tests/simulate", files[1:]) + program("bin/daemon", [*files, grpc]),
        "no program links it": program("tests/simulate", files[1:]),
        "at all": "",
    }
    errors = check(good)
    for words, ninja in planted.items():
        if not any(words in error for error in check(ninja)):
            errors.append("planted \"%s\", found %s" % (words, check(ninja)))
    return errors


def main():
    if "--self-test" in sys.argv:
        errors = self_test()
    else:
        with open(os.path.join(BINARY, "build.ninja"), encoding="utf-8") as f:
            errors = check(f.read())
    for error in errors:
        print(error)
    print("link graph: %d errors" % len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
