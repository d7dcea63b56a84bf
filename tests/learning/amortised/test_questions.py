"""Masks, and limits that a row can keep."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe import Problem
from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.questions import Subject, selecting
from cmpe.problem.groups import by_observed
from tests.learning.amortised.cases import completions, config, maker, posed, questions
from tests.learning.cases import mixed_problem


def masks(asked, count=300):
    here, random = maker(posed(6), asked), np.random.default_rng(0)
    return np.stack([here.mask(random) for _ in range(count)])


def test_masks_have_the_rates_that_are_asked_for():
    rates = masks(QuestionRange(rates=((0.1, 0.3), (0.8, 0.9)))).mean(axis=1)
    edge = 0.5 / 36 + 1e-6
    inside = [
        (low - edge <= rates) & (rates <= high + edge) for low, high in ((0.1, 0.3), (0.8, 0.9))
    ]
    assert (inside[0] | inside[1]).all()
    assert min(share.mean() for share in inside) > 0.15


def test_half_of_the_masks_hang_together():
    """Neighbours in the grid agree in nearly all pairs in some masks, by chance in others."""
    found = masks(QuestionRange(rates=((0.5, 0.5),))).reshape(-1, 6, 6)
    down, right = found[:, 1:] == found[:, :-1], found[..., 1:] == found[..., :-1]
    agree = (down.mean((1, 2)) + right.mean((1, 2))) / 2
    assert 0.35 < (agree > 0.75).mean() < 0.65
    assert abs(np.median(agree[agree < 0.75]) - 0.5) < 0.1


def test_a_set_of_variables_or_the_limits_may_be_fixed():
    found = masks(QuestionRange(observed=(0, 5)), count=3)
    np.testing.assert_array_equal(np.flatnonzero(found.all(axis=0)), [0, 5])
    assert found.sum() == 6
    _, limits = questions(posed(), 5, 1, QuestionRange(limits=(2.5,)))
    np.testing.assert_array_equal(limits, np.full((5, 1), 2.5))


@pytest.mark.parametrize("zeros", [False, True])
def test_limits_can_be_kept(zeros):
    """Messages need not find the least t; nearly all limits are met by some assignment."""
    problem = mixed_problem(zeros=zeros)
    one = Problem(problem.objective, problem.constraints[:1])
    given, limits = questions(one, 60, 1)
    least = [
        one.constraint_values(completions(row, one.objective.cardinalities)).min() for row in given
    ]
    assert np.isfinite(limits).all()
    assert (limits[:, 0] >= np.array(least) - 1e-6).all()


def test_positions_order_the_limits():
    given, _ = questions(posed(), 20, 1)
    low, middle, high = (
        maker(posed()).limits_at(given, np.full((20, 1), place)) for place in (0.0, 0.5, 1.0)
    )
    assert (low <= middle).all()
    assert (middle <= high).all()
    np.testing.assert_allclose(middle, (low + high) / 2, rtol=1e-3, atol=1e-3)


def test_a_selector_gives_each_row_its_own_limit():
    problem = mixed_problem()
    given, limits = questions(problem, 6, 3, QuestionRange(observed=(0, 4)))
    whole = selecting(problem, limits)
    rows = np.column_stack([given, np.arange(6)]).astype(np.int32)
    [(instances, numbers)] = by_observed(whole, rows)
    np.testing.assert_array_equal(numbers, np.arange(6))
    every = np.stack([completions(row, problem.objective.cardinalities)[0] for row in given])
    joined = np.column_stack([every, np.arange(6)]).astype(np.int32)
    np.testing.assert_allclose(
        instances.problem.constraint_values(joined), problem.constraint_values(every) - limits
    )


def test_samples_are_drawn_by_the_seed_and_a_tenth_is_held_out():
    one, two = (Subject.of(posed(), config(), None).samples for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (60, 16)
    subject = Subject.of(posed(), config(), one[:30])
    assert (len(subject.samples), subject.trained) == (30, 27)
