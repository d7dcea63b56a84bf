"""Multiple-choice knapsacks against enumeration, and the classes of a row."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.bounds.messages import PassedRow
from cmpe.core.knapsack import classes, node
from tests.core.cases import Case, examples
from tests.problems import seeds


def relaxed(profit, weight, starts, limit):
    """The linear relaxation: min over mu of the classes' maxima of p - mu w, plus mu q."""
    parts = [slice(a, b) for a, b in itertools.pairwise(starts)]
    prices = [0.0]
    for part in parts:
        p, w = profit[part], weight[part]
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = (p[:, None] - p) / (w[:, None] - w)
        prices += crossings[np.isfinite(crossings) & (crossings > 0)].tolist()
    return min(
        sum((profit[part] - mu * weight[part]).max() for part in parts) + mu * limit
        for mu in prices
    )


@given(seeds)
@examples(200)
def test_nodes_are_linear_relaxations(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if rng.random() < 0.5:
        profit, weight = (rng.integers(-3, 4, starts[-1]).astype(float) for _ in range(2))
    else:
        profit, weight = rng.normal(size=(2, starts[-1]))
    fixed = np.where(rng.random(len(sizes)) < 0.2, starts[:-1] + rng.integers(0, sizes), -1)
    items = [
        range(a, b) if one < 0 else [one]
        for (a, b), one in zip(itertools.pairwise(starts), fixed, strict=True)
    ]
    every = np.array(list(itertools.product(*items)))
    worth, load = profit[every].sum(axis=1), weight[every].sum(axis=1)
    limit = float(rng.choice(load)) + rng.choice([1e-9, -0.5])
    best = worth[load <= limit].max(initial=-np.inf)
    low, high = np.zeros((2, len(sizes)), dtype=np.int64)
    bound, branch = node(profit, weight, starts, fixed, limit, low, high)
    if best == -np.inf:
        assert (bound, branch) == (-np.inf, -1)
        return
    flat = [i for own in items for i in own]
    ends = np.concatenate([[0], np.cumsum([len(own) for own in items])])
    assert np.isclose(bound, relaxed(profit[flat], weight[flat], ends, limit), atol=1e-9)
    assert bound >= best - 1e-9
    if branch < 0:
        assert np.isclose(bound, best, atol=1e-9)
    else:
        assert low[branch] != high[branch]
        assert fixed[branch] < 0
        assert weight[low].sum() <= limit + 1e-12
        assert weight[high].sum() > limit - 1e-12


@given(seeds)
@examples(60)
def test_classes_hold_the_profit_and_weight_of_every_assignment(seed):
    case = Case.random(seed)
    passed, structure = PassedRow(case.structure, loosened_limits(case.instances)), case.structure
    passed.begin(row_tables(case.instances, slice(0, 1))[0])
    row = passed.row
    cards = [structure.cardinalities[v] for v in structure.free]
    joint = [f for f, scope in enumerate(structure.scopes) if len(scope) > 1]
    sizes = [*np.diff(structure.layout.offsets)[joint], *cards]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    messages = case.rng.normal(size=len(passed.state.messages))
    number = {v: len(joint) + i for i, v in enumerate(structure.free)}
    z, _, _ = case.every(0)
    for t in row.t:
        profit, weight = np.zeros((2, starts[-1]))
        classes(passed.tables, row.h, t, messages, profit, weight)
        for assignment in z[::4]:
            chosen, wanted = [starts[number[v]] + assignment[v] for v in number], np.zeros(2)
            for f, scope in enumerate(structure.scopes):
                shape = [structure.cardinalities[v] for v in scope]
                e = np.ravel_multi_index([assignment[v] for v in scope], shape) if scope else 0
                at = structure.layout.offsets[f] + e
                wanted += [row.h[at], t[at]] if scope else 0.0
                if f in joint:
                    chosen.append(starts[joint.index(f)] + e)
            assert np.allclose([profit[chosen].sum(), weight[chosen].sum()], wanted, atol=1e-9)
