"""Balls and subgraphs of bounded width against searches and eliminations with sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.search.settings import SETTINGS
from cmpe.core.search.subgraphs import ball, grow
from tests.core.cases import examples
from tests.core.test_orders import distances, graph_of
from tests.problems import seeds


def state_of(seed):
    return np.array([seed | 1], dtype=np.uint64)


@given(seeds)
@examples(100)
def test_balls_hold_the_nearest_vertices(seed):
    rng = np.random.default_rng(seed)
    near, starts, flat = graph_of(rng)
    size = int(rng.integers(1, len(near) + 1))
    members = ball(starts, flat, size, state_of(seed)).tolist()
    assert len(set(members)) == len(members) <= size
    reached = distances(near, members[0])
    assert len(members) == min(size, len(reached))
    farthest = max(reached[v] for v in members)
    assert {v for v, far in reached.items() if far < farthest} <= set(members)


@given(seeds)
@examples(200)
def test_orders_stay_within_the_limit(seed):
    rng = np.random.default_rng(seed)
    near, starts, flat = graph_of(rng)
    bits = np.log2(rng.integers(1, 5, len(near)))
    allowed = np.flatnonzero(rng.random(len(near)) < 0.8)
    limit = float(rng.choice([0.0, 1.0, 2.0, 4.0, 40.0]))
    order = grow(starts, flat, bits, allowed, limit, state_of(seed)).tolist()
    assert len(set(order)) == len(order)
    assert set(order) <= set(allowed.tolist())
    inside = [own & set(order) for own in near]
    for v in order:
        assert sum(bits[u] for u in inside[v]) <= limit + 1e-9
        for u in inside[v]:
            inside[u] = (inside[u] | inside[v]) - {u, v}
    if limit == 40.0:
        assert set(order) == set(allowed.tolist())
    elif len(allowed):
        assert order


def test_a_hub_is_frozen():
    count = SETTINGS.hub + 2
    starts = np.concatenate([[0], count - 1 + np.arange(count)]).astype(np.int64)
    flat = np.concatenate([np.arange(1, count), np.zeros(count - 1)]).astype(np.int64)
    order = grow(starts, flat, np.ones(count), np.arange(count), 40.0, state_of(1))
    assert sorted(order) == list(range(1, count))
