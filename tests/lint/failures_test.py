#!/usr/bin/env python3
"""Each promise of docs/failures.md names a test that shows it.

    tests/lint/failures_test.py [--self-test]

A promise is a row of a table, an item of a list or a paragraph, in the sections of PROMISES. It ends with a comment, which
readers do not see: <!-- test: the title of a test case, or the name of a Python test -->. Several are separated by
semicolons.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMISES = ("What dies, and what happens", "Storage", "One chief per checkpoint directory", "The local cluster")
COMMENT = re.compile(r"<!-- test: (.*?) -->", re.S)


def blocks(section):
    """The promises of a section: (text, whether it is a row)."""
    for block in re.split(r"\n\s*\n", section.strip()):
        if block.startswith("|"):
            for row in block.split("\n")[2:]:
                yield row
        else:
            yield from re.split(r"\n(?=- )", block)


def check(page, tests):
    """The errors of a page; `tests` is the text of all tests."""
    errors = []
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.S | re.M))
    for name in PROMISES:
        if name not in sections:
            errors.append('there is no section "%s"' % name)
            continue
        for block in blocks(sections[name]):
            first = " ".join(block.split())[:70]
            named = COMMENT.findall(block)
            if not named and not block.rstrip().endswith(":"):
                errors.append('"%s...": no test is named' % first)
            for title in (" ".join(t.split()) for names in named for t in names.split(";")):
                if title not in tests:
                    errors.append('"%s...": there is no test "%s"' % (first, title))
    return errors


def all_tests():
    text = []
    for pattern in ("**/*_test.cc", "**/*_test.py"):
        for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
            if os.sep + "build" + os.sep not in path[len(ROOT):]:
                with open(path, encoding="utf-8") as f:
                    text.append(f.read())
    # A title may be cut into several literals.
    return re.sub(r'"\s*\n\s*"', "", "\n".join(text))


def self_test():
    page = "## Storage\n\n| a | b |\n|---|---|\n| x | y <!-- test: it works --> |\n| z | w |\n"
    errors = check(page, 'TEST_CASE("it works")')
    assert [e for e in errors if "z | w" in e and "no test is named" in e], errors
    assert not [e for e in errors if "x | y" in e], errors
    assert [e for e in check(page, "") if 'there is no test "it works"' in e]


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
        sys.exit(0)
    with open(os.path.join(ROOT, "docs", "failures.md"), encoding="utf-8") as f:
        found = check(f.read(), all_tests())
    for error in found:
        print("docs/failures.md: " + error)
    sys.exit(1 if found else 0)
