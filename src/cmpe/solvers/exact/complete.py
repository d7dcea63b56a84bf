"""Method `exact` as a whole: elimination where it fits, other methods for the other rows.

Rows that the engine cannot prove within its memory go to MILP with their incumbent and bound.
Rows too wide to eliminate, or wide enough for it to be slow (`too_wide`), go to the race
(`solvers.wide`) where there is a time limit. Without one they go through its presolve, `search`,
then `reduction`, and what that leaves open to MILP. docs/wide.md explains it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cmpe.bounds.lagrangian import MOST_BYTES, lane_bytes
from cmpe.core.compiler.notices import asked_for
from cmpe.core.settings import EXACT
from cmpe.problem import Instances
from cmpe.problem.starts import checked
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.exact import eliminate, rounds_within, too_wide
from cmpe.solvers.milp import Milp
from cmpe.solvers.reduction import Reduction, first_answers
from cmpe.solvers.stages import Stage, certified, continue_with, merged
from cmpe.solvers.wide import Wide


@dataclass(frozen=True)
class _Eliminated:
    """Elimination as a stage."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        return eliminate(instances, EXACT.rounds, limits)


@dataclass(frozen=True)
class _FirstAnswers:
    """A short search as a stage; it reports no progress, for nothing is proved by it."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        return first_answers(instances, limits)


BY_MILP = Stage(Milp("highs"), "milp")


@dataclass(frozen=True)
class Exact:
    """Proves the optimum, or infeasibility, of every row."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved answers, or the incumbent and bound at the time limit (seconds a row)."""
        problem = instances.problem
        if too_wide(problem, limits):
            return answer_wide(instances, limits)
        known = eliminate(instances, rounds_within(problem, limits), limits)
        if limits.start is not None and not certified(known).all():
            given = Solutions.of(problem, checked(instances, limits.start))
            known = merged(problem, known, given, known.method.tolist())
        return continue_with(BY_MILP, instances, known, limits)


@asked_for("wide", more=True)
def answer_wide(instances: Instances, limits: Limits) -> Solutions:
    """Wide rows: with a time limit by the race, else by what proves them in the end."""
    if limits.seconds is not None:
        return Wide().answer(instances, limits)
    known = Wide(briefly=True).answer(instances, replace(limits, progress=None))
    if certified(known, limits.gap).all():
        return known
    most = min(MOST_BYTES, limits.bytes)
    if not instances.problem.constraints and lane_bytes(instances.problem) <= most:
        by_elimination = Stage(_Eliminated(), "exact")
        return continue_with(by_elimination, instances, known, limits)
    known = continue_with(Stage(_FirstAnswers(), "search"), instances, known, limits)
    return prove_wide(instances, known, limits)


def prove_wide(instances: Instances, known: Solutions, limits: Limits) -> Solutions:
    """Of wide rows: prove what is `known`, or better, to within the gap."""
    nodes = EXACT.reduction_nodes if limits.seconds is None else None
    is_short = limits.seconds is not None and limits.seconds < EXACT.short_seconds
    share = 1.0 if is_short else EXACT.reduction_share
    reduced = continue_with(Stage(Reduction(nodes), "reduction", share), instances, known, limits)
    return continue_with(BY_MILP, instances, reduced, limits)
