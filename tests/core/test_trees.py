"""Passes over the leaves of cutset networks against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from scipy.special import logsumexp
from scipy.stats import chisquare

from cmpe.core.trees import Leaves, complete, evaluate, leaf_values, locate, marginals
from tests.core.cases import examples
from tests.problems import all_assignments, random_cutset, seeds


def plain_leaf(network, leaf, z):
    """The log-weight of an assignment in a leaf, -inf where the path contradicts it."""
    context = network.contexts[leaf]
    if ((context >= 0) & (context != z)).any():
        return -np.inf
    total = network.log_weights[leaf]
    for v in np.flatnonzero(context < 0):
        u = network.parents[leaf, v]
        total += network.log_tables[leaf, v, z[u] if u >= 0 else 0, z[v]]
    return total


class Network:
    """A random network with rows of evidence, and the log-weight of everything in every leaf."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.network = random_cutset(seed, variables=4)
        cards = self.network.cardinalities
        self.cards = np.array(cards, dtype=np.int64)
        n = self.network
        self.arrays = Leaves(
            self.cards, n.contexts, n.split_variables, n.order, n.parents, n.log_tables,
            n.log_weights,
        )  # fmt: skip
        self.z = all_assignments(cards)
        leaves = range(self.network.leaves)
        self.values = np.array([[plain_leaf(self.network, k, z) for k in leaves] for z in self.z])
        self.rows = self.z[rng.integers(0, len(self.z), 3)].copy()
        self.rows[rng.random(self.rows.shape) < 0.6] = -1

    def agreeing(self, row):
        return ((row < 0) | (self.z == row)).all(axis=1)

    def leaves(self, is_sum):
        out = np.zeros((3, self.network.leaves))
        leaf_values(self.arrays, self.rows, is_sum, out)
        return out

    def completed(self, rows, leaves, uniforms):
        out = np.zeros_like(rows)
        complete(self.arrays, rows, leaves, uniforms, out)
        return out


@given(seeds)
@examples(100)
def test_values_and_leaves_of_assignments(seed):
    case = Network(seed)
    leaves, out = np.zeros(len(case.z), np.int64), np.zeros(len(case.z))
    locate(case.arrays, case.z, leaves)
    evaluate(case.arrays, case.z, leaves, out)
    assert np.allclose(out, case.values.max(axis=1), rtol=1e-12, atol=1e-12)
    assert np.allclose(out, case.values[np.arange(len(out)), leaves], rtol=1e-12, atol=1e-12)


@given(seeds)
@examples(100)
def test_maxima_and_sums_of_leaves_and_their_maximisers(seed):
    case = Network(seed)
    for is_sum in (False, True):
        out = case.leaves(is_sum)
        for row, found in zip(case.rows, out, strict=True):
            values = case.values[case.agreeing(row)]
            wanted = values.max(axis=0)
            if is_sum:
                wanted = [logsumexp(c) if c.max() > -np.inf else -np.inf for c in values.T]
            assert np.allclose(found, wanted, rtol=1e-11, atol=1e-11)
    best = case.leaves(False)
    leaves = best.argmax(axis=1).astype(np.int64)
    answers = case.completed(case.rows, leaves, np.zeros((3, 0)))
    for row, leaf, answer, value in zip(case.rows, leaves, answers, best.max(axis=1), strict=True):
        if value > -np.inf:
            assert case.agreeing(row)[(case.z == answer).all(axis=1)].all()
            assert np.isclose(plain_leaf(case.network, leaf, answer), value, rtol=1e-11, atol=1e-11)


@given(seeds)
@examples(100)
def test_marginals_are_those_of_enumeration(seed):
    case = Network(seed)
    values = case.leaves(True)
    shares = np.zeros_like(values)
    for share, row in zip(shares, values, strict=True):
        share[:] = np.exp(row - logsumexp(row)) if row.max() > -np.inf else 0.0
    out = np.zeros((3, len(case.cards), case.cards.max()))
    marginals(case.arrays, case.rows, shares, out)
    for row, found, share in zip(case.rows, out, shares, strict=True):
        if share.any():
            inside = case.agreeing(row)
            weights = np.exp(case.values[inside] - logsumexp(case.values[inside])).sum(axis=1)
            for v, k in enumerate(case.cards):
                wanted = np.bincount(case.z[inside, v], weights, k)
                assert np.allclose(found[v, :k], wanted, atol=1e-12)


@given(seeds)
@examples(10)
def test_samples_follow_the_weights_of_their_leaf(seed):
    case, count = Network(seed), 400
    leaf = int(case.leaves(True)[0].argmax())
    weights = np.where(case.agreeing(case.rows[0]), np.exp(case.values[:, leaf]), 0.0)
    if not weights.any():
        return
    uniforms = np.random.default_rng(seed).random((count, len(case.cards)))
    rows = np.repeat(case.rows[:1], count, axis=0)
    drawn = case.completed(rows, np.full(count, leaf), uniforms)
    cells = np.ravel_multi_index(drawn.T, case.cards)
    seen, expected = np.bincount(cells, minlength=len(weights)), count * weights / weights.sum()
    assert (seen[expected == 0] == 0).all()
    rare = expected < 5
    seen, expected = (np.append(a[~rare], a[rare].sum()) for a in (seen, expected))
    if (expected > 0).sum() > 1:
        assert chisquare(seen[expected > 0], expected[expected > 0]).pvalue > 1e-6
