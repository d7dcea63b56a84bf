"""Schedules that suit a mask are asked; then the network is asked about what it is not sure of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.learning.amortised.consulting import ASKED, FOLLOWED, KEPT, Panel
from cmpe.learning.amortised.tuning.portfolio import complements
from cmpe.learning.improvement import moved
from cmpe.solvers.local.mixing import mixed
from tests.problems import random_problem, seeds


class Guessing:
    """Answers that are drawn by the number of the schedule, and what was asked."""

    def __init__(self, problem):
        self.cards, self.asked = np.array(problem.objective.cardinalities), []

    def __call__(self, evidence, number):
        self.asked.append((number, evidence.copy()))
        drawn = np.random.default_rng((number, len(self.asked))).random(evidence.shape)
        rows = np.where(evidence < 0, (drawn * self.cards).astype(np.int32), evidence)
        return rows.astype(np.int32), np.full((len(rows), 1), float(number))


def _worth(problem, rows):
    return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


@settings(max_examples=60)
@given(seeds)
def test_a_question_that_follows_never_loses_and_keeps_what_was_answered(seed):
    problem, evidence = random_problem(seed)
    block, ask = problem.given(evidence), Guessing(problem)
    before, _ = Panel(block, Guessing(problem), 3).answers(0)
    found, prices = Panel(block, ask, 3).answers(4, seed)
    assert (_worth(problem, found) >= _worth(problem, before) - 1e-9).all()
    assert (prices == 0.0).all()  # those of the first schedule
    assert [number for number, _ in ask.asked] == [0, 1, 2, 0, 1, 2, 0]
    full = block.full()
    for _, seen in ask.asked[:3]:
        np.testing.assert_array_equal(seen, full)
    for _, seen in ask.asked[3:]:
        assert (seen[full >= 0] == full[full >= 0]).all()
        assert ((seen >= 0) == (seen >= 0)[0]).all()  # rows of a block keep the same variables
    kept = ask.asked[3][1]
    assert ((kept == before) | (kept < 0) | (full >= 0)).all()


def test_a_share_of_the_variables_keeps_its_values_by_the_seed():
    problem, evidence = random_problem(3)
    block = problem.given(evidence)
    masks = []
    for seed in (0, 0, 1):
        ask = Guessing(problem)
        Panel(block, ask, 2).answers(40, seed)
        masks.append(np.array([seen[0] >= 0 for _, seen in ask.asked[2:]]))
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] != masks[2]).any()
    free = block.full()[0] < 0
    assert abs(masks[0][:, free].mean() - KEPT) < 0.1


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_and_one_schedule(rows):
    problem, evidence = random_problem(5)
    block = problem.given(evidence[:rows])
    found, prices = Panel(block, Guessing(problem), 1).answers()
    assert found.shape == (rows, problem.variables)
    assert prices.shape == (rows, 1)
    assert Panel(block, Guessing(problem), 1).suited() == [0]
    assert FOLLOWED > 0


def test_the_first_of_many_rows_tell_which_schedules_are_asked():
    problem, evidence = random_problem(7)
    block, count = problem.given(np.repeat(evidence[:1], 12, axis=0)), ASKED + 3
    panel = Panel(block, Guessing(problem), count, many=12, probed=5)
    few, ask = block.take(slice(0, 5)), Guessing(problem)
    every = [[moved(few, ask(few.full(), k)[0], 1)] for k in range(count)]
    chosen = panel.suited()
    assert chosen == complements([few], every, ASKED, 1)
    assert chosen[0] == 0
    assert len(set(chosen)) == ASKED
    few_rows = Panel(block.take(slice(0, 11)), Guessing(problem), count, many=12)
    assert few_rows.suited() == list(range(ASKED))


def test_answers_are_moved_mixed_and_traded():
    problem, evidence = random_problem(11)
    block, ask = problem.given(evidence), Guessing(problem)
    every = [moved(block, ask(block.full(), k)[0], 1) for k in range(2)]
    found, _ = Panel(block, Guessing(problem), 2).answers(0)
    np.testing.assert_array_equal(found, mixed(block, every))
