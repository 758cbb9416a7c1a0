#!/usr/bin/env python3
"""Proves that no library of the installed C++ API defines a symbol of gRPC.

Such a symbol would replace gRPC's own in every program that links the library. The libraries are those that
`cmake --install` copies. The daemons do replace three functions (common/rpc/stream/grpc_*_override.cc).

With --self-test: plants a library that defines a symbol of gRPC, and fails if it is not found.
"""
import os
import re
import subprocess
import sys
import tempfile

import source_tree

BINARY = os.environ.get("COHORT_BINARY_DIR") or os.path.join(source_tree.ROOT, "build", "release")
INSTALLED = re.compile(r'TYPE STATIC_LIBRARY FILES "([^"]+)"')
# Strong definitions only: templates of gRPC's headers that a source uses are weak in its object.
DEFINED = re.compile(r"^\S+ [TDBR] (_ZNK?(?:4grpc|9grpc_core)\S+|_Z\d+tsi_\S+)$", re.M)


def symbols_of_grpc(path):
    listed = subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True, check=True)
    return DEFINED.findall(listed.stdout)


def check(install_script):
    """One line per symbol of gRPC that an installed library defines."""
    libraries = [path for path in INSTALLED.findall(install_script) if os.path.exists(path)]
    if not any(path.endswith("libcohort_stream.a") for path in libraries):
        return ["no library of the streams is installed: build the tree, or correct the pattern INSTALLED"]
    return ["%s defines %s" % (os.path.basename(path), symbol)
            for path in libraries for symbol in symbols_of_grpc(path)]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        planted = os.path.join(folder, "libcohort_stream.a")
        subprocess.run(["c++", "-c", "-x", "c++", "-", "-o", planted], check=True, text=True,
                       input="namespace grpc_core { bool IsThreadedDefault() { return false; } }")
        found = check('TYPE STATIC_LIBRARY FILES "%s"' % planted)
    errors = [] if any("IsThreadedDefault" in error for error in found) else ["planted a symbol, found %s" % found]
    return errors + ([] if check("") else ["found no fault in a tree that installs nothing"])


def main():
    if "--self-test" in sys.argv:
        errors = self_test()
    else:
        with open(os.path.join(BINARY, "deploy", "cmake_install.cmake"), encoding="utf-8") as f:
            errors = check(f.read())
    for error in errors:
        print(error)
    print("exported symbols: %d errors" % len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
