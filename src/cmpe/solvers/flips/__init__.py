"""Adversarial problems (`queries.adversarial`), and other problems without tables.

local    the compiled attack; any other problem: gradients and single moves
milp     the attack, then a proof; any other problem: a mixed-integer program (`milp.mixed`)
auto     milp, or local where no such program is known
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import FREE, Floats, Values
from cmpe.errors import MethodError
from cmpe.problem import Evidence, Instances, Problem
from cmpe.queries import Flip, flip_of
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.flips.attack import AttackSettings, attack
from cmpe.solvers.gradient import GradientSolver
from cmpe.solvers.rows import RowAnswer, solve_rows


@dataclass(frozen=True)
class LocalFlips:
    """`local` where there are no tables."""

    running: Running = Running()

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """A near answer of every row, without a bound."""
        flip = flip_of(problem)
        if flip is None:
            other = GradientSolver(self.running)
            return other.solve(problem, evidence, time_limit=time_limit, seed=seed)
        limits = Limits(time_limit, self.running.threads, seed)
        instances = problem.given(evidence)
        begin = time.perf_counter()
        changed = attacked(instances, flip, self.running, limits)
        spent = (time.perf_counter() - begin) / max(1, len(instances))
        answers = assignments(instances, flip, changed)
        return Solutions.of(problem, answers, method="local", seconds=spent)


@dataclass(frozen=True)
class MilpFlips:
    """`milp` where there are no tables: from an answer to a proof."""

    backend: str = "highs"
    running: Running = Running()
    proves: bool = True  # else problems that it cannot prove are answered by `local`

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        from cmpe.solvers.milp import backend
        from cmpe.solvers.milp.mixed import MixedSolver

        flip = flip_of(problem)
        if flip is None:
            try:
                mixed = MixedSolver(self.backend, self.running)
                return mixed.solve(problem, evidence, time_limit=time_limit, seed=seed)
            except MethodError:
                if self.proves:
                    raise
                local = GradientSolver(self.running)
                return local.solve(problem, evidence, time_limit=time_limit, seed=seed)
        backend(self.backend)  # fail now if it is not installed
        instances = problem.given(evidence)
        limits = Limits(time_limit, self.running.threads, seed)
        images = images_of(instances, flip)
        known = attacked(instances, flip, self.running, limits)
        job = _Row(flip, images, known, self.backend, limits)
        return solve_rows(instances, job, f"milp:{self.backend}", self.running)


@dataclass(frozen=True)
class _Row:
    """Proves one row; picklable, so that worker processes can hold it."""

    flip: Flip
    images: Floats
    known: Floats  # NaN: no flip
    backend: str
    limits: Limits

    def __call__(self, row: int) -> RowAnswer:
        from cmpe.solvers.flips.proof import nearest_flip

        found = nearest_flip(
            self.flip.network,
            self.images[row],
            start=None if np.isnan(self.known[row]).any() else self.known[row],
            solver=self.backend,
            limits=self.limits,
            margin=self.flip.margin,
        )
        values = None
        if found.image is not None:
            values = np.empty(len(found.image))
            values[self.flip.changed] = found.image
        return RowAnswer(values, -found.bound, infeasible=bool(np.isposinf(found.bound)))


def images_of(instances: Instances, flip: Flip) -> Floats:
    """What the network is given of every row: (B, n)."""
    return np.asarray(instances.evidence[:, flip.original], dtype=np.float64)


def attacked(instances: Instances, flip: Flip, running: Running, limits: Limits) -> Floats:
    """The attack's answers (B, n), NaN where it found none."""
    images = images_of(instances, flip)
    known = None
    if running.start is not None:
        given = running.start[:, np.array(instances.problem.free)[flip.changed]]
        known = np.where(given < 0.0, images, given)
    found = attack(
        flip.network, images, config=AttackSettings(margin=flip.margin), start=known,
        threads=running.threads, seed=limits.seed,
    )  # fmt: skip
    return np.where(found.found[:, np.newaxis], found.images, np.nan)


def assignments(instances: Instances, flip: Flip, changed: Floats) -> Values:
    """Full assignments of changed images; -1 where they are NaN."""
    free = np.empty((len(changed), len(instances.problem.free)))
    free[:, flip.changed] = changed
    out = instances.complete(np.nan_to_num(free, nan=0.0))
    out[np.isnan(free).any(axis=1)] = FREE
    return out
