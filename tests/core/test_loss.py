"""Bounds for learning against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import loss
from cmpe.core.dual import INFEASIBLE
from cmpe.models.conditioning import Gathers
from tests.core.enumerated import EnumeratedRows
from tests.problems import Shape

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_least_h_is_that_of_enumeration(seed):
    case, out = EnumeratedRows(seed), np.zeros(3)
    loss.least_batch(case.rows._replace(limits=np.zeros(0)), out[: case.count])
    for row in range(case.count):
        _, h, _ = case.values(row)
        least = h[h > -np.inf].min(initial=np.inf)
        assert out[row] == least or abs(out[row] - least) <= 1e-9
        assert out[row] <= least


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_dual_at_given_multipliers_is_that_of_enumeration(seed):
    case = EnumeratedRows(seed, Shape(variables=4, values=3))
    mu = np.random.default_rng(seed).exponential(size=(case.count, len(case.limits)))
    out = np.zeros(case.count)
    loss.priced_batch(case.rows, mu, out)
    for row in range(case.count):
        _, h, t = case.values(row)
        assert out[row] >= case.best(row) - 1e-9
        if np.isfinite(t).all() and (h > -np.inf).any():
            exact = (h - (t - case.limits) @ mu[row]).max()
            assert exact <= out[row] <= exact + 1e-8 * (1 + abs(exact))


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_the_opposite_is_an_upper_bound(seed):
    """max h - t subject to t >= limit, t finite."""
    case = EnumeratedRows(seed, Shape(variables=4, values=3))
    if len(case.limits) == 0:
        return
    parts, limit = case.instances.conditioning.gathers, float(case.limits[0])
    rows = case.rows._replace(
        gathers=Gathers.of([parts[0], parts[1]]), limits=np.full(1, limit), finite=True
    )
    bound, kind = np.zeros(case.count), np.zeros(case.count, dtype=np.int64)
    loss.opposite_batch(rows, bound, kind)
    for row in range(case.count):
        _, h, t = case.values(row)
        violates = (t[:, 0] >= limit) & np.isfinite(t[:, 0]) & (h > -np.inf)
        best = (h[violates] - t[violates, 0]).max(initial=-np.inf)
        if kind[row] == INFEASIBLE:
            assert best == -np.inf
        else:
            assert bound[row] >= best - 1e-9
