#!/usr/bin/env python3
"""Keeps idioms that need two readings out of comments, string literals and documents.

    prose_test.py                  checks the tree: fails if a room has more hits than ALLOWED grants it
    prose_test.py PATH...          prints every hit in these files and folders, with what to write instead
    prose_test.py --counts         prints the number of hits per room
    prose_test.py --self-test      plants each idiom and fails if it is not found

The idioms stand in idioms.txt; CONTRIBUTING.md (Style) describes the English that they stand against.
"""
import collections
import os
import re
import sys
import tempfile

import prose_text
import source_tree

# Room: the number of hits that it may still have. New prose needs no entry; the table only shrinks.
ALLOWED = {}
# This file has the idioms that its self-test plants.
SELF = "tests/lint/prose_test.py"
SUFFIXES = (".h", ".cc", ".proto", ".py", ".sh", ".yaml", ".md", ".cmake", "CMakeLists.txt")
IDIOMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "idioms.txt")


def idioms():
    """[(compiled pattern, what to write)] of idioms.txt."""
    found = []
    with open(IDIOMS, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("# "):
                pattern, instead = line.rstrip("\n").split(" => ")
                found.append((re.compile(pattern.replace(" ", r"\s+"), re.I), instead))
    return found


def hits(root, paths):
    """[(path, line, the words found, what to write)] in the order of the files."""
    found, patterns = [], idioms()
    for path in paths:
        if path == SELF:
            continue
        for passage in prose_text.passages(path, source_tree.read(root, path)):
            # A pattern asks for the start of a comment with "\Acomment> ".
            head = passage.kind + "> "
            for pattern, instead in patterns:
                for match in pattern.finditer(head + passage.text):
                    words = " ".join(match.group().removeprefix(head).split())
                    found.append((path, passage.line_of(max(0, match.end() - len(head))), words, instead))
    return sorted(found)


def room(path):
    """The room as source_tree has it, by sub-folder in tests and deploy."""
    parts = path.split("/")
    if parts[0] in ("tests", "deploy"):
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    return source_tree.room(path) if len(parts) > 1 else path


def counts(found):
    return collections.Counter(room(path) for path, *_ in found)


def check(root, allowed):
    found = hits(root, source_tree.files(root, SUFFIXES))
    over = {name for name, number in counts(found).items() if number > allowed.get(name, 0)}
    errors = ["%s:%d: \"%s\": write: %s" % hit for hit in found if room(hit[0]) in over]
    return errors + ["%s: more idioms than the %d that ALLOWED grants" % (name, allowed.get(name, 0))
                     for name in sorted(over)]


def self_test():
    plants = {
        "for ever": ("worker/a.cc", "int a;  // it waits\n        // for ever\n"),
        "is told": ("worker/a.h", 'Log("the chief "\n    "is told");\n'),
        "went on": ("worker/a.py", 'def f():\n    """It\n    went on."""\n'),
        "whom": ("deploy/a.sh", "true  # for whom\n"),
        "anew": ("README.md", "One paragraph.\n\nIt begins anew.\n"),
        "Of": ("chief/core/a.h", "// Counts them. Of one worker.\n"),
        "of": ("README.md", "**Counts.** Of one worker.\n"),
        "of": ("chief/core/a.h", "int steps;  // of one worker\n"),
        "Whether it is not": ("chief/core/a.h", "// Whether it is not there.\nbool F();\n"),
        "by now": ("deploy/examples/a.yaml", "epochs: 1  # by now\n"),
    }
    failures = []
    for words, (path, text) in plants.items():
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
            if not any('"%s"' % words in error for error in check(root, {})):
                failures.append("planted \"%s\", found %s" % (words, check(root, {})))
            if check(root, {room(path): 1}):
                failures.append("%s: an allowance does not hold" % path)
    with tempfile.TemporaryDirectory() as root:
        with open(root + "/a.cc", "w", encoding="utf-8") as f:
            f.write('#include "for/ever.h"\nint gone_on = 1;  // Returns the number of workers. If it fails: -1.\n'
                    'char c = \'"\';  // A quote.\nint whom = 2;\n')
        failures += check(root, {})
    return failures


def main():
    if "--self-test" in sys.argv:
        errors = self_test()
    elif len(sys.argv) > 1:
        paths = source_tree.files(source_tree.ROOT, SUFFIXES)
        wanted = [os.path.relpath(os.path.abspath(a), source_tree.ROOT) for a in sys.argv[1:] if a != "--counts"]
        found = hits(source_tree.ROOT, [p for p in paths if not wanted or any(
            p == w or p.startswith(w + "/") for w in wanted)])
        if "--counts" in sys.argv:
            for name, number in sorted(counts(found).items()):
                print("%5d  %s" % (number, name))
            print("%5d  in all" % len(found))
        else:
            for hit in found:
                print("%s:%d: \"%s\": write: %s" % hit)
        return 0
    else:
        errors = check(source_tree.ROOT, ALLOWED)
    for error in errors:
        print(error)
    print("prose: %d errors" % len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
