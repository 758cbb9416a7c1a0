"""The source files of the project, for the lint tests."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = {"build", ".git", ".venv", "__pycache__"}
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)


def files(root, suffixes):
    """Paths relative to `root` of all files whose name ends with one of `suffixes`, sorted."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names
                  if n.endswith(suffixes)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def includes(root):
    """{path: [what it includes, as written]} of all C++ files."""
    return {p: INCLUDE.findall(read(root, p)) for p in files(root, (".h", ".cc"))}


def room(path):
    """The room of ARCHITECTURE.md's folder map that a file lives in: common/base, worker, proto, ..."""
    parts = path.split("/")
    folders = parts[:-1]
    if folders[:2] == ["common", "rpc"]:
        return "/".join(folders[:3])
    if folders[:1] in (["common"], ["chief"], ["deploy"]):
        return "/".join(folders[:2])
    return parts[0]


def is_test(path):
    return "_test" in os.path.basename(path) or path.startswith("tests/")
