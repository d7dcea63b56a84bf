"""Log-sum elimination with running counts against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare

from cmpe import LogLinearModel
from cmpe.arrays import FREE
from cmpe.elimination.compiled import compile_plan
from cmpe.elimination.counts import Counts
from cmpe.elimination.plan import make_plan
from cmpe.elimination.sums import LogSum
from cmpe.models.conditioning import Conditioning
from tests.problems import Shape, random_model

seeds = st.integers(0, 2**32 - 1)


class Case:
    """Random rows of a random model with sums of whole numbers between random limits."""

    def __init__(self, seed, rows=2):
        rng = np.random.default_rng(seed)
        self.cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
        self.model = random_model(rng, self.cards, Shape())
        self.sums = [self._whole(rng) for _ in range(int(rng.integers(0, 3)))]
        if self.sums and rng.random() < 0.4:
            finite = [(f.scope, np.maximum(f.log_table, -9.0)) for f in self.sums[0].factors]
            tables = [(scope, -table) for scope, table in finite]
            self.sums.append(LogLinearModel.from_tables(self.cards, tables))
        structure = Conditioning([self.model, *self.sums], ())
        none = np.zeros((1, 0), dtype=np.int64)
        self.tables, *limited = (structure.tables(f, none) for f in range(1 + len(self.sums)))
        self.tables = np.repeat(self.tables, rows, axis=0)
        self.tables[1:, :] += rng.normal(size=(rows - 1, self.tables.shape[1]))
        self.layout, self.structure = structure.layout, structure
        self.z = np.array(list(itertools.product(*map(range, self.cards))))
        self.values = np.stack([t.value(self.z) for t in self.sums], axis=1) if self.sums else None
        self.most = [
            rng.choice(t.value(self.z), rows) + rng.choice([0.0, 0.5, -1.0], rows)
            for t in self.sums
        ]
        self.most = [np.where(np.isfinite(q), q, 0.0) + 1e-6 for q in self.most]
        pairs = [(np.repeat(t, rows, axis=0), q) for t, q in zip(limited, self.most, strict=True)]
        self.counts = Counts.of(self.layout, pairs)
        plan = make_plan(self.cards, structure.scopes, variables=structure.free)
        self.sum = LogSum.of(compile_plan(plan, self.layout), self.layout, self.counts.counts)

    def _whole(self, rng):
        shape = Shape(arity=2, factors=4, zeros=False)
        model = random_model(rng, self.cards, shape)
        step = rng.choice([1.0, 1.0, 0.25, 0.1])
        tables = [(f.scope, np.round(f.log_table) * step) for f in model.factors]
        if tables and rng.random() < 0.2:
            scope, table = tables[0]
            tables[0] = scope, np.where(rng.random(table.shape) < 0.2, -np.inf, table)
        return LogLinearModel.from_tables(self.cards, tables)

    def weights(self, row):
        """h of every assignment, -inf outside the limits."""
        total = np.zeros(len(self.z))
        for f, scope in enumerate(self.structure.scopes):
            shape = [self.cards[v] for v in scope]
            own = self.tables[row, self.layout.offsets[f] : self.layout.offsets[f + 1]]
            total += own.reshape(shape)[tuple(self.z[:, v] for v in scope)]
        for t, most in zip(self.sums, self.most, strict=True):
            total = np.where(t.value(self.z) <= most[row], total, -np.inf)
        return total


@given(seeds)
@settings(max_examples=150)
def test_log_partitions_and_marginals_are_those_of_enumeration(seed):
    case = Case(seed)
    assert not case.counts.rest
    found = case.sum.marginals(case.tables)
    assert np.allclose(case.sum.log_partitions(case.tables), found.log_partition, atol=0)
    for row in range(2):
        weights = case.weights(row)
        total = logsumexp(weights) if np.isfinite(weights).any() else -np.inf
        assert np.isclose(found.log_partition[row], total, atol=1e-9, rtol=0)
        share = np.exp(weights - total) if np.isfinite(total) else np.zeros(len(weights))
        for variable, values in zip(case.sum.variables, found.values, strict=True):
            expected = np.bincount(case.z[:, variable], share, values.shape[1])
            assert np.allclose(values[row], expected, atol=1e-12)
        for f, scope in enumerate(case.structure.scopes):
            if not scope:
                continue
            shape = [case.cards[v] for v in scope]
            places = np.ravel_multi_index([case.z[:, v] for v in scope], shape)
            own = found.entries[row, case.layout.offsets[f] : case.layout.offsets[f + 1]]
            assert np.allclose(own, np.bincount(places, share, own.size), atol=1e-12)


@given(seeds)
@settings(max_examples=12)
def test_samples_follow_the_enumerated_probabilities(seed):
    case = Case(seed)
    drawn = case.sum.samples(case.tables, 600, np.random.default_rng(seed), len(case.cards))
    for row in range(2):
        weights = case.weights(row)
        if not np.isfinite(weights).any():
            assert (drawn[row] == FREE).all()
            continue
        expected = 600 * np.exp(weights - logsumexp(weights))
        seen = np.bincount(np.ravel_multi_index(drawn[row].T, case.cards), minlength=len(case.z))
        assert (seen[expected == 0] == 0).all()
        rare = expected < 5
        seen, expected = (np.append(a[~rare], a[rare].sum()) for a in (seen, expected))
        kept = expected > 0
        if kept.sum() > 1:
            scaled = expected[kept] * seen[kept].sum() / expected[kept].sum()
            assert chisquare(seen[kept], scaled).pvalue > 1e-6


def test_weights_far_apart_stay_exact():
    """At most one of 60 variables of odds exp(200) each: all states are far below the largest."""
    count = 60
    model = LogLinearModel.from_tables([2] * count, [((v,), [0.0, 200.0]) for v in range(count)])
    ones = LogLinearModel.from_tables([2] * count, [((v,), [0.0, 1.0]) for v in range(count)])
    structure = Conditioning([model, ones], ())
    tables, added = (structure.tables(f, np.zeros((1, 0), dtype=np.int64)) for f in range(2))
    plan = make_plan([2] * count, structure.scopes)
    compiled = compile_plan(plan, structure.layout)
    one = Counts.of(structure.layout, [(added, np.array([1.0]))])
    found = LogSum.of(compiled, structure.layout, one.counts).marginals(tables)
    assert np.isclose(found.log_partition[0], 200.0 + np.log(count + np.exp(-200.0)), atol=1e-11)
    assert np.allclose([v[0, 1] for v in found.values], 1.0 / count, atol=1e-12)
    none = Counts.of(structure.layout, [(added, np.array([0.0]))])
    assert LogSum.of(compiled, structure.layout, none.counts).log_partitions(tables)[0] == 0.0
