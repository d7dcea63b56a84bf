"""Small linear programs with known answers, and the checks that every back-end must pass."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from cmpe import Limits
from cmpe.bounds.linearization import LinearProgram
from cmpe.execution.threads import Ending

INF = np.inf


def program(cost, rows, lower, upper, *, offset=0.0, high=None, integer=True):
    """Maximise over columns from 0 to `high`, 1 by default."""
    cost = np.array(cost, dtype=float)
    count = len(cost)
    return LinearProgram(
        cost,
        offset,
        csr_array(np.array(rows, dtype=float).reshape(-1, count)),
        np.array(lower, dtype=float),
        np.array(upper, dtype=float),
        np.zeros(count),
        np.ones(count) if high is None else np.array(high, dtype=float),
        np.full(count, integer),
    )


def check_optimum(maximise):
    """Weights 2, 3, 4 of worth 3, 4, 5 within 5: the first two, worth 7; without the first, 5."""
    knapsack = program([3, 4, 5], [[2, 3, 4]], [-INF], [5], offset=0.5)
    for start in (None, np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])):
        found = maximise(knapsack, Limits(seed=3), start)
        np.testing.assert_allclose(found.columns, [1, 1, 0], atol=1e-9)
        assert found.bound == pytest.approx(7.5, abs=1e-6)
        assert not found.infeasible
        assert found.nodes >= 0
    cut = knapsack.with_row(np.array([1.0, 1.0, 0.0]), 1.0)
    assert maximise(cut, Limits(seconds=60.0), None).bound == pytest.approx(5.5, abs=1e-6)


def check_every_kind_of_row(maximise):
    """x + y = 4, 1 <= x - y <= 3 and y >= 1, with x of worth 1: x is 3; of worth -1: 2.5."""
    rows, lower, upper = [[1, 1], [1, -1], [0, 1]], [4, 1, 1], [4, 3, INF]
    for worth, x in ((1.0, 3.0), (-1.0, 2.5)):
        wide = program([worth, 0], rows, lower, upper, high=[9, 9], integer=False)
        found = maximise(wide, Limits(), None)
        np.testing.assert_allclose(found.columns, [x, 4.0 - x], atol=1e-7)
        assert found.bound == pytest.approx(worth * x, abs=1e-6)


def check_infeasible(maximise):
    """By its rows, by a row without columns, and only in whole numbers."""
    for hopeless in (
        program([1, 1], [[1, 1], [1, 1]], [2, -INF], [INF, 1]),
        program([1, 1], [[0, 0]], [-INF], [-1]),
        program([1, 1], [[0, 0]], [1], [INF]),
        program([1, 0], [[2, 2]], [1], [1]),
    ):
        found = maximise(hopeless, Limits(), None)
        assert found.infeasible
        assert found.columns is None
    harmless = program([1, 1], [[0, 0]], [-1], [0])
    np.testing.assert_allclose(maximise(harmless, Limits(), None).columns, [1, 1])


def hard():
    """Three knapsacks that take long."""
    rng = np.random.default_rng(0)
    weights = rng.integers(10**6, 2 * 10**6, (3, 60))
    return program(weights.sum(axis=0), weights, [-INF] * 3, weights.sum(axis=1) // 2)


def check_time_limit(maximise):
    """A stopped search answers what it has, and its bound stays above the optimum's."""
    found = maximise(hard(), Limits(seconds=0.05), np.zeros(60))
    assert not found.infeasible
    reached = 0.0 if found.columns is None else float(hard().cost @ found.columns)
    assert found.bound >= reached - 1e-3


def after_ctrl_c(monkeypatch, module, ending):
    """What is known after Ctrl-C; nothing, where the back-end did not hear it."""

    def interruptible(work, cancel):
        work()
        return ending

    monkeypatch.setattr(module, "interruptible", interruptible)
    found = module.maximise(program([1], [[1]], [0], [1]), Limits(), None)
    if ending is Ending.ABANDONED:
        assert found.columns is None
    else:
        np.testing.assert_allclose(found.columns, [1.0])
        assert found.bound == pytest.approx(1.0)
    return found


CHECKS = (check_optimum, check_every_kind_of_row, check_infeasible, check_time_limit)
