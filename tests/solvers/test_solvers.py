"""Every solver against enumeration, on hundreds of problems full of awkward cases."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem, Running, Status
from cmpe.errors import InputError, MethodError, MissingExtra
from tests.problems import Shape, random_problem, seeds, worked_example

HEURISTICS = ("lagrangian", "local", "search")  # no proof is promised
PROVERS = [m for m in cmpe.METHODS if m not in HEURISTICS]
REAL_METHODS = [m for m in PROVERS if m not in ("exhaustive", "milp")]


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


def test_equal_rows_are_solved_once_and_share_their_time():
    problem = worked_example()
    rows = np.array([[1, 1], [0, 0], [1, 1], [0, 1], [1, 1]])
    seen = []
    running = Running(progress=lambda done, total: seen.append((done, total)))
    answers = cmpe.solve(problem, rows, method="milp", running=running)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    truth = [cmpe.solve(problem, row, method="exhaustive") for row in rows]
    assert answers.labels == [one.labels[0] for one in truth]
    np.testing.assert_array_equal(answers.objective, [one.objective[0] for one in truth])
    assert answers.seconds[0] == answers.seconds[2] == answers.seconds[4] > 0


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
    assert answer.seconds[0] < 20
    status = Status(answer.status[0])
    assert status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN)
    if status is not Status.UNKNOWN:
        assert problem.is_feasible(answer.assignments)[0]
        assert answer.bound[0] >= answer.objective[0]
    longer = cmpe.solve(problem, method="milp:highs", time_limit=3)
    assert answer.bound[0] >= longer.objective[0] - 1e-6  # a stopped search proves no optimum


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cmpe.solve(worked_example(), [0, 0], method="magic"),
            "exhaustive, .*'magic'",
        ),
        (lambda: cmpe.solve(worked_example(), [0, 0], time_limit=0), "above 0 seconds, found 0"),
        (lambda: Running(workers=0), "workers must be at least 1, found 0"),
        (lambda: Running(threads=0), "threads must be at least 1"),
    ],
)
def test_wrong_calls_are_said(call, message):
    with pytest.raises(MethodError, match=message):
        call()


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("milp:scip", "pyscipopt", "scip"), ("toulbar2", "pytoulbar2", "toulbar2"),
     ("milp:gurobi", "gurobipy", "gurobi")],
)  # fmt: skip
def test_a_missing_extra_is_named(monkeypatch, method, package, extra):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtra, match=rf"cmpe\[{extra}\]"):
        cmpe.solve(worked_example(), [0, 0], method=method)


def test_gurobi_without_a_licence_says_so():
    pytest.importorskip("gurobipy")
    from cmpe.generation import grid

    model = grid(40, 40, seed=0)
    with pytest.raises(InputError, match="licence"):
        cmpe.solve(cmpe.queries.mpe(model), method="milp:gurobi", time_limit=1)


def test_a_failing_backend_leaves_its_row_unknown(monkeypatch):
    from cmpe.errors import BackendError
    from cmpe.solvers.milp import highs

    def fail(*_):
        raise BackendError("it broke")

    monkeypatch.setattr(highs, "maximise", fail)
    with pytest.warns(RuntimeWarning, match="row 0: it broke"):
        answer = cmpe.solve(worked_example(), [[0, 0]], method="milp:highs")
    assert Status(answer.status[0]) is Status.UNKNOWN
