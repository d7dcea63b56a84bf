"""The certified band: lines, limits, the least t and the floor, against enumeration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe.tradeoffs.wide.band as module
from cmpe import LogLinearModel, Problem
from cmpe.tradeoffs.wide.band import Band
from tests.problems import Shape, random_problem, seeds
from tests.tradeoffs.truth import enumerated

EVERYWHERE = (-math.inf, math.inf)


def loose_band(problem, truth, over, rng):
    """Points, and bounds of every kind that hold but are not tight; h and t of what satisfies."""
    good = truth.satisfied(over)
    h, t = truth.h[good], truth.t[good, over]
    band = Band(problem, over)
    finite = np.isfinite(t)
    best = np.append(h, -np.inf).max()

    def above(values):
        return float(np.append(values, -np.inf).max() + rng.choice([0.0, 1e-9, rng.uniform(0, 2)]))

    for mu in rng.choice([0.0, 0.1, 0.7, 1.0, 3.0, 40.0], 3):
        if mu == 0.0:
            band.floor = min(band.floor, above(h))
        band.add_line(float(mu), above(h if mu == 0.0 else h[finite] - mu * t[finite]))
    if rng.random() < 0.5:
        band.least = float(np.append(t[finite], np.inf).min() - rng.uniform(0, 1))
    if rng.random() < 0.5:
        band.floor = min(band.floor, above(h[~finite]))
    for _ in range(int(rng.integers(0, 3))):
        end = float(rng.choice(np.append(t[finite], 0.3)))
        band.add_end(end, above(h[t <= end]))
    if len(h):
        band.add(truth.rows[good][rng.integers(0, len(h), 3)])
    assert band.h.max(initial=-np.inf) <= best
    return band, h, t


@settings(max_examples=150)
@given(seeds)
def test_the_bound_is_above_the_front_at_every_limit(seed):
    problem, evidence = random_problem(seed, Shape(constraints=3))
    if not problem.constraints:
        return
    over, rng = seed % len(problem.constraints), np.random.default_rng(seed)
    for truth in enumerated(problem, evidence):
        band, h, t = loose_band(problem, truth, over, rng)
        own = t[np.isfinite(t)]
        q = np.unique([*own, *(own - 1e-7), *(own + 0.05), *rng.normal(0, 5, 5), -1e4, 1e4, np.inf])
        best = np.array([h[t <= limit].max(initial=-np.inf) for limit in q])
        traced = band.traced(EVERYWHERE, 0.0)
        for upper in (band.upper(q), traced.bound(q)):
            room = np.where(np.isfinite(best), 1e-6 * np.maximum(1.0, np.abs(best)), 0.0)
            assert (upper >= best - room).all()
            assert (upper[1:] >= upper[:-1] - 1e-9).all()
        assert (band.lower(q) <= best).all()
        if traced.complete:
            np.testing.assert_allclose(traced.h, truth.front(over)[0], atol=1e-5)


def trade_off():
    """One variable of four values: h = 0, 1, 3, 4 at t = 0, 1, 2, 3."""
    h = LogLinearModel.from_tables([4], [((0,), [0.0, 1.0, 3.0, 4.0])])
    t = LogLinearModel.from_tables([4], [((0,), [0.0, 1.0, 2.0, 3.0])])
    return Problem(h, [t <= 1.0])


def test_one_line_bounds_every_limit():
    band = Band(trade_off(), 0)
    assert band.upper(np.array([0.0, np.inf])).tolist() == [np.inf, np.inf]
    band.add_line(1.0, 1.0)
    np.testing.assert_allclose(band.upper(np.array([-3.0, 0.0, 2.5])), [-2.0, 1.0, 3.5], atol=1e-7)
    assert band.upper(np.array([np.inf]))[0] == np.inf
    band.add_line(0.0, 4.0)
    np.testing.assert_allclose(band.upper(np.array([2.5, 9.0, np.inf])), [3.5, 4.0, 4.0], atol=1e-7)
    band.add_line(1.0, 7.0)  # a worse one changes nothing
    np.testing.assert_allclose(band.upper(np.array([2.5])), [3.5], atol=1e-7)
    assert band.marks().tolist() == [3.0]
    band.add_line(0.5, 2.6)  # above the others everywhere: no corner
    assert band.marks().tolist() == [3.0]
    band.add_line(0.5, 2.0)
    assert band.marks().tolist() == [2.0, 4.0]


def test_steps_are_above_the_bound_and_close_to_it():
    band = Band(trade_off(), 0)
    band.add(np.array([[0], [3]]))
    band.add_line(0.0, 4.0)
    band.add_line(4 / 3, 1 / 3)
    q = np.linspace(-1.0, 4.0, 997)
    steps, upper = band.steps().of(q), band.upper(q)
    assert (steps >= upper).all()
    assert (steps - upper)[q >= 0.0].max() < 0.1 * (upper - band.lower(q))[q >= 0.0].max()
    part = band.steps((0.5, 1.5))
    assert part.at[0] == 0.5
    assert part.at[-2] == 1.5
    assert (part.of(q) >= upper).all()


def test_points_are_kept_once_and_only_the_useful_of_many(monkeypatch):
    monkeypatch.setattr(module, "WIDE_FRONTS", module.WIDE_FRONTS._replace(most_points=3))
    band = Band(trade_off(), 0)
    band.add(np.array([[0], [0], [1], [2], [3]]))
    assert band.h.tolist() == [0.0, 3.0, 4.0]  # the step from 0 to 1 is the smallest
    band.add(np.array([[0], [3]]))
    assert band.rows.ravel().tolist() == [0, 2, 3]


def test_points_that_break_another_constraint_are_no_points():
    problem = trade_off()
    other = LogLinearModel.from_tables([4], [((0,), [0.0, 0.0, 9.0, 9.0])])
    band = Band(Problem(problem.objective, [*problem.constraints, other <= 1.0]), 0)
    band.add(np.array([[1], [3]]))
    assert band.h.tolist() == [1.0]


@pytest.mark.parametrize("closed", [False, True])
def test_a_front_is_complete_when_no_gap_is_left(closed):
    band = Band(trade_off(), 0)
    band.add(np.array([[0], [1], [2], [3]]))
    band.add_line(0.0, 4.0)
    band.least = 0.0
    for end, bound in ((1.0, 0.0), (2.0, 1.0), (3.0, 3.0 if closed else 3.1)):
        band.add_end(end - 1e-6, bound)
    traced = band.traced(EVERYWHERE, 0.5)
    assert traced.complete is closed
    assert traced.seconds == 0.5
    assert band.traced((0.5, 1.5), 0.0).complete
    assert band.traced((0.5, 1.5), 0.0).t.tolist() == [0.0, 1.0]


def test_the_hull_and_what_a_multiplier_finds():
    band = Band(trade_off(), 0)
    assert band.priced(1.0) == -np.inf
    assert band.hull().tolist() == []
    band.add(np.array([[0], [1], [2], [3]]))
    assert band.hull().tolist() == [0, 2, 3]
    assert band.priced(1.0) == 1.0
