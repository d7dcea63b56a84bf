"""Guesses of the gap that holds the k best answers of a row, from the rows before it.

The lists of all components give the number of assignments, feasible or not, whose loss is at most
G. Two averages over the rows so far predict the gap: the gaps themselves, and the logarithm of how
many assignments there were for each feasible one. The prediction that has missed by less is used.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.settings import RANKS
from cmpe.core.states import LOSS

# Averages over rows: the gap of the k-th answer; the logarithm of how many assignments lie within
# it for each of the k; and by how much either prediction misses the gap.
GAP, SURPLUS, GAP_ERROR, SURPLUS_ERROR = range(4)


@njit(inner=True, nogil=True)
def count_losses(space, active, walked, below):
    """below[b]: about how many assignments have a loss within (b + 1) / bins of `walked`."""
    values, lows, highs = space.states.values, space.walk.lows, space.walk.highs
    moved = np.zeros(RANKS.bins)
    below[:] = 0.0
    below[0] = 1.0
    for c in range(active):
        moved[:] = 0.0
        for i in range(lows[c], highs[c]):
            shift = int(values[i, LOSS] / walked * RANKS.bins + 0.5) if walked > 0.0 else 0
            for b in range(shift, RANKS.bins):
                moved[b] += below[b - shift]
        below[:] = moved
    for b in range(1, RANKS.bins):
        below[b] += below[b - 1]


@njit(inner=True, nogil=True, counted=False)
def gap_of(below, walked, wanted):
    """The gap within which so many assignments lie, beyond `walked` by the power of the last."""
    if below[RANKS.bins - 1] < wanted:
        last, middle = max(1.0, below[RANKS.bins - 1]), max(1.0, below[RANKS.bins // 2 - 1])
        power = np.log(last / middle) / np.log(2.0)
        more = (1.1 * wanted / last) ** (1.0 / max(power, 0.5))
        return walked * min(max(more, 1.1), 2.0)
    b = 0
    while below[b] < wanted:
        b += 1
    before = below[b - 1] if b > 0 else 0.0
    return walked * (b + (wanted - before) / (below[b] - before)) / RANKS.bins


@njit(inner=True, nogil=True, counted=False)
def number_within(below, walked, gap):
    """How many assignments lie within a gap."""
    place = gap / walked * RANKS.bins if walked > 0.0 else float(RANKS.bins)
    b = min(int(place), RANKS.bins - 1)
    before = below[b - 1] if b > 0 else 0.0
    return max(1.0, before + min(1.0, place - b) * (below[b] - before))


@njit(inner=True, nogil=True, counted=False)
def learn(guess, gap, below, walked, wanted):
    """Add a row whose k-th answer has this gap to the averages."""
    surplus = np.log(number_within(below, walked, gap) / wanted)
    if guess[GAP] == 0.0:
        guess[GAP], guess[SURPLUS] = gap, surplus
        return
    by_number = gap_of(below, walked, wanted * np.exp(guess[SURPLUS]))
    guess[GAP_ERROR] += RANKS.learning * (abs(guess[GAP] - gap) - guess[GAP_ERROR])
    guess[SURPLUS_ERROR] += RANKS.learning * (abs(by_number - gap) - guess[SURPLUS_ERROR])
    guess[GAP] += RANKS.learning * (gap - guess[GAP])
    guess[SURPLUS] += RANKS.learning * (surplus - guess[SURPLUS])


@njit(inner=True, nogil=True, counted=False)
def first_gap(guess, below, walked, wanted):
    """The first gap of a row: by the gaps of earlier rows, or by their numbers of assignments."""
    if guess[GAP] > 0.0 and guess[GAP_ERROR] < guess[SURPLUS_ERROR]:
        return guess[GAP] + RANKS.margin * guess[GAP_ERROR]
    by_number = gap_of(below, walked, wanted * np.exp(guess[SURPLUS]))
    return by_number + RANKS.margin * guess[SURPLUS_ERROR]
