"""Masks, limits and the bounds of alpha_x."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.questions import QuestionMaker, depths
from cmpe.learning.amortised.tables import ModelTables
from tests.learning.amortised.cases import completions, posed, questions
from tests.learning.cases import mixed_problem


def masks(asked, count=400, problem=None):
    maker = QuestionMaker(ModelTables(problem or posed(6)), asked)
    return maker.masks(count, torch.Generator().manual_seed(0)).numpy()


def test_masks_have_the_rates_that_are_asked_for():
    rates = masks(QuestionRange(rates=((0.1, 0.3), (0.8, 0.9)))).mean(axis=1)
    edge = 0.5 / 36 + 1e-6
    inside = [
        (low - edge <= rates) & (rates <= high + edge) for low, high in ((0.1, 0.3), (0.8, 0.9))
    ]
    assert (inside[0] | inside[1]).all()
    assert min(share.mean() for share in inside) > 0.15


@pytest.mark.parametrize("blocked", [0.0, 1.0])
def test_blocked_masks_hang_together(blocked):
    """Neighbours in the grid agree more often than by chance, and not where masks are random."""
    found = masks(QuestionRange(rates=((0.5, 0.5),), blocked=blocked)).reshape(-1, 6, 6)
    agree = np.mean(
        [(found[:, 1:] == found[:, :-1]).mean(), (found[..., 1:] == found[..., :-1]).mean()]
    )
    assert agree > 0.7 if blocked else abs(agree - 0.5) < 0.05


def test_a_set_of_variables_may_be_fixed():
    found = masks(QuestionRange(observed=(0, 5)), count=3)
    np.testing.assert_array_equal(np.flatnonzero(found.all(axis=0)), [0, 5])
    assert found.sum() == 6


@pytest.mark.parametrize("problem", [posed(), mixed_problem()], ids=["grid", "mixed"])
def test_bounds_of_alpha_hold_for_every_mask_and_limit(problem):
    """Against all completions: f >= q_lower where feasible, f + v >= q_lower where not,
    p_upper >= p*; low is feasible."""
    maker, asked = questions(problem, 24, 1, QuestionRange(rates=((0.4, 0.9),)))
    for b, row in enumerate(asked.given.numpy()):
        every = completions(row, problem.objective.cardinalities)
        f = float(asked.shift[b]) - problem.objective.value(every)
        g = problem.constraint_values(every) - asked.limits[b].numpy()
        fits = (g <= 1e-4).all(axis=1)
        assert fits.any()
        assert f[fits].min() >= float(asked.q_lower[b]) - 1e-3
        assert asked.p_upper[b] >= f[fits].min() - 1e-3
        over = (g > 1e-4).any(axis=1)
        if over.any():
            infeasible = (f + np.maximum(g, 0.0) @ maker.tables.units.numpy())[over]
            assert asked.q_lower[b] <= infeasible.min() + 1e-3
    assert (asked.q_lower >= 1.0).all()
    alpha = asked.alpha(3.0, torch.full_like(asked.shift, torch.inf))
    assert (alpha >= 3.0).all()
    assert torch.isfinite(alpha).all()


def test_positions_order_the_limits():
    maker, asked = questions(posed(), 16, 2)
    limits = [
        maker.at_positions(asked.given, torch.full((16, 1), place)).limits
        for place in (0.0, 0.5, 1.0)
    ]
    assert (limits[0] <= limits[1]).all()
    assert (limits[1] <= limits[2]).all()
    found = depths(maker.tables, asked.given, asked.limits)
    assert ((found > -0.01) & (found < 1.01)).all()


def test_q_may_be_fixed_and_there_may_be_no_constraint():
    _, asked = questions(posed(), 4, 3, QuestionRange(limits=(1.5,)))
    assert asked.limits.flatten().tolist() == [1.5] * 4
    free = type(posed())(posed().objective)
    _, asked = questions(free, 4, 3)
    assert asked.limits.shape == (4, 0)
    assert (asked.q_lower >= 1.0).all()
