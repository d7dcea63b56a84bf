"""The public face: the names of `cmpe`, where they come from, and what importing them costs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import cmpe

EXPECTED = [
    "BOUNDS",
    "METHODS",
    "Answer",
    "Bounds",
    "Certificate",
    "ChowLiuTree",
    "ClassMargin",
    "CmpeError",
    "Conflict",
    "Constraint",
    "Costs",
    "CutsetNetwork",
    "CutsetSettings",
    "Distance",
    "Domain",
    "Engine",
    "Explainer",
    "Factor",
    "Front",
    "Instances",
    "Interrupted",
    "Limits",
    "LogLinearModel",
    "Method",
    "MultilinearPolynomial",
    "NeuralFunction",
    "NeuralSolver",
    "Probability",
    "Problem",
    "ProblemDirectory",
    "Ranked",
    "Recipe",
    "Relaxed",
    "ReluNetwork",
    "Rule",
    "Running",
    "Sensitivity",
    "Session",
    "Solutions",
    "Solver",
    "Status",
    "TrainingConfig",
    "Work",
    "all_different",
    "allowed",
    "at_least_one",
    "at_most_one",
    "best",
    "between",
    "bound",
    "certify",
    "conflict",
    "count",
    "cross_validate",
    "equal",
    "evaluate",
    "exactly_one",
    "example",
    "fit",
    "front",
    "generate",
    "implies",
    "learn_chow_liu",
    "learn_cutset",
    "linear",
    "parity",
    "preset",
    "probability",
    "queries",
    "read_directory",
    "read_evidence",
    "read_model",
    "read_network",
    "read_problem",
    "read_rules",
    "read_solutions",
    "read_uai",
    "reference",
    "relax",
    "sample",
    "sensitivity",
    "solve",
    "solve_stream",
    "unroll",
    "write_directory",
    "write_model",
    "write_network",
    "write_uai",
]
HEAVY = ("torch", "scipy", "matplotlib", "numba", "highspy", "typer", "rich")


def _kind(name: str) -> int:
    """Constants, then classes, then functions: the order of ruff's RUF022."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def test_names():
    assert cmpe.__all__ == EXPECTED


def test_names_are_sorted():
    assert sorted(EXPECTED, key=lambda name: (_kind(name), name)) == EXPECTED


def test_dir_agrees():
    assert set(dir(cmpe)) == {*cmpe.__all__, "__version__"}
    assert cmpe.__version__ == version("cmpe")


@pytest.mark.parametrize("name", EXPECTED)
def test_name_resolves_and_is_documented(name):
    value = getattr(cmpe, name)
    if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
        assert inspect.getdoc(value)


@pytest.mark.parametrize("name", [n for n in EXPECTED if n not in ("BOUNDS", "METHODS", "queries")])
def test_name_says_where_it_lives(name):
    value = getattr(cmpe, name)
    assert value.__module__.startswith("cmpe.")
    assert value.__name__ == name


def test_unknown_name():
    with pytest.raises(AttributeError, match="module 'cmpe' has no attribute 'minimise'"):
        cmpe.minimise  # noqa: B018


def test_type_checkers_see_the_same_names():
    """The imports under TYPE_CHECKING, which mypy follows, against `__all__`, which runs."""
    tree = ast.parse(files("cmpe").joinpath("__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    static = [alias.name for node in block.body for alias in node.names]
    assert sorted(static) == sorted(EXPECTED)


def test_types_are_shipped():
    assert files("cmpe").joinpath("py.typed").is_file()


def test_import_is_light():
    code = f"import sys, cmpe; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
