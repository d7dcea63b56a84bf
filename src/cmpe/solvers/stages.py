"""Passing a batch from one engine to the next, and merging their results.

An incumbent or a bound is never lost on the way: not to a stage that finds less, not to Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Indices, Values
from cmpe.errors import Interrupted
from cmpe.problem import Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Engine, Limits
from cmpe.solvers.settings import SOLVERS


@dataclass(frozen=True)
class Stage:
    """An engine that continues with rows, the name it adds to theirs, and its share of time."""

    engine: Engine
    name: str
    share: float = 1.0


def continue_with(
    stage: Stage, instances: Instances, known: Solutions, limits: Limits
) -> Solutions:
    """What is `known`, with the rows that are not certified improved by another engine.

    The stage begins at the incumbents and has a share of the time that is left to the slowest row;
    progress counts all rows.
    """
    rest = unproved(known, limits)
    if not len(rest):
        return known
    part, before = known.take(rest), len(known) - len(rest)
    told = replace(
        _time_left(part, limits, stage.share),
        start=incumbents(part),
        progress=lambda done, _: limits.report(before + done, len(known)),
    )

    def joined(new: Solutions) -> Solutions:
        longer = np.char.add(part.method, f"+{stage.name}")
        names = np.where(new.seconds > 0, longer, part.method)
        return known.replaced(rest, merged(instances.problem, part, new, names.tolist()))

    try:
        return joined(stage.engine.answer(instances.take(rest), told))
    except Interrupted as stop:
        raise Interrupted(joined(stop.solutions), before + stop.finished) from None
    except KeyboardInterrupt:
        raise Interrupted(known, before) from None


def certified(known: Solutions, gap: float = 0.0) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows need no more work: proved, or with a gap of at most `gap` nats: (B,)."""
    if gap == 0.0:
        return known.proved
    with np.errstate(invalid="ignore"):
        return known.proved | (known.gap <= gap)


def unproved(known: Solutions, limits: Limits) -> Indices:
    """Rows that are not certified to within the gap and have time left."""
    done = certified(known, limits.gap)
    if limits.seconds is not None:
        done |= known.seconds >= limits.seconds
    return np.flatnonzero(~done)


def incumbents(known: Solutions) -> Values:
    """The feasible answers (B, n); -1 where there is none."""
    return np.where(known.feasible[:, np.newaxis], known.assignments, -1)


def _time_left(known: Solutions, limits: Limits, share: float) -> Limits:
    if limits.seconds is None:
        return limits
    left = share * (limits.seconds - float(known.seconds.max(initial=0.0)))
    return replace(limits, seconds=max(SOLVERS.least_stage, left))


def merged(
    problem: Problem, known: Solutions, new: Solutions, method: str | Sequence[str]
) -> Solutions:
    """The better answer and the lower bound of each row; their seconds are added."""
    infeasible = (known.status == Status.INFEASIBLE) | (new.status == Status.INFEASIBLE)
    none = (new.assignments < 0).any(axis=1)
    keep = none | (known.feasible & ~(new.feasible & (new.objective >= known.objective)))
    rows = np.where(keep[:, np.newaxis], known.assignments, new.assignments)
    answered = known.feasible | new.feasible
    rows[infeasible & ~answered] = -1
    # An answer outweighs a claim that there is none, which is then no bound either.
    bounds = [
        np.where(s.bound > -np.inf, s.bound, np.where(answered, np.inf, -np.inf))
        for s in (known, new)
    ]
    return Solutions.of(
        problem,
        rows,
        bound=np.minimum(*bounds),
        infeasible=infeasible,
        method=method,
        seconds=known.seconds + new.seconds,
        multipliers=np.where(np.isnan(new.multipliers), known.multipliers, new.multipliers),
    )
