#!/usr/bin/env python3
"""The manual pages and the completion that the build has made, against --help."""
import os
import re
import shlex
import unittest

from real_cluster import BINARY, program, run

MADE = os.path.join(BINARY, "deploy", "package", "made")
COMPLETION = os.path.join(MADE, "completions", "cohort")
DAEMONS = ("cohort-chief", "cohort-worker", "cohort-ps", "cohort-replica", "cohort-evaluator")


def help_of(*command):
    done = run([program(command[0]), *command[1:], "--help"])
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(*command):
    """{"--name": True if it takes a value}."""
    found = re.findall(r"^ +(?:-\w,)?(--[\w-]+)( [A-Z]+)?", help_of(*command), re.M)
    return {name: bool(value) for name, value in found}


def commands():
    return re.findall(r"^  (\S+) ", help_of("cohort").split("Subcommands:\n")[1], re.M)


def completions(*words):
    """What bash offers for the last of these words."""
    script = ("source %s; COMP_WORDS=(%s); COMP_CWORD=%d; %s; printf '%%s\\n' \"${COMPREPLY[@]}\"" %
              (shlex.quote(COMPLETION), shlex.join(words), len(words) - 1, "_cohort"))
    done = run(["bash", "--norc", "-c", script])
    assert done.returncode == 0 and not done.stderr, (words, done.stderr)
    return [line for line in done.stdout.split("\n") if line]


class ManualPages(unittest.TestCase):
    def check(self, page, *command):
        with open(os.path.join(MADE, "man", page), encoding="utf-8") as f:
            text = f.read().replace("\\-", "-")
        self.assertTrue(text.startswith('.TH "%s"' % page.split("/")[1].split(".")[0].upper()))
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            self.assertIn("\n.SH %s\n" % section, text)
        described = re.findall(r"^\.TP\n(?:\\fB-\w\\fR, )?\\fB(--[\w-]+)\\fR.*\n\S", text, re.M)
        self.assertEqual(sorted(described), sorted(flags(*command)))
        return text

    def test_each_program_and_command_has_a_page_with_its_flags(self):
        expected = {"man1/cohort.1", "man1/cohort-in-process.1"}
        main = self.check("man1/cohort.1", "cohort")
        for name in commands():
            self.check("man1/cohort-%s.1" % name, "cohort", name)
            self.assertIn("\n\\fB%s\\fR\n" % name, main)
            expected.add("man1/cohort-%s.1" % name)
        for name in DAEMONS:
            self.check("man8/%s.8" % name, name)
            expected.add("man8/%s.8" % name)
        made = {os.path.join(os.path.basename(folder), name)
                for folder, _, names in os.walk(os.path.join(MADE, "man")) for name in names}
        self.assertEqual(made, expected)


class Completion(unittest.TestCase):
    def offered(self, *command):
        return {word.removesuffix("="): word.endswith("=") for word in completions(*command, "--")}

    def test_each_command_is_offered(self):
        self.assertEqual(completions("cohort", ""), commands())
        self.assertEqual(completions("cohort", "tf"), ["tf-config"])

    def test_the_flags_of_each_program_and_command_are_offered(self):
        self.assertEqual(self.offered("cohort"), flags("cohort"))
        for name in commands():
            self.assertEqual(self.offered("cohort", name), flags("cohort", name), name)
        for name in DAEMONS:
            self.assertEqual(self.offered(name), flags(name), name)
            self.assertEqual(os.readlink(os.path.join(MADE, "completions", name)), "cohort")
        self.assertEqual(completions("cohort", "local", "--ps"), ["--ps="])

    def test_files_and_the_commands_of_ctl_are_offered(self):
        self.assertIn(os.path.join(MADE, "completions"), completions("cohort", "local", os.path.join(MADE, "comp")))
        self.assertIn(os.path.join(MADE, "man"), completions("cohort-chief", "--log_dir", "=",
                                                             os.path.join(MADE, "m")))
        self.assertEqual(completions("cohort", "ctl", "run", ""), ["status", "checkpoint", "stop", "set-mode", "set", "pause", "resume",
                                                                "extend"])
        self.assertEqual(completions("cohort", "ctl", "run", "st"), ["status", "stop"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
