"""The rules of docs/architecture.md and CONTRIBUTING.md that a program can check.

An import counts wherever it stands: at the top of a module or inside a function. Only what is
under `if TYPE_CHECKING` is free.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_tree import Assertions, SourceTree, cycles_in, is_kernel, parsed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = SourceTree(ROOT / "src" / "cmpe")
TESTS = ROOT / "tests"

# A room may use the rooms before it; rooms of one line do not use each other.
ORDER = (
    ("errors", "arrays", "display", "compiling"),
    ("arguments",),
    ("memory",),
    ("domain",),
    ("examples", "execution", "models"),
    ("elimination",),
    ("sampling",),
    ("problem",),
    ("solution",),
    ("queries", "generation"),
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
    ("adversarial", "inspection", "reporting"),
    ("tradeoffs",),
    ("warming",),
    ("cli",),
)
PLANNED: set[str] = set()  # rooms that have their place but may not have been built
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# Narrower than the order: these rooms use nothing but what is listed.
ONLY = {
    "formats": {
        "arguments",
        "arrays",
        "display",
        "domain",
        "errors",
        "models",
        "problem",
        "solution",
    },
    "bounds": {
        "arguments",
        "arrays",
        "compiling",
        "domain",
        "elimination",
        "errors",
        "memory",
        "models",
        "problem",
    },
}
OPTIONAL = {
    "foolbox",
    "gurobipy",
    "jinja2",
    "matplotlib",
    "pandas",
    "pgmpy",
    "pyagrum",
    "pyarrow",
    "pyscipopt",
    "pytoulbar2",
    "ray",
    "sklearn",
}
ONLY_IN_CLI = {"rich", "typer"}
# The kinds of function: engines look them up in tables keyed by type.
KINDS = {
    "ChowLiuTree",
    "ClassMargin",
    "CutsetNetwork",
    "Distance",
    "FiniteFunction",
    "LogLinearModel",
    "MultilinearPolynomial",
    "NeuralFunction",
    "ReluNetwork",
}
MOST_KIND_CHECKS = 10
LONGEST_FILE = 350
LONGEST_FUNCTION = 60
FULLEST_FOLDER = 15
# Where the tests of the public names are: `test_cmpe.py` would say less.
MIRRORS = {"cmpe": "test_public_api.py"}

modules = pytest.mark.parametrize("module", SOURCE.modules)


def room_of(module: str) -> str:
    """The part after `cmpe.`: a package, or a module at the top."""
    return module.split(".")[1] if "." in module else ""


def may_import(importer: str, imported: str) -> bool:
    """Whether module `importer` may import module `imported`, both of this package."""
    here, there = room_of(importer), room_of(imported)
    if here == there:
        return True
    return LEVEL[there] < LEVEL[here] and there in ONLY.get(here, LEVEL)


# --- imports ---


def test_every_room_is_declared():
    rooms = {room_of(name) for name in SOURCE.modules} - {""}
    assert rooms | PLANNED == set(LEVEL), "ORDER lacks a room, or lists one that is gone"


@modules
def test_arrows(module):
    for found in SOURCE.imports(module):
        if found.name.split(".")[0] != "cmpe":
            continue
        where = f"{SOURCE.modules[module]}:{found.line}: {found.name}"
        assert found.name != "cmpe", f"{where}: import from the module that defines the name"
        assert module != "cmpe", f"{where}: the public face loads its names when they are used"
        assert may_import(module, found.name), f"{where}: {room_of(module)} may not use it"


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("cmpe.errors", "cmpe.arrays"),
        ("cmpe.models.loglinear", "cmpe.problem"),
        ("cmpe.problem.problem", "cmpe.solution"),
        ("cmpe.solution.solutions", "cmpe.queries"),
        ("cmpe.execution.rows", "cmpe.problem"),
        ("cmpe.formats.cfn", "cmpe.elimination.plan"),
        ("cmpe.formats.cfn", "cmpe.solvers.toulbar2"),
        ("cmpe.solvers.milp", "cmpe.cli.main"),
        ("cmpe.bounds.linearization", "cmpe.solvers.rows"),
    ],
)
def test_reverse_arrows_are_forbidden(importer, imported):
    assert not may_import(importer, imported)


def test_no_modules_import_each_other():
    cycles = cycles_in(SOURCE.arrows)
    assert not cycles, "\n".join(", ".join(group) for group in cycles)


def planted(folder: Path, **pages: str) -> SourceTree:
    """A package of these modules; `a__b` is the module b in the package a."""
    for name, text in pages.items():
        file = folder / "planted" / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return SourceTree(folder / "planted")


def test_a_cycle_through_a_function_is_found(tmp_path):
    tree = planted(
        tmp_path,
        first="from planted.inside import second",
        inside__second="import planted.third",
        third="def later():\n    from planted.first import something",
        fourth="import planted.third",
    )
    assert cycles_in(tree.arrows) == [("planted.first", "planted.inside.second", "planted.third")]


def test_a_cycle_through_a_package_is_found(tmp_path):
    """Python runs `inside` before `inside.part`, whichever of them is asked for."""
    tree = planted(tmp_path, inside__part="", first="import planted.inside.part")
    (tree.folder / "inside" / "__init__.py").write_text("import planted.first")
    assert cycles_in(tree.arrows) == [("planted.first", "planted.inside")]


def test_what_only_type_checkers_see_is_no_cycle(tmp_path):
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import planted.first"
    assert not cycles_in(planted(tmp_path, first="import planted.second", second=guarded).arrows)


def test_lazy_and_guarded_imports_are_told_apart(tmp_path):
    page = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import ray\nexcept ImportError:\n    pass\n"
        "def f():\n    from planted.models import kernels\n"
    )
    tree = planted(tmp_path, example=page, models__kernels="")
    found = [(i.name, i.top_level) for i in tree.imports("planted.example")]
    assert found == [("typing", True), ("ray", True), ("planted.models.kernels", False)]


# Of learning, only what makes training data, what works after the network's pass, and what asks
# how dear labels and answers are.
ASK_ENGINES = {
    "cmpe.learning.adversarial",
    "cmpe.learning.amortised.consulting",
    "cmpe.learning.amortised.teaching",
    "cmpe.learning.amortised.tuning.portfolio",
    "cmpe.learning.amortised.tuning.tuner",
    "cmpe.learning.certificates",
    "cmpe.learning.improvement",
    "cmpe.learning.price",
    "cmpe.learning.training.config",
    "cmpe.learning.training.data",
}


@modules
def test_training_takes_bounds_and_labels_as_data(module):
    if module.startswith("cmpe.learning.") and module not in ASK_ENGINES:
        engines = ("cmpe.bounds", "cmpe.solvers")
        used = [i.name for i in SOURCE.imports(module) if i.name.startswith(engines)]
        assert set(used) <= {"cmpe.solvers.base"}, "Running and Progress only"


@modules
def test_optional_packages_are_imported_where_they_are_used(module):
    top = {i.name.split(".")[0].lower() for i in SOURCE.imports(module) if i.top_level}
    assert not top & OPTIONAL
    if "torch" in top:
        assert room_of(module) in ("learning", "tensor") or module == "cmpe.models.neural"


@modules
def test_terminal_packages_stay_in_cli(module):
    if room_of(module) != "cli":
        assert not {i.name.split(".")[0] for i in SOURCE.imports(module)} & ONLY_IN_CLI


@modules
def test_only_the_command_line_prints(module):
    if room_of(module) != "cli":
        calls = (n for n in ast.walk(parsed(SOURCE.modules[module])) if isinstance(n, ast.Call))
        lines = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
        assert not lines, f"{module}: print() in lines {lines}"


# --- kernels ---


@modules
def test_compiled_code_is_known_by_its_name(module):
    used = {i.name.split(".")[0] for i in SOURCE.imports(module)}
    known = is_kernel(module) or room_of(module) == "compiling"
    assert known or not used & {"llvmlite", "numba"}


def test_the_decorator_and_the_clock_are_ours():
    """Else people are not told of compiling, or a time limit counts it."""
    for module, path in SOURCE.modules.items():
        text = path.read_text(encoding="utf-8")
        if room_of(module) not in ("compiling", "execution"):
            assert "from numba import njit" not in text, f"{path}: compiling.functions.njit"
            assert "perf_counter" not in text, f"{path}: compiling.timing"


def test_tools_know_kernels_by_pattern():
    """No tool lists single modules of compiled code."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    typed = [m for o in tools["mypy"]["overrides"] for m in o["module"] if "kernels" in m]
    assert typed == ["cmpe.*.kernels", "cmpe.*.kernels.*"]
    assert tools["coverage"]["run"]["omit"] == ["*/kernels.py", "*/kernels/*"]
    linted = [m for m in tools["ruff"]["lint"]["per-file-ignores"] if "kernels" in m]
    assert linted == ["src/cmpe/**/kernels.py", "src/cmpe/**/kernels/*.py"]


# --- sizes and names ---


@modules
def test_sizes(module):
    path = SOURCE.modules[module]
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{path} has {lines} lines"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{path}: {node.name} has {length} lines"


def test_no_folder_is_crowded():
    files = defaultdict(list)
    for path in SOURCE.modules.values():
        files[path.parent.relative_to(ROOT).as_posix()].append(path.name)
    assert not {folder: len(f) for folder, f in files.items() if len(f) > FULLEST_FOLDER}


def test_no_module_is_called_utils():
    vague = {"util", "utils", "helpers", "misc", "common"}
    assert not {part for name in SOURCE.modules for part in name.split(".")} & vague


def classes() -> dict[str, list[str]]:
    """The modules that define a class of each name."""
    found = defaultdict(list)
    for module, path in SOURCE.modules.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return found


def test_a_class_name_stands_for_one_idea():
    several = [f"{name}: {', '.join(found)}" for name, found in classes().items() if len(found) > 1]
    assert not several, "\n".join(several)


def kind_checks(page: ast.AST) -> Iterator[int]:
    """The lines that ask what kind of function a value is."""
    for node in ast.walk(page):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked: ast.AST = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        else:
            continue
        names = (n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "")
                 for n in ast.walk(asked))  # fmt: skip
        if KINDS & set(names):
            yield node.lineno if isinstance(node, ast.Call) else node.cls.lineno


def test_engines_look_kinds_of_function_up():
    assert set(classes()) >= KINDS, "KINDS lists a class that is gone"
    found = [
        f"{module}:{line}"
        for module, path in SOURCE.modules.items()
        for line in kind_checks(parsed(path))
    ]
    assert len(found) <= MOST_KIND_CHECKS, "\n".join([f"{len(found)} checks", *found])


def test_every_way_to_ask_for_a_kind_is_counted():
    page = (
        "isinstance(f, Distance)\n"
        "isinstance(f, (int, models.ChowLiuTree | ClassMargin))\n"
        "isinstance(f, int)\n"
        "match f:\n    case LogLinearModel():\n        pass\n"
    )
    assert list(kind_checks(ast.parse(page))) == [1, 2, 5]


# --- tests ---


def has_code(path: Path) -> bool:
    """Whether a module does more than name what others define."""
    plain = ast.Import | ast.ImportFrom
    for node in parsed(path).body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if not (isinstance(node, plain) or is_text or is_list):
            return True
    return False


def mirror_of(module: str) -> Path:
    """`a/b.py` is tested by `a/test_b.py`, `a/b/__init__.py` by `a/b/test_b.py`."""
    if module in MIRRORS:
        return TESTS / MIRRORS[module]
    path = SOURCE.modules[module]
    folder = TESTS / path.parent.relative_to(SOURCE.folder)
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return folder / f"test_{name}.py"


def test_the_tests_mirror_the_source():
    missing = [
        mirror_of(module).relative_to(ROOT).as_posix()
        for module, path in SOURCE.modules.items()
        if not is_kernel(module) and has_code(path) and not mirror_of(module).is_file()
    ]
    assert not missing, "\n".join([f"{len(missing)} modules have no tests of their own", *missing])


def test_every_test_asserts_something():
    assert not Assertions(TESTS).missing()


def test_assertions_are_followed_into_helpers(tmp_path):
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "shared.py").write_text("def check(x):\n    assert x\ndef pass_on(x):\n    return x\n")
    (tests / "conftest.py").write_text("def refused():\n    assert True\n")
    (tests / "test_page.py").write_text(
        "from tests.shared import check, pass_on\n"
        "def again(x):\n    check(x)\n    again(x)\n"
        "def test_direct():\n    assert True\n"
        "def test_raises():\n    with pytest.raises(ValueError):\n        pass\n"
        "def test_helper():\n    again(1)\n"
        "def test_fixture(refused):\n    refused()\n"
        "def test_nothing():\n    pass_on(1)\n"
    )
    assert Assertions(tests).missing() == ["tests/test_page.py:14 test_nothing"]


# --- the page ---


def test_architecture_page_shows_the_tree():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = set(map(drawn, files_in(page.split("```text\n", 1)[1].split("```", 1)[0])))
    files = (path.relative_to(SOURCE.folder).as_posix() for path in SOURCE.modules.values())
    wanted = {drawn(file) for file in files if "/__init__" not in drawn(file)}
    assert sorted(shown - wanted) == [], "the page shows what is gone"
    assert sorted(wanted - shown) == [], "the page does not show"


def drawn(file: str) -> str:
    """A folder of kernels stands for its files."""
    folder, found, _ = file.partition("/kernels/")
    return folder + found if found else file


def files_in(tree: str) -> Iterator[str]:
    """Every file of a drawn tree, with its folders; a folder of kernels may stand for its files."""
    folders: list[tuple[int, str]] = []
    for line in tree.splitlines()[1:]:
        if not line.strip():
            continue
        name, indent = line.split()[0], len(line) - len(line.lstrip())
        while folders and folders[-1][0] >= indent:
            folders.pop()
        whole = "".join(folder for _, folder in folders) + name
        if name.endswith("/"):
            folders.append((indent, name))
        if not name.endswith("/") or name == "kernels/":
            yield whole


def test_drawn_folders_may_stand_inside_folders():
    tree = """src/cmpe/
  errors.py        text
  solvers/         text
    milp/            text
      highs.py         text
      mixed/           text
        program.py       text
    exact/
      kernels/         text
    auto.py          text
  queries.py       text
"""
    assert list(files_in(tree)) == [
        "errors.py",
        "solvers/milp/highs.py",
        "solvers/milp/mixed/program.py",
        "solvers/exact/kernels/",
        "solvers/auto.py",
        "queries.py",
    ]
