#!/usr/bin/env python3
"""Prints lengths of files and functions, the share of comments in headers, and the ratio of tests to
production. The figures are a mirror, not a law: it fails only if it cannot measure.

With --self-test: measures a small tree whose figures are known.
"""
import os
import re
import sys
import tempfile

import source_tree

BUDGETS = "file median <= 150, p90 <= 400, longest 500; function p90 <= 30, longest 70"
# In clang-formatted code a function begins on a line without control keyword and ends with a brace in the
# same column.
START = re.compile(r"^( {0,4})(?!namespace|class|struct|enum|union|else|if|for|while|switch|do|try|"
                   r"return|extern|using|public|private|#|//|\}|constexpr .*=|const .*= ?\{)"
                   r"[A-Za-z_~\[].*$")


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def functions(text):
    """[(first line, lines)] of the function definitions."""
    lines = text.split("\n")
    found, i = [], 0
    while i < len(lines):
        match = START.match(lines[i])
        if not match:
            i += 1
            continue
        # A signature may take several lines; it ends with a brace, or is a declaration.
        end = i
        while end < len(lines) and end < i + 12 and not re.search(r"[;{}]\s*(//.*)?$", lines[end]):
            end += 1
        opens = end < len(lines) and re.search(r"\{\s*$", lines[end])
        if not opens or "(" not in " ".join(lines[i:end + 1]):
            i = max(end, i) + 1
            continue
        close = end + 1
        while close < len(lines) and not lines[close].startswith(match.group(1) + "}"):
            close += 1
        found.append((i + 1, close - i + 1))
        i = close + 1
    return found


def measure(root):
    paths = source_tree.files(root, (".h", ".cc"))
    texts = {p: source_tree.read(root, p) for p in paths}
    lengths = {p: t.count("\n") for p, t in texts.items()}
    production = [p for p in paths if not source_tree.is_test(p)]
    spans = sorted((n, "%s:%d" % (p, line)) for p in production for line, n in functions(texts[p]))
    headers = "\n".join(texts[p] for p in production if p.endswith(".h")).split("\n")
    comments = sum(1 for line in headers if line.strip().startswith("//"))
    return {
        "files": len(production),
        "lines": sum(lengths[p] for p in production),
        "test_lines": sum(lengths[p] for p in paths if source_tree.is_test(p)),
        "file_lengths": sorted((lengths[p], p) for p in production),
        "functions": spans,
        "header_comments": comments / max(1, sum(1 for line in headers if line.strip())),
    }


def report(m):
    files = [n for n, _ in m["file_lengths"]]
    functions_ = [n for n, _ in m["functions"]]
    print("budgets: " + BUDGETS)
    print("files: %d, lines %d; median %d, p90 %d, longest %s" %
          (m["files"], m["lines"], percentile(files, 0.5), percentile(files, 0.9),
           m["file_lengths"][-1] if files else 0))
    print("functions: %d; median %d, p90 %d" %
          (len(functions_), percentile(functions_, 0.5), percentile(functions_, 0.9)))
    for n, where in reversed([f for f in m["functions"] if f[0] > 70]):
        print("  longer than 70: %s, %d lines" % (where, n))
    for n, path in reversed([f for f in m["file_lengths"] if f[0] > 500]):
        print("  longer than 500: %s, %d lines" % (path, n))
    print("comments in headers: %.0f %%" % (100 * m["header_comments"]))
    print("test : production lines: %.2f" % (m["test_lines"] / max(1, m["lines"])))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/worker")
        with open(root + "/worker/a.cc", "w") as f:
            f.write("namespace x {\n\nint F(int a,\n      int b) {\n  if (a) {\n    b();\n  }\n}\n\n"
                    "int x;\nclass C {\n public:\n  void G() {\n    h();\n  }\n};\n\n}  // namespace\n")
        with open(root + "/worker/a.h", "w") as f:
            f.write("// Why.\nint F(int a,\n      int b);\n")
        with open(root + "/worker/a_test.cc", "w") as f:
            f.write("one\ntwo\n")
        m = measure(root)
    spans = [n for n, _ in m["functions"]]
    expected = (spans == [6] or spans == [3, 6]) and m["lines"] == 21 and m["test_lines"] == 2
    return 0 if expected and abs(m["header_comments"] - 1 / 3) < 1e-9 else print(m) or 1


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        sys.exit(self_test())
    report(measure(source_tree.ROOT))
