#!/usr/bin/env python3
"""Fails for a skipped test that is not on the list.

Usage: check_skips.py JUNIT.xml ALLOWED_SKIPS.txt, or check_skips.py --self-test

JUNIT.xml is what `ctest --output-junit` wrote. A line of the list is a test's name and the reason for which
it may be skipped; '#' begins a comment.
"""
import sys
import tempfile
import xml.etree.ElementTree


def allowed(path):
    """{name: reason}"""
    reasons = {}
    with open(path) as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split(None, 1)
            if not words:
                continue
            if len(words) < 2:
                raise ValueError("%s:%d: %s has no reason" % (path, number, words[0]))
            reasons[words[0]] = words[1].strip()
    return reasons


def skipped(path):
    suite = xml.etree.ElementTree.parse(path).getroot()
    cases = list(suite.iter("testcase"))
    if not cases:
        raise ValueError("%s has no test at all" % path)
    return [c.get("name") for c in cases
            if c.get("status") in ("notrun", "disabled") or c.find("skipped") is not None]


def main(junit, list_path):
    try:
        reasons = allowed(list_path)
        names = skipped(junit)
    except (ValueError, OSError, xml.etree.ElementTree.ParseError) as error:
        print(error)
        return 1
    for name in names:
        print("skipped: %s (%s)" % (name, reasons.get(name, "NOT on " + list_path)))
    return 1 if any(n not in reasons for n in names) else 0


def self_test():
    with tempfile.NamedTemporaryFile("w") as junit, tempfile.NamedTemporaryFile("w") as listed:
        junit.write('<testsuite><testcase name="a" status="run"/>'
                    '<testcase name="b" status="notrun"><skipped message="x"/></testcase></testsuite>')
        junit.flush()
        refused = main(junit.name, listed.name) == 1
        listed.write("# why\nb  needs a machine that has one\n")
        listed.flush()
        passed = main(junit.name, listed.name) == 0
        listed.write("c\n")
        listed.flush()
        no_reason = main(junit.name, listed.name) == 1
    with tempfile.NamedTemporaryFile("w") as empty, tempfile.NamedTemporaryFile("w") as listed:
        empty.write("<testsuite/>")
        empty.flush()
        nothing = main(empty.name, listed.name) == 1
    return 0 if refused and passed and no_reason and nothing else 1


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else main(*sys.argv[1:]))
