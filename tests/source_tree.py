"""The source as the architecture test sees it: modules by name, their imports, and cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """Module `name` is imported in a line, at the top level of the module or inside a function."""

    name: str  # with dots
    line: int
    top_level: bool


@dataclass(frozen=True)
class SourceTree:
    """A package below `folder`, which is named after it."""

    folder: Path

    @cached_property
    def modules(self) -> dict[str, Path]:
        """The files by the names of their modules."""
        return {self._name(path): path for path in sorted(self.folder.rglob("*.py"))}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cache  # noqa: B019 - a few trees live as long as the tests
    def imports(self, module: str) -> list[Import]:
        """Everything it imports, except what only type checkers see."""
        return list(_imports(parsed(self.modules[module]), self.modules, top_level=True))

    @cached_property
    def arrows(self) -> dict[str, set[str]]:
        """Which modules of the package each of its modules imports.

        Python runs the packages that a module stands in before the module itself.
        """
        return {module: set(self._run_by(module)) for module in self.modules}

    def _run_by(self, module: str) -> Iterator[str]:
        for found in self.imports(module):
            if found.name in self.modules:
                yield found.name
                above = (p for p in _packages(found.name) if p in self.modules)
                yield from (p for p in above if p not in _packages(module))


def _packages(module: str) -> list[str]:
    """The packages that a module stands in, and the module itself."""
    parts = module.split(".")
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(node: ast.AST, known: Mapping[str, Path], *, top_level: bool) -> Iterator[Import]:
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        for child in node.orelse:
            yield from _imports(child, known, top_level=top_level)
        return
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, node.lineno, top_level) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            longer = f"{node.module}.{alias.name}"
            yield Import(longer if longer in known else str(node.module), node.lineno, top_level)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, known, top_level=top_level and not inside)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def cycles_in(arrows: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups of modules, each of which imports itself through the others."""
    reached = {module: _reached(module, arrows) for module in arrows}
    groups = {
        tuple(sorted(m for m in found if module in reached[m]))
        for module, found in reached.items()
        if module in found
    }
    return sorted(groups)


def _reached(module: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """What an import of the module imports in the end."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = arrows[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found
