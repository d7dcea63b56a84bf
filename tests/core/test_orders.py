"""Elimination orders: their cost, as plain Python counts it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import orders

seeds = st.integers(0, 2**32 - 1)


def cost_of(order, near, bits):
    """The entries of all buckets, and the largest as a power of two."""
    near, total, largest = {v: set(u) for v, u in near.items()}, 0.0, 0.0
    for v in order:
        size = bits[v] + sum(bits[u] for u in near[v])
        total += 2.0**size
        largest = max(largest, size)
        for u in near[v]:
            near[u] |= near[v] - {u}
            near[u].discard(v)
        del near[v]
    return total, largest


@given(seeds, st.sampled_from([orders.WEIGHT, orders.FILL, orders.GIVEN]))
@settings(max_examples=80, deadline=None)
def test_an_order_costs_what_its_buckets_hold(seed, rule):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    edges = [(u, v) for u in range(n) for v in range(u) if rng.random() < 0.3]
    near = {v: {b if a == v else a for a, b in edges if v in (a, b)} for v in range(n)}
    starts = np.concatenate([[0], np.cumsum([len(near[v]) for v in range(n)])]).astype(np.int64)
    neighbours = np.array([u for v in range(n) for u in sorted(near[v])], dtype=np.int64)
    bits = np.log2(rng.integers(2, 4, n).astype(float))
    noise = rng.permutation(n).astype(float) if rule == orders.GIVEN else 1e-3 * rng.random(n)
    order, cost = orders.greedy(starts, neighbours, bits, noise, rule, 40.0, 1e9)
    assert sorted(order) == list(range(n))
    assert np.isclose(cost, cost_of(order, near, bits)[0])
    if rule == orders.GIVEN:
        assert order.tolist() == np.argsort(noise).tolist()
    _, largest = cost_of(order, near, bits)
    _, given_up = orders.greedy(starts, neighbours, bits, noise, rule, largest - 0.01, 1e9)
    assert given_up == np.inf
