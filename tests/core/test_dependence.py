"""Mutual information and heaviest trees against numpy."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core.dependence import heaviest_tree

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_trees_are_the_heaviest(seed, count):
    """No spanning tree weighs more: Kruskal's algorithm by sets."""
    weights = np.random.default_rng(seed).random((count, count))
    weights = weights + weights.T
    parents = np.zeros(count, dtype=np.int64)
    heaviest_tree(weights, parents)
    found = sum(weights[v, u] for v, u in enumerate(parents) if u >= 0)
    assert (parents < 0).sum() == 1
    sets = [{v} for v in range(count)]
    best = 0.0
    pairs = itertools.combinations(range(count), 2)
    for u, v in sorted(pairs, key=lambda pair: -weights[pair]):
        one, two = (next(s for s in sets if w in s) for w in (u, v))
        if one is not two:
            best += weights[u, v]
            sets.remove(two)
            one |= two
    assert np.isclose(found, best)
