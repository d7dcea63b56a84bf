"""`lagrangian`: the dual's bound and its feasible extreme answer, improved by local search.

The certified gap is then the duality gap plus the answer's regret. Where that is more than
LOOSE of f, a few rounds of `exact`'s search lower the bound by what they rule out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Assignments
from cmpe.bounds.lagrangian import Dual, chunk_rows, lagrangian_dual
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.exact import eliminate
from cmpe.solvers.local import improve
from cmpe.solvers.settings import SOLVERS
from cmpe.solvers.stages import merged

METHOD = "lagrangian"


@dataclass(frozen=True)
class DualAnswers:
    """Fast answers with a certified gap; no proof of optimality is promised.

    The work is bounded by the dual's own rounds: a time limit shortens nothing but the last stage.
    """

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """A feasible answer and a bound for every row; part by part, so that Ctrl-C is heard."""
        done: list[Solutions] = []
        size, count = _part_rows(instances, limits), len(instances)
        for first in range(0, max(1, count), size):
            part = slice(first, min(first + size, count))
            start = None if limits.start is None else limits.start[part]
            told = replace(limits, start=start, progress=None)
            try:
                done.append(self._answer_part(instances.take(part), told))
            except KeyboardInterrupt as stop:
                if isinstance(stop, Interrupted):
                    done.append(stop.solutions)
                raise Interrupted(_with_unknown(instances, done), first) from None
            limits.report(part.stop, count)
        return Solutions.concatenate(done)

    def _answer_part(self, instances: Instances, limits: Limits) -> Solutions:
        begin = timing.now()
        dual = _dual(instances, limits)

        def known(answers: Assignments) -> Solutions:
            return Solutions.of(
                instances.problem,
                np.where(dual.infeasible[:, np.newaxis], -1, answers),
                bound=dual.bound,
                infeasible=dual.infeasible,
                method=METHOD,
                seconds=(timing.now() - begin) / max(1, len(instances)),
            )

        quick = known(extremes(dual))
        try:
            quick = known(_improved(instances, dual, limits))
            return self._tightened(instances, quick, limits)
        except KeyboardInterrupt:
            raise Interrupted(quick, 0) from None

    def _tightened(self, instances: Instances, quick: Solutions, limits: Limits) -> Solutions:
        problem = instances.problem
        with np.errstate(invalid="ignore"):
            is_loose = quick.gap > SOLVERS.loose * (problem.shift - quick.objective)
        if limits.seconds is not None:
            is_loose &= quick.seconds < limits.seconds
        loose = np.flatnonzero(is_loose)
        if not len(loose):
            return quick
        quiet = replace(limits, progress=None)
        searched = eliminate(instances.take(loose), SOLVERS.loose_rounds, quiet)
        return quick.replaced(loose, merged(problem, quick.take(loose), searched, METHOD))


def _part_rows(instances: Instances, limits: Limits) -> int:
    """Rows between two looks at Ctrl-C: whole chunks of compiled calls for all cores."""
    if limits.device != "cpu" or not instances.problem.is_log_linear:
        return max(1, len(instances))
    return limits.cores * chunk_rows(instances.problem)


def _with_unknown(instances: Instances, done: list[Solutions]) -> Solutions:
    """Answers of the first rows, and that nothing is known of the others."""
    known = sum(map(len, done))
    none = np.full((len(instances) - known, instances.problem.variables), -1)
    return Solutions.concatenate([*done, Solutions.of(instances.problem, none, method=METHOD)])


def _dual(instances: Instances, running: Running) -> Dual:
    """By compiled code or on a device."""
    if running.device == "cpu":
        return lagrangian_dual(instances, threads=running.cores, memory=running.bytes)
    from cmpe.tensor.bounds import dual

    return dual(instances, running.device)


def _improved(instances: Instances, dual: Dual, running: Running) -> Assignments:
    """The dual's extreme answers, improved (B, n).

    Rows without a feasible extreme answer (several constraints) are repaired from the other.
    """
    return improve(instances, extremes(dual), threads=running.cores)


def extremes(dual: Dual) -> Assignments:
    """Of every row the feasible extreme of the dual, else the violating one."""
    missing = (dual.feasible < 0).any(axis=1, keepdims=True)
    return np.where(missing, dual.violating, dual.feasible)
