"""`lagrangian`: the dual's bound and its feasible extreme answer, improved by local search.

The certified gap is then the duality gap plus the answer's regret. Where that is more than
LOOSE of f, a few rounds of `exact`'s search lower the bound by what they rule out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments
from cmpe.bounds.lagrangian import Dual, lagrangian_dual
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.exact import eliminate
from cmpe.solvers.local import improve
from cmpe.solvers.stages import merged

METHOD = "lagrangian"
LOOSE = 0.005  # of f = C - h
ROUNDS = 3


@dataclass(frozen=True)
class DualAnswers:
    """Fast answers with a certified gap; no proof of optimality is promised.

    The work is bounded by the dual's own rounds: a time limit shortens nothing but the last stage.
    """

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """A feasible answer and a bound for every row."""
        begin = time.perf_counter()
        dual, answers = _dual_and_answers(instances, limits.running)
        answers[dual.infeasible] = -1
        spent = (time.perf_counter() - begin) / max(1, len(instances))
        quick = Solutions.of(
            instances.problem,
            answers,
            bound=dual.bound,
            infeasible=dual.infeasible,
            method=METHOD,
            seconds=spent,
        )
        tight = self._tightened(instances, quick, limits)
        limits.running.report(len(tight), len(tight))
        return tight

    def _tightened(self, instances: Instances, quick: Solutions, limits: Limits) -> Solutions:
        problem = instances.problem
        with np.errstate(invalid="ignore"):
            is_loose = quick.gap > LOOSE * (problem.shift - quick.objective)
        if limits.seconds is not None:
            is_loose &= quick.seconds < limits.seconds
        loose = np.flatnonzero(is_loose)
        if not len(loose):
            return quick
        quiet = limits.running_with(progress=None).running
        searched = eliminate(instances.take(loose), ROUNDS, quiet)
        return quick.replaced(loose, merged(problem, quick.take(loose), searched, METHOD))


def _dual_and_answers(instances: Instances, running: Running) -> tuple[Dual, Assignments]:
    """The dual, and its extreme answers improved (B, n), by compiled code or on a device.

    Rows without a feasible extreme answer (several constraints) are repaired from the other.
    """
    if running.device == "cpu":
        dual = lagrangian_dual(instances, threads=running.cores)
        return dual, improve(instances, _extremes(dual), threads=running.cores)
    from cmpe.tensor import answers

    dual = answers.dual(instances, running.device)
    return dual, answers.improved(instances, _extremes(dual), device=running.device)


def _extremes(dual: Dual) -> Assignments:
    missing = (dual.feasible < 0).any(axis=1, keepdims=True)
    return np.where(missing, dual.violating, dual.feasible)
