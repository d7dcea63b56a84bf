"""How far to look for the k best, and the budgets of fronts, against plain Python."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts import counting, guesses
from cmpe.core.fronts.counting import GAP, GAP_ERROR
from cmpe.core.fronts.settings import FRONTS, RANKS


@njit(cache=False)
def gap_of(below, walked, wanted):
    return counting.gap_of(below, walked, wanted)


@njit(cache=False)
def number_within(below, walked, gap):
    return counting.number_within(below, walked, gap)


@njit(cache=False)
def learn(guess, gap, below, walked, wanted):
    counting.learn(guess, gap, below, walked, wanted)
    return counting.first_gap(guess, below, walked, wanted)


@njit(cache=False)
def learn_budgets(guess, need, weight, dear, budget):
    guesses.learn_budgets(guess, need)
    guesses.guess_budgets(guess, weight, dear, budget)


def test_numbers_and_gaps_are_inverse():
    below = np.arange(1.0, RANKS.bins + 1) * 10
    for gap in (0.3, 1.0, 2.5):
        number = number_within(below, 4.0, gap)
        assert abs(gap_of(below, 4.0, number) - gap) <= 4.0 / RANKS.bins
    assert gap_of(below, 4.0, 10 * RANKS.bins * 2) > 4.0


def test_gaps_are_learned():
    below, guess = np.arange(1.0, RANKS.bins + 1) * 10, np.zeros(4)
    assert abs(learn(guess, 2.0, below, 4.0, 100) - 2.0) <= 0.2
    for _ in range(60):
        first = learn(guess, 1.0, below, 4.0, 100)
    assert abs(guess[GAP] - 1.0) < 1e-4
    assert guess[GAP_ERROR] < 1e-3
    assert abs(first - 1.0) < 0.1


def test_budgets_are_those_of_rows_before():
    guess = np.full((2, guesses.FRONTS.places), -1.0)
    weight, budget = np.array([1.0, 1.0, 1.0, 0.0]), np.full(4, 9.0)
    need = np.array([1.0, 2.0, 3.0, 4.0])
    learn_budgets(guess, need, weight, np.array([np.inf, 2.1, np.inf, np.inf]), budget)
    wanted = 1.0 + FRONTS.margin * FRONTS.spread
    assert budget[0] == wanted
    assert budget[1] == 2.1
    assert budget[2] >= 3.0
    assert budget[3] == 9.0
