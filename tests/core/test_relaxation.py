"""Bounds of relaxations by copies against enumeration of the copies."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.multipliers import BEST
from cmpe.core.relaxation import certify, descend, impossible, rounding, sweep
from tests.core.cases import Relaxed, examples
from tests.problems import seeds


def shifted(case, row, shift, mu):
    """D at given multipliers: the greatest priced value of the copies."""
    values = row.h - mu @ row.t
    values[len(values) - len(shift) :] += shift
    return case.plain(values).max() + mu @ row.limits


@given(seeds)
@examples(80)
def test_sweeps_find_the_maximum_over_copies(seed):
    case = Relaxed(seed)
    for number in range(len(case.instances)):
        relaxed = case.begin(number)
        row, values, winners = relaxed.row, relaxed.state.values, relaxed.state.winners
        values[: len(row.h)] = row.h
        total = sweep(case.relaxed.buckets, case.relaxed.places, len(row.h), values, winners)
        wanted = case.plain(row.h).max()
        assert np.isclose(total, wanted, rtol=1e-12, atol=1e-12)
        assert wanted == -np.inf or abs(total - wanted) <= rounding(case.relaxed, values)


@given(seeds)
@examples(60)
def test_copies_that_agree_have_the_value_of_the_assignment(seed):
    case, origin = Relaxed(seed), None
    origin = np.array(case.relaxation.origin)
    for even in (True, False):
        row, (z, h, _) = case.begin(0, even=even).row, case.every(0)
        total = case.plain(row.h)
        for assignment, value in zip(z[::3], h[::3], strict=True):
            wide = np.array(case.z.max(axis=0) > 0)
            agree = (~wide | (case.z == assignment[origin])).all(axis=1)
            assert np.allclose(total[agree], value, rtol=1e-12, atol=1e-12)


@given(seeds)
@examples(100)
def test_descents_keep_the_least_bound(seed):
    case = Relaxed(seed)
    for number in range(len(case.instances)):
        began, (_, h, t) = case.begin(number), case.every(number)
        row, state = began.row, began.state
        best = h[(t <= row.limits).all(axis=1)].max(initial=-np.inf)
        is_impossible = impossible(case.relaxed, row, state)
        allowed = case.plain(row.h) > -np.inf
        least = [case.plain(one)[allowed].min(initial=np.inf) for one in row.t]
        assert is_impossible == any(value > q for value, q in zip(least, row.limits, strict=True))
        if is_impossible or not allowed.any():
            assert best == -np.inf
            continue
        shift, mu = state.best_shift, state.best_mu
        bounds = [shifted(case, row, shift, mu)]
        for steps, free in ((5, False), (20, True), (20, True)):
            descend(case.relaxed, row, steps, free, state)
            bounds.append(shifted(case, row, shift, mu))
            assert np.isclose(state.level[BEST], bounds[-1], rtol=1e-9, atol=1e-9)
        assert (np.diff(bounds) <= 1e-9).all()
        certified = certify(case.relaxed, row, state)
        assert certified >= max(best, bounds[-1])
        assert np.isclose(certified, bounds[-1], rtol=1e-9, atol=1e-9)
