"""`lagrangian`: the dual's bound and its feasible extreme answer, improved by local search."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.problem import Evidence, Problem
from cmpe.solution import Solutions
from cmpe.solvers.local_search import improve
from cmpe.solvers.rows import Limits, Running


@dataclass(frozen=True)
class LagrangianSolver:
    """Fast answers with a certified gap: no search, so no proof of optimality is promised."""

    running: Running = Running()

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """A feasible answer and a bound for every row; the time limit is not needed."""
        Limits(time_limit)
        instances = problem.given(evidence)
        begin = time.perf_counter()
        dual = lagrangian_dual(instances, threads=self.running.threads)
        # Rows without a feasible extreme answer (several constraints) are repaired from the other.
        missing = (dual.feasible < 0).any(axis=1, keepdims=True)
        answers = improve(instances, np.where(missing, dual.violating, dual.feasible))
        answers[dual.infeasible] = -1
        spent = (time.perf_counter() - begin) / max(1, len(instances))
        return Solutions.of(
            problem,
            answers,
            bound=dual.bound,
            infeasible=dual.infeasible,
            method="lagrangian",
            seconds=spent,
        )
