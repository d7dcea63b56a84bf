"""Sums of two long lists against all their sums."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.lists import H, ListSpan, Near, T
from cmpe.core.fronts.pairs import SETTLED, combine
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.states import STATE_COUNT, SUM_LIMIT
from tests.core.cases import examples
from tests.core.fronts.test_lists import is_dominated, point_states
from tests.problems import seeds


@njit(cache=False)
def combined(states, a, b, near, known, stairs):
    return combine(states, a, b, near, known, stairs)


def front_list(rng, size, constraints):
    """Points none of which dominates another, by falling h."""
    points = np.abs(rng.normal(size=(size, 1 + constraints)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:, T:] *= -1.0
    if rng.random() < 0.5:
        points = np.round(points, 2)
        points = points[[i for i in range(len(points)) if not is_dominated(points, i)]]
    return points[np.lexsort((points[:, T], -points[:, H]))]


def references(rng, sums):
    """The last is near by t alone; the others by h - mu t, for rising mu."""
    constraints = sums.shape[1] - 1
    prices = np.sort(rng.exponential(size=(4, constraints)), axis=0)
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    values = sums[:, :1] * weights - sums[:, T:] @ prices.T
    return values, Near(weights, prices, np.quantile(values, rng.uniform(0.3, 0.99), axis=0), 4)


def is_covered(row, points):
    """Whether some point has h as high and every t as low."""
    as_good = (points[:, H] >= row[H] - 1e-9) & (points[:, T:] <= row[T:] + 1e-9).all(axis=1)
    return as_good.any()


@given(seeds)
@examples(60)
def test_near_sums_are_formed_unless_dominated(seed):
    rng = np.random.default_rng(seed)
    constraints = int(rng.integers(1, 3))
    one, two = (front_list(rng, int(rng.integers(70, 100)), constraints) for _ in range(2))
    sums = (one[:, np.newaxis] + two).reshape(-1, 1 + constraints)
    values, near = references(rng, sums)
    known = np.empty((0, 3))
    if constraints == 1 and rng.random() < 0.5:  # points that exist: some sums, none settled
        some = sums[rng.choice(len(sums), 5)]
        some = some[[i for i in range(5) if not is_dominated(some, i)]]
        some = some[np.argsort(-some[:, H])]
        known = np.concatenate([some, np.zeros((len(some), 1))], axis=1)
    states, count = point_states(np.concatenate([one, two])), len(one) + len(two)
    a, b = ListSpan(0, len(one)), ListSpan(len(one), count)
    assert combined(states, a, b, near, known, np.empty(1 << 12))
    formed = states.values[count : int(states.counts[STATE_COUNT])]
    parts = states.parts[count : int(states.counts[STATE_COUNT])]
    nodes = np.concatenate([one, two])
    assert np.allclose(nodes[parts].sum(axis=1), formed, atol=1e-12)
    points = np.concatenate([formed, known[:, : 1 + constraints]])
    is_near = (values >= near.needs + 1e-9).any(axis=1)
    undominated = sums[is_near]
    for row in undominated[np.argsort(-undominated[:, H])][:: max(1, len(undominated) // 60)]:
        assert is_covered(row, points)
    best = values.argmax(axis=0)
    assert all(is_covered(row, points) for row in sums[best])


@given(seeds)
@examples(30)
def test_settled_strips_of_t_are_left_out(seed):
    """Nothing is formed well inside a strip of which all points are known."""
    rng = np.random.default_rng(seed)
    one, two = (front_list(rng, 90, 1) for _ in range(2))
    if len(one) * len(two) <= FRONTS.few:
        return
    sums = (one[:, np.newaxis] + two).reshape(-1, 2)
    _, near = references(rng, sums)
    whole = sums[np.argsort(-sums[:, H], kind="stable")]
    front = whole[whole[:, T] < np.concatenate([[np.inf], np.minimum.accumulate(whole[:-1, T])])]
    first, last = sorted(rng.choice(len(front), 2, replace=False))
    known = np.column_stack([front[[first, last]], np.zeros(2)])
    known[1, SETTLED] = 1.0
    states, count = point_states(np.concatenate([one, two])), len(one) + len(two)
    a, b = ListSpan(0, len(one)), ListSpan(len(one), count)
    assert combined(states, a, b, near, known, np.empty(1 << 12))
    formed = states.values[count : int(states.counts[STATE_COUNT])]
    outside = (front[:, T] > front[first, T]) | (front[:, T] < front[last, T])
    is_near = (front[:, :1] * near.weights - front[:, T:] @ near.prices.T >= near.needs + 1e-9).any(
        axis=1
    )
    points = np.concatenate([formed, known[:, :2]])
    assert all(is_covered(row, points) for row in front[outside & is_near])
    width = front[first, T] - front[last, T]
    inside = (formed[:, T] < front[first, T] - 0.1 * width) & (
        formed[:, T] > front[last, T] + 0.1 * width
    )
    assert width < 0.1 or not inside.any()


def test_a_limit_of_sums_stops_the_combination():
    rng = np.random.default_rng(0)
    one, two = (front_list(rng, 90, 1) for _ in range(2))
    _, near = references(rng, (one[:, np.newaxis] + two).reshape(-1, 2))
    states = point_states(np.concatenate([one, two]))
    states.counts[SUM_LIMIT] = 10
    a, b = ListSpan(0, len(one)), ListSpan(len(one), len(one) + len(two))
    assert not combined(states, a, b, near, np.empty((0, 3)), np.empty(1 << 12))
