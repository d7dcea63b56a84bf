"""Guesses of the budgets that a front needs, from the rows before it.

Rows of one structure have fronts of about the same number of points, so that at the same place of
the hull they need about the same budgets. A guess that is too low costs another round, and one that
is too high more sums; neither changes the front.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.settings import FRONTS

MEAN, DEVIATION = range(2)  # rows of a guess


@njit(cache=True, nogil=True, counted=False)
def _nearest(number, count, others):
    """Which of `others` things are where number `number` of `count` is: (first, last)."""
    place = number * (others - 1) / max(1, count - 1)
    return int(np.floor(place)), min(others - 1, int(np.ceil(place)))


@njit(inner=True, nogil=True, counted=False)
def guess_budgets(guess, weight, dear, budget):
    """Budgets by `guess` (mean, deviation; places), no more than what the first corners cost."""
    for k in range(len(weight)):
        if weight[k] > 0.0:
            first, last = _nearest(k, len(weight), FRONTS.places)
            wanted = 0.0
            for place in range(first, last + 1):
                wanted = max(wanted, guess[MEAN, place] + FRONTS.margin * guess[DEVIATION, place])
            budget[k] = min(wanted, dear[k])


@njit(inner=True, nogil=True, counted=False)
def learn_budgets(guess, need):
    """`need` (K,) is what the corners of a complete front cost."""
    is_first = guess[MEAN, 0] < 0.0
    for place in range(FRONTS.places):
        first, last = _nearest(place, FRONTS.places, len(need))
        needed = 0.0
        for k in range(first, last + 1):
            needed = max(needed, need[k])
        if is_first:
            guess[MEAN, place], guess[DEVIATION, place] = needed, FRONTS.spread * needed
        else:
            missed = needed - guess[MEAN, place]
            guess[MEAN, place] += FRONTS.learning * missed
            guess[DEVIATION, place] += FRONTS.learning * (abs(missed) - guess[DEVIATION, place])
