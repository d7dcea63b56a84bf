"""The registry, and every method of it against enumeration on problems full of awkward cases."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem, Running, Status
from cmpe.errors import MethodError, MissingExtra
from cmpe.problem import Form
from cmpe.solvers import METHODS, method_named
from cmpe.solvers.base import Engine
from tests.problems import Shape, random_problem, seeds, worked_example

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
PROVERS = [name for name, row in METHODS.items() if row.proves]
# toulbar2 with VAC does not end on some of these problems; tests of its own limit the time.
REAL_METHODS = [m for m in PROVERS if m not in ("exhaustive", "milp", "toulbar2:vac")]


def table_of_methods():
    """The lines of the table of methods, without its heading and the row of trained runs."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| `--method` |")) + 2
    table = [line for line in lines[first : first + len(METHODS) + 2] if line.startswith("| ")]
    assert table[-1].startswith("| a run directory |")
    return table[:-1]


def test_the_page_of_methods_has_the_registry_as_its_table():
    expected = []
    for name, row in METHODS.items():
        proves = "yes" if row.proves else "no"
        needs = f" extra `{row.needs}` |" if row.needs else " |"
        expected.append(f"| `{name}` | {row.about} | {row.takes} | {proves} |{needs}")
    assert table_of_methods() == expected


@pytest.mark.parametrize("name", METHODS)
def test_a_row_of_the_registry(name):
    row = method_named(name)
    assert row.name == name
    assert Form.TABLES in row.engines
    assert row.takes == ("any function" if Form.OTHER in row.engines else "tables")
    for load in row.engines.values():
        engine = load()
        assert isinstance(engine, Engine)
        assert load() == engine  # nothing is kept between two questions
    assert not row.about.endswith(".")


def test_an_unknown_name_is_refused_with_the_list_of_all():
    with pytest.raises(MethodError) as caught:
        method_named("Exact")
    assert str(caught.value) == f"a method is one of {', '.join(METHODS)}; found 'Exact'"


def assert_same_answers(found, truth):
    np.testing.assert_array_equal(found.status, truth.status)
    np.testing.assert_allclose(found.objective, truth.objective, atol=1e-6, rtol=1e-6)
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered]).all()


@pytest.mark.parametrize("method", REAL_METHODS)
@settings(max_examples=200)
@given(seeds)
def test_against_enumeration(method, seed):
    problem, evidence = random_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert_same_answers(cmpe.solve(problem, evidence, method=method), truth)


@pytest.mark.parametrize("method", REAL_METHODS)
@settings(max_examples=25)
@given(seeds)
def test_larger_binary_pairwise_problems(method, seed):
    shape = Shape(variables=12, values=2, arity=2, factors=30, constraints=2)
    problem, evidence = random_problem(seed, shape)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert_same_answers(cmpe.solve(problem, evidence, method=method), truth)


@pytest.mark.parametrize("method", PROVERS)
def test_the_worked_example(method):
    problem = worked_example()
    answer = cmpe.solve(problem, {0: 1, 1: 1}, method=method)
    assert answer.assignments.tolist() == [[1, 1, 0, 1]]
    assert answer.objective.tolist() == [11]
    mpe = cmpe.solve(cmpe.queries.mpe(problem.objective, (0, 1)), [1, 1], method=method)
    assert mpe.assignments.tolist() == [[1, 1, 0, 0]]
    assert mpe.objective.tolist() == [16]


@pytest.mark.parametrize("method", REAL_METHODS)
@pytest.mark.parametrize("excess", [0.0, 0.99e-6, 1.004e-6, 1.02e-6, 2e-6])
def test_no_solver_tolerance_decides_a_tie(method, excess):
    """The better value exceeds q by `excess`: feasible up to 1e-6, no matter who solves."""
    h = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1.0]), ((1,), [0.0, 0.1])])
    t = LogLinearModel.from_tables([2, 2], [((0,), [0.0, excess])])
    answer = cmpe.solve(Problem(h, (Constraint(t, 0.0),)), method=method)
    assert Status(answer.status[0]) is Status.OPTIMAL
    assert answer.assignments[0, 0] == int(excess <= 1e-6)


@pytest.mark.parametrize("method", PROVERS)
def test_rows_may_observe_different_variables(method):
    problem = worked_example()
    rows = np.array([[1, 1, -1, -1], [-1, -1, -1, -1], [0, -1, 1, -1], [0, 1, -1, -1]])
    answers = cmpe.solve(problem, rows, method=method)
    for i, row in enumerate(rows):
        one = cmpe.solve(
            problem, {v: int(x) for v, x in enumerate(row) if x >= 0}, method="exhaustive"
        )
        assert answers.objective[i] == one.objective[0]
        assert ((answers.assignments[i] == row) | (row < 0)).all()


@pytest.mark.parametrize("method", PROVERS)
def test_a_warm_start_changes_nothing_but_the_path(method):
    for seed in range(20):
        problem, evidence = random_problem(seed)
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        start = np.where(truth.assignments < 0, 0, truth.assignments)
        again = cmpe.solve(problem, evidence, method=method, running=Running(start=start))
        assert_same_answers(again, truth)


@pytest.mark.parametrize("method", ["milp:highs", "toulbar2"])
def test_workers_give_the_same_answers_and_progress(method):
    problem = worked_example()
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    seen = []
    running = Running(workers=2, progress=lambda done, total: seen.append((done, total)))
    answers = cmpe.solve(problem, rows, method=method, running=running)
    truth = cmpe.solve(problem, rows, method="exhaustive")
    assert_same_answers(answers, truth)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("method", ["milp:highs", "milp:scip", "toulbar2"])
def test_a_time_limit_leaves_a_true_answer(method):
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(40) for j in range(i)]
    h = LogLinearModel((2,) * 40, tuple(Factor(p, rng.normal(size=(2, 2))) for p in pairs))
    t = h.perturb(0.1, 1)
    problem = Problem(h, (Constraint(t, 100.0),))
    answer = cmpe.solve(problem, method=method, time_limit=0.5)
    status = Status(answer.status[0])
    assert status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN)
    if status is not Status.UNKNOWN:
        assert problem.is_feasible(answer.assignments)[0]
        assert answer.bound[0] >= answer.objective[0]
    longer = cmpe.solve(problem, method="milp:highs", time_limit=3)
    assert answer.bound[0] >= longer.objective[0] - 1e-6  # a stopped search proves no optimum


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("milp:scip", "pyscipopt", "scip"), ("toulbar2", "pytoulbar2", "toulbar2"),
     ("cpsat", "ortools", "cpsat"), ("milp:gurobi", "gurobipy", "gurobi")],
)  # fmt: skip
def test_a_missing_extra_is_named(monkeypatch, method, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"cmpe\[{extra}\]"):
        cmpe.solve(worked_example(), [0, 0], method=method)
