"""Reads systemd's unit files and environment files, as far as the units of deploy/systemd use them."""
import os
import re

from real_cluster import SOURCE

UNITS = os.path.join(SOURCE, "deploy", "systemd")
NAMES = ("cohort-ps@.service", "cohort-worker@.service", "cohort-chief.service", "cohort-evaluator.service")


def read_environment(path):
    """The variables of an EnvironmentFile= that has no quotes: {"TF_CONFIG": "{...}"}."""
    variables = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if line and not line.startswith(("#", ";")):
                name, value = line.split("=", 1)
                variables[name] = value
    return variables


class Unit:
    """One unit. `name`: "cohort-ps@1.service"; specifiers and paths are replaced by those of `host`."""

    def __init__(self, name, host):
        self.name = name
        self.host = host
        self.instance = name.partition("@")[2].removesuffix(".service")
        template = re.sub(r"@.*\.service$", "@.service", name)
        self.settings = {}  # "Service.Restart" to all its values
        section = ""
        with open(os.path.join(UNITS, template), encoding="utf-8") as f:
            for line in f:
                line = line.strip()
                if line.startswith("["):
                    section = line.strip("[]")
                elif line and not line.startswith("#"):
                    key, value = line.split("=", 1)
                    self.settings.setdefault(section + "." + key, []).append(value)

    def expand(self, text):
        """Replaces specifiers, and the paths of a real host."""
        for specifier, value in (("%i", self.instance), ("%t", self.host.path("run")),
                                 ("%S", self.host.path("lib"))):
            text = text.replace(specifier, value)
        return text.replace("/etc/cohort/", self.host.path("etc/"))

    def get(self, key, default=""):
        return self.settings.get("Service." + key, [default])[-1]

    def seconds(self, key):
        return float(self.get(key))

    def codes(self, key):
        return {int(code) for code in self.get(key).split()}

    def environment(self):
        """What the process gets: Environment=, then EnvironmentFile= in their order."""
        variables = {}
        for value in self.settings.get("Service.Environment", []):
            variables.update(word.split("=", 1) for word in self.expand(value).split())
        for value in self.settings.get("Service.EnvironmentFile", []):
            path = self.expand(value)
            if not path.startswith("-") or os.path.exists(path[1:]):
                variables.update(read_environment(path.removeprefix("-")))
        return variables

    def command(self, environment):
        """ExecStart= as words: ${NAME} is a part of a word, and $NAME stands for any number of words."""
        words = []
        for word in self.expand(self.get("ExecStart")).split():
            if re.fullmatch(r"\$\w+", word):
                words += environment.get(word[1:], "").split()
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda m: environment.get(m[1], ""), word))
        return [words[0].replace("/usr/bin", self.host.bin_dir), *words[1:]]
