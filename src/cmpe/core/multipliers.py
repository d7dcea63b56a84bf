"""The size of a subgradient step of multipliers: Polyak's step with an adaptive target.

A step from a point of value D has the length (D - best + aim) / |subgradient|^2. The aim shrinks
when the best value has not fallen enough for some steps, and may grow when it falls a lot (Polyak
1969; Held, Wolfe and Crowder 1974).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit

BEST, AIM, STALE = range(3)  # places of a level: the lowest value, the aim, steps without success


class StepRule(NamedTuple):
    """How an aim begins and changes.

    A step succeeds if it falls below the best value by more than `enough` aims and `least` of
    1 + |D|.
    """

    first: float  # the first aim, as a share of 1 + |D|
    enough: float
    least: float
    patience: float  # steps without success after which the aim shrinks
    cut: float  # what it is multiplied by then
    much: float  # a fall of more than so many aims makes it grow
    growth: float  # by this factor (1: it never grows)


# They were chosen by hand on the paper's models. `benchmarks.wide_bounds` and the bounds of
# `benchmarks.checkouts` measure what a change does.
DUAL_RULE = StepRule(0.05, 0.0, 1e-9, 4.0, 0.5, 1.0, 1.0)
REFERENCE_RULE = StepRule(0.05, 0.0, 0.0, 3.0, 0.5, 1.0, 1.0)
MESSAGE_RULE = StepRule(0.01, 0.1, 0.0, 5.0, 0.6, 1.0, 1.0)
COPY_RULE = StepRule(0.02, 0.05, 0.0, 10.0, 0.6, 0.3, 1.5)


@njit(inner=True, nogil=True, counted=False)
def fall(bound, level, rule):
    """How far the step from a point of value `bound` should try to fall; adapts the aim.

    The caller keeps level[BEST], which is inf before the first step.
    """
    best, scale = level[BEST], 1.0 + abs(bound)
    if best == np.inf:
        level[AIM] = rule.first * scale
    aim = level[AIM]
    if bound < best - rule.enough * aim - rule.least * scale:
        level[STALE] = 0.0
        if bound < best - rule.much * aim:
            level[AIM] = rule.growth * aim
    else:
        level[STALE] += 1.0
    if level[STALE] >= rule.patience:
        level[STALE] = 0.0
        level[AIM] *= rule.cut
    return bound - min(bound, best) + level[AIM]
