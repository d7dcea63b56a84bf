"""The multiple-choice knapsack against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import knapsack

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_node_bounds_every_choice(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, int(rng.integers(1, 5)))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    profit, weight = rng.normal(size=(2, starts[-1]))
    limit = float(rng.normal(weight.mean() * len(sizes), 1.0))
    fixed = np.full(len(sizes), -1, dtype=np.int64)
    if rng.random() < 0.3:
        fixed[0] = 0
    low, high = np.zeros((2, len(sizes)), dtype=np.int64)
    bound, branch = knapsack.node(profit, weight, starts, fixed, limit, low, high)
    ranges = [range(a, b) for a, b in itertools.pairwise(starts)]
    if fixed[0] == 0:
        ranges[0] = range(1)
    choices = [list(c) for c in itertools.product(*ranges)]
    allowed = [profit[c].sum() for c in choices if weight[c].sum() <= limit]
    if not allowed:
        assert bound == -np.inf or branch >= 0
        return
    assert bound >= max(allowed) - 1e-9
    envelope = [
        min(max(profit[c].sum() - mu * (weight[c].sum() - limit) for c in choices) for mu in prices)
        for prices in [np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 200)])]
    ]
    assert bound <= envelope[0] + 1e-9
    if branch < 0:  # the bound is that of a choice
        assert abs(bound - max(allowed)) <= 1e-9
    else:
        assert low[branch] != high[branch]
