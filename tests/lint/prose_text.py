"""The prose of source files, for prose_test.py: comments, string literals and documents."""
import io
import re
import tokenize

# A C++ comment, raw string, string or character, whichever starts first.
CPP = re.compile(r'//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/|R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"'
                 r'|"(?P<text>(?:[^"\\\n]|\\.)*)"|(?<![0-9a-zA-Z])\'(?:[^\'\\\n]|\\.)+\'', re.S)
SHELL = re.compile(r'(?:^|(?<=\s))#(?P<line>[^\n]*)|"(?P<text>(?:[^"\\]|\\.)*)"|\'[^\']*\'', re.S)
YAML = re.compile(r"(?:^|(?<=\s))#(?P<line>[^\n]*)")


class Passage:
    """A comment, a string or a paragraph: its text, and the number of the file's line where it starts."""

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line

    def line_of(self, offset):
        return self.line + self.text.count("\n", 0, offset)


def joined(pieces):
    """Merges what stands on consecutive lines: [(kind, text, first line, last line, own line)] to passages.

    A comment that follows code on its line starts a passage; the comment lines below it continue it.
    """
    found, last = [], None
    for kind, text, first, end, starts in pieces:
        previous = found[-1] if found else None
        if previous and previous.kind == kind and first - last in (0, 1) and not starts:
            previous.text += ("\n" if first > last else " ") + text
        else:
            found.append(Passage(kind, text, first))
        last = end
    return found


def by_pattern(pattern, text):
    pieces, strings_line = [], None
    for match in pattern.finditer(text):
        groups = match.groupdict()
        line = text.count("\n", 0, match.start()) + 1
        end = line + match.group().count("\n")
        before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if groups.get("line") is not None:
            pieces.append(("comment", groups["line"].strip(), line, end, bool(before.strip())))
        elif groups.get("block") is not None:
            pieces.append(("comment", groups["block"], line, end, True))
        else:
            value = groups.get("text") if groups.get("text") is not None else groups.get("raw")
            if value is None or before.lstrip().startswith("#include"):
                continue
            # Adjacent literals are one string.
            adjacent = strings_line is not None and not text[strings_line:match.start()].strip()
            pieces.append(("string", value, line, end, not adjacent))
            strings_line = match.end()
    return joined(pieces)


def python(text):
    pieces, previous = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            own = not token.line[:token.start[1]].strip()
            pieces.append(("comment", token.string.lstrip("#! ").strip(), token.start[0], token.end[0], not own))
        elif token.type == tokenize.STRING:
            value = token.string.strip("rRbBfFuU").strip("\"'")
            pieces.append(("string", value, token.start[0], token.end[0], previous != tokenize.STRING))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            previous = token.type
    return joined(pieces)


def paragraphs(text):
    found, line = [], 1
    for block in re.split(r"(\n(?:[ \t]*\n)+)", text):
        if block.strip():
            found.append(Passage("document", block, line))
        line += block.count("\n")
    return found


def passages(path, text):
    """All prose of a file, by the ending of its name; nothing for other files."""
    if path.endswith((".h", ".cc", ".proto")):
        return by_pattern(CPP, text)
    if path.endswith(".py"):
        return python(text)
    if path.endswith(".sh"):
        return by_pattern(SHELL, text)
    if path.endswith((".yaml", ".cmake", "CMakeLists.txt")):
        return by_pattern(YAML, text)
    if path.endswith(".md"):
        return paragraphs(text)
    return []
