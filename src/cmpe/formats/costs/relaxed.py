"""JSON as toulbar2 reads and writes it.

Quotes, commas and colons are optional; either kind of brackets will do; a line that begins with #
is a comment, and so is the rest of a line after //. A text is read as nested groups of words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from cmpe.errors import FormatError
from cmpe.formats.text import MOST_JSON

_TOKEN = re.compile(
    r"""(?P<comment> ^\#[^\n]* | //[^\n]* )
      | \[(?P<plain> [^\[\]{}"\#/]* )\]
      | (?P<open> [\[{] )
      | (?P<close> [\]}] )
      | (?P<quoted> "(?:[^"\\\n]|\\.)*" )
      | (?P<word> (?: [^\s,:"\[\]{}/] | /(?!/) )+ )
      | (?P<odd> " )
    """,
    re.MULTILINE | re.VERBOSE,
)
_SEPARATORS = str.maketrans(",:", "  ")


class Quoted(str):
    """A word that stood in quotes."""

    __slots__ = ()


class Bracketed(list["str | Bracketed"]):
    """Words and groups between brackets, and the line of the first of them."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line

    def pairs(self) -> list[tuple[str, str | Bracketed]]:
        """Names and what follows them, where every second entry is a name."""
        names = self[::2]
        if len(self) % 2 or any(isinstance(name, Bracketed) for name in names):
            raise ValueError("names, each with a value")
        return list(zip(names, self[1::2], strict=True))  # type: ignore[arg-type]


def parse_relaxed(path: Path | str, text: str) -> Bracketed:
    """The one group that a file holds."""
    if len(text) > MOST_JSON:
        expected, found = f"at most {MOST_JSON} characters", str(len(text))
        raise FormatError.at(path, "line 1", expected, found)
    outer = Bracketed(1)
    stack = [outer]
    line, at = 1, 0
    for token in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        kind, word = token.lastgroup, token.group()
        if kind == "word":
            stack[-1].append(word)
        elif kind == "plain":
            inner = Bracketed(line)
            inner.extend(word[1:-1].translate(_SEPARATORS).split())
            stack[-1].append(inner)
        elif kind == "quoted":
            stack[-1].append(Quoted(_unquoted(path, line, word)))
        elif kind == "open":
            stack.append(Bracketed(line))
            stack[-2].append(stack[-1])
        elif kind == "close":
            if len(stack) == 1:
                raise FormatError.at(path, f"line {line}", "no closing bracket", repr(word))
            stack.pop()
        elif kind == "odd":
            raise FormatError.at(path, f"line {line}", "a quote that is closed on its line", "none")
    if len(stack) > 1:
        where = f"the end of the file, in the group of line {stack[-1].line}"
        raise FormatError.at(path, where, "a closing bracket", "none")
    if len(outer) != 1 or not isinstance(outer[0], Bracketed):
        raise FormatError.at(path, "line 1", "one object", f"{len(outer)} entries")
    return outer[0]


def _unquoted(path: Path | str, line: int, word: str) -> str:
    try:
        value: str = json.loads(word)
    except ValueError:
        raise FormatError.at(path, f"line {line}", "a JSON string", repr(word[:40])) from None
    return value
