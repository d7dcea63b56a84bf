"""`front`, `best`, `bound` and `sensitivity` of rows with numbers of their own.

Each row is also posed as a plain problem, built here, whose assignments are enumerated.
"""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem, Running
from cmpe.errors import MethodError
from tests.problems import Shape, seeds
from tests.refusals import refused
from tests.solvers.test_own_numbers import own_numbers
from tests.tradeoffs.truth import enumerated

SHAPE = Shape(constraints=2, variables=5, arity=3)


def plain(problem, potentials, limits, row):
    """One row as a problem of its own."""
    own = [
        Factor(key if isinstance(key, tuple) else (key,), table[row])
        for key, table in potentials.items()
    ]
    model = problem.objective
    objective = LogLinearModel(model.cardinalities, (*model.factors, *own))
    most = problem.limits if limits is None else limits[row]
    constraints = [
        Constraint(c.function, q) for c, q in zip(problem.constraints, most, strict=True)
    ]
    return Problem(objective, constraints)


def each_row(seed):
    """The case, and of every row what enumeration knows."""
    problem, evidence, potentials, limits = own_numbers(seed, SHAPE)
    truths = []
    for row, seen in enumerate(evidence):
        alone = plain(problem, potentials, limits, row)
        observed = np.flatnonzero(seen >= 0)
        alone = alone.observing(observed.tolist())
        truths.append(enumerated(alone, seen[np.newaxis, observed])[0])
    return (problem, evidence), {"potentials": potentials, "limits": limits}, truths


@settings(max_examples=40)
@given(seeds)
def test_fronts(seed):
    case, options, truths = each_row(seed)
    for over in range(len(case[0].constraints)):
        found = cmpe.front(*case, over=over, **options)
        for traced, truth in zip(found, truths, strict=True):
            h, t = truth.front(over)
            assert traced.complete
            np.testing.assert_allclose(traced.traced.h, h, atol=1e-9)
            np.testing.assert_allclose(traced.traced.t, t, atol=1e-9)
            rows = traced.assignments()
            assert rows.shape == (len(h), case[0].variables)
            np.testing.assert_allclose(traced.problem.objective.value(rows), h, atol=1e-9)


@settings(max_examples=40)
@given(seeds)
def test_the_k_best(seed):
    case, options, truths = each_row(seed)
    for ranked, truth in zip(cmpe.best(*case, 4, **options), truths, strict=True):
        rows, h = truth.ranked()
        assert ranked.complete
        np.testing.assert_array_equal(ranked.assignments, rows[:4])
        np.testing.assert_allclose(ranked.objective, h[:4], atol=1e-9)
        missing = h[4] if len(h) > 4 else -np.inf
        assert ranked.bound == pytest.approx(missing, abs=1e-9)


@pytest.mark.parametrize("method", ["lagrangian", "minibucket", "splitting", "messages"])
@settings(max_examples=25)
@given(seeds)
def test_bounds_hold(method, seed):
    case, options, truths = each_row(seed)
    found = cmpe.bound(*case, method=method, **options)
    for row, truth in enumerate(truths):
        best = truth.h[truth.satisfied()].max(initial=-np.inf)
        assert found.upper[row] >= best - 1e-9 * max(1.0, abs(best) if np.isfinite(best) else 1.0)
        assert not (found.infeasible[row] and np.isfinite(best))


@settings(max_examples=25)
@given(seeds)
def test_sensitivities(seed):
    case, options, truths = each_row(seed)
    problem, evidence = case
    for row, found in enumerate(cmpe.sensitivity(*case, **options)):
        truth = truths[row]
        if not truth.satisfied().any():
            assert found.answer.status is cmpe.Status.INFEASIBLE
            continue
        best = truth.h[truth.satisfied()].max()
        assert found.answer.objective == pytest.approx(best, abs=1e-9)
        assert found.proved
        for j, constraint in enumerate(problem.constraints):
            own = constraint.function.value(found.answer.assignment[np.newaxis])[0]
            np.testing.assert_allclose(found.intervals[j], (own, truth.next_value(j)), atol=1e-9)
        for v in np.flatnonzero(evidence[row] < 0):
            if problem.objective.cardinalities[v] > 1:
                wanted = [truth.regret(v, a) for a in range(len(found.regrets[v]))]
                np.testing.assert_allclose(found.regrets[v], wanted, atol=1e-7)


def test_soft_evidence_is_read_everywhere():
    model = LogLinearModel.from_tables(
        [2, 2], [((0, 1), [[0.0, 1.0], [2.0, 3.0]])], names=["a", "b"]
    )
    problem = Problem(model, [LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])], ["a"]) <= 1.0])
    soft = {"a": [0.9, 0.1]}
    want = [3.0 + np.log(0.1), 1.0 + np.log(0.9), 2.0 + np.log(0.1), np.log(0.9)]
    assert cmpe.best(problem, soft, 4)[0].objective == pytest.approx(sorted(want, reverse=True))
    assert cmpe.bound(problem, soft).upper[0] == pytest.approx(max(want))
    assert cmpe.front(problem, soft)[0].objective.max() == pytest.approx(max(want))
    found = cmpe.sensitivity(problem, soft)[0]
    assert set(found.regrets) == {"a", "b"}
    assert found.answer.objective == pytest.approx(max(want))


def test_a_cluster_is_refused():
    problem = Problem(LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])]))
    there = Running(executor="ray")
    for ask in (cmpe.best, cmpe.sensitivity):
        refused(
            lambda ask=ask: ask(problem, potentials={0: [[0.0, 1.0]]}, running=there),
            "go to a cluster by cmpe.solve only",
            MethodError,
        )
    refused(
        lambda: cmpe.bound(problem, potentials={0: [[0.0, 1.0]]}, place=there.place),
        "are computed on one machine",
        MethodError,
    )
