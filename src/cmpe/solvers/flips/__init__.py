"""Adversarial problems (`queries.adversarial`), and other problems without tables.

local    the compiled attack; any other problem: gradients and single moves
milp     the attack, then a proof; any other problem: a mixed-integer program (`milp.mixed`)
auto     milp, or local where no such program is known
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cmpe.arrays import FREE, Floats, Values
from cmpe.core.compiler import timing
from cmpe.errors import MethodError
from cmpe.flip import Flip, flip_of
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.flips.attack import AttackSettings, attack
from cmpe.solvers.flips.proof import nearest_flip
from cmpe.solvers.gradient import Gradient
from cmpe.solvers.milp import backend
from cmpe.solvers.milp.mixed import Mixed
from cmpe.solvers.rows import RowAnswer, solve_rows


@dataclass(frozen=True)
class LocalFlips:
    """`local` where there are no tables."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """A near answer of every row, without a bound."""
        flip = flip_of(instances.problem)
        if flip is None:
            return Gradient().answer(instances, limits)
        begin = timing.now()
        changed = attacked(instances, flip, limits)
        spent = (timing.now() - begin) / max(1, len(instances))
        answers = assignments(instances, flip, changed)
        limits.report(len(instances), len(instances))
        return Solutions.of(instances.problem, answers, method="local", seconds=spent)


@dataclass(frozen=True)
class ProvedFlips:
    """`milp` where there are no tables: from an answer to a proof."""

    backend: str = "highs"
    or_local: bool = False  # whether problems that it cannot prove are answered by `local`

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        flip = flip_of(instances.problem)
        if flip is None:
            return self._without_flip(instances, limits)
        backend(self.backend)  # fail now if it is not installed
        images = images_of(instances, flip)
        known = attacked(instances, flip, limits)
        job = _FlipRow(flip, images, known, self.backend, limits.of_a_row())
        return solve_rows(instances, job, f"milp:{self.backend}", limits)

    def _without_flip(self, instances: Instances, limits: Limits) -> Solutions:
        try:
            return Mixed(self.backend).answer(instances, limits)
        except MethodError:
            if not self.or_local:
                raise
            return Gradient().answer(instances, limits)


@dataclass(frozen=True)
class _FlipRow:
    """Proves one row; picklable, so that worker processes can hold it."""

    flip: Flip
    images: Floats
    known: Floats  # NaN: no flip
    backend: str
    limits: Limits

    def __call__(self, row: int) -> RowAnswer:
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
        none = bool(np.isposinf(found.bound))
        return RowAnswer(values, -found.bound, none, interrupted=found.interrupted)


def images_of(instances: Instances, flip: Flip) -> Floats:
    """What the network is given of every row: (B, n)."""
    return np.asarray(instances.evidence[:, flip.original], dtype=np.float64)


def attacked(instances: Instances, flip: Flip, limits: Limits) -> Floats:
    """The attack's answers (B, n), NaN where it found none."""
    images = images_of(instances, flip)
    known = None
    if limits.start is not None:
        given = limits.start[:, np.array(instances.problem.free)[flip.changed]]
        known = np.where(given < 0.0, images, given)
    found = attack(
        flip.network, images, config=AttackSettings(margin=flip.margin), start=known,
        threads=limits.cores, seed=limits.seed,
    )  # fmt: skip
    return np.where(found.found[:, np.newaxis], found.images, np.nan)


def assignments(instances: Instances, flip: Flip, changed: Floats) -> Values:
    """Full assignments of changed images; -1 where they are NaN."""
    free = np.empty((len(changed), len(instances.problem.free)))
    free[:, flip.changed] = changed
    out = instances.complete(np.nan_to_num(free, nan=0.0))
    out[np.isnan(free).any(axis=1)] = FREE
    return out
