#!/usr/bin/env python3
"""Checks that text files have no unfinished work, no paths of one machine, no tabs and no white space at the
end of a line, that no line of a C++ comment has more than 100 columns, and that the code has every crash point of the list.

With --self-test: plants one of each and fails if it is not found.
"""
import os
import re
import sys
import tempfile

import source_tree

TEXT = (".h", ".cc", ".proto", ".def", ".py", ".sh", ".md", ".yaml", ".txt", ".cmake", ".json", ".service")
FORBIDDEN = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|HA" r"CK)\b"), "unfinished work: do it, or open an issue"),
    (re.compile(r"(?<![\w.])/(wo" r"rk|ro" r"ot|ho" r"me)/"), "a path of one machine"),
    (re.compile(r"keras-ve" r"nv"), "a path of one machine"),
]
COMMENT = re.compile(r"^\s*//(?!.*([\u2500-\u257f\u25b2-\u25c4]|https?://))")  # diagrams and addresses may be wide
CODE = (".h", ".cc", ".proto", ".py", ".sh", ".cmake")
LIST = "common/base/crash_point_list.h"


def line_errors(path, text):
    errors = []
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, why in FORBIDDEN:
            if pattern.search(line):
                errors.append("%s:%d: %s: %s" % (path, number, why, line.strip()))
        if path.endswith(CODE) and (line.rstrip() != line or "\t" in line):
            errors.append("%s:%d: a tab or white space at the end" % (path, number))
        if path.endswith((".h", ".cc", ".proto", ".def")) and len(line) > 100 and COMMENT.match(line):
            errors.append("%s:%d: a comment of more than 100 columns" % (path, number))
    return errors


def crash_point_errors(root):
    if not os.path.exists(os.path.join(root, LIST)):
        return []
    listed = re.findall(r'^    "([^"]+)"', source_tree.read(root, LIST), re.M)
    used = set()
    for path in source_tree.files(root, (".h", ".cc")):
        if not source_tree.is_test(path):
            used |= set(re.findall(r'COHORT_CRASH_POINT\("([^"]+)"\)', source_tree.read(root, path)))
    return ["%s: no code has the crash point %s" % (LIST, name) for name in listed if name not in used]


def check(root):
    errors = crash_point_errors(root)
    for path in source_tree.files(root, TEXT):
        errors += line_errors(path, source_tree.read(root, path))
    return errors


def self_test():
    plants = {
        "unfinished": ("worker/a.cc", "// TO" + "DO: later\n"),
        "one machine": ("README.md", "see /wo" + "rk/here\n"),
        "white space": ("worker/a.cc", "int x; \n"),
        "a tab": ("worker/a.cc", "\tint x;\n"),
        "a comment of more": ("worker/a.cc", "  // " + 24 * "word " + "\n"),
        "no code has": (LIST, '    "ps.nowhere",\n'),
    }
    for expected, (path, text) in plants.items():
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text)
            if not any(expected in e for e in check(root)):
                return ["planted \"%s\", not found" % expected]
    return []


def main():
    errors = self_test() if "--self-test" in sys.argv else check(source_tree.ROOT)
    for error in errors:
        print(error)
    print("words: %d errors" % len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
