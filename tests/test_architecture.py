"""The rules of docs/architecture.md that a program can check.

An import counts wherever it stands: at the top of a module or inside a function. Only imports
under `if TYPE_CHECKING` are ignored.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

from tests.source_tree import Import, SourceTree, cycles_in, parsed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = SourceTree(ROOT / "src" / "cmpe")
STUDY = SourceTree(ROOT / "study")

# A room may use the rooms before it; rooms of one line do not use each other.
ORDER = (
    ("errors", "arrays", "display", "locks"),
    ("core",),
    ("arguments",),
    ("memory",),
    ("domain",),
    ("examples", "execution", "models"),
    ("elimination",),
    ("sampling",),
    ("problem",),
    ("solution",),
    ("flip", "generation"),
    ("formats",),
    ("streams",),
    ("bounds",),
    ("tensor",),
    ("bounding",),
    ("solvers",),
    ("learning",),
    ("solving",),
    ("estimator",),
    ("evaluation",),
    ("inspection", "pictures"),
    ("tradeoffs", "certificates"),
    ("queries", "torch"),
    ("warming", "service"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
OPTIONAL = {
    "gurobipy",
    "matplotlib",
    "ortools",
    "pandas",
    "pgmpy",
    "pyagrum",
    "pyarrow",
    "pyscipopt",
    "pytoulbar2",
    "ray",
    "sklearn",
    "starlette",
    "uvicorn",
}
TORCH_ROOMS = {"learning", "tensor", "torch"}
TORCH_MODULES = {"cmpe.models.neural"}
ONLY_IN_CLI = {"rich", "typer"}


def room_of(module: str) -> str:
    """The part after `cmpe.`: a package, or a module at the top."""
    return module.split(".")[1] if "." in module else ""


def imports() -> list[tuple[str, Import]]:
    """Every import of the package, with the module that it stands in."""
    return [(module, found) for module in SOURCE.modules for found in SOURCE.imports(module)]


def package_of(found: Import) -> str:
    return found.name.split(".")[0].lower()


def test_rooms_import_only_the_rooms_before_them():
    assert {room_of(name) for name in SOURCE.modules} - {""} == set(LEVEL)
    wrong = []
    for module, found in imports():
        here, there = room_of(module), room_of(found.name)
        if package_of(found) != "cmpe" or here == there != "":
            continue
        if module == "cmpe" or there == "" or LEVEL[there] >= LEVEL[here]:
            wrong.append(f"{module}:{found.line} imports {found.name}")
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other():
    cycles = [*cycles_in(SOURCE.arrows), *cycles_in(STUDY.arrows)]
    assert not cycles, "\n".join(", ".join(group) for group in cycles)


def test_the_study_and_benchmarks_use_the_package_and_never_the_reverse():
    wrong = [
        f"{module}:{found.line} imports {found.name}"
        for tree, others in ((SOURCE, {"study", "benchmarks", "tests"}), (STUDY, {"benchmarks"}))
        for module in tree.modules
        for found in tree.imports(module)
        if package_of(found) in others
    ]
    assert not wrong, "\n".join(wrong)


def test_optional_packages_are_imported_where_they_are_used():
    wrong = []
    for module, found in imports():
        package = package_of(found)
        allowed = room_of(module) in TORCH_ROOMS or module in TORCH_MODULES
        optional = package in OPTIONAL or (package == "torch" and not allowed)
        terminal = package in ONLY_IN_CLI and room_of(module) != "cli"
        if (found.top_level and optional) or terminal:
            wrong.append(f"{module}:{found.line} imports {found.name}")
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_prints():
    calls = (
        (module, node)
        for module, path in SOURCE.modules.items()
        for node in ast.walk(parsed(path))
        if room_of(module) != "cli" and isinstance(node, ast.Call)
    )
    prints = [(m, c.lineno) for m, c in calls if getattr(c.func, "id", None) == "print"]
    assert not prints


def test_compiled_code_stands_in_the_core_only():
    """Code compiled elsewhere would escape the notices of compiling and the clock."""
    wrong = [
        f"{module}:{found.line} imports {found.name}"
        for module, found in imports()
        if package_of(found) in ("numba", "llvmlite") and not module.startswith("cmpe.core.")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_imports_numpy_numba_and_arrays_only():
    wrong = []
    for module, found in imports():
        if room_of(module) != "core":
            continue
        package = package_of(found)
        allowed = package in {*sys.stdlib_module_names, "numpy", "numba"}
        if package == "cmpe":
            allowed = room_of(found.name) in ("core", "arrays")
        if package == "llvmlite":
            lanes = ("cmpe.core.compiler.", "cmpe.core.lanes", "cmpe.core.search.lanes")
            allowed = module.startswith(lanes)
        if not allowed:
            wrong.append(f"{module}:{found.line} imports {found.name}")
    assert not wrong, "\n".join(wrong)


def test_a_class_name_stands_for_one_idea():
    defined = defaultdict(list)
    for module, path in SOURCE.modules.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(module)
    assert not {name: where for name, where in defined.items() if len(where) > 1}
