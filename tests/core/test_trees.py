"""Passes over the leaves of a cutset network against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from cmpe.core import trees
from cmpe.core.trees import Leaves
from tests.problems import all_assignments, random_cutset

seeds = st.integers(0, 2**32 - 1)


def leaves_of(network):
    cards = np.array(network.cardinalities, dtype=np.int64)
    return Leaves(
        cards, network.contexts, network.split_variables, network.order, network.parents,
        network.log_tables, network.log_weights,
    )  # fmt: skip


def weight(leaves, leaf, z):
    """The log-weight of an assignment in a leaf; -inf where the path contradicts it."""
    context = leaves.contexts[leaf]
    if any(context[v] >= 0 and context[v] != z[v] for v in range(len(z))):
        return -np.inf
    total = leaves.weights[leaf]
    for v in range(len(z)):
        if context[v] < 0:
            u = leaves.parents[leaf, v]
            total += leaves.tables[leaf, v, z[u] if u >= 0 else 0, z[v]]
    return total


def random_evidence(rng, z):
    rows = z[rng.choice(len(z), 4)].copy()
    rows[rng.random(rows.shape) < 0.6] = -1
    return rows.astype(np.int32)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_leaf_values_are_those_of_enumeration(seed):
    network, rng = random_cutset(seed), np.random.default_rng(seed)
    leaves, z = leaves_of(network), all_assignments(network.cardinalities)
    rows = random_evidence(rng, z)
    values = np.array([[weight(leaves, leaf, row) for leaf in range(network.leaves)] for row in z])
    for is_sum in (False, True):
        out = np.zeros((len(rows), network.leaves))
        trees.leaf_values(leaves, rows, is_sum, out)
        for b, row in enumerate(rows):
            agrees = ((row < 0) | (z == row)).all(axis=1)
            some = values[agrees]
            wanted = logsumexp(some, axis=0) if is_sum else some.max(axis=0)
            assert np.allclose(out[b], wanted, atol=1e-9)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_completions_and_marginals(seed):
    network, rng = random_cutset(seed), np.random.default_rng(seed)
    leaves, z = leaves_of(network), all_assignments(network.cardinalities)
    rows = random_evidence(rng, z)
    values = np.array([[weight(leaves, leaf, row) for leaf in range(network.leaves)] for row in z])
    best = np.zeros((len(rows), network.leaves))
    trees.leaf_values(leaves, rows, False, best)
    out = np.zeros_like(rows)
    trees.complete(leaves, rows, best.argmax(axis=1), np.zeros((len(rows), 0)), out)
    total = logsumexp(values, axis=1)
    sums = np.zeros((len(rows), network.leaves))
    trees.leaf_values(leaves, rows, True, sums)
    for b, row in enumerate(rows):
        agrees = ((row < 0) | (z == row)).all(axis=1)
        if total[agrees].max() == -np.inf:
            continue
        place = int(np.flatnonzero((z == out[b]).all(axis=1))[0])
        assert agrees[place]
        assert np.isclose(total[place], total[agrees].max(), atol=1e-9)
        shares = np.exp(sums[b : b + 1] - logsumexp(sums[b]))
        found = np.zeros((1, *leaves.tables.shape[1:3]))
        trees.marginals(leaves, rows[b : b + 1], shares, found)
        weights = np.where(agrees, np.exp(total - logsumexp(total[agrees])), 0.0)
        for v, card in enumerate(network.cardinalities):
            assert np.allclose(found[0, v, :card], np.bincount(z[:, v], weights, card), atol=1e-9)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_every_assignment_has_a_leaf(seed):
    network = random_cutset(seed)
    leaves, z = leaves_of(network), all_assignments(network.cardinalities).astype(np.int32)
    located, out = np.zeros(len(z), dtype=np.int64), np.zeros(len(z))
    trees.locate(leaves, z, located)
    trees.evaluate(leaves, z, located, out)
    for row in range(len(z)):
        assert np.isclose(out[row], weight(leaves, located[row], z[row]), atol=1e-12)
