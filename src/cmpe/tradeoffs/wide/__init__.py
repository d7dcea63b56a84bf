"""Fronts of wide rows: a certified band, refined where it is widest until the time is over.

Every question is an ordinary problem with a time limit of its own (`pricing`), and each answer
moves the band (`band`) for all limits, not for one: a multiplier gives a line above the whole
front and a point on it, which serves every higher limit; two points give those between them
(`relinking`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cmpe.problem import Instances
from cmpe.solvers.base import Limits
from cmpe.tradeoffs.points import TracedPoints
from cmpe.tradeoffs.wide.refinement import Refinement
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS


def wide_front(
    instances: Instances, over: int, window: tuple[float, float], limits: Limits
) -> list[TracedPoints]:
    """The points found and the certified band of every row."""
    if limits.seconds is None:
        limits = replace(limits, seconds=WIDE_FRONTS.seconds)
    out = []
    for row in range(len(instances)):
        *_, last = refine(instances.take(slice(row, row + 1)), over, window, limits)
        out.append(last)
        limits.report(row + 1, len(instances))
    return out


def refine(
    instances: Instances, over: int, window: tuple[float, float], limits: Limits
) -> Iterator[TracedPoints]:
    """What is known of one row's front after each question."""
    seconds = WIDE_FRONTS.seconds if limits.seconds is None else limits.seconds
    refinement = Refinement(instances, over, window, replace(limits, seconds=seconds))
    for _ in refinement.run():
        yield refinement.band.traced(window, refinement.spent)
