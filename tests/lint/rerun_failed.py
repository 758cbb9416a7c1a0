#!/usr/bin/env python3
"""Runs the tests that have failed twice more, alone. Exits with 1 if one of them fails again.

Usage: rerun_failed.py TREE JUNIT.xml, or rerun_failed.py --self-test

TREE is a build tree, JUNIT.xml what `ctest --output-junit` wrote of its tests. A test that failed beside others and passes
alone, both times, is UNSTABLE: it goes into TREE/unstable.txt, one name per line, and the log of its failure into
TREE/unstable/NAME.log. Such a test is a defect to find, in the test or in the product; but it does not hold back other work.
If more than MANY tests have failed the change has broken something, and none is repeated.
"""
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

MANY = 8


def failed(junit):
    """{name: output} of the tests that failed or timed out."""
    cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    return {case.get("name"): case.findtext("system-out") or "" for case in cases if case.get("status") == "fail"}


def passes(tree, name, log):
    with open(log, "ab") as out:
        return subprocess.run(["ctest", "--test-dir", tree, "--output-on-failure", "--no-tests=error", "-R",
                               "^%s$" % re.escape(name)], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                              check=False).returncode == 0


def main(tree, junit):
    unstable = []
    listed = os.path.join(tree, "unstable.txt")
    if os.path.exists(listed):
        os.remove(listed)
    names = failed(junit)
    if len(names) > MANY:
        print("%d tests failed; none is repeated" % len(names))
        return 1
    if not names:
        print("ctest failed, but %s has no test that did" % junit)
        return 1
    os.makedirs(os.path.join(tree, "unstable"), exist_ok=True)
    for name, output in names.items():
        log = os.path.join(tree, "unstable", name + ".log")
        with open(log, "w", encoding="utf-8") as f:
            f.write(output + "\n\n==== alone ====\n")
        again = [passes(tree, name, log) for _ in range(2)]
        print("%s failed; alone it %s" % (name, " and ".join("passed" if a else "failed" for a in again)))
        if all(again):
            unstable.append(name)
    if unstable:
        with open(listed, "w", encoding="utf-8") as f:
            f.write("".join(name + "\n" for name in unstable))
    return 0 if len(unstable) == len(names) else 1


def self_test():
    """A test that fails once, one that fails always, and one that fails every second time."""
    with tempfile.TemporaryDirectory() as tree:
        once = 'n=$(cat once 2>/dev/null); echo x >>once; test -n "$n"'
        second = 'echo x >>second; test $(($(wc -l <second) % 2)) -eq 0'
        commands = {"good": "true", "once": once, "always": "echo broken; false", "second": second}

        def run(names):
            with open(os.path.join(tree, "CTestTestfile.cmake"), "w", encoding="utf-8") as f:
                for name in names:
                    f.write("add_test(%s sh -c [=[cd %s; %s]=])\n" % (name, tree, commands[name]))
            junit = os.path.join(tree, "junit.xml")
            subprocess.run(["ctest", "--test-dir", tree, "--output-junit", junit], check=False, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            return main(tree, junit)

        def unstable():
            path = os.path.join(tree, "unstable.txt")
            if not os.path.exists(path):
                return None
            with open(path, encoding="utf-8") as f:
                return f.read().split()
        found = [run(["good", "once"]) == 0 and unstable() == ["once"],
                 run(["good"]) == 1 and unstable() is None,
                 run(["good", "always"]) == 1 and unstable() is None,
                 run(["second", "good"]) == 1 and unstable() is None]
        with open(os.path.join(tree, "unstable", "always.log"), encoding="utf-8") as f:
            found.append(f.read().count("broken\n") == 3)
    print(found)
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else main(*sys.argv[1:]))
