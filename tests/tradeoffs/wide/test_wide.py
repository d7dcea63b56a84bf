"""Fronts of wide rows: points and a band that is always valid."""

import numpy as np

import cmpe
from cmpe import Limits, LogLinearModel, Problem
from cmpe.generation import Recipe, generate, grid
from cmpe.tradeoffs.wide import refine, wide_front


def test_the_band_holds_the_true_front_and_narrows():
    made = generate(grid(5, 5, seed=2), Recipe(samples=40, percentile=30))
    truth = cmpe.front(made.problem, made.test[:1])[0]
    instances = made.problem.given(made.test[:1])
    areas = []
    marks = np.linspace(truth.values[0], truth.values[-1], 40)
    best = np.array([truth.bound(q) for q in marks])
    for traced in refine(instances, 0, (-np.inf, np.inf), Limits(4.0)):
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
    found = wide_front(problem.given(), 0, (-np.inf, np.inf), Limits(0.5))[0]
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
