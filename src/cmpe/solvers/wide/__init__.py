"""Wide rows: presolve, then search and bounds in alternation until the deadline (`race`).

`Wide` answers rows with a time limit, each by a race of its own. `prove_at_once` is for rows
without one: what sweeps and a dive prove in a moment, and the incumbent and bound of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import FREE, Assignments
from cmpe.core.compiler import timing
from cmpe.problem import Instances
from cmpe.problem.starts import checked
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.incumbent import Incumbent, Known, TraceEvent
from cmpe.solvers.reduction import Splits
from cmpe.solvers.rows import RowAnswer, solve_rows
from cmpe.solvers.wide.race import Race


@dataclass(frozen=True)
class Wide:
    """Answers wide rows within their time limit, or (`briefly`) as far as a moment takes it."""

    briefly: bool = False

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """The incumbent and the bound of every row, at its time limit or when they meet."""
        start = checked(instances, FREE if limits.start is None else limits.start)
        memory = limits.of_a_row().memory
        splits = Splits(instances.problem, limits.seed, memory, limits.seconds or 0.0)
        told = replace(limits.of_a_row(), seconds=None) if self.briefly else limits.of_a_row()
        job = _RaceRow(instances, start, told, splits)
        name = "presolve" if self.briefly else "race"
        return solve_rows(instances, job, name, limits)

    def watch(self, instances: Instances, limits: Limits) -> Iterator[TraceEvent]:
        """The race on the first row, turn by turn."""
        known = Known(Incumbent(instances.problem, limits.gap))
        splits = Splits(instances.problem, limits.seed, limits.memory, limits.seconds or 0.0)
        race = Race(instances, 0, limits, splits, known)
        for turns, name in enumerate(race.run()):
            best = np.nan if known.best.assignment is None else known.best.objective
            spent = timing.now() - race.begin
            yield TraceEvent(spent, best, float(known.upper), turns, name)


@dataclass(frozen=True)
class _RaceRow:
    """Answers one row."""

    instances: Instances
    start: Assignments
    limits: Limits
    splits: Splits

    def __call__(self, row: int) -> RowAnswer:
        known = Known(Incumbent(self.instances.problem, self.limits.gap))
        known.best.offer(self.start[row])
        race = Race(self.instances, row, self.limits, self.splits, known)
        interrupted = False
        try:
            if self.limits.seconds is None:
                race.prove_at_once()
            else:
                for _ in race.run():
                    pass
        except KeyboardInterrupt:
            interrupted = True
        problem, best = self.instances.problem, known.best.assignment
        return RowAnswer.known(problem, best, known.upper, interrupted=interrupted)
