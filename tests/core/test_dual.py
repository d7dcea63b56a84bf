"""The Lagrangian dual against the lower envelope of all assignments."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.bounds.lagrangian import Batch
from cmpe.core.dual import INACTIVE, INFEASIBLE, DualResults, dual_batch, satisfy
from tests.core.cases import Case, examples
from tests.problems import seeds


def least_dual(h, t, limit):
    """min over mu >= 0 of max over assignments of h - mu (t - limit): at a crossing of two."""
    h, t = h[h > -np.inf], t[h > -np.inf]
    if not len(h) or (t > limit).all():
        return -np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = (h[:, None] - h) / (t[:, None] - t)
    mu = np.unique(crossings[np.isfinite(crossings) & (crossings > 0)])
    return min((h - price * (t - limit)).max() for price in [0.0, *mu])


def solved(case):
    batch, problem = Batch(case.instances), case.problem
    rows, constraints = len(case.instances), len(problem.constraints)
    feasible = np.full((rows, len(problem.models[0].cardinalities)), -2, dtype=np.int32)
    feasible[:] = np.maximum(case.instances.full(), 0)
    violating = feasible.copy()
    bound, kind = np.zeros(rows), np.zeros(rows, dtype=np.int64)
    mu = np.zeros((rows, constraints))
    dual_batch(batch.rows(slice(rows)), DualResults(feasible, violating, bound, kind, mu))
    return batch.tables, feasible, violating, bound, kind, mu


def index_of(z, assignment):
    return int(np.flatnonzero((z == assignment).all(axis=1))[0])


@given(seeds)
@examples(200)
def test_duals_are_those_of_enumeration(seed):
    case = Case.random(seed)
    batch, feasible, violating, bound, kind, mu = solved(case)
    for row in range(len(case.instances)):
        z, h, t = case.every(row)
        allowed = (t <= batch.limits).all(axis=1)
        best = h[allowed].max(initial=-np.inf)
        assert bound[row] >= best
        if kind[row] == INFEASIBLE:
            assert best == bound[row] == -np.inf
            continue
        if kind[row] == INACTIVE:
            assert bound[row] <= best + 1e-10
        if (feasible[row] >= 0).all():
            assert allowed[index_of(z, feasible[row])]
        if batch.finite:  # D at the multipliers is the bound
            prices = np.where(h > -np.inf, h - (t - batch.limits) @ mu[row], -np.inf)
            assert np.isclose(bound[row], prices.max(), rtol=1e-9, atol=1e-9)
            if len(batch.limits) == 1:
                least = least_dual(h, t[:, 0], batch.limits[0])
                assert np.isclose(bound[row], least, rtol=1e-9, atol=1e-9)
                if kind[row] != INACTIVE:
                    assert not allowed[index_of(z, violating[row])]


@given(seeds)
@examples(60)
def test_zeros_of_t_become_numbers_that_satisfy(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, int(rng.integers(1, 4)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    t = rng.normal(size=(offsets[-1], 2))
    t[rng.random(t.shape) < 0.3] = -np.inf
    finite, limit = t.copy(), float(rng.normal(0, 5))
    satisfy(finite, offsets, limit)
    assert np.isfinite(finite).all()
    assert (finite[np.isfinite(t)] == t[np.isfinite(t)]).all()
    places = np.stack(np.meshgrid(*(range(n) for n in sizes), indexing="ij"), -1)
    for choice in places.reshape(-1, len(sizes)) + offsets[:-1]:
        zeros = np.isneginf(t[choice]).any(axis=0)
        assert (finite[choice].sum(axis=0)[zeros] <= limit).all()
