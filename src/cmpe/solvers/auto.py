"""`auto`: the cheapest method that proves the gap asked for, row by row.

The rule:
1. If elimination does not fit into memory, every row goes to MILP, from what `search` finds.
2. If a gap above 0 is asked for, `lagrangian` answers first. Rows whose certified gap is small
   enough are done.
3. The other rows go to `exact`, which hands on to MILP what it cannot prove.
`Solutions.method` says which of them answered each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmpe.bounds.lagrangian import MOST_BYTES, lane_bytes
from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.exact import ExactSolver
from cmpe.solvers.lagrangian import LagrangianSolver
from cmpe.solvers.rows import Running


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
        if self.gap == 0.0 or lane_bytes(problem) > MOST_BYTES:
            return exact.solve(problem, instances.evidence, time_limit=time_limit, seed=seed)
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
            raise Interrupted(quick.replaced(rest, stop.solutions), len(quick)) from None
        return quick.replaced(rest, more)
