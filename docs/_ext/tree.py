"""The directive `tree`: folders and modules, each with the first line of its docstring.

python docs/_ext/tree.py FOLDER [DEPTH]      prints it
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
COLUMN, WIDTH = 28, 100


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    from docutils import nodes
    from docutils.parsers.rst import Directive, directives

    class Tree(Directive):
        """A folder of the repository as text; `:depth: 1` leaves out what is in its folders."""

        required_arguments = 1
        option_spec: ClassVar = {"depth": directives.nonnegative_int}

        def run(self) -> list[nodes.Node]:
            text = "\n".join(lines(ROOT / self.arguments[0], self.options.get("depth")))
            return [nodes.literal_block(text, text, language="text")]

    app.add_directive("tree", Tree)
    return {"parallel_read_safe": True}


def lines(folder: Path, depth: int | None = None, indent: str = "") -> Iterator[str]:
    """Modules, then folders, in the order of their names."""
    yield from _entry(f"{indent}{folder.name}/", folder / "__init__.py")
    if depth == 0:
        return
    inside = f"{indent}  "
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield from _entry(f"{inside}{path.name}", path)
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").exists():
            yield from lines(path, None if depth is None else depth - 1, inside)


def _entry(name: str, module: Path) -> Iterator[str]:
    """A name, and beside it what the module is about."""
    about = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").split("\n")[0]
    rows = textwrap.wrap(about, WIDTH - COLUMN) or [""]
    yield f"{name.ljust(COLUMN - 1)} {rows[0]}".rstrip()
    yield from (f"{'':{COLUMN}}{row}" for row in rows[1:])


if __name__ == "__main__":
    print("\n".join(lines(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:]))))
