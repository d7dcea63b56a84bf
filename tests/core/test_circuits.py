"""Sums by circuits against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare

import cmpe
from cmpe.core.circuits import BLOCK
from cmpe.elimination.circuits import NONE, Circuit
from cmpe.elimination.compiled import compile_plan
from cmpe.elimination.plan import make_plan
from cmpe.elimination.rules import joined
from cmpe.elimination.sums import with_top
from cmpe.models.conditioning import Conditioning
from tests.problems import Shape, random_model

seeds = st.integers(0, 2**32 - 1)


class Case:
    """A random model, and leaves at some entries of its tables, a few of them -inf."""

    def __init__(self, seed, rows=2, zeros=0.05):
        rng = np.random.default_rng(seed)
        self.cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
        model = random_model(rng, self.cards, Shape(zeros=rng.random() < 0.7))
        self.structure = Conditioning([model], ())
        self.tables = self.structure.tables(0, np.zeros((1, 0), dtype=np.int64))[0]
        layout = self.structure.layout
        self.leaves = np.where(rng.random(len(self.tables)) < 0.5, 0, NONE)
        self.leaves[self.leaves == 0] = np.arange((self.leaves == 0).sum())
        self.given = rng.normal(0, 3, (rows, 1 + int(self.leaves.max())))
        self.given[rng.random(self.given.shape) < zeros] = -np.inf
        plan = compile_plan(
            make_plan(self.cards, self.structure.scopes, variables=self.structure.free), layout
        )
        self.circuit = Circuit.of(
            with_top(plan, layout), self.tables, self.leaves, self.given.shape[1]
        )
        self.z = np.array(list(itertools.product(*map(range, self.cards))))
        places = []
        for f, scope in enumerate(self.structure.scopes):
            shape = [self.cards[v] for v in scope]
            inside = np.ravel_multi_index([self.z[:, v] for v in scope], shape) if scope else 0
            places.append(layout.offsets[f] + inside + np.zeros(len(self.z), dtype=int))
        self.entries = np.stack(places, axis=1)  # of each assignment

    def weights(self, row):
        """The log-potential of every assignment."""
        own = np.append(self.given[row], 0.0)[self.leaves]  # the last one where there is no leaf
        return (self.tables + own)[self.entries].sum(axis=1)


@given(seeds)
@settings(max_examples=200)
def test_sums_are_those_of_enumeration(seed):
    case = Case(seed)
    found = case.circuit.sums(case.given)
    for row in range(2):
        weights = case.weights(row)
        possible = np.isfinite(weights).any()
        total = logsumexp(weights) if possible else -np.inf
        assert np.isclose(found.log_partition[row], total, atol=1e-10, rtol=0)
        share = np.exp(weights - total) if possible else np.zeros(len(weights))
        by_entry = np.zeros(len(case.tables))
        np.add.at(by_entry, case.entries, share[:, np.newaxis])
        leaf = case.leaves != NONE
        expected = np.zeros(case.given.shape[1])
        expected[case.leaves[leaf]] = by_entry[leaf]
        assert np.allclose(found.probabilities[row], expected, atol=1e-11)
        if possible:
            constant = case.tables[case.entries].sum(axis=1)
            mean = (share[share > 0] * constant[share > 0]).sum()
            assert np.isclose(found.mean[row], mean, atol=1e-9)


def test_rows_of_several_blocks_and_threads():
    for seed in range(5):
        case = Case(seed, rows=1)
        given_rows = np.repeat(case.given, 3 * BLOCK + 200, axis=0)
        given_rows[:, 0] = np.linspace(-900, 900, len(given_rows))
        whole = case.circuit.sums(given_rows, threads=2)
        for row in range(0, len(given_rows), 37):
            alone = case.circuit.sums(given_rows[row : row + 1])
            for many, one in zip(whole, alone, strict=True):
                assert np.array_equal(many[row], one[0], equal_nan=True)


@given(seeds)
@settings(max_examples=12)
def test_samples_follow_the_enumerated_probabilities(seed):
    case = Case(seed)
    drawn = case.circuit.samples(case.given, 600, np.random.default_rng(seed))
    for row in range(2):
        weights = case.weights(row)
        if not np.isfinite(weights).any():
            assert (drawn[row] == -1).all()
            continue
        share = np.exp(weights - logsumexp(weights))
        hot = np.zeros((len(case.z), case.given.shape[1] + 1), dtype=np.int8)
        np.put_along_axis(hot, case.leaves[case.entries] % hot.shape[1], 1, axis=1)
        kinds, kind = np.unique(hot[:, :-1], axis=0, return_inverse=True)
        expected = 600 * np.bincount(kind.ravel(), share, len(kinds))
        same = (drawn[row][:, np.newaxis] == kinds).all(axis=2)
        assert same.any(axis=1).all()
        seen = np.bincount(same.argmax(axis=1), minlength=len(kinds)).astype(float)
        assert (seen[expected == 0] == 0).all()
        rare = expected < 5
        seen, expected = (np.append(a[~rare], a[rare].sum()) for a in (seen, expected))
        if (expected > 0).sum() > 1:
            seen, expected = seen[expected > 0], expected[expected > 0]
            assert chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 1e-6


def test_weights_far_apart_stay_exact():
    """Two variables that are equal: the sum cancels numbers of 5,000 nats."""
    model = cmpe.LogLinearModel.from_tables(
        [2, 2], [((0, 1), [[0.0, -np.inf], [-np.inf, 0.0]]), ((0,), [0, 0]), ((1,), [0, 0])]
    )
    structure = Conditioning([model], ())
    tables = structure.tables(0, np.zeros((1, 0), dtype=np.int64))[0]
    plan = compile_plan(make_plan([2, 2], structure.scopes), structure.layout)
    leaves = np.full(len(tables), NONE)
    for f, scope in enumerate(structure.scopes):
        if len(scope) == 1:
            leaves[structure.layout.offsets[f] + np.arange(2)] = 2 * scope[0] + np.arange(2)
    circuit = Circuit.of(with_top(plan, structure.layout), tables, leaves, 4)
    found = circuit.sums(np.array([[0.0, 5000.0, 0.0, -5000.0]]))
    assert np.isclose(found.log_partition[0], np.log(2.0), atol=1e-12)
    assert np.allclose(found.probabilities, 0.5, atol=1e-12)


@given(seeds)
@settings(max_examples=60)
def test_joined_rules_are_worth_the_same(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    model = cmpe.LogLinearModel((k,) * n, ())
    rule = cmpe.all_different(range(n)).over(model.domain)
    one = joined(rule)
    z = np.array(list(itertools.product(*[range(k)] * n)))
    assert len(one.parts) == 1
    assert np.array_equal(one.value(z), rule.value(z))
