"""Lists of states, and sums of two lists, against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts import columns, joins, lists, pairs
from cmpe.core.fronts.columns import ColumnRoom
from cmpe.core.fronts.joins import ColumnSums
from cmpe.core.fronts.lists import ListSpan, Near, PointStates
from cmpe.core.states import NODE_COUNT, STATE_COUNT, SUM_LIMIT, States
from tests.core.cases import examples

seeds = st.integers(0, 2**32 - 1)


def point_states(values, room=20000):
    count, width = values.shape
    states = PointStates(
        np.zeros((room, width)), np.zeros(room, np.int32), np.zeros((room, 2), np.int32),
        np.zeros((room, 2), np.int32), np.zeros(4, np.int64),
    )  # fmt: skip
    states.values[:count] = values
    states.node[:count] = np.arange(count)
    states.parts[:count, 0] = np.arange(count)
    states.counts[STATE_COUNT], states.counts[NODE_COUNT] = count, count
    states.counts[SUM_LIMIT] = 1 << 40
    return states


def is_dominated(values, i):
    """Whether another row has h as high and every t as low (the first of equal rows stays)."""
    h, t = values[:, 0], values[:, 1:]
    as_good = (h >= h[i]) & (t <= t[i]).all(axis=1)
    equal = (values == values[i]).all(axis=1)
    return bool((as_good & ~equal).any() or equal[:i].any())


@njit(cache=False)
def undominated(states, low, high):
    return lists.undominated_points(states, low, high)


@njit(cache=False)
def near_sums(states, a, b, near, known, stairs):
    return pairs.combine(states, a, b, near, known, stairs)


@given(seeds, st.integers(1, 3), st.booleans())
@examples(100)
def test_undominated_points_stay(seed, constraints, ties):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(int(rng.integers(2, 90)), 1 + constraints))
    values = np.round(values) if ties else values
    states = point_states(values)
    end = undominated(states, 0, len(values))
    stays = {tuple(row) for row in states.values[:end]}
    wanted = {tuple(values[i]) for i in range(len(values)) if not is_dominated(values, i)}
    assert wanted <= stays
    for row in stays - wanted:  # a state of equal h and t_1 may dominate it
        assert constraints > 1
        assert any(row[:2] == other[:2] for other in wanted)
    assert (np.diff(states.values[:end, 0]) <= 0).all()
    for i in range(end):
        assert tuple(values[states.parts[i, 0]]) == tuple(states.values[i])


@given(seeds, st.sampled_from([(6, 9), (60, 70)]), st.integers(1, 2))
@examples(40)
def test_near_sums_are_formed_unless_dominated(seed, sizes, constraints):
    """Short lists are combined pair by pair, long ones by bins; both keep the near front."""
    rng = np.random.default_rng(seed)
    both = [rng.normal(size=(size, 1 + constraints)) for size in sizes]
    fronts = [v[[i for i in range(len(v)) if not is_dominated(v, i)]] for v in both]
    fronts = [v[np.lexsort((v[:, 1], -v[:, 0]))] for v in fronts]
    a, b = (len(v) for v in fronts)
    states = point_states(np.concatenate(fronts))
    prices = np.sort(rng.exponential(size=(4, constraints)), axis=0)
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    sums = (fronts[0][:, np.newaxis] + fronts[1]).reshape(-1, 1 + constraints)
    reached = sums[:, :1] * weights - sums[:, 1:] @ prices.T
    needs = np.quantile(reached, 0.7, axis=0)
    near = Near(weights, prices, needs, 4)
    assert near_sums(
        states, ListSpan(0, a), ListSpan(a, a + b), near, np.empty((0, 3)), np.empty(1 << 12)
    )
    top = int(states.counts[STATE_COUNT])
    formed = states.values[a + b : top]
    for row in formed:
        assert (row[0] * weights - prices @ row[1:] >= needs - 1e-9).any()
    wanted = sums[(reached >= needs).any(axis=1)]
    for i in range(len(wanted)):
        as_good = (formed[:, 0] >= wanted[i, 0] - 1e-9) & (
            formed[:, 1:] <= wanted[i, 1:] + 1e-9
        ).all(axis=1)
        assert as_good.any()


def column_sums(parts, rank, room=5000):
    """The lists in `parts`, end to end."""
    width, total = parts[0].shape[1], sum(map(len, parts))
    counts = np.zeros(5, np.int64)
    counts[STATE_COUNT], counts[SUM_LIMIT] = total, 1 << 40
    states = States(
        np.zeros((room, width)), np.zeros(room, np.int64), np.zeros((room, 2), np.int32), counts
    )
    states.values[:total] = np.concatenate(parts)
    states.node[:total] = -1 - np.arange(total)
    ends = np.cumsum([0, *map(len, parts), 0])
    scratch = ColumnRoom(
        np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty((room, width)), np.empty(room, np.int64), np.empty(rank), np.empty(width),
        np.empty((room // columns.BLOCK + 2, width)),
    )  # fmt: skip
    return ColumnSums(
        states, ends[:-1].copy(), ends[1:].copy(), np.zeros(len(ends), np.int64), scratch,
        np.empty(4 * rank + 64), np.empty((4 * rank + 64, 2), np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


@njit(cache=False)
def best_sums(sums, active, need, constraints, rank):
    left = joins.merged(active, need, constraints == 1, sums)
    if left < 2:
        return left
    return joins.joined(need, constraints, rank, sums)


@given(seeds, st.integers(2, 4), st.integers(1, 2), st.integers(1, 8))
@examples(80)
def test_the_best_sums_that_reach_the_need(seed, count, constraints, rank):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(2, 7)), 1 + constraints)) for _ in range(count)]
    need = np.array([-4.0, *rng.normal(-0.5, 1.0, constraints)])
    totals = parts[0]
    for part in parts[1:]:
        totals = (totals[:, np.newaxis] + part).reshape(-1, 1 + constraints)
    good = np.sort(totals[(totals >= need).all(axis=1), 0])[::-1]
    sums = column_sums(parts, rank)
    found = best_sums(sums, count, need, constraints, rank)
    if found == joins.NOTHING:
        assert len(good) == 0
    else:
        assert np.allclose(sums.h[:found], good[:rank], atol=1e-9)
        assert found == min(rank, len(good))


@njit(cache=False)
def falling(values):
    return columns.falling(values)


@given(st.lists(st.integers(-5, 5), max_size=60))
@examples(100)
def test_numbers_are_sorted_and_equal_ones_stay_in_order(numbers):
    values = np.array(numbers, dtype=float)
    assert falling(values).tolist() == np.argsort(-values, kind="stable").tolist()
