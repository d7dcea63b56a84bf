"""`lagrangian`: the dual's bound and its feasible extreme answer, improved by local search.

The certified gap is then the duality gap plus the answer's regret. Where that is more than
LOOSE of f, a few rounds of `exact`'s search lower the bound by what they rule out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.exact import ExactSolver, better
from cmpe.solvers.local import improve

METHOD = "lagrangian"
LOOSE = 0.005  # of f = C - h
ROUNDS = 3


@dataclass(frozen=True)
class LagrangianSolver:
    """Fast answers with a certified gap; no proof of optimality is promised."""

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
        quick = Solutions.of(
            problem,
            answers,
            bound=dual.bound,
            infeasible=dual.infeasible,
            method=METHOD,
            seconds=spent,
        )
        return self._tightened(instances, quick)

    def _tightened(self, instances: Instances, quick: Solutions) -> Solutions:
        problem = instances.problem
        with np.errstate(invalid="ignore"):
            loose = np.flatnonzero(quick.gap > LOOSE * (problem.shift - quick.objective))
        if not len(loose):
            return quick
        part = Instances(problem, instances.evidence[loose])
        searched = ExactSolver(replace(self.running, progress=None)).search(part, rounds=ROUNDS)
        return quick.replaced(loose, better(problem, quick.take(loose), searched, METHOD))
