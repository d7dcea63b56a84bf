"""`cmpe bound`, through the command's own entry point."""

import json

import numpy as np
import pytest

import cmpe
from cmpe import ProblemDirectory, Recipe, write_directory
from cmpe.bounding import BOUNDS, ON_DEVICE
from cmpe.bounds.settings import SETTINGS
from cmpe.cli.main import main
from cmpe.formats.uai import storable
from cmpe.generation import generate, grid
from cmpe.problem import Form
from cmpe.problem.groups import full_rows

OF_TABLES = [name for name, row in BOUNDS.items() if Form.TABLES in row.takes]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = generate(storable(grid(6, 6, seed=2)), Recipe(percentile=10, samples=60))
    second = storable(made.problem.constraints[0].function)
    problem = cmpe.Problem(
        made.problem.objective,
        (cmpe.Constraint(second, made.problem.constraints[0].at_most),),
        made.problem.evidence_variables,
        "grid",
    )
    path = tmp_path_factory.mktemp("bound") / "problem"
    write_directory(ProblemDirectory(problem, made.train, made.test), path)
    return path


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["cmpe", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    return stop.value.code, printed.out, printed.err


def test_bounds_are_above_the_optimum(monkeypatch, capsys, directory):
    code, out, _ = run(monkeypatch, capsys, "bound", directory)
    bounds = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    content = cmpe.read_directory(directory)
    best = cmpe.solve(content.problem, content.test, method="exact")
    assert [b["index"] for b in bounds] == list(range(len(best)))
    fields = ["index", "bound", "infeasible", "multipliers", "method", "bounds", "seconds"]
    assert [list(b) for b in bounds] == [fields] * len(best)
    assert (np.array([b["bound"] for b in bounds]) >= best.objective - 1e-9).all()
    assert all(len(b["multipliers"]) == 1 and not b["infeasible"] for b in bounds)
    code, out, _ = run(monkeypatch, capsys, "bound", directory, "--format", "table")
    assert code == 0
    assert out.startswith("6 rows: 0 proved infeasible; bound on the best feasible objective")


def test_all_methods_and_the_best(monkeypatch, capsys, directory):
    words = ("bound", directory, "--method", "all", "--time-limit", "0.01", "--seed", "3")
    code, out, err = run(monkeypatch, capsys, *words)
    assert (code, err) == (0, "")
    content = cmpe.read_directory(directory)
    best = cmpe.solve(content.problem, content.test, method="exact").objective
    for row, optimum in zip(map(json.loads, out.splitlines()), best, strict=True):
        assert list(row["bounds"]) == OF_TABLES == list(row["seconds"])
        assert row["bound"] == min(row["bounds"].values()) == row["bounds"][row["method"]]
        assert all(value >= optimum for value in row["bounds"].values())
    code, out, _ = run(monkeypatch, capsys, *words, "--format", "table")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()[1:]] == OF_TABLES


def test_one_method(monkeypatch, capsys, directory):
    code, out, _ = run(monkeypatch, capsys, "bound", directory, "--method", "messages")
    assert code == 0
    assert {json.loads(line)["method"] for line in out.splitlines()} == {"messages"}


def test_an_unknown_method_is_one_line(monkeypatch, capsys, directory):
    code, out, err = run(monkeypatch, capsys, "bound", directory, "--method", "magic")
    assert (code, out) == (2, "")
    assert err.startswith("error: the method must be one of lagrangian, minibucket, splitting")
    assert err.endswith("found 'magic'\n")
    assert err.count("\n") == 1


def test_what_is_too_wide_for_one_method_leaves_the_others(monkeypatch, capsys, directory):
    monkeypatch.setattr("cmpe.bounds.lagrangian.MOST_BYTES", 10)
    monkeypatch.setattr("cmpe.bounding.SETTINGS", SETTINGS._replace(cheap_bytes=10))
    words = ("bound", directory, "--time-limit", "0.001", "--method")
    code, out, err = run(monkeypatch, capsys, *words, "all")
    assert code == 0
    assert err.startswith("warning: lagrangian: elimination of width")
    row = json.loads(out.splitlines()[0])
    assert row["bounds"]["lagrangian"] is None
    assert row["bound"] == min(v for v in row["bounds"].values() if v is not None)
    code, out, err = run(monkeypatch, capsys, *words, "lagrangian")
    assert (code, out) == (2, "")
    assert err.startswith("error: elimination of width")
    code, out, _ = run(monkeypatch, capsys, *words[:-1])
    assert (code, json.loads(out.splitlines()[0])["method"]) == (0, "splitting")


def test_the_help_lists_every_bound_and_who_takes_a_device(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "500")
    code, out, _ = run(monkeypatch, capsys, "bound", "--help")
    assert code == 0
    assert all(f"{row.name}: {row.about}" in out for row in BOUNDS.values())
    assert f"with torch: for {', '.join(ON_DEVICE)}." in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "knapsack", "--device", "cuda"), "only lagrangian, splitting take"),
        (("--device", "cuda:99"), "device 'cuda:99' cannot be used: "),
        (("--device", "cuda", "--threads", "2"), "threads are for device cpu, found 2"),
        (("--method", "rlt"), "rlt bounds log-linear models with variables in [0, 1]; found"),
    ],
)
def test_what_a_bound_cannot_do_is_one_line(monkeypatch, capsys, directory, words, message):
    code, out, err = run(monkeypatch, capsys, "bound", directory, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_evidence_may_observe_other_variables(monkeypatch, capsys, directory, tmp_path):
    (tmp_path / "rows.evid").write_text("2\n1 0 1\n2 3 0 4 1\n")
    code, out, _ = run(
        monkeypatch, capsys, "bound", directory, "--evidence", tmp_path / "rows.evid"
    )
    assert code == 0
    assert len(out.splitlines()) == 2


def test_model_files_are_a_problem(monkeypatch, capsys, directory):
    content = cmpe.read_directory(directory)
    np.save(directory.parent / "rows.npy", full_rows(content.problem, content.test))
    models = (
        "--objective",
        directory / "objective.uai",
        "--constraint",
        directory / "constraint.uai",
    )
    limits = ("--at-most", *map(str, content.problem.limits.tolist()))
    rows = ("--evidence", directory.parent / "rows.npy")
    _, given, _ = run(monkeypatch, capsys, "bound", directory)
    code, out, err = run(monkeypatch, capsys, "bound", *models, *limits, *rows)
    pairs = zip(map(json.loads, out.splitlines()), map(json.loads, given.splitlines()), strict=True)
    assert (code, err) == (0, "")
    assert all(one["bound"] == pytest.approx(other["bound"]) for one, other in pairs)
