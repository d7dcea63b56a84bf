"""Fronts of wide rows: points and a band that is always valid."""

import numpy as np
import pytest
from hypothesis import example, given, settings

import cmpe
from cmpe import Limits, LogLinearModel, Problem
from cmpe.generation import Recipe, generate, grid
from cmpe.tradeoffs.points import loosened
from cmpe.tradeoffs.wide import refine, wide_front
from tests.problems import Shape, random_problem, seeds
from tests.tradeoffs.truth import enumerated

EVERYWHERE = (-np.inf, np.inf)


def test_the_band_holds_the_true_front_and_narrows():
    made = generate(grid(5, 5, seed=2), Recipe(samples=40, percentile=30))
    truth = cmpe.front(made.problem, made.test[:1])[0]
    instances = made.problem.given(made.test[:1])
    areas = []
    marks = np.linspace(truth.values[0], truth.values[-1], 40)
    best = np.array([truth.bound(q) for q in marks])
    for traced in refine(instances, 0, EVERYWHERE, Limits(seconds=4.0)):
        upper = traced.bound(marks)
        assert (upper >= best - 1e-6).all()
        low = np.append(-np.inf, traced.h)[np.searchsorted(traced.t, marks, side="right")]
        assert (low <= best + 1e-6).all()
        areas.append(float(np.minimum(upper - np.maximum(low, best.min() - 50), 1e3).sum()))
        if len(areas) > 12:
            break
    assert areas[-1] < 0.7 * areas[0]


def test_a_row_that_nothing_satisfies_is_complete_without_points():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    problem = Problem(h, [h <= 3.0, h <= -5.0])
    found = wide_front(problem.given(), 0, EVERYWHERE, Limits(seconds=0.5))[0]
    assert found.complete
    assert not len(found.h)


def test_wide_rows_come_through_the_same_door():
    model = grid(24, 24, seed=2)
    problem = Problem(model, [model.perturb(0.1, 1) <= 900.0])
    front = cmpe.front(problem, time_limit=1.0)[0]
    assert not front.complete
    assert len(front) >= 1
    assert front.bound(1e6) >= front.objective[-1]
    window = cmpe.front(problem, time_limit=1.0, between=(850.0, 900.0))[0]
    assert window.bound(900.0) < 1e6


@pytest.mark.parametrize("further", [0, 1, 2])
@settings(max_examples=20)
@example(1439)  # the bound of t = -inf adds nothing, and once was asked for without end
@given(seeds)
def test_small_problems_are_complete_as_enumerated(further, seed):
    problem, evidence = random_problem(seed, Shape(constraints=1 + further))
    if not problem.constraints:
        return
    over, rng = seed % len(problem.constraints), np.random.default_rng(seed)
    found = wide_front(problem.given(evidence), over, EVERYWHERE, Limits(seconds=10.0))
    for row, (traced, truth) in enumerate(zip(found, enumerated(problem, evidence), strict=True)):
        h, t = truth.front(over)
        assert traced.complete
        np.testing.assert_allclose(traced.h, h, atol=1e-5)
        np.testing.assert_allclose(traced.t, t, atol=1e-5)
        low, high = np.sort(rng.choice(np.append(t[np.isfinite(t)], 0.5), 2))
        one = problem.given(evidence).take(slice(row, row + 1))
        part = wide_front(one, over, (low, high), Limits(seconds=10.0))[0]
        first = max(0, int(np.searchsorted(t, loosened(low), side="right")) - 1)
        last = int(np.searchsorted(t, loosened(high), side="right"))
        assert part.complete
        np.testing.assert_allclose(part.h, h[first:last], atol=1e-5)


def test_a_wide_row_has_a_narrow_band_after_seconds():
    model = grid(24, 24, seed=2)
    other = model.perturb(0.1, 1)
    problem = Problem(model, [other <= 500.0])
    front = cmpe.front(problem, time_limit=3.0, between=(400.0, 600.0))[0]
    limits = np.linspace(400.0, 600.0, 50)
    width = [front.bound(q) - front.at(q).objective for q in limits]
    assert min(width) >= 0.0
    assert max(width) < 20.0
    assert len(front) > 50
