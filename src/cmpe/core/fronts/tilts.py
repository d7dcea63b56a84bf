"""Further multipliers that prune the lists of the k best.

At mu* many assignments may lose nothing, far from the limit on either side. Whatever is feasible
with h >= H has (h - s mu* . t) >= H - s mu* . q for every s >= 0: two more eliminations, at
s = 1 -+ TILT, say what a partial assignment can reach there.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.buckets import AXIS_COUNT, MESSAGE
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import load_priced
from cmpe.core.elimination import eliminate_max
from cmpe.core.proof import find_losses

TILT = 0.4  # of mu


@njit(inner=True, nogil=True)
def tilt(plan, block, other, losses, tilts):
    """What `list_components` wants of the multipliers (1 -+ TILT) mu; `rise` is that of the bound.

    `other` are values, messages and sums there, `losses` those at mu once more.
    """
    h, t, values, mu = block[0], block[1], block[2], block[7]
    own, carried, total, carry, base = other
    loss, reach, second = losses
    rise, drift, away = tilts
    lanes, messages = h.shape[1], plan.total - plan.entries
    for lane in range(lanes):
        base[lane] = values[0, lane]
    for k in range(len(plan.buckets)):
        if plan.buckets[k, AXIS_COUNT] == 0:
            for lane in range(lanes):
                base[lane] += values[plan.buckets[k, MESSAGE], lane]
    for side in range(2):
        load_priced(h, t, (1.0 + (2 * side - 1) * TILT) * mu, own)
        eliminate_max(plan, own, carried, total, carry)
        find_losses(plan, own, loss, reach, second)
        for lane in range(lanes):
            rise[side, lane] = total[lane] - base[lane]
        for e in range(messages):
            for lane in range(lanes):
                least = values[plan.entries + e, lane]
                moved = own[plan.entries + e, lane] - least if least > -np.inf else 0.0
                drift[side, e, lane] = moved
                away[side, e, lane] = reach[e, lane] + moved


@njit(inner=True, nogil=True)
def tilt_room(plan, lanes):
    messages, components = plan.total - plan.entries, len(plan.component_start) - 1
    other = (
        np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes)), np.zeros(lanes),
        np.zeros(lanes), np.zeros(lanes),
    )  # fmt: skip
    losses = (
        np.zeros((plan.pairs, lanes)), np.zeros((messages, lanes)), np.zeros((components, lanes))
    )  # fmt: skip
    tilts = (
        np.zeros((2, lanes)), np.zeros((2, messages, lanes)), np.zeros((2, messages, lanes))
    )  # fmt: skip
    return other, losses, tilts
