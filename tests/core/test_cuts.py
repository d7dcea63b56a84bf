"""Minimum cuts against enumeration: ties, implications, forbidden values, infeasible rows."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core.cuts import CutNetwork, cut_rows

seeds = st.integers(0, 2**32 - 1)


def network(count, edges):
    tails = np.array([end for u, v, _ in edges for end in (u, v)], dtype=np.int64)
    heads = np.array([end for u, v, _ in edges for end in (v, u)], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=count))])
    capacities = np.array([c for _, _, weight in edges for c in (weight, 0.0)])
    return CutNetwork(starts, np.argsort(tails, kind="stable"), heads, capacities)


def value(scores, edges, x):
    total = sum(scores[v, x[v]] for v in range(len(x)))
    return total - sum(weight for u, v, weight in edges if x[u] == 1 and x[v] == 0)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_cuts_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 7))
    pairs = [(u, v) for u in range(count) for v in range(count) if u != v and rng.random() < 0.4]
    is_whole = rng.random() < 0.5
    edges = []
    for u, v in pairs:
        weight = float(rng.integers(0, 4)) if is_whole else rng.exponential()
        edges.append((u, v, np.inf if rng.random() < 0.5 else weight))
    shape = (3, count, 2)
    scores = rng.integers(-3, 4, shape).astype(float) if is_whole else rng.normal(size=shape)
    scores[rng.random(shape) < 0.1] = -np.inf
    ones, bounds = np.zeros((3, count), dtype=np.int8), np.zeros(3)
    cut_rows(network(count, edges), scores, ones, bounds)
    everything = list(itertools.product((0, 1), repeat=count))
    for row in range(3):
        best = max(value(scores[row], edges, x) for x in everything)
        if best == -np.inf:
            assert bounds[row] == -np.inf
            continue
        assert abs(value(scores[row], edges, ones[row]) - best) <= 1e-12
        assert best <= bounds[row] <= best + 1e-10


def test_a_long_chain_of_implications():
    edges = [(v, v + 1, np.inf) for v in range(199)]
    scores = np.zeros((2, 200, 2))
    scores[:, :, 1] = -1.0
    scores[0, 0, 1], scores[1, 0, 1] = 150.0, 250.0
    ones, bounds = np.zeros((2, 200), dtype=np.int8), np.zeros(2)
    cut_rows(network(200, edges), scores, ones, bounds)
    assert ones.sum(axis=1).tolist() == [0, 200]
    assert np.allclose(bounds, [0.0, 51.0])
