"""The dual against enumeration: the bound is the least of the upper envelope of all lines."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import dual
from tests.core.enumerated import EnumeratedRows

seeds = st.integers(0, 2**32 - 1)


def envelope(h, slopes):
    """min over mu >= 0 of max h - mu slope; slopes are t - q."""
    lines = list(zip(h.tolist(), slopes.tolist(), strict=True))
    crossings = [(a - b) / (s - r) for (a, s), (b, r) in itertools.combinations(lines, 2) if s != r]
    tried = [0.0, *(mu for mu in crossings if mu > 0)]
    return min(max(a - mu * s for a, s in lines) for mu in tried)


def results(case):
    n, m = case.problem.variables, len(case.limits)
    rows = np.zeros((2, case.count, n), dtype=np.int32)
    rows[:, :, list(case.problem.evidence_variables)] = case.instances.evidence
    kind = np.zeros(case.count, dtype=np.int64)
    return dual.DualResults(*rows, np.zeros(case.count), kind, np.zeros((case.count, m)))


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_the_dual_is_that_of_enumeration(seed):
    case = EnumeratedRows(seed)
    found = results(case)
    dual.dual_batch(case.rows, found)
    for row in range(case.count):
        z, h, t = case.values(row)
        best = case.best(row)
        if found.kind[row] == dual.INFEASIBLE:
            assert best == -np.inf
            continue
        assert found.bound[row] >= best - 1e-9
        assert (found.multipliers[row] >= 0).all()
        if len(case.limits) == 1 and np.isfinite(t).all():
            allowed = h > -np.inf
            exact = envelope(h[allowed], (t[:, 0] - case.limits[0])[allowed])
            assert abs(found.bound[row] - exact) <= 1e-7 * (1 + abs(exact))
        if (found.feasible[row] >= 0).all():
            place = int(np.flatnonzero((z == found.feasible[row]).all(axis=1))[0])
            assert (t[place] <= case.limits + 1e-9).all()
            assert h[place] > -np.inf


def test_rounding_grows_with_the_largest_finite_number():
    values = np.array([[1.0, -np.inf], [-5.0, 2.0]])
    small = [dual.SLACK * (1 + 3) * (1 + largest) for largest in (5.0, 2.0)]
    assert [call_rounding(values, lane) for lane in range(2)] == small


def call_rounding(values, lane):
    from cmpe.core.compiler.functions import njit

    @njit(cache=False)
    def call(values, lane):
        return dual.rounding(values, lane, 3)

    return call(values, lane)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_entries_of_minus_infinity_satisfy_their_limit(seed):
    case = EnumeratedRows(seed)
    table = case.rows
    h = np.zeros((table.plan.entries, table.lanes))
    t = np.zeros((len(case.limits), table.plan.entries, table.lanes))
    call_load(table, h, t)
    assert np.isfinite(t).all()
    offsets = case.instances.conditioning.layout.offsets
    tables = case.instances.tables
    for j, limit in enumerate(case.limits):
        given = tables(1 + j, slice(0, case.count))
        for row in range(min(case.count, table.lanes)):
            zero = np.isneginf(given[row])
            assert np.array_equal(t[j, ~zero, row], given[row][~zero])
            tops = [t[j, a:b, row].max() for a, b in itertools.pairwise(offsets)]
            for e in np.flatnonzero(zero):
                f = int(np.searchsorted(offsets, e, side="right")) - 1
                assert sum(tops) - tops[f] + t[j, e, row] <= limit


def call_load(table, h, t):
    from cmpe.core.compiler.functions import njit

    @njit(cache=False)
    def call(rows, h, t):
        dual.load_block(rows, 0, h, t)

    call(table, h, t)
