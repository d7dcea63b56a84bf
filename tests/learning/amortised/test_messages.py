"""Passes of messages on trees and over limits; `tests/core` compares them with plain numpy."""

from __future__ import annotations

import numpy as np

from cmpe import Problem, solve
from cmpe.core.lanes import LANES
from cmpe.learning.amortised.messages import LEAN, NUMBERS, MessagePass, schedule_of
from cmpe.models.loglinear import Factor, LogLinearModel
from tests.learning.amortised.cases import FLOOR, posed, questions
from tests.learning.cases import mixed_problem


def test_answers_lean_over_the_limit_as_far_as_the_schedule_says():
    problem = posed(6)
    passes, (given, limits) = MessagePass.of(problem, FLOOR), questions(problem, 64, 2)
    share = []
    for lean in (-3.0, 0.0, 3.0):
        numbers = np.zeros(NUMBERS)
        numbers[LEAN] = lean
        found = passes.answers(schedule_of(numbers, 12), given, limits).values
        t = problem.constraints[0].function.value(found)
        share.append(float((t > limits[:, 0]).mean()))
    assert share[0] < share[1] < share[2]


def test_no_rows_are_no_answers():
    passes = MessagePass.of(posed(), FLOOR)
    none = np.zeros((0, 16), dtype=np.int32)
    found = passes.answers(schedule_of(np.zeros(NUMBERS), 2), none, np.zeros((0, 1)))
    assert found.values.shape == (0, 16)
    assert found.multipliers.shape == found.rooms.shape == (0, 1)


def test_a_row_is_answered_alone_as_in_any_block():
    """What evidence fixes in all rows of a block is left out; it is not the same for each."""
    problem = mixed_problem()
    passes, schedule = MessagePass.of(problem, FLOOR), schedule_of(np.zeros(NUMBERS), 4)
    given, limits = questions(problem, 2 * LANES + 3, 5)
    together = passes.answers(schedule, given, limits)
    for i in range(len(given)):
        alone = passes.answers(schedule, given[i : i + 1], limits[i : i + 1])
        np.testing.assert_array_equal(together.values[i], alone.values[0])
        np.testing.assert_allclose(together.multipliers[i], alone.multipliers[0], rtol=1e-4)
        np.testing.assert_allclose(together.rooms[i], alone.rooms[0], rtol=1e-4, atol=1e-5)
    seen = given >= 0
    np.testing.assert_array_equal(together.values[seen], given[seen])


def test_on_a_tree_messages_without_softness_or_damping_find_the_best_assignment():
    """As max-product does, also through tables of three variables; one has a single value."""
    random = np.random.default_rng(4)
    cards = (2, 3, 2, 4, 2, 3, 2, 1)
    scopes = [(0,), (0, 1, 2), (2, 3), (3, 4), (3, 5, 6), (6, 7), ()]
    factors = [Factor(s, random.normal(0, 2, [cards[v] for v in s])) for s in scopes]
    problem = Problem(LogLinearModel(cards, tuple(factors)))
    numbers = np.zeros(NUMBERS)
    numbers[0], numbers[1], numbers[4] = -6.0, 1.6, -30.0
    given = np.full((40, len(cards)), -1)
    for row, mask in zip(given, random.random(given.shape) < 0.3, strict=True):
        row[mask] = random.integers(0, cards)[mask]
    passes = MessagePass.of(problem, FLOOR)
    found = passes.answers(schedule_of(numbers, 6), given, np.zeros((40, 0))).values
    for row, answer in zip(given, found, strict=True):
        seen = [v for v in range(len(cards)) if row[v] >= 0]
        best = solve(problem.observing(seen), row[seen][None], method="exact").objective[0]
        assert np.isclose(problem.objective.value(answer[None])[0], best)
