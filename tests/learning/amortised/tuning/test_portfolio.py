"""Schedules are chosen by what they add to the answers that there are."""

from __future__ import annotations

import numpy as np

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.learning.amortised.tuning.evolution import Evolution
from cmpe.learning.amortised.tuning.portfolio import DRAWN, LEANS, WIDER, candidates, complements
from cmpe.learning.amortised.tuning.schedules import LEAN, NUMBERS


def _alone(values):
    """A variable of two values for each number, which value 1 gains."""
    cards = (2,) * len(values)
    pairs = enumerate(values)
    return LogLinearModel(cards, tuple(Factor((v,), np.array([0.0, x])) for v, x in pairs))


def _in_pairs(values):
    """Two variables for each number, which both together gain; no single move does."""
    cards = (2,) * (2 * len(values))
    tables = enumerate(np.array([[0.0, -1.0], [-1.0, x]]) for x in values)
    return LogLinearModel(cards, tuple(Factor((2 * k, 2 * k + 1), table) for k, table in tables))


def _rows(*rows):
    return [np.array([row], dtype=np.int32) for row in rows]


def _asked(problem):
    return [problem.given(np.zeros((1, 0), dtype=np.int32))]


def _chosen(problem, answers, count):
    return complements(_asked(problem), [[row] for row in answers], count, threads=1)


def test_candidates_begin_with_the_tuned_one():
    evolution = Evolution.around(np.arange(NUMBERS, dtype=float), 0.1)
    kept = np.ones((3, NUMBERS))
    found = candidates(evolution, kept, np.random.default_rng(0))
    assert found.shape == (1 + 3 + len(LEANS) + DRAWN * len(WIDER), NUMBERS)
    np.testing.assert_array_equal(found[0], evolution.mean)
    np.testing.assert_array_equal(found[1:4], kept)
    leaning = found[4 : 4 + len(LEANS)] - evolution.mean
    np.testing.assert_allclose(leaning[:, LEAN], LEANS)
    assert np.count_nonzero(leaning) == len(LEANS)
    narrow, wide = np.split(found[4 + len(LEANS) :] - evolution.mean, 2)
    assert 0.15 < narrow.std() < 0.25
    assert 0.3 < wide.std() < 0.5


def test_what_adds_most_is_chosen_not_what_is_best_by_itself():
    problem = Problem(_in_pairs([4.0, 3.0, 2.0, 1.0]))
    answers = _rows([1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0])
    answers = [np.repeat(row, 2, axis=1) for row in answers]
    assert _chosen(problem, answers, 2) == [0, 3]  # 4 + 5, though 1 is worth more than 3
    assert _chosen(problem, answers, 3) == [0, 3, 2]
    assert _chosen(problem, answers, 1) == [0]
    assert sorted(_chosen(problem, answers, 9)) == [0, 1, 2, 3]


def test_answers_that_are_feasible_come_before_others():
    problem = Problem(_alone([4.0, 3.0]), (Constraint(_alone([1.0, 1.0]), 1.0),))
    answers = _rows([1, 1], [1, 1], [0, 1])
    assert _chosen(problem, answers, 2) == [0, 2]
