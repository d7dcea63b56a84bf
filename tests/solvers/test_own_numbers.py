"""Rows with potentials and limits of their own, by every method, against enumeration."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, Problem, Running, Status, execution
from cmpe.errors import EvidenceError, MethodError
from cmpe.execution.local import InProcess
from cmpe.formats.results import json_rows
from cmpe.generation import grid
from cmpe.models.constraint import tolerance_of
from cmpe.problem import problem as problem_module
from cmpe.problem.rows import Rows
from tests.problems import Shape, all_assignments, random_problem, seeds
from tests.refusals import refused

ROWS = 4
PROVING = ["exact", "auto", "exhaustive", "milp"]
OTHERS = ["lagrangian", "local", "search"]


def own_numbers(seed, shape=None):
    """A random problem with evidence (B, n), potentials by scope and limits (B, m)."""
    problem, _ = random_problem(seed, shape or Shape(constraints=3, arity=4))
    rng = np.random.default_rng([seed, 1])
    cards = problem.objective.cardinalities
    evidence = np.stack([rng.integers(0, k, ROWS) for k in cards], axis=1)
    hidden = rng.random(len(cards)) < 0.6
    evidence[:, hidden] = -1
    if rng.random() < 0.3:  # rows that observe different variables
        evidence[rng.random(evidence.shape) < 0.3] = -1
    potentials = {}
    for v, k in enumerate(cards):
        if rng.random() < 0.7:
            potentials[v] = rng.normal(size=(ROWS, k))
    if len(cards) > 1 and rng.random() < 0.5:
        a, b = rng.choice(len(cards), 2, replace=False).tolist()
        potentials[a, b] = rng.normal(size=(ROWS, cards[a], cards[b]))
    for table in potentials.values():
        if rng.random() < 0.3:
            table[rng.random(table.shape) < 0.2] = -np.inf
    limits = None
    if problem.constraints and rng.random() < 0.8:
        points = np.stack([rng.integers(0, k, ROWS) for k in cards], axis=1)
        limits = problem.constraint_values(points)
        limits[~np.isfinite(limits)] = -3.0
    return problem.observing(()), evidence, potentials, limits


def truth(problem, evidence, potentials, limits):
    """The best feasible objective of every row, -inf where there is none; plain loops."""
    every = all_assignments(problem.objective.cardinalities)
    h, t = problem.objective.value(every), problem.constraint_values(every)
    out = []
    for row, seen in enumerate(evidence):
        own = h.copy()
        for key, table in potentials.items():
            scope = list(key) if isinstance(key, tuple) else [key]
            own += table[row][tuple(every[:, v] for v in scope)]
        most = problem.limits if limits is None else limits[row]
        good = (t <= most + tolerance_of(np.asarray(most))).all(axis=1)
        good &= ((seen == -1) | (every == seen)).all(axis=1)
        out.append(own[good].max(initial=-np.inf))
    return np.array(out)


def worth(problem, potentials, rows):
    """h and what each row adds to it, of assignments."""
    rows = np.maximum(rows, 0)
    out = problem.objective.value(rows)
    numbers = np.arange(len(rows))
    for key, table in potentials.items():
        scope = list(key) if isinstance(key, tuple) else [key]
        out = out + table[(numbers, *(rows[:, v] for v in scope))]
    return out


def check(method, problem, evidence, potentials, limits, *, proves):
    found = cmpe.solve(problem, evidence, method=method, potentials=potentials, limits=limits)
    best = truth(problem, evidence, potentials, limits)
    assert found.assignments.shape == evidence.shape
    room = 1e-6 * np.maximum(1.0, np.abs(np.where(np.isfinite(best), best, 0.0)))
    good = found.feasible
    assert (found.objective[good] <= best[good] + room[good]).all()
    assert (found.bound >= best - room).all()
    there = (found.assignments >= 0).all(axis=1)
    rows = found.assignments
    np.testing.assert_allclose(
        found.objective[there], worth(problem, potentials, rows)[there], atol=1e-9
    )
    most = problem.limits if limits is None else limits
    values = problem.constraint_values(np.maximum(rows, 0))
    over = (values - most)[there]
    np.testing.assert_allclose(found.violations[there], over, atol=1e-12)
    agrees = (evidence == -1) | (rows == evidence)
    assert agrees[there].all()
    if proves:
        assert (found.status[np.isfinite(best)] == Status.OPTIMAL).all()
        assert (found.status[np.isneginf(best)] == Status.INFEASIBLE).all()
        np.testing.assert_allclose(found.objective[good], best[good], atol=1e-6)


@pytest.mark.parametrize("method", PROVING)
@settings(max_examples=40)
@given(seeds)
def test_methods_that_prove(method, seed):
    check(method, *own_numbers(seed), proves=True)


@pytest.mark.parametrize("method", OTHERS)
@settings(max_examples=40)
@given(seeds)
def test_other_methods_are_never_above_the_truth(method, seed):
    check(method, *own_numbers(seed), proves=False)


def test_toulbar2():
    pytest.importorskip("pytoulbar2")
    for seed in range(6):
        check("toulbar2", *own_numbers(seed), proves=True)


SMALL = LogLinearModel.from_tables(
    [2, 3], [((0, 1), np.arange(6.0).reshape(2, 3))], names=["a", "b"]
)
COUNT = LogLinearModel.from_tables([2, 3], [((1,), [0.0, 1.0, 2.0])], names=["a", "b"])
PROBLEM = Problem(SMALL, [COUNT <= 2.0])


def test_one_row_of_evidence_serves_all_rows_of_numbers():
    found = cmpe.solve(PROBLEM, {"a": 0}, limits={0: [0.0, 1.0, 2.0]})
    assert found.objective.tolist() == [0.0, 1.0, 2.0]
    assert [row.constraints[0].limit for row in found] == [0.0, 1.0, 2.0]
    assert cmpe.solve(PROBLEM, limits=[[0.0], [1.0]]).objective.tolist() == [3.0, 4.0]
    assert cmpe.solve(PROBLEM, {"a": [0, 1]}, limits={0: 1.0}).objective.tolist() == [1.0, 4.0]


def test_potentials_by_name_by_pair_and_of_all_variables():
    by_name = cmpe.solve(PROBLEM, potentials={"a": [[9.0, 0.0], [0.0, 0.0]]})
    assert by_name.objective.tolist() == [11.0, 5.0]
    pair = np.zeros((2, 3, 2))
    pair[0, 0, 0] = 20.0
    assert cmpe.solve(PROBLEM, potentials={("b", "a"): pair}).objective.tolist() == [20.0, 5.0]
    padded = np.full((2, 2, 3), np.nan)
    padded[:, 0, :2], padded[:, 1] = 0.0, [[0.0, 0.0, -np.inf], [7.0, 0.0, 0.0]]
    assert cmpe.solve(PROBLEM, potentials=padded).objective.tolist() == [4.0, 10.0]


def test_tensors_and_single_precision():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[9.0, 0.0], [0.0, 0.0]], requires_grad=True)
    assert cmpe.solve(PROBLEM, potentials={"a": tensor}).objective.tolist() == [11.0, 5.0]
    single = np.array([[9.0, 0.0]], dtype=np.float32)
    assert cmpe.solve(PROBLEM, potentials={0: single}).objective.tolist() == [11.0]


def test_lower_limits_are_given_as_they_were_written():
    problem = Problem(SMALL, [COUNT >= 1.0])
    cheap = {"b": [[0.0, -3.0, -5.0]] * 2}
    found = cmpe.solve(problem, potentials=cheap, limits={0: [1.0, 2.0]})
    assert found.objective.tolist() == [1.0, 0.0]
    assert [row.constraints[0].relation for row in found] == [">=", ">="]
    assert found[1].constraints[0].limit == 2.0


def test_the_name_of_an_equality_stands_for_both_of_its_limits():
    problem = Problem(SMALL, [cmpe.count({"a": 1, "b": 1}, name="ones") == 1])
    found = cmpe.solve(problem, limits={"ones": [0, 1, 2]})
    assert found.constraint_values.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    refused(
        lambda: cmpe.solve(problem, limits={"ones": 0, 1: 2}),
        "constraint 1 is given twice",
        EvidenceError,
    )
    between = Problem(SMALL, [cmpe.count({"a": 1, "b": 1}, name="ones").between(1, 2)])
    refused(lambda: cmpe.solve(between, limits={"ones": 1}), "'ones' has 2 limits", EvidenceError)


def test_a_column_that_limits_are_taken_from_is_no_evidence():
    frame = pd.DataFrame({"a": [0, 1], "budget": [0.0, 1.0]})
    found = cmpe.solve(PROBLEM, frame, limits={0: frame["budget"]})
    assert (
        found.objective.tolist()
        == cmpe.solve(PROBLEM, frame[["a"]], limits=[[0.0], [1.0]]).objective.tolist()
    )
    refused(lambda: cmpe.solve(PROBLEM, frame, limits=[[0.0], [1.0]]), "'budget'", EvidenceError)


def test_values_of_a_front_are_exact():
    (front,) = cmpe.front(PROBLEM, limits={0: 1.0})
    assert front.traced.t.tolist() == [0.0, 1.0, 2.0]


def test_rows_are_equal_only_with_all_their_numbers():
    asked = []

    class Watching:
        def answer(self, instances, limits):
            asked.append(len(instances))
            return cmpe.METHODS["exact"].engines[instances.problem.form]().answer(instances, limits)

    potentials = {"a": [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]}
    limits = {0: [1.0, 1.0, 1.0, 2.0]}
    found = cmpe.solve(PROBLEM, method=Watching(), potentials=potentials, limits=limits)
    assert asked == [3]
    assert found.objective.tolist() == [4.0, 4.0, 4.0, 5.0]
    assert found.limits[:, 0].tolist() == limits[0]


def test_no_answer_is_worse_than_its_start():
    start = [[1, 2], [0, 0]]
    found = cmpe.solve(
        PROBLEM, start=np.array(start), method="local", potentials={"a": np.zeros((2, 2))}
    )
    assert found.objective.tolist() == [5.0, 5.0]
    refused(
        lambda: cmpe.solve(
            PROBLEM, start=np.zeros((1, 1), dtype=int), potentials={"a": np.zeros((2, 2))}
        ),
        "a start must have shape",
        MethodError,
    )


def test_blocks_give_the_same(monkeypatch):
    monkeypatch.setattr(execution, "RayExecutor", lambda *_: InProcess())
    problem, evidence, potentials, limits = own_numbers(3, Shape(constraints=2, variables=5))
    alone = cmpe.solve(problem, evidence, potentials=potentials, limits=limits)
    there = cmpe.solve(
        problem, evidence, potentials=potentials, limits=limits, running=Running(executor="ray")
    )
    np.testing.assert_array_equal(alone.assignments, there.assignments)
    np.testing.assert_array_equal(alone.objective, there.objective)


def test_what_is_shown_and_written():
    found = cmpe.solve(PROBLEM, limits={0: [0.0, 1.0]})
    frame = found.to_frame()
    assert frame["q1"].tolist() == [0.0, 1.0]
    assert frame["t1 <= q1"].tolist() == [0.0, 1.0]
    assert "t &lt;= q" in found._repr_html_()
    assert '"at_most": 1.0' in list(json_rows(PROBLEM, found))[1]


WRONG = {
    "shape": (
        {"potentials": {"a": np.zeros((2, 3))}},
        r"potentials of 'a' must have shape \(rows, 2\)",
    ),
    "nan": ({"potentials": {"b": [[0.0, np.nan, 0.0]]}}, "row 0, variable 'b'"),
    "inf": ({"potentials": {"b": [[0.0, np.inf, 0.0]]}}, "or -inf to forbid; found inf"),
    "name": ({"potentials": {"c": [[0.0]]}}, "potentials: "),
    "twice": ({"potentials": {("a", "a"): np.zeros((1, 2, 2))}}, "must be distinct"),
    "text": ({"potentials": {"a": "x"}}, "must be an array of numbers, found str"),
    "rank": ({"potentials": np.zeros((2, 2))}, r"potentials must have shape \(rows, 2, 3\)"),
    "rows": (
        {"potentials": {"a": np.zeros((2, 2))}, "limits": [[0.0]] * 3},
        r"must have as many rows; found \[1, 2, 3\]",
    ),
    "constraint": (
        {"limits": {1: 0.0}},
        "there is one constraint: .*; found number 1",
    ),
    "columns": ({"limits": np.zeros((2, 2))}, r"limits must have shape \(rows, 1\)"),
    "matrix": ({"limits": {0: [[1.0]]}}, "constraint 0 must be one number per row"),
    "infinite": ({"limits": [[np.inf]]}, "row 0, constraint 0: a limit must be a finite number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_said_in_one_line(name):
    options, message = WRONG[name]
    refused(lambda: cmpe.solve(PROBLEM, **options), message, EvidenceError)


def test_what_does_not_take_them_says_so():
    class Mine:
        def solve(self, problem, evidence=None, *, time_limit=None, seed=0):
            raise AssertionError

    refused(
        lambda: cmpe.solve(PROBLEM, method=Mine(), limits=[[1.0]]),
        "a trained network; found",
        MethodError,
    )
    ranged = Problem(grid(2, 2, seed=0), [], continuous=[0])
    refused(
        lambda: cmpe.solve(ranged, potentials={1: [[0.0, 1.0]]}),
        "potentials and limits of rows need log-linear models",
        MethodError,
    )


def test_no_rows():
    empty = cmpe.solve(PROBLEM, np.zeros((0, 2), dtype=int), potentials={"a": np.zeros((0, 2))})
    assert len(empty) == 0


def test_large_limits_keep_their_own_tolerance():
    function = LogLinearModel.from_tables([3], [((0,), [0.0, 1e6 + 0.5, 1e6 + 2.0])])
    problem = Problem(LogLinearModel.from_tables([3], [((0,), [0.0, 1.0, 2.0])]), [
        Constraint(function, 0.0)
    ])  # fmt: skip
    found = cmpe.solve(problem, limits={0: [1e6, 0.0, 1e6 + 2.0]})
    assert found.objective.tolist() == [1.0, 0.0, 2.0]


def test_other_numbers_of_the_same_scopes_need_no_new_plan(monkeypatch):
    made = []
    plan = problem_module.make_plan

    def counted(*arguments, **options):
        made.append(arguments)
        return plan(*arguments, **options)

    monkeypatch.setattr(problem_module, "make_plan", counted)
    problem = Problem(grid(3, 3, seed=1), [Constraint(grid(3, 3, seed=2), at_most=0.5)])
    rng = np.random.default_rng(0)
    for count in (3, 5, 4):
        scores = {v: rng.normal(size=(count, 2)) for v in range(9)}
        found = cmpe.solve(problem, potentials=scores, limits=rng.normal(size=(count, 1)))
        assert len(found) == count
    assert len(made) == 1


def test_numbers_of_rows_are_copied_once():
    problem = Problem(grid(3, 3, seed=1), [Constraint(grid(3, 3, seed=2), at_most=0.5)])
    scores = np.random.default_rng(0).normal(size=(50, 9, 2)).astype(np.float32)
    rows = Rows.own(problem, None, scores, {0: np.arange(50.0)})
    assert all(np.shares_memory(p.values, scores) for p in rows.potentials)
    lifted = rows.lifted
    read = lifted.conditioning.every.gather.values
    assert all(np.shares_memory(read, f.flat.values) for f in lifted.models)
    assert len(read) == sum(len(f.flat.values) for f in lifted.models)


def test_rows_are_equal_where_all_their_numbers_are():
    problem = Problem(grid(2, 2, seed=1), [Constraint(grid(2, 2, seed=2), at_most=0.5)])
    rng = np.random.default_rng(0)
    scores, most = rng.normal(size=(4, 2)), rng.normal(size=4)
    pick = rng.integers(0, 4, (40, 3))
    evidence = np.full((40, 4), -1)
    evidence[:, 3] = pick[:, 0] % 2
    rows = Rows.own(problem, evidence, {1: scores[pick[:, 1]]}, {0: most[pick[:, 2]]})
    first, where, counts = rows.distinct()
    keys = list(zip(evidence[:, 3].tolist(), pick[:, 1].tolist(), pick[:, 2].tolist(), strict=True))
    order = list(dict.fromkeys(keys))
    assert [keys[i] for i in first] == order
    assert [order[place] for place in where] == keys
    assert counts.tolist() == [keys.count(key) for key in order]
