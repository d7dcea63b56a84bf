"""The loop of `search`, task by task, against enumeration and the rules of one lane."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given

from cmpe.core.lanes import LANES
from cmpe.core.search import loop
from cmpe.core.search.settings import SETTINGS
from tests.core.cases import examples
from tests.core.search.cases import SHAPE, Searching
from tests.problems import seeds


@given(seeds)
@examples(60)
def test_blocks_begin_at_their_starts(seed):
    case = Searching.random(seed)
    start = case.start()
    case.work(loop.BEGIN, values=case.lanes_of(start))
    for row, z in enumerate(start):
        finite, zeros = case.channels(row, z[np.newaxis])
        away = case.penalties(row, z[np.newaxis])[0]
        allowed = (zeros == 0)[0]  # a finite number stands for -inf
        assert (case.state.z[:, row] == z[case.free]).all()
        assert np.allclose(case.state.totals[allowed, row], finite[0, allowed], atol=1e-3)
        assert (case.state.totals[~allowed, row] < finite[0, ~allowed]).all()
        if away == 0.0 and allowed.all():
            assert np.isclose(case.state.best[row], finite[0, 0], atol=1e-3)
            assert (case.state.kept[:, row] == z[case.free]).all()
        elif away > 1e-3 and allowed.all():
            assert case.state.best[row] == -np.inf


@given(seeds)
@examples(100)
def test_a_pass_is_the_best_given_the_rest(seed):
    case = Searching.random(seed, replace(SHAPE, zeros=False))
    start = case.start()
    case.work(loop.BEGIN, values=case.lanes_of(start))
    mu = case.rng.uniform(0.0, 2.0, len(case.rules.limits))
    case.state.multipliers[:] = mu[:, np.newaxis]
    m = int(case.rng.integers(len(case.pool.members)))
    case.work(loop.RUN, np.array([m]))
    moved = [case.free[v] for v in case.variables(m)]
    cards = [case.structure.cardinalities[v] for v in moved]
    choices = np.array(list(itertools.product(*map(range, cards))))
    for row, z in enumerate(start):
        after = z.copy()
        after[case.free] = case.state.z[:, row]
        rows = np.repeat(z[np.newaxis], len(choices) + 1, axis=0)
        rows[:-1, moved] = choices
        rows[-1] = after
        assert np.isin(np.flatnonzero(after != z), moved).all()
        values = case.channels(row, rows)[0]
        worth = values[:, 0] - values[:, 1:] @ mu
        assert worth[-1] >= worth.max() - 1e-3
        assert np.allclose(case.state.totals[:, row], values[-1], atol=1e-3)


@given(seeds)
@examples(60)
def test_multipliers_follow_the_sign_of_the_violation(seed):
    case = Searching.random(seed)
    state, cap = case.state, 0.8
    case.work(loop.BEGIN, values=case.lanes_of(case.start()))
    for _ in range(6):
        mu, steps, signs = state.multipliers.copy(), state.steps.copy(), state.signs.copy()
        case.work(loop.RUN, case.rng.integers(0, len(case.pool.members), 1), cap=cap)
        for j, lane in np.ndindex(mu.shape):
            sign = 1.0 if state.totals[j + 1, lane] > case.rules.limits[j] else -1.0
            before = signs[j, lane]
            if before * sign < 0:  # from now on the step changes by little
                factor, signs[j, lane] = SETTINGS.shorter, sign
            else:
                factor = SETTINGS.doubled if abs(before) == 2.0 else SETTINGS.longer
                signs[j, lane] = before or 2.0 * sign
            steps[j, lane] = min(factor * steps[j, lane], cap * case.scales[j])
            mu[j, lane] = max(0.0, mu[j, lane] + sign * steps[j, lane])
        assert np.array_equal(state.signs, signs)
        np.testing.assert_allclose(state.steps, steps, rtol=1e-12)
        np.testing.assert_allclose(state.multipliers, mu, rtol=1e-12)


@given(seeds)
@examples(100)
def test_answers_are_feasible_where_a_lane_was(seed):
    case = Searching.random(seed)
    values = case.lanes_of(np.full_like(case.start(), -1))
    case.work(loop.BEGIN, values=values)
    case.work(loop.CLIMB, values=values, rules=case.rules.unlimited())
    for row in range(len(case.instances)):
        z = case.instances.complete(np.ascontiguousarray(case.state.z.T[row : row + 1]))[0]
        h = case.channels(row, np.concatenate([z[np.newaxis], case.neighbours(z)]))
        worth = h[0][:, 0] - 1e6 * h[1][:, 0]
        assert (worth[1:] <= worth[0] + 1e-6).all()
    members = case.rng.integers(0, len(case.pool.members), 20)
    case.work(loop.RUN, members, heat=0.5)
    lanes = np.arange(LANES)
    answers = np.zeros((LANES, len(case.free)), dtype=np.int32)
    best = case.state.best.copy()
    case.work(loop.FINISH, lanes, values=answers, numbers=(30, 2, 2))
    rows = lanes % len(case.instances)
    for lane, row in enumerate(rows):
        z = case.instances.full()[row].copy()
        z[case.free] = answers[lane]
        every, h, _ = case.every(row)
        allowed = case.penalties(row, every) == 0.0
        if case.penalties(row, z[np.newaxis])[0] == 0.0:
            worth = case.channels(row, z[np.newaxis])[0][0, 0]
            assert best[lane] - 1e-3 <= worth <= h[allowed].max() + 1e-9
        else:
            assert best[lane] < -0.5 * loop.FORBIDDEN
