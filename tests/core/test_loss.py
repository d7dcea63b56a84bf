"""Bounds for learning against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.bounds.lagrangian import Batch
from cmpe.core.dual import INFEASIBLE
from cmpe.core.loss import least_batch, opposite_batch, priced_batch
from cmpe.models.conditioning import Gathers
from tests.core.cases import Case, examples
from tests.problems import seeds


@given(seeds)
@examples(100)
def test_least_values(seed):
    case = Case.random(seed)
    batch, out = Batch(case.instances), np.zeros(len(case.instances))
    least_batch(batch.rows(slice(len(out)))._replace(limits=np.zeros(0)), out)
    for row, least in enumerate(out):
        _, h, _ = case.every(row)
        wanted = h[np.isfinite(h)].min(initial=np.inf)
        assert least <= wanted
        assert np.isclose(least, wanted, rtol=1e-10, atol=1e-10)


@given(seeds)
@examples(100)
def test_duals_at_given_multipliers(seed):
    case = Case.random(seed)
    batch, out = Batch(case.instances), np.zeros(len(case.instances))
    given = batch.rows(slice(len(out)))
    mu = case.rng.exponential(size=(len(out), len(given.limits)))
    mu[case.rng.random(mu.shape) < 0.3] = 0.0
    priced_batch(given, mu, out)
    for row, bound in enumerate(out):
        _, h, t = case.every(row)
        assert bound >= h[(t <= given.limits).all(axis=1)].max(initial=-np.inf)
        if given.finite:
            values = np.where(h > -np.inf, h - (t - given.limits) @ mu[row], -np.inf)
            assert bound >= values.max()
            assert np.isclose(bound, values.max(), rtol=1e-10, atol=1e-10)


@given(seeds)
@examples(150)
def test_bounds_of_violating_assignments(seed):
    case = Case.random(seed)
    batch, rows = Batch(case.instances), len(case.instances)
    parts = case.structure.gathers
    given = batch.rows(slice(rows))
    for j, limit in enumerate(given.limits):
        gathers = Gathers.of([parts[0], parts[1 + j]])
        upper, kind = np.zeros(rows), np.zeros(rows, dtype=np.int64)
        one = given._replace(gathers=gathers, limits=np.full(1, limit), finite=True)
        opposite_batch(one, upper, kind)
        for row in range(rows):
            _, h, t = case.every(row)
            above = t[:, j] >= limit
            best = (h[above] - t[above, j]).max(initial=-np.inf)
            assert (kind[row] == INFEASIBLE) == (best == -np.inf)
            if best > -np.inf:
                assert upper[row] >= best
