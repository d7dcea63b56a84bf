"""`auto`: the cheapest method that proves the gap asked for, row by row.

The rule:
1. Without a gap, every row goes to `exact`, whatever its width.
2. If a gap above 0 is asked for and elimination is cheap, `lagrangian` answers first. Rows whose
   certified gap is small enough are done; the others go to `exact`.
3. If a gap above 0 is asked for and elimination is not cheap (`exact.too_wide`), `search` answers
   and the splitting bound certifies it. Rows whose gap is small enough are done; the others go
   through what `exact` does with wide rows: `reduction`, which stops at the gap, then MILP.
Of every row the best answer and the lowest bound of all methods are kept. `Solutions.method` says
which of them ran.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmpe.errors import Interrupted, MethodError, TooLarge
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.exact import ExactSolver, better, too_wide
from cmpe.solvers.lagrangian import LagrangianSolver

STEPS = 300  # of the splitting bound of a wide row
STEP_SECONDS = 0.1  # its split must be small enough to do 60 of them in about this time
BOUND_SHARE = 0.2  # of the time limit, for them


@dataclass(frozen=True)
class AutoSolver:
    """Chooses by the rule above; `gap` is the largest certified gap wanted, in nats."""

    running: Running = Running()
    gap: float = 0.0

    def __post_init__(self) -> None:
        if not self.gap >= 0:
            raise MethodError(f"a gap must be at least 0, found {self.gap}")

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """One answer per row, each by the cheapest method that is good enough."""
        instances = problem.given(evidence)
        exact = ExactSolver(self.running)
        if self.gap == 0.0:
            return exact.solve(problem, instances.evidence, time_limit=time_limit, seed=seed)
        limits = Limits(time_limit, self.running.threads, seed)
        if too_wide(problem, limits):
            from cmpe.solvers.reduction import rough

            known = _certified(instances, rough(instances, limits, self.running), limits)
            return exact.prove(instances, known, limits, self.gap)
        quick = LagrangianSolver(self.running).solve(problem, instances.evidence)
        rest = np.flatnonzero(~self._good_enough(quick))
        if not len(rest):
            return quick
        return self._finish(instances, quick, rest, time_limit, seed)

    def _good_enough(self, quick: Solutions) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return (quick.gap <= self.gap) | np.isin(
                quick.status, (Status.OPTIMAL, Status.INFEASIBLE)
            )

    def _finish(
        self,
        instances: Instances,
        quick: Solutions,
        rest: np.ndarray,
        time_limit: float | None,
        seed: int,
    ) -> Solutions:
        start = np.where(quick.feasible[rest, np.newaxis], quick.assignments[rest], -1)
        solver = ExactSolver(replace(self.running, start=start, progress=None))
        try:
            more = solver.solve(
                instances.problem, instances.evidence[rest], time_limit=time_limit, seed=seed
            )
        except Interrupted as stop:
            finished = len(quick) - len(rest) + stop.finished
            raise Interrupted(_joined(instances, quick, rest, stop.solutions), finished) from None
        return _joined(instances, quick, rest, more)


def _certified(instances: Instances, known: Solutions, limits: Limits) -> Solutions:
    """What is known of wide rows, with the splitting bound."""
    from cmpe.bounds.base import Work
    from cmpe.bounds.splitting import Splitting, by_size

    seconds = None if limits.seconds is None else BOUND_SHARE * limits.seconds
    try:
        split = by_size(instances.conditioning, Work(STEP_SECONDS, seed=limits.seed))
        work = Work(seconds, STEPS, limits.threads, limits.seed)
        found = Splitting(split).upper_bound(instances, work)
    except TooLarge:  # no split is small enough
        return known
    except KeyboardInterrupt:
        raise Interrupted(known, 0) from None
    bound = Solutions.of(
        instances.problem,
        np.full_like(known.assignments, -1),
        bound=found.upper,
        infeasible=found.infeasible,
        seconds=found.seconds,
    )
    return better(instances.problem, known, bound, "search+splitting")


def _joined(instances: Instances, quick: Solutions, rest: np.ndarray, more: Solutions) -> Solutions:
    """The better of both answers and bounds of the rows `rest`."""
    part = quick.take(rest)
    reached = more.seconds > 0
    names = np.where(reached, more.method, part.method).tolist()
    return quick.replaced(rest, better(instances.problem, part, more, names))
