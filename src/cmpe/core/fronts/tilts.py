"""Further multipliers that prune the lists of the k best.

At mu* many assignments may lose nothing, far from the limit on either side. Whatever is feasible
with h >= H has (h - s mu* . t) >= H - s mu* . q for every s >= 0: two more eliminations, at
s = 1 -+ tilt, bound what a partial assignment can reach there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats
from cmpe.core.buckets import AXIS_COUNT, MESSAGE
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import load_priced
from cmpe.core.elimination import eliminate_max
from cmpe.core.fronts.settings import RANKS
from cmpe.core.proof import find_losses


class TiltBlock(NamedTuple):
    """A block of rows at (1 -+ tilt) mu: first at the lower multiplier, then at the higher one."""

    rise: Floats  # (2, L) by how much W = max of h - mu t is higher there
    drift: Floats  # (2, messages, L) by how much each message is higher there
    away: Floats  # (2, messages, L) that and the least loss that reaches the entry there
    values: Floats  # (total, L) the rest is for one of them at a time
    carried: Floats  # (total, L)
    total: Floats  # (L,)
    carry: Floats  # (L,)
    base: Floats  # (L,)
    losses: Floats  # (pairs, L)
    reach: Floats  # (messages, L)
    second: Floats  # (components, L)


@njit(inner=True, nogil=True)
def make_tilts(plan, lanes):
    """Room for a block."""
    messages, components = plan.total - plan.entries, len(plan.component_start) - 1
    return TiltBlock(
        np.zeros((2, lanes)),
        np.zeros((2, messages, lanes)),
        np.zeros((2, messages, lanes)),
        np.zeros((plan.total, lanes)),
        np.zeros((plan.total, lanes)),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros((plan.pairs, lanes)),
        np.zeros((messages, lanes)),
        np.zeros((components, lanes)),
    )


@njit(inner=True, nogil=True)
def tilt(plan, block, tilts):
    """Fill in what the messages and losses of a block are at (1 -+ tilt) mu."""
    values, base, rise = tilts.values, tilts.base, tilts.rise
    lanes, messages = block.h.shape[1], plan.total - plan.entries
    for lane in range(lanes):
        base[lane] = block.values[0, lane]
    for k in range(len(plan.buckets)):
        if plan.buckets[k, AXIS_COUNT] == 0:
            for lane in range(lanes):
                base[lane] += block.values[plan.buckets[k, MESSAGE], lane]
    for side in range(2):
        load_priced(block.h, block.t, (1.0 + (2 * side - 1) * RANKS.tilt) * block.mu, values)
        eliminate_max(plan, values, tilts.carried, tilts.total, tilts.carry)
        find_losses(plan, values, tilts.losses, tilts.reach, tilts.second)
        for lane in range(lanes):
            rise[side, lane] = tilts.total[lane] - base[lane]
        for e in range(messages):
            for lane in range(lanes):
                least = block.values[plan.entries + e, lane]
                moved = values[plan.entries + e, lane] - least if least > -np.inf else 0.0
                tilts.drift[side, e, lane] = moved
                tilts.away[side, e, lane] = tilts.reach[e, lane] + moved
