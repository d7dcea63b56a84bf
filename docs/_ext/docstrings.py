"""Docstrings of the package are plain text: backticks, indented formulas. Here as reStructuredText.

An indented part after an empty line is a formula or code and is shown as it stands; stars, bars and
trailing underscores elsewhere are no markup.
"""

import re
from typing import Any

MARKUP = re.compile(r"(`[^`]*`)|([*|])|(\w)_(?=\W|$)")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}


def process(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place."""
    lines[:] = rewritten(lines)


def rewritten(lines: list[str]) -> list[str]:
    """The same docstring with literal blocks marked and characters escaped."""
    found: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not inside and (number == 0 or not lines[number - 1].strip()):
            found += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            if inside and found[-1].strip():
                found.append("")
            inside = False
        found.append(line if inside else escaped(line))
    return found


def escaped(line: str) -> str:
    """Stars, bars and trailing underscores as themselves."""
    line = MARKUP.sub(lambda m: m[1] or (f"\\{m[2]}" if m[2] else f"{m[3]}\\_"), line)
    return line.strip() if line.startswith(" ") else line
