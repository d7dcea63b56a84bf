"""Mutual information, heaviest trees and their tables against counting."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from cmpe.core.dependence import conditional_tables, heaviest_tree, mutual_information
from cmpe.models.tractable.pair_counts import Indicators
from tests.core.cases import examples
from tests.problems import seeds


def counted(seed):
    """Rows of data with weights, and their pairwise counts."""
    rng = np.random.default_rng(seed)
    cards = tuple(int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6))))
    rows = np.stack([rng.integers(0, k, 12) for k in cards], axis=1).astype(np.int32)
    weights = rng.integers(1, 4, 12).astype(float) if rng.random() < 0.5 else np.ones(12)
    return rng, rows, cards, weights, Indicators(rows, cards, weights).counts()


def joint_of(rows, cards, weights, u, v):
    table = np.zeros((cards[u], cards[v]))
    np.add.at(table, (rows[:, u], rows[:, v]), weights)
    return table / weights.sum()


@given(seeds)
@examples(60)
def test_information_is_that_of_the_joint_distributions(seed):
    _, rows, cards, weights, counts = counted(seed)
    active = np.arange(len(cards))[::-1].copy()
    out = np.full((len(cards), len(cards)), np.nan)
    mutual_information(counts.joint, counts.starts, counts.total, active, out)
    for (a, u), (b, v) in itertools.product(enumerate(active), repeat=2):
        p = joint_of(rows, cards, weights, u, v)
        outer = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
        wanted = (p[p > 0] * np.log(p[p > 0] / outer[p > 0])).sum() if u != v else 0.0
        assert np.isclose(out[a, b], wanted, atol=1e-12)


@given(seeds)
@examples(60)
def test_tables_are_conditional_frequencies(seed):
    rng, rows, cards, weights, counts = counted(seed)
    parents = np.array([int(rng.integers(-1, v)) if v else -1 for v in range(len(cards))])
    out = np.full((len(cards), max(cards), max(cards)), np.nan)
    active = np.arange(len(cards))
    conditional_tables(counts.joint, counts.starts, counts.total, parents, active, out)
    for v, u in enumerate(parents):
        table = (
            joint_of(rows, cards, weights, u, v)
            if u >= 0
            else np.diag(joint_of(rows, cards, weights, v, v))[np.newaxis]
        )
        whole = table.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = np.where(whole > 0, np.log(table / whole), -np.log(cards[v]))
        assert np.allclose(out[v, : len(table), : cards[v]], wanted, atol=1e-12)


@given(seeds)
@examples(60)
def test_trees_are_the_heaviest_ones(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    weights = rng.integers(0, 4, (count, count)).astype(float)
    weights += weights.T
    parents = np.zeros(count, dtype=np.int64)
    heaviest_tree(weights, parents)
    assert parents[0] == -1
    assert all(reaches_root(parents, v) for v in range(count))
    choices = itertools.product(range(count), repeat=count - 1)
    trees = [np.array([-1, *rest]) for rest in choices]
    trees = [p for p in trees if all(reaches_root(p, v) for v in range(count))]
    best = max(sum(weights[v, p[v]] for v in range(1, count)) for p in trees)
    assert sum(weights[v, parents[v]] for v in range(1, count)) == best


def reaches_root(parents, v):
    for _ in range(len(parents)):
        if v == 0:
            return True
        v = parents[v]
    return v == 0
