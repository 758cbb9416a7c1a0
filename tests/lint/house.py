#!/usr/bin/env python3
"""Prints how much one engineer has to hold: the figures that only a deletion mends.

Usage: house.py [TREE]         TREE: another checkout, to compare with
       house.py --self-test    measures a small tree whose figures are known

Production is what is compiled into programs and libraries: .h, .cc, .cu and .proto outside of tests. "Residency" are
variables that stay on devices.
"""
import os
import re
import sys
import tempfile

import source_tree

CODE = (".h", ".cc", ".cu", ".cuh", ".proto")
RESIDENCY = re.compile(r"[Rr]esiden(t|ce|cy)")
METHOD = re.compile(r"^(?!using|friend|typedef|struct|class|enum|static_assert)[\w:<>,&*\s\[\]()]*?(\boperator\S+|\b\w+)\s*\(")


def without_comments(text):
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def body_from(text, start):
    """The text between a brace at `start` and the one that closes it."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1:i]
    return ""


def public_methods(text):
    """{class: names of its public methods, overloads counted each}, without constructors, destructors and assignments."""
    found = {}
    text = without_comments(text)
    for match in re.finditer(r"\b(class|struct)\s+(\w+)[^;{}()]*\{", text):
        kind, name = match.groups()
        body = body_from(text, match.end() - 1)
        # Nested braces are inline bodies and nested classes; neither has methods of this class.
        flat, depth = [], 0
        for c in body:
            if c == "}":
                depth -= 1
                if depth == 0:
                    flat.append(";")
                continue
            if depth == 0 and c != "{":
                flat.append(c)
            depth += c == "{"
        public, methods = kind == "struct", []
        for statement in re.split(r";|(?=\b(?:public|private|protected):)|(?<=public:)|(?<=private:)|(?<=protected:)",
                                  "".join(flat)):
            statement = " ".join(statement.split())
            if statement in ("public:", "private:", "protected:"):
                public = statement == "public:"
                continue
            statement = re.sub(r"^template <[^>]*>+ ?", "", statement)
            method = METHOD.match(statement)
            if public and method and method.group(1) not in (name, "operator=") and "~" not in statement and \
                    "= delete" not in statement:
                methods.append(method.group(1))
        found[name] = methods
    return found


def measure(root):
    paths = source_tree.files(root, CODE)
    production = [p for p in paths if not source_tree.is_test(p)]
    texts = {p: source_tree.read(root, p) for p in production}
    classes = [(len(methods), name, p) for p in production if p.startswith("chief/") and p.endswith(".h")
               for name, methods in public_methods(texts[p]).items()]
    return {
        "production lines": sum(t.count("\n") for t in texts.values()),
        "test lines": sum(source_tree.read(root, p).count("\n") for p in paths if source_tree.is_test(p)),
        "production files": len(production),
        "files that mention residency": sum(1 for t in texts.values() if RESIDENCY.search(t)),
        "largest classes of the chief, public methods": "; ".join(
            "%d %s (%s)" % c for c in sorted(classes, reverse=True)[:4]),
    }


def self_test():
    header = """// resident
class A : public B {
 public:
  A();
  ~A();
  A& operator=(const A&) = delete;
  int one() const { return f(2); }
  virtual std::vector<int> Two(int a, std::map<int, int> b) = 0;
  struct Inner { int Three(); };
  template <typename T>
  T Four(T t) { if (t) { g(); } return t; }
  using Function = std::function<void()>;
 private:
  void Five();
};
"""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(root + "/chief/core")
        os.makedirs(root + "/tests")
        for path, text in (("chief/core/a.h", header), ("chief/core/a_test.cc", "int a;\n"), ("tests/b.h", "\n\n")):
            with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                f.write(text)
        found = measure(root)
    wanted = {"production lines": 15, "test lines": 3, "production files": 1, "files that mention residency": 1}
    names = public_methods(header)
    return [] if wanted.items() <= found.items() and names == {"A": ["one", "Two", "Four"], "Inner": ["Three"]} else \
        [str(found), str(names)]


def main(arguments):
    if arguments == ["--self-test"]:
        errors = self_test()
        print("\n".join(errors) or "the figures are as known")
        return 1 if errors else 0
    for name, value in measure(arguments[0] if arguments else source_tree.ROOT).items():
        print("%-46s %s" % (name, value))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
