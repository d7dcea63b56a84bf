"""How far to look for the k best: how many assignments lie within a gap, and what rows taught.

The lists of all components say how many assignments, feasible or not, have a loss of at most G. How
many of them it takes to have k feasible ones is learned from row to row, and so is the gap itself;
whichever missed by less is the next guess.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.states import LOSS

BINS = 64  # of losses
LEARNING = 0.2
MARGIN = 1.0  # of what a guess misses by: added to it


@njit(inner=True, nogil=True)
def counted(lists, active, walked, below):
    """below[b]: about how many assignments have a loss within (b + 1) / BINS of `walked`."""
    states, lows, highs = lists[0], lists[8], lists[9]
    moved = np.zeros(BINS)
    below[:] = 0.0
    below[0] = 1.0
    for c in range(active):
        moved[:] = 0.0
        for i in range(lows[c], highs[c]):
            shift = int(states[i, LOSS] / walked * BINS + 0.5) if walked > 0.0 else 0
            for b in range(shift, BINS):
                moved[b] += below[b - shift]
        below[:] = moved
    for b in range(1, BINS):
        below[b] += below[b - 1]


@njit(inner=True, nogil=True)
def gap_of(below, walked, wanted):
    """The gap within which so many assignments lie, beyond `walked` by the power of the last."""
    if below[BINS - 1] < wanted:
        last, middle = max(1.0, below[BINS - 1]), max(1.0, below[BINS // 2 - 1])
        power = np.log(last / middle) / np.log(2.0)
        more = (1.1 * wanted / last) ** (1.0 / max(power, 0.5))
        return walked * min(max(more, 1.1), 2.0)
    b = 0
    while below[b] < wanted:
        b += 1
    before = below[b - 1] if b > 0 else 0.0
    return walked * (b + (wanted - before) / (below[b] - before)) / BINS


@njit(inner=True, nogil=True)
def number_within(below, walked, gap):
    """How many assignments lie within a gap."""
    place = gap / walked * BINS if walked > 0.0 else float(BINS)
    b = min(int(place), BINS - 1)
    before = below[b - 1] if b > 0 else 0.0
    return max(1.0, before + min(1.0, place - b) * (below[b] - before))


@njit(inner=True, nogil=True)
def learn(guess, gap, below, walked, wanted):
    """`guess`: the gap of the last answer wanted; how many lie within it for each wanted one, as a
    logarithm; and by how much either missed the gap.
    """
    surplus = np.log(number_within(below, walked, gap) / wanted)
    if guess[0] == 0.0:
        guess[0], guess[1] = gap, surplus
        return
    by_number = gap_of(below, walked, wanted * np.exp(guess[1]))
    guess[2] += LEARNING * (abs(guess[0] - gap) - guess[2])
    guess[3] += LEARNING * (abs(by_number - gap) - guess[3])
    guess[0] += LEARNING * (gap - guess[0])
    guess[1] += LEARNING * (surplus - guess[1])


@njit(inner=True, nogil=True)
def first_gap(guess, below, walked, wanted):
    """Where to look first: by the gap of rows before, or by what lay within it."""
    if guess[0] > 0.0 and guess[2] < guess[3]:
        return guess[0] + MARGIN * guess[2]
    return gap_of(below, walked, wanted * np.exp(guess[1])) + MARGIN * guess[3]
