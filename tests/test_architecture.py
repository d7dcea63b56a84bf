"""The arrows of docs/architecture.md, read from the imports of every module of `cmpe`.

An import counts wherever it stands: at the top of a module or inside a function. Only what is
under `if TYPE_CHECKING` is free.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "cmpe"
MODULES = sorted(SOURCE.rglob("*.py"))

# A room may use the rooms before it; rooms of one line do not use each other.
ORDER = (
    ("errors",),
    ("arrays",),
    ("execution", "models"),
    ("elimination",),
    ("sampling",),
    ("problem",),
    ("solution", "queries", "generation"),
    ("formats",),
    ("bounds",),
    ("tensor",),
    ("bounding",),
    ("solvers",),
    ("learning",),
    ("evaluation",),
    ("adversarial", "inspection", "reporting"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# Narrower than the order: these rooms use nothing but what is listed.
ONLY = {
    "formats": {"arrays", "errors", "models", "problem", "solution"},
    "bounds": {"arrays", "errors", "models", "elimination", "problem"},
}
OPTIONAL = {
    "foolbox",
    "gurobipy",
    "jinja2",
    "matplotlib",
    "pgmpy",
    "pyagrum",
    "pyscipopt",
    "pytoulbar2",
    "ray",
}
ONLY_IN_CLI = {"rich", "typer"}
LONGEST_FILE = 350
LONGEST_FUNCTION = 60


@dataclass(frozen=True)
class Import:
    name: str  # with dots
    line: int
    top_level: bool


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def room_of(module: str) -> str:
    """The part after `cmpe.`: a package, or a module at the top."""
    return module.split(".")[1] if "." in module else ""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> list[Import]:
    return list(_imports(parsed(path), top_level=True))


def _imports(node: ast.AST, *, top_level: bool) -> Iterator[Import]:
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        for child in node.orelse:
            yield from _imports(child, top_level=top_level)
        return
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, node.lineno, top_level) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            longer = f"{node.module}.{alias.name}"
            name = longer if longer in NAMES else node.module
            yield Import(str(name), node.lineno, top_level)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, top_level=top_level and not inside)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def may_import(importer: str, imported: str) -> bool:
    """Whether module `importer` may import module `imported`, both of this package."""
    here, there = room_of(importer), room_of(imported)
    if here == there:
        return True
    return LEVEL[there] < LEVEL[here] and there in ONLY.get(here, LEVEL)


modules = pytest.mark.parametrize("path", MODULES, ids=name_of)


def test_every_room_is_declared():
    rooms = {room_of(name) for name in NAMES} - {""}
    assert rooms == set(LEVEL), "a room is missing from ORDER, or ORDER lists one that is gone"


@modules
def test_arrows(path):
    module = name_of(path)
    for found in imports_of(path):
        if found.name.split(".")[0] != "cmpe":
            continue
        where = f"{path}:{found.line}: {found.name}"
        assert found.name != "cmpe", f"{where}: import from the module that defines the name"
        assert module != "cmpe", f"{where}: the public face loads its names when they are used"
        assert may_import(module, found.name), f"{where}: {room_of(module)} may not use it"


@modules
def test_training_takes_bounds_and_labels_as_data(path):
    module = name_of(path)
    if room_of(module) == "learning" and module.split(".")[-1] not in (
        "data",
        "adversarial",
        "certificates",
        "improvement",
        "solver",
    ):
        engines = ("cmpe.bounds", "cmpe.solvers")
        used = [i.name for i in imports_of(path) if i.name.startswith(engines)]
        assert set(used) <= {"cmpe.solvers.base"}, "Running and Progress only"


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("cmpe.models.loglinear", "cmpe.problem"),
        ("cmpe.problem", "cmpe.solution"),
        ("cmpe.queries", "cmpe.solution"),
        ("cmpe.formats.cfn", "cmpe.elimination.plan"),
        ("cmpe.formats.cfn", "cmpe.solvers.toulbar2"),
        ("cmpe.solvers.milp", "cmpe.cli.main"),
        ("cmpe.bounds.linearization", "cmpe.solvers.rows"),
    ],
)
def test_reverse_arrows_are_forbidden(importer, imported):
    assert not may_import(importer, imported)


def test_lazy_and_guarded_imports_are_told_apart(tmp_path):
    page = tmp_path / "example.py"
    page.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import ray\nexcept ImportError:\n    pass\n"
        "def f():\n    from cmpe.models import kernels\n",
        encoding="utf-8",
    )
    found = [(i.name, i.top_level) for i in imports_of(page)]
    assert found == [("typing", True), ("ray", True), ("cmpe.models.kernels", False)]


@modules
def test_optional_packages_are_imported_where_they_are_used(path):
    top = {i.name.split(".")[0].lower() for i in imports_of(path) if i.top_level}
    assert not top & OPTIONAL
    assert "torch" not in top or room_of(name_of(path)) in ("learning", "tensor")


@modules
def test_terminal_packages_stay_in_cli(path):
    if room_of(name_of(path)) != "cli":
        assert not {i.name.split(".")[0] for i in imports_of(path)} & ONLY_IN_CLI


@modules
def test_only_the_command_line_prints(path):
    if room_of(name_of(path)) != "cli":
        calls = (n for n in ast.walk(parsed(path)) if isinstance(n, ast.Call))
        lines = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
        assert not lines, f"{path}: print() in lines {lines}"


@modules
def test_sizes(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{path} has {lines} lines"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}: {node.name} has {length} lines"


def test_no_module_is_called_utils():
    vague = {"util", "utils", "helpers", "misc", "common"}
    assert not {part for name in NAMES for part in name.split(".")} & vague


def test_architecture_page_shows_the_tree():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = page.split("```text\n", 1)[1].split("```", 1)[0]
    room, shown = "", set()
    for name, indent in _entries(tree):
        room = "" if indent == 2 else room
        if name.endswith("/"):
            room = name
        else:
            shown.add(room + name)
    files = {path.relative_to(SOURCE).as_posix() for path in MODULES}
    assert shown == {name for name in files if "/__init__" not in name}


def _entries(tree: str) -> Iterator[tuple[str, int]]:
    """(first word, indentation) of every line below `src/cmpe/`."""
    for line in tree.splitlines()[1:]:
        if line.strip():
            yield line.split()[0], len(line) - len(line.lstrip())
