#!/usr/bin/env python3
"""Compares docs/from_tensorflow.md with the classes of Keras, the names of tf.distribute, and docs/job_file.md.

Each class of Keras has one row, which begins with "yes" or "no". It is "yes" if and only if docs/job_file.md, which is
compared with `cohort reference` by another test, has the class. If it is "yes", job_file.md or the row has each
argument. keras_surface.json has the names; make_keras_surface.py writes it from the installed Keras, and the test
compares both where Keras is installed.
"""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

GOLDEN = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(GOLDEN))
PAGE = os.path.join(SOURCE, "docs", "from_tensorflow.md")
JOB_FILE = os.path.join(SOURCE, "docs", "job_file.md")
# Classes of Keras that have another name, or another place, in a job file.
OURS = {("Layers", "InputLayer"): "Input"}
# Other sections of the page with classes of a group.
ALSO = {"Layers": ["Cells"]}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sections(text, level):
    """The text below each heading of this level, by its name."""
    parts = re.split(r"(?m)^%s (.+)$" % ("#" * level), text)
    return dict(zip(parts[1::2], parts[2::2]))


def rows(text):
    """The two cells of each row of the tables in the text: the names in the first one, and the second one."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ", 1)]
        if line.startswith("|") and len(cells) == 2:
            names = re.findall(r"`([^`]+)`", cells[0])
            if names:
                yield names, cells[1]


def compare_classes(group, found, page, ours, errors):
    answers = {}
    everywhere = set()  # arguments of all classes of the group
    for names, answer in rows(page):
        for name in names:
            if name == "*":
                everywhere |= set(re.findall(r"`([^`]+)`", answer))
                continue
            if name in answers:
                errors.append("%s: %s has two rows" % (group, name))
            answers[name] = answer
    for name in sorted(set(answers) - set(found)):
        errors.append("%s: the page has %s, which Keras lacks" % (group, name))
    for name, arguments in sorted(found.items()):
        answer = answers.get(name)
        if answer is None:
            errors.append("%s: the page lacks %s" % (group, name))
            continue
        known = ours.get(OURS.get((group, name), name))
        if answer.startswith("no"):
            if known is not None:
                errors.append("%s: %s is `no`, and docs/job_file.md has it" % (group, name))
            continue
        if not answer.startswith("yes"):
            errors.append("%s: the row of %s begins with neither yes nor no" % (group, name))
        if known is None:
            if "(" not in answer.split(":")[0]:
                errors.append("%s: %s is `yes`, and docs/job_file.md lacks it" % (group, name))
            continue
        have = set(re.findall(r"(?m)^\| `([^`]+)`", known)) | everywhere | set(re.findall(r"`([^`=]+)[^`]*`", answer))
        lacking = [argument for argument in arguments if argument not in have]
        if lacking:
            errors.append("%s: %s: neither docs/job_file.md nor the row has %s" % (group, name, ", ".join(lacking)))


def compare_names(title, names, page, errors):
    have = {name for row, _ in rows(page) for name in row}
    for name in names:
        if name not in have:
            errors.append("%s: the page lacks %s" % (title, name))
    for name in sorted(have - set(names)):
        errors.append("%s: the page has %s, which is not there" % (title, name))


def installed_surface():
    """What the installed Keras has; None without one."""
    if any(importlib.util.find_spec(module) is None for module in ("keras", "tensorflow")):
        return None
    with tempfile.NamedTemporaryFile() as file:
        maker = os.path.join(GOLDEN, "make_keras_surface.py")
        subprocess.check_call([sys.executable, maker, "--out", file.name], stderr=subprocess.DEVNULL)
        return json.loads(read(file.name))


def main():
    surface = json.loads(read(os.path.join(GOLDEN, "keras_surface.json")))
    page = sections(read(PAGE), 2)
    ours = sections(read(JOB_FILE), 2)
    errors = []
    for group, found in surface["classes"].items():
        have = {name: text for part in (group, *ALSO.get(group, ()))
                for name, text in sections(ours.get(part, ""), 3).items() if not text.strip().startswith("Not supported")}
        compare_classes(group, found, page.get(group, ""), have, errors)
    for title, names in surface["functions"].items():
        compare_names(title, names, page.get(title, ""), errors)
    compare_names("tf.distribute", surface["tf.distribute"], page.get("tf.distribute", ""), errors)
    installed = installed_surface()
    if installed is not None and installed != surface:
        errors.append("keras_surface.json is not what make_keras_surface.py writes with Keras %s" % installed["keras"])
    for error in errors:
        print(error)
    print("docs/from_tensorflow.md: %d errors%s" % (len(errors), "" if installed else "; Keras is not installed here"))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
