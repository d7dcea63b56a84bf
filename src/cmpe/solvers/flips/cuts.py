"""Cuts that make one neuron's rows ideal over a capped simplex.

A neuron with a phase s has a <= relu(value + slopes t) over 0 <= t <= caps, sum t <= radius. Its
points are mixtures: a part t1 of t belongs to s = 1, where a = value s + slopes t1, the rest to
s = 0, where a = 0, and each part lies in its share of the simplex:

    a <= value s + max slopes t1   subject to   max(0, t - caps (1 - s)) <= t1 <= min(t, caps s),
                                                sum t - radius (1 - s) <= sum t1 <= radius s.

The maximum is a fractional knapsack with one multiplier. With it fixed, each move takes one of its
two limits, and the right-hand side becomes linear in (t, s): a valid row, the tightest at the
point that is to be cut off. (Anderson, Huchette, Ma, Tjandraatmadja & Vielma 2020 give these rows
for a box; the radius is what makes them close the gap here.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from cmpe.arrays import Floats
from cmpe.solvers.flips.program import FlipProgram

TOLERANCE = 1e-5  # of a row that counts as violated


@dataclass(frozen=True)
class Cuts:
    """Rows @ columns <= upper."""

    rows: csr_array
    upper: Floats

    def __len__(self) -> int:
        return len(self.upper)


def violated_cuts(flip: FlipProgram, columns: Floats, inner: Floats) -> Cuts:
    """A row for every neuron with a phase that `columns` break, where there is one.

    It is the tightest at `inner`, a point on the way to `columns`, which cuts deeper; or, if that
    one is not broken, the tightest at `columns` itself.
    """
    phases = flip.phases
    t, s = _parts(flip, columns)
    left = columns[phases.activation]
    slopes, on_s, constant = _right_hand_sides(flip, t, s)
    deep, deep_on_s, deep_constant = _right_hand_sides(flip, *_parts(flip, inner))
    least = left - TOLERANCE * (1.0 + np.abs(left))
    deeper = deep @ t + deep_on_s * s + deep_constant < least
    slopes = np.where(deeper[:, np.newaxis], deep, slopes)
    on_s, constant = np.where(deeper, deep_on_s, on_s), np.where(deeper, deep_constant, constant)
    found = np.flatnonzero(slopes @ t + on_s * s + constant < least)
    dense = np.zeros((len(found), len(columns)))
    dense[:, : len(t)] = -slopes[found]
    dense[np.arange(len(found)), phases.activation[found]] = 1.0
    dense[np.arange(len(found)), phases.phase[found]] = -on_s[found]
    return Cuts(csr_array(dense), constant[found])


def _parts(flip: FlipProgram, columns: Floats) -> tuple[Floats, Floats]:
    """The moves and the phases of a point."""
    return flip.moves_of(columns), np.clip(columns[flip.phases.phase], 0.0, 1.0)


def _right_hand_sides(flip: FlipProgram, t: Floats, s: Floats) -> tuple[Floats, Floats, Floats]:
    """a <= slopes t + on_s s + constant for every neuron: (J, M), (J,), (J,)."""
    weight, caps, radius = flip.phases.slopes, flip.region.caps, flip.region.radius
    share = s[:, np.newaxis]
    price = _multipliers(weight, t, s, caps, radius)
    above = np.maximum(price, 0.0) * radius
    below = np.minimum(price, 0.0)
    extra = weight - price[:, np.newaxis]
    capped = (extra > 0) & (t > caps * share)
    floored = (extra < 0) & (t > caps * (1.0 - share))
    slopes = np.where(((extra > 0) & ~capped) | floored, extra, 0.0) + below[:, np.newaxis]
    saturated = (np.where(capped, extra, 0.0) * caps).sum(axis=1)
    held = (np.where(floored, extra, 0.0) * caps).sum(axis=1)
    on_s = flip.phases.value + above + below * radius + saturated + held
    return slopes, on_s, -held - below * radius


def _multipliers(weight: Floats, t: Floats, s: Floats, caps: Floats, radius: float) -> Floats:
    """The price of the radius in the knapsack of each neuron: (J,)."""
    share = s[:, np.newaxis]
    least = np.maximum(0.0, t - caps * (1.0 - share))
    most = np.minimum(t, caps * share)
    order = np.argsort(-weight, axis=1)
    ranked = np.take_along_axis(weight, order, axis=1)
    gap = np.take_along_axis(np.maximum(most - least, 0.0), order, axis=1)
    base = least.sum(axis=1)
    total = base[:, np.newaxis] + np.cumsum(gap, axis=1)
    free = base + np.where(ranked > 0, gap, 0.0).sum(axis=1)
    wanted = np.clip(free, t.sum() - radius * (1.0 - s), radius * s)
    last = np.minimum((total < wanted[:, np.newaxis] - 1e-12).sum(axis=1), weight.shape[1] - 1)
    price = ranked[np.arange(len(s)), last]
    return np.asarray(np.where(np.abs(wanted - free) < 1e-12, 0.0, price))
