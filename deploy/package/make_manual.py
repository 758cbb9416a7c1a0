#!/usr/bin/env python3
"""Makes the manual pages and the completion for bash from the --help of the programs, when they are built.

    make_manual.py BIN_DIR VERSION OUTPUT_DIR

writes OUTPUT_DIR/man/man1/cohort.1, man1/cohort-COMMAND.1, man8/cohort-DAEMON.8, and OUTPUT_DIR/completions with a
file `cohort` and links to it by the names of the daemons.
"""
import os
import re
import subprocess
import sys

DAEMONS = {"cohort-chief": "the chief of a training job", "cohort-worker": "a worker of a training job",
           "cohort-ps": "a parameter server of a training job", "cohort-replica": "a replica of a mirrored training job",
           "cohort-evaluator": "the evaluator of a training job"}
# Programs that commands of `cohort` start.
PROGRAMS = {"cohort-in-process": "a whole training job in one process"}


TEXT_COLUMN = 30  # where --help begins the texts of its entries


class Help:
    """The parsed output of --help: an entry is (name, value, text), such as ("--ps", "INT=1", "parameter servers")."""

    def __init__(self, command):
        done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
        self.description, _, rest = done.stdout.partition("\nUsage: ")
        self.usage, _, rest = rest.partition("\n")
        self.sections = {}
        entries = None
        for line in rest.split("\n"):
            if re.match(r"^\w[\w ]*:$", line):
                entries = self.sections.setdefault(line[:-1], [])
            elif re.match(r"^  \S", line):
                # A name that is too long for its column has its text on the next line.
                fits = line[TEXT_COLUMN - 1:TEXT_COLUMN] == " "
                head, text = (line[:TEXT_COLUMN], line[TEXT_COLUMN:]) if fits else (line, "")
                name, _, value = head.strip().partition(" ")
                entries.append([name, value.strip(), text.strip()])
            elif line.strip():
                entries[-1][2] = (entries[-1][2] + " " + line.strip()).strip()

    def entries(self, section):
        return self.sections.get(section, [])

    def flags(self):
        """{name without dashes: value}, "" for a bool."""
        return {name: value for names, value, _ in self.entries("Options") for name in re.findall(r"--([\w-]+)", names)}

    def commands(self):
        return [(name, text) for name, _, text in self.entries("Subcommands")]


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def sentence(text):
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def tagged(entries):
    lines = []
    for name, value, text in entries:
        # "-h,--help" and "INT=20".
        shown = ", ".join("\\fB%s\\fR" % escaped(n) for n in name.split(","))
        kind, _, default = value.removesuffix(" REQUIRED").partition("=")
        if name.startswith("-") and kind:
            shown += " \\fI%s\\fR" % escaped(kind)
        if default not in ("", "[]"):
            text += " (default: %s)" % default
        lines += [".TP", shown, escaped(text)]
    return lines


def page(title, section, summary, help_text, version, see_also):
    lines = ['.TH "%s" "%d" "" "Cohort %s" "Cohort"' % (title.upper(), section, version),
             ".SH NAME", "%s \\- %s" % (escaped(title), escaped(summary)),
             ".SH SYNOPSIS", ".B %s" % escaped(help_text.usage),
             ".SH DESCRIPTION", escaped(sentence(help_text.description))]
    for name, heading in (("Positionals", "ARGUMENTS"), ("Subcommands", "COMMANDS"), ("Options", "OPTIONS")):
        if help_text.entries(name):
            lines += [".SH " + heading, *tagged(help_text.entries(name))]
    lines += [".SH EXIT STATUS",
              "0 for success. Codes from 64 to 79 are those of sysexits(3): another try would end in the same way. Codes "
              "from 128 on are worth another try.",
              ".SH SEE ALSO", ", ".join("\\fB%s\\fR(%d)" % (escaped(n), s) for n, s in see_also) + ".",
              "The folder /usr/share/doc/cohort has the documentation."]
    return "\n".join(lines) + "\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def write_pages(bin_dir, version, out):
    main = Help([os.path.join(bin_dir, "cohort")])
    daemons = [(name, 8) for name in DAEMONS]
    of_main = [("cohort-" + name, 1) for name, _ in main.commands()] + daemons
    write(os.path.join(out, "man1", "cohort.1"),
          page("cohort", 1, "training jobs on parameter servers", main, version, of_main))
    for name, text in main.commands():
        title = "cohort-" + name
        write(os.path.join(out, "man1", title + ".1"),
              page(title, 1, text, Help([os.path.join(bin_dir, "cohort"), name]), version, [("cohort", 1)]))
    for name, summary in (*DAEMONS.items(), *PROGRAMS.items()):
        section = 8 if name in DAEMONS else 1
        others = [("cohort", 1)] + [other for other in daemons if other[0] != name]
        write(os.path.join(out, "man%d" % section, "%s.%d" % (name, section)),
              page(name, section, summary, Help([os.path.join(bin_dir, name)]), version, others))


def flag_words(help_text):
    """The flags of a program in the order of --help; those with a value end with "="."""
    return " ".join("--%s%s" % (name, "=" if value else "") for name, value in help_text.flags().items())


def write_completion(bin_dir, out):
    main = Help([os.path.join(bin_dir, "cohort")])
    commands = [name for name, _ in main.commands()]
    flags = {"cohort": flag_words(main)}
    flags.update({"cohort " + name: flag_words(Help([os.path.join(bin_dir, "cohort"), name])) for name in commands})
    flags.update({name: flag_words(Help([os.path.join(bin_dir, name)])) for name in DAEMONS})
    table = "\n".join("    '%s') words='%s' ;;" % item for item in flags.items())
    write(os.path.join(out, "cohort"), """# Completion of cohort and its daemons for bash. Made from their --help.
_cohort() {
  local current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]##*/} words='' i
  if [[ $program == cohort ]]; then
    # The command is the first word that is no flag.
    for ((i = 1; i < COMP_CWORD; i++)); do
      if [[ ${COMP_WORDS[i]} != -* ]]; then
        program="cohort ${COMP_WORDS[i]}"
        break
      fi
    done
  fi
  COMPREPLY=()
  # Bash splits --flag=value into three words.
  if [[ $current != -* ]] && { [[ $program != cohort ]] || [[ $current == */* ]]; }; then
    [[ $current == '=' ]] && current=''
    if [[ $program == 'cohort ctl' ]] && ((COMP_CWORD == i + 2)); then
      mapfile -t COMPREPLY < <(compgen -W 'status checkpoint stop set-mode set pause resume extend' -- "$current")
      return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  case $program in
%s
  esac
  if [[ $program == cohort && $current != -* ]]; then
    words='%s'
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _cohort cohort %s
""" % (table, " ".join(commands), " ".join(DAEMONS)))
    for name in DAEMONS:
        path = os.path.join(out, name)
        if not os.path.islink(path):
            os.symlink("cohort", path)


def main(bin_dir, version, out):
    write_pages(bin_dir, version, os.path.join(out, "man"))
    write_completion(bin_dir, os.path.join(out, "completions"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
