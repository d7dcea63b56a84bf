"""How `exact` closes in on one row, round by round."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler import timing
from cmpe.core.settings import EXACT
from cmpe.problem import Evidence, Problem
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.exact import Elimination, eliminate, make_results, too_wide
from cmpe.solvers.incumbent import TraceEvent
from cmpe.solvers.wide import Wide

__all__ = ["TraceEvent", "trace"]


def trace(
    problem: Problem, evidence: Evidence | None = None, *, time_limit: float = EXACT.traced_seconds
) -> list[TraceEvent]:
    """How `exact` closes in on the first row.

    One event per round of its search, each a run of its own that stops after that many rounds, so
    its time is measured, not guessed. Of a wide row: one event per turn of the race, for at most
    `time_limit` seconds; `by` says whose turn it was, states are turns.
    """
    first, limits = problem.given(evidence).take(slice(0, 1)), Limits(seconds=time_limit)
    if too_wide(problem, limits):
        return list(Wide().watch(first, limits))
    eliminate(first, 0)  # loads compiled code before anything is timed
    events: list[TraceEvent] = []
    for rounds in range(EXACT.rounds + 1):
        results = make_results(first)
        begin = timing.now()
        Elimination(first, results, rounds).run(Running())
        spent = timing.now() - begin
        found = np.isfinite(results.gap[0])
        values = problem.objective.value(results.assignments) if found else [np.nan]
        events.append(
            TraceEvent(spent, float(values[0]), float(results.bound[0]), int(results.states[0]))
        )
        if results.bound[0] == -np.inf or (found and events[-1].bound - values[0] < 1e-6):
            break
    return events
