"""Chow-Liu trees against enumeration of all trees, and against counting by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import connected_components

from cmpe import ChowLiuTree, learn_chow_liu
from cmpe.errors import InputError
from tests.problems import all_assignments, seeds


def random_data(seed: int, *, columns: int = 4, values: int = 3) -> tuple[np.ndarray, list[int]]:
    """Correlated columns of mixed cardinalities, some of which never take all their values."""
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, values + 1, int(rng.integers(1, columns + 1)))]
    count = int(rng.integers(1, 60))
    hidden = rng.integers(0, 4, count)
    data = [(hidden * rng.integers(1, 3) + (rng.random(count) < 0.3)) % k for k in cards]
    return np.stack(data, axis=1).astype(np.uint8), cards


def pair_distribution(data, cards, weights, smoothing, u, v) -> np.ndarray:
    table = np.full((cards[u], cards[v]), smoothing / (cards[u] * cards[v]))
    for row, weight in zip(data, weights, strict=True):
        table[row[u], row[v]] += weight
    return table / table.sum()


def log_likelihood(data, cards, weights, smoothing, edges) -> float:
    """Of the smoothed distribution itself, which the best tree maximises."""
    total = 0.0
    for v in range(len(cards)):
        p = pair_distribution(data, cards, weights, smoothing, v, v).diagonal()
        p = p + smoothing * (1 / cards[v] - 1 / cards[v] ** 2) / (sum(weights) + smoothing)
        total += sum(x * np.log(x) for x in p if x > 0)
    for u, v in edges:
        p = pair_distribution(data, cards, weights, smoothing, u, v)
        both = np.outer(p.sum(axis=1), p.sum(axis=0))
        pairs = zip(p.ravel(), both.ravel(), strict=True)
        total += sum(x * np.log(x / y) for x, y in pairs if x > 0)
    return total


def spanning_trees(count: int):
    pairs = list(itertools.combinations(range(count), 2))
    for edges in itertools.combinations(pairs, count - 1):
        graph = np.zeros((count, count))
        for u, v in edges:
            graph[u, v] = 1
        if connected_components(graph, directed=False)[0] == 1:
            yield edges


@given(seeds)
@settings(max_examples=60)
def test_no_tree_is_more_likely(seed):
    data, cards = random_data(seed)
    rng = np.random.default_rng(seed)
    smoothing = float(rng.choice([0.0, 0.5, 4.0]))
    weights = np.ones(len(data)) if rng.random() < 0.5 else rng.random(len(data)) + 0.1
    tree = learn_chow_liu(data, cardinalities=cards, weights=weights, smoothing=smoothing)
    edges = [(int(u), v) for v, u in enumerate(tree.parents) if u >= 0]
    assert len(edges) == len(cards) - 1
    found = log_likelihood(data, cards, weights, smoothing, edges)
    best = max(
        log_likelihood(data, cards, weights, smoothing, e) for e in spanning_trees(len(cards))
    )
    assert found == pytest.approx(best, abs=1e-9)
    for u, v in edges:
        expected = pair_distribution(data, cards, weights, smoothing, u, v)
        seen = expected.sum(axis=1) > 0
        table = np.exp(tree.log_tables[v, : cards[u], : cards[v]])
        expected = expected[seen] / expected[seen].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(table[seen], expected, atol=1e-12)
        assert table.sum(axis=1) == pytest.approx(1.0)


@given(seeds)
@settings(max_examples=60)
def test_a_learned_tree_is_a_distribution(seed):
    data, cards = random_data(seed)
    tree = learn_chow_liu(data, cardinalities=cards)
    everything = all_assignments(cards)
    assert np.exp(tree.log_likelihood(everything)).sum() == pytest.approx(1.0)
    assert tree.log_evidence(np.full(len(cards), -1))[0] == pytest.approx(0.0, abs=1e-12)
    model = tree.to_model()
    assert len(model.factors) == len(cards)
    np.testing.assert_allclose(model.value(everything), tree.value(everything), atol=1e-12)
    best, value = tree.mpe(np.full(len(cards), -1))
    assert value[0] == pytest.approx(tree.value(everything).max())
    assert tree.value(best) == pytest.approx(value)
    assert tree.marginals(np.full(len(cards), -1)).sum() == pytest.approx(len(cards))
    assert (tree.sample(5, 1) == tree.sample_given(np.full((5, len(cards)), -1), 1)).all()


def test_validation_data_choose_the_smoothing():
    rng = np.random.default_rng(0)
    train, valid = rng.integers(0, 2, (20, 6)), rng.integers(0, 2, (500, 6))
    chosen = learn_chow_liu(train, valid=valid).log_likelihood(valid).mean()
    tried = [learn_chow_liu(train, smoothing=a).log_likelihood(valid).mean() for a in (0.1, 30.0)]
    assert tried[0] < tried[1] <= chosen


def test_a_tree_may_be_a_forest():
    tables = np.log([[[0.5, 0.5], [1, 1]], [[0.9, 0.1], [1, 1]]])
    tree = ChowLiuTree((2, 2), [-1, -1], tables)
    assert np.exp(tree.value([[0, 0]])) == pytest.approx(0.45)
    assert not tree.parents.flags.writeable


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learn_chow_liu([[0.5]]), "whole numbers"),
        (lambda: learn_chow_liu([0, 1]), "rows and columns"),
        (lambda: learn_chow_liu([[0, 2]], cardinalities=[2, 2]), "row 0, column 1"),
        (lambda: learn_chow_liu([[0, 1]], cardinalities=[2]), "1 columns, found 2"),
        (lambda: learn_chow_liu([[0, 1]], weights=[1, 2]), "one per row"),
        (lambda: learn_chow_liu([[0, 1]], weights=[-1]), "at least 0"),
        (lambda: learn_chow_liu([[0, 1]], smoothing=-1), "at least 0"),
        (lambda: learn_chow_liu([[0, 1]], smoothing=[1, 2]), "validation data"),
        (lambda: learn_chow_liu([[0, 1]], valid=[[0, 2]]), "row 0, column 1"),
    ],
)
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()
