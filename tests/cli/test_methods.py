"""Methods on the command line: names of the registry win, then run directories."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cmpe.cli.options import DEVICE_HELP, METHOD_HELP, THREADS_HELP, WORKERS_HELP, method_or_run
from cmpe.solvers import METHODS
from tests.cli.commands import SOLVE
from tests.problems import worked_example

NAMES = ", ".join(METHODS)


def test_the_help_lists_the_registry(call):
    assert f"One of {NAMES}; or the directory of a trained run." == METHOD_HELP
    code, out, _ = call("solve", "--help")
    assert code == 0
    shown = "".join(c for c in out if not c.isspace() and c not in "│")
    for sentence in (METHOD_HELP, WORKERS_HELP, THREADS_HELP, DEVICE_HELP):
        assert sentence.replace(" ", "") in shown


def test_the_help_says_what_workers_and_threads_are_for():
    """The methods that it names are the ones that work row by row in processes."""
    assert "processes for milp and toulbar2, threads for the others" in WORKERS_HELP
    assert "within a row for milp, more rows at the same time for the others" in THREADS_HELP
    devices = [name for name, row in METHODS.items() if row.takes_device]
    assert f"cpu, or cuda for {', '.join(devices)} and trained runs." == DEVICE_HELP


def test_an_unknown_method_is_one_line_with_the_registry(refused):
    line = refused("solve", "--objective", "nowhere.uai", "--method", "magic")
    assert line == f"a method is one of {NAMES}; found 'magic'"


@pytest.mark.usefixtures("beside_model")
def test_a_folder_called_exact_is_not_the_method(call):
    Path("exact").mkdir()
    (Path("exact") / "config.json").write_text("{}")
    code, out, err = call(*SOLVE, "--method", "exact")
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == "exact"
    assert method_or_run("exact", worked_example()) == "exact"


@pytest.mark.parametrize("kind", ["empty", "problem"])
def test_a_folder_that_is_no_run(refused, problem, kind):
    Path("empty").mkdir()
    folder = "empty" if kind == "empty" else str(problem)
    line = refused("solve", "--objective", "nowhere.uai", "--method", folder)
    assert line == (
        f"a method is one of {NAMES}, or the directory of a trained run; found the directory "
        f"{folder!r}, which holds no run"
    )


def test_a_folder_with_another_config(refused):
    Path("other").mkdir()
    (Path("other") / "config.json").write_text('{"format_version": 99}')
    line = refused(*SOLVE, "--method", "other")
    assert line == "other/config.json: field 'format_version': expected 1, found 99"


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not row.takes_device])
def test_a_device_for_a_method_without_one_is_refused_before_files_are_read(refused, method):
    line = refused("solve", "--objective", "nowhere.uai", "--method", method, "--device", "cuda")
    assert line == (
        "methods lagrangian and local and trained networks take a device; found "
        f"{method!r} with device 'cuda'"
    )


def test_a_gap_for_another_method_is_refused_before_files_are_read(refused):
    line = refused("solve", "--objective", "nowhere.uai", "--method", "milp", "--gap", "1")
    assert line == "only method auto takes a gap, found 'milp' with gap 1.0"


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pytoulbar2", "toulbar2", "toulbar2"), ("pyscipopt", "milp:scip", "scip"),
     ("gurobipy", "milp:gurobi", "gurobi")],
)  # fmt: skip
def test_a_missing_extra_is_named(refused, monkeypatch, package, method, extra):
    monkeypatch.setitem(sys.modules, package, None)
    line = refused(*SOLVE, "--method", method)
    assert f"pip install 'cmpe[{extra}]'" in line
