"""Reads a Containerfile, and runs a stage of it in a root file system instead of a container."""
import json
import os
import re
import shlex
import shutil
import subprocess

# What each instruction does is stated by https://docs.docker.com/reference/dockerfile/; others are refused.
INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}


class Stage:
    """The instructions of a stage, without those of the stages that it is based on."""

    def __init__(self, name, base):
        self.name, self.base, self.instructions = name, base, []  # [(instruction, text)]


def read(path):
    """{name: Stage} of a Containerfile."""
    with open(path, encoding="utf-8") as f:
        lines = [line for line in f.read().split("\n") if not line.lstrip().startswith("#")]
    stages, last = {}, None
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n"):
        if not line.strip():
            continue
        instruction, text = line.split(None, 1)
        assert instruction in INSTRUCTIONS, line
        if instruction == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", text).groups()
            last = stages[name] = Stage(name, base)
        elif last is not None:
            last.instructions.append((instruction, text))
        else:
            assert instruction == "ARG", line  # before the first stage
    return stages


def instructions(stages, name):
    """The instructions that make a stage, those of its bases first."""
    stage = stages[name]
    return (instructions(stages, stage.base) if stage.base in stages else []) + stage.instructions


class Image:
    """A root in which the instructions of a stage have been run.

    `context` is the directory that is copied from, `stages` the directories of other stages: {name: directory}.
    """

    def __init__(self, root, context, stages):
        self.root, self._context, self._stages = root, context, stages
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user, self.directory, self.entrypoint, self.command = "0:0", "/", [], []

    def build(self, steps):
        for instruction, text in steps:
            getattr(self, "_" + instruction.lower())(text)

    def run(self, arguments, limit_s=120, **keywords):
        """Runs a program as the image would: its user, environment and directory; /proc, /dev and /tmp are there."""
        user, group = self.user.split(":")
        inside = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs"]
        script = ("mount --rbind /dev \"$1/dev\" && mount -t proc proc \"$1/proc\" && cd \"$1\" && shift && "
                  "exec chroot \"$PWD\" \"$@\"")
        variables = ["%s=%s" % item for item in self.environment.items()]
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", self.root,
             *(inside if user != "0" else []), "env", "-i", "--chdir=" + self.directory, *variables, *arguments],
            capture_output=True, text=True, errors="replace", check=False, timeout=limit_s, stdin=subprocess.DEVNULL,
            **keywords)

    def _run(self, text):
        done = self.run(["/bin/sh", "-c", text], limit_s=400)
        if done.returncode != 0:
            raise AssertionError("RUN %s: %d\n%s%s" % (text, done.returncode, done.stdout[-3000:], done.stderr[-3000:]))

    def _copy(self, text):
        words = shlex.split(text)
        origin = self._context
        if words[0].startswith("--from="):
            stage = words.pop(0).removeprefix("--from=")
            origin = self._stages[stage]
        source, target = (os.path.join(origin, words[0].lstrip("/")),
                          os.path.join(self.root, os.path.join(self.directory, words[1]).lstrip("/")))
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)

    def _env(self, text):
        for setting in shlex.split(text):
            name, value = setting.split("=", 1)
            self.environment[name] = value

    def _arg(self, text):
        raise AssertionError("ARG %s: the stages that tests run have none" % text)

    def _user(self, text):
        self.user = text.strip()

    def _workdir(self, text):
        self.directory = text.strip()

    def _entrypoint(self, text):
        self.entrypoint = json.loads(text)

    def _cmd(self, text):
        self.command = json.loads(text)
