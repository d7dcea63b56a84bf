"""Improvement of a network's first answers: repair by local search, or search."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.core.compiler import timing
from cmpe.core.search.settings import SETTINGS
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.settings import TRAINING
from cmpe.problem import Instances, Problem
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer
from cmpe.solvers.local import improve
from cmpe.solvers.local.mixing import mixed
from cmpe.solvers.search import search
from cmpe.solvers.search.schedule import Budget


@dataclass(frozen=True)
class Draft:
    """Rows with the answers to go on from."""

    instances: Instances
    answers: Assignments  # (B, n)
    multipliers: Floats | None = None  # (B, m), where the network predicts them

    def take(self, rows: NDArray[np.intp]) -> Draft:
        """The same of some rows."""
        prices = None if self.multipliers is None else self.multipliers[rows]
        part = Instances(self.instances.problem, self.instances.evidence[rows])
        return Draft(part, self.answers[rows], prices)

    def improved(self, pipeline: Pipeline, limits: Limits) -> Assignments:
        """Better answers (B, n) by the stages that were asked for; limits are those of a row."""
        problem, cores = self.instances.problem, limits.cores
        if searches(problem, pipeline, limits.seconds):
            return self._searched(pipeline, limits)
        if not pipeline.repair:
            return self.answers
        if problem.has_tables:
            return improve(self.instances, self.answers, sweeps=pipeline.sweeps, threads=cores)
        told = Limits(seconds=limits.seconds, seed=limits.seed, threads=cores, start=self.answers)
        return answer(problem, self.instances.evidence, "local", told).assignments

    def _searched(self, pipeline: Pipeline, limits: Limits) -> Assignments:
        """Passes of search, after single moves unless repair is off: they mend what violates a
        little, as answers of tuned messages do on purpose, in a tenth of the time and better."""
        begin, start, cores = timing.now(), self.answers, limits.cores
        if pipeline.repair:
            start = moved(self.instances, start, cores)
            limits = time_left(limits, begin, len(start))
        budget = Budget(pipeline.search_passes or SETTINGS.passes, limits.seconds)
        return search(
            self.instances, start, multipliers=self.multipliers, budget=budget,
            seed=limits.seed, threads=cores,
        )  # fmt: skip

    def improved_where(
        self, rows: NDArray[np.intp], pipeline: Pipeline, limits: Limits
    ) -> Assignments:
        """The answers (B, n), improved in some rows only."""
        if len(rows) == len(self.answers):
            return self.improved(pipeline, limits)
        if limits.seconds is not None and len(rows):  # the time of the others is theirs
            limits = replace(limits, seconds=limits.seconds * len(self.answers) / len(rows))
        out = self.answers.copy()
        out[rows] = self.take(rows).improved(pipeline, limits)
        return out


def moved(instances: Instances, answers: Assignments, cores: int) -> Assignments:
    """Answers (B, n) mended and improved by single moves, then by the best of these together."""
    rows = improve(instances, answers, sweeps=0, threads=cores)
    return mixed(instances, [rows], trades=1, threads=cores)


def time_left(limits: Limits, begin: float, rows: int) -> Limits:
    """The limits of a row less what a block of rows has used of its time since `begin`."""
    if limits.seconds is None:
        return limits
    spent = (timing.now() - begin) / max(1, rows)
    return replace(limits, seconds=max(TRAINING.least_search, limits.seconds - spent))


def searches(problem: Problem, pipeline: Pipeline, seconds: float | None) -> bool:
    """Whether answers are searched rather than repaired."""
    asked = seconds is not None or pipeline.search_passes > 0
    return asked and problem.is_log_linear
