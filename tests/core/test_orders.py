"""Elimination orders against the elimination game played with sets."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from cmpe.core.orders import FILL, GIVEN, WEIGHT, greedy, sweep_order
from tests.core.cases import examples
from tests.problems import seeds


def graph_of(rng):
    """A random graph as sets, and as (starts, neighbours)."""
    count = int(rng.integers(1, 9))
    density = rng.choice([0.1, 0.3, 0.7])
    near = [set() for _ in range(count)]
    for u, v in itertools.combinations(range(count), 2):
        if rng.random() < density:
            near[u].add(v)
            near[v].add(u)
    starts = np.concatenate([[0], np.cumsum([len(own) for own in near])]).astype(np.int64)
    flat = np.array([u for own in near for u in sorted(own)], dtype=np.int64)
    return near, starts, flat


def key(rule, near, v, bits, noise):
    pairs = itertools.combinations(near[v], 2)
    missing = sum(w not in near[u] for u, w in pairs)
    return noise[v] + {WEIGHT: sum(bits[u] for u in near[v]), FILL: missing, GIVEN: 0.0}[rule]


@given(seeds)
@examples(200)
def test_the_cheapest_vertex_goes_next(seed):
    rng = np.random.default_rng(seed)
    near, starts, flat = graph_of(rng)
    bits = np.log2(rng.integers(1, 5, len(near)))
    rule, noise = int(rng.choice([WEIGHT, FILL, GIVEN])), 1e-3 * rng.random(len(near))
    order, cost = greedy(starts, flat, bits, noise, rule, 40.0, 1 << 30)
    left, total = set(range(len(near))), 0.0
    for v in order.tolist():
        least = min(key(rule, near, u, bits, noise) for u in left)
        assert key(rule, near, v, bits, noise) <= least + 1e-9
        total += 2.0 ** (bits[v] + sum(bits[u] for u in near[v]))
        left.remove(v)
        for u in near[v]:
            near[u] = (near[u] | near[v]) - {u, v}
        near[v] = set()
    assert not left
    assert np.isclose(cost, total)
    largest = np.log2(total) - 1e-6
    assert greedy(starts, flat, bits, noise, rule, largest / len(order), 1 << 30)[1] in (
        np.inf, cost,
    )  # fmt: skip


@given(seeds)
@examples(60)
def test_orders_that_cost_too_much_are_given_up(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 7))
    edges = [u for v in range(count) for u in range(count) if u != v]
    starts = np.arange(count + 1, dtype=np.int64) * (count - 1)
    graph = starts, np.array(edges, dtype=np.int64), np.ones(count), np.zeros(count)
    for rule in (WEIGHT, FILL, GIVEN):
        assert greedy(*graph, rule, count - 0.5, 1 << 30)[1] == np.inf
        assert greedy(*graph, rule, 40.0, 0)[1] == np.inf
        assert np.isclose(greedy(*graph, rule, 40.0, 1 << 30)[1], 2.0 ** (count + 1) - 2.0)


def distances(near, root):
    """By breadth-first search."""
    reached, edge, far = {root: 0}, [root], 0
    while edge:
        far += 1
        edge = list({u for v in edge for u in near[v]} - set(reached))
        reached |= dict.fromkeys(edge, far)
    return reached


@given(seeds)
@examples(60)
def test_sweeps_go_breadth_first_through_each_component(seed):
    rng = np.random.default_rng(seed)
    near, starts, flat = graph_of(rng)
    roots, centred = rng.permutation(len(near)), bool(rng.integers(2))
    order = sweep_order(starts, flat, roots, centred).tolist()
    assert sorted(order) == list(range(len(near)))
    while order:
        reached = distances(near, order[0])
        steps = [reached[v] for v in order[: len(reached)]]
        assert steps == sorted(steps)
        if centred:
            assert order[0] == next(r for r in roots if r in reached)
        order = order[len(reached) :]
