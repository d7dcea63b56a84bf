"""Mixtures of two answers: sums over components, and the undominated ones of them."""

import itertools

import numpy as np
from hypothesis import given, settings

from cmpe import Problem
from cmpe.generation import grid
from cmpe.tradeoffs.wide.relinking import Anchor, Mixtures, Trades
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS
from tests.problems import Shape, random_problem, seeds

FEW = Shape(variables=7, values=3, arity=3, factors=7, constraints=2)


def anchors(problem, over, rows):
    """The rows as answers, by rising t."""
    h, t = problem.models[0].value(rows), problem.models[1 + over].value(rows)
    found = [Anchor(float(a), float(b), row) for a, b, row in zip(h, t, rows, strict=True)]
    return sorted(found, key=lambda anchor: anchor.t)


@settings(max_examples=60)
@given(seeds)
def test_mixtures_have_the_values_that_are_told(seed):
    problem, evidence = random_problem(seed, FEW)
    if not problem.constraints:
        return
    over, rng = seed % len(problem.constraints), np.random.default_rng(seed)
    row = problem.given(evidence).full()[0]
    cards = problem.objective.cardinalities
    drawn = np.array([[rng.integers(0, k) for k in cards] for _ in range(2)], dtype=np.int32)
    rows = np.where(row < 0, drawn, row)
    low, high = anchors(problem, over, rows)
    if not np.isfinite([low.h, low.t, high.h, high.t]).all():
        return
    mixed = Mixtures(problem, over).between(low, high)
    found = mixed.rows(np.arange(len(mixed.h)))
    np.testing.assert_allclose(problem.models[0].value(found), mixed.h, atol=1e-9)
    np.testing.assert_allclose(problem.models[1 + over].value(found), mixed.t, atol=1e-9)
    assert ((found == low.row) | (found == high.row)).all()


@settings(max_examples=30)
@given(seeds)
def test_few_trades_are_mixed_in_every_way(seed):
    rng = np.random.default_rng(seed)
    dh, dt = rng.normal(size=(2, int(rng.integers(0, WIDE_FRONTS.core + 1))))
    trades = Trades.of(dh, dt)
    chosen = trades.components(trades.choices())
    h, t = chosen @ dh, chosen @ dt
    every = np.array(list(itertools.product([False, True], repeat=len(dh))), dtype=bool)
    for best_h, best_t in zip(every @ dh, every @ dt, strict=True):
        assert ((h >= best_h - 1e-9) & (t <= best_t + 1e-9)).any()


def test_the_steepest_trades_of_many_come_first():
    rng = np.random.default_rng(0)
    dh, dt = rng.uniform(0.1, 1.0, (2, 40))
    trades = Trades.of(dh, -dt)  # nothing to trade: all are better both ways
    assert not len(trades.order)
    assert trades.taken.all()
    trades = Trades.of(dh, dt)
    slopes = trades.added[0] / trades.added[1]
    assert (np.diff(slopes) <= 0.0).all()
    chain = np.tri(41, 40, -1, dtype=bool)  # every beginning of the order
    chosen = {tuple(row) for row in trades.choices().tolist()}
    assert chosen >= {tuple(row) for row in chain.tolist()}


def test_answers_far_apart_fill_a_front():
    model = grid(12, 12, seed=3)
    problem = Problem(model, [model.perturb(0.1, 1) <= 0.0])
    rng = np.random.default_rng(0)
    low = rng.integers(0, 2, 144).astype(np.int32)
    high = np.where(rng.random(144) < 0.15, 1 - low, low).astype(np.int32)
    mixed = Mixtures(problem, 0).between(*anchors(problem, 0, np.stack([low, high])))
    assert len(mixed.h) > 10
    assert (np.diff(mixed.t) > 0.0).all()
    assert (np.diff(mixed.h) > 0.0).all()
