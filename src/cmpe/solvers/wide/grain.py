"""The grain of an objective: where all its values are multiples of one number, but for a constant.

Numbers of violated soft constraints, integer costs and the like are so. An assignment that is
better than another is then better by a grain at least, and a bound closer than that is a proof.
Tables hold rounded numbers, so that multiples are exact up to a residual r_f in table f: values of
two assignments differ by a multiple of the grain up to 2 sum_f r_f, which must be far less than
the tolerance of optimality.
"""

from __future__ import annotations

import numpy as np

from cmpe.arrays import Floats, Integers

LEAST = 1e-5  # nats: smaller grains are of no use
FEW = 256  # different numbers: more of them have no common divisor
SAMPLE = 10_000  # entries that a divisor is taken from; it must suit all of them
SLACK = 1e-7  # nats: what residuals may add up to
CLOSE = 1e-3  # of the grain: a smaller remainder of Euclid's algorithm is rounding


def grain_of(entries: Floats, offsets: Integers) -> float:
    """By how much a better value is better at least, of tables (E,) that begin at `offsets`.

    0 where nothing of the kind is known.
    """
    first = min(len(offsets) - 1, int(np.searchsorted(offsets, SAMPLE)))
    distinct = _distinct(_losses(entries[: offsets[first]], offsets[: first + 1]))
    divisor = _common_divisor(distinct) if 0 < len(distinct) <= FEW else 0.0
    if divisor < LEAST:
        return 0.0
    losses = _losses(entries, offsets)
    counts = np.round(losses / divisor)
    divisor = float(losses @ counts / (counts @ counts))
    residuals = np.maximum.reduceat(np.abs(losses - divisor * counts), offsets[:-1])
    slack = 2.0 * float(residuals.sum()) + 1e-9 * float(losses.max())
    return divisor - slack if slack <= SLACK else 0.0


def _losses(entries: Floats, offsets: Integers) -> Floats:
    """How far each entry is below the highest of its table; 0 where that is no limit at all."""
    highest = np.maximum.reduceat(entries, offsets[:-1])
    table = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    with np.errstate(invalid="ignore"):
        losses: Floats = highest[table] - entries
    losses[~np.isfinite(losses)] = 0.0
    return losses


def _distinct(losses: Floats) -> Floats:
    """The different ones above 0, those that rounding makes differ taken together."""
    found: Floats = np.unique(np.round(losses, 12))
    return found[found > LEAST]


def _common_divisor(numbers: Floats) -> float:
    """By Euclid's algorithm; remainders that are close to a multiple count as 0."""
    divisor = float(numbers[0])
    for number in numbers[1:].tolist():
        small, large = divisor, number
        while small > LEAST:
            rest = large - small * round(large / small)
            if abs(rest) <= CLOSE * divisor:
                break
            small, large = abs(rest), small
        divisor = small
        if divisor <= LEAST:
            return 0.0
    return divisor
