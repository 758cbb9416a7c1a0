#!/usr/bin/env python3
"""Checks that clang-format would change nothing. Exit code 77 (skipped) without clang-format.

With --self-test: fails if a badly formatted file is not found.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import source_tree


def badly_formatted(tool, root):
    paths = source_tree.files(root, (".h", ".cc"))
    bad = []
    for start in range(0, len(paths), 50):
        batch = paths[start:start + 50]
        run = subprocess.run([tool, "--dry-run", "--Werror", "--style=file", *batch], cwd=root,
                             capture_output=True, text=True)
        if run.returncode != 0:
            bad += sorted({line.split(":")[0] for line in run.stderr.split("\n") if ": error:" in line})
    return bad


def main():
    tool = shutil.which("clang-format") or shutil.which("clang-format-14")
    if tool is None:
        print("skipped: clang-format is not there")
        return 77
    if "--self-test" in sys.argv:
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(os.path.join(source_tree.ROOT, ".clang-format"), root)
            for name, text in (("good.cc", "int f() { return 1; }\n"), ("bad.cc", "int  f( ){return 1;}\n")):
                with open(os.path.join(root, name), "w") as f:
                    f.write(text)
            return 0 if badly_formatted(tool, root) == ["bad.cc"] else 1
    bad = badly_formatted(tool, source_tree.ROOT)
    for path in bad:
        print("clang-format would change " + path)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
