"""`local`: repair any assignment at the least loss, then improve it move by move.

No proof and no training, microseconds a row. It is what learned answers have to beat, and the
last step of the methods that make starts (Lagrangian relaxation, networks). From a start:

1. Repair: the move that loses least h per unit of violation, until feasible; out of dead ends
   by moving pairs and by tabu search.
2. Polish, keeping feasibility: single moves that raise h; chains, where one move makes its
   neighbours want to follow (pairs among them); exchanges, where a move that raises h breaks a
   constraint and a cheaper one anywhere mends it.
3. Kicks: a few moves that raise h against the constraints, in turns with a few neighbouring
   variables at random; then repair and climb; kept if h did not fall.
4. Trades: of all single moves of variables that no table joins, those that together gain most and
   fit; a knapsack (`core.mixtures`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import FREE, Assignments, Unsigned
from cmpe.core.compiler import timing
from cmpe.core.settings import LOCAL
from cmpe.errors import Interrupted
from cmpe.execution.threads import over_threads
from cmpe.problem import Instances
from cmpe.problem.starts import by_leaf, checked
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.local.graph import Rules, compiled


class Effort(NamedTuple):
    """How long to search one row."""

    steps: int = 50  # of repair, per free variable
    sweeps: int = 3  # of chains and exchanges, then trades; 0 is single moves only
    kicks: int = 0


THOROUGH = Effort(kicks=50)


@dataclass(frozen=True)
class Local:
    """Feasible answers without a bound, from a start or from a seeded one of its own.

    Work is bounded by `effort`. With a time limit, chunks of rows that would begin after the time
    of all rows is spent are left as they start. The answer of a row depends on its evidence, its
    start, its number and the seed only.
    """

    effort: Effort = THOROUGH

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """The best feasible assignment seen, else the least violated one."""
        start = checked(instances, FREE if limits.start is None else limits.start)
        state = np.random.SeedSequence(limits.seed).generate_state(len(start), np.uint64)
        work = _LocalBatch(instances, start.copy(), state | np.uint64(1))
        try:
            for done in work.run(self.effort, limits.cores, limits.seconds):
                limits.report(done, len(start))
        except KeyboardInterrupt:  # rows that have not begun are where they start, if anywhere
            raise Interrupted(work.answers(), work.finished) from None
        if limits.start is None:
            return work.answers()
        # A feasible start whose t lies between the search's padded limit and q is not lost.
        return work.answers().or_better(Solutions.of(instances.problem, start, method="local"))


def improve(
    instances: Instances,
    assignments: ArrayLike,
    *,
    sweeps: int = 3,
    kicks: int = 0,
    threads: int = 1,
) -> Assignments:
    """Repair and polish one assignment per row (B, n); evidence is put in, -1 is no start.

    A row's answer depends on its own evidence and assignment only. With cutset networks it stays
    in the leaf where it starts.
    """
    rows = checked(instances, assignments)
    effort = Effort(sweeps=sweeps, kicks=kicks)
    if instances.problem.is_log_linear:
        _improve(instances, rows, effort, threads)
        return rows
    for numbers, part, inside in by_leaf(instances, rows.copy()):
        _improve(part, inside, effort, threads)
        rows[numbers] = inside
    return rows


def _improve(instances: Instances, rows: Assignments, effort: Effort, threads: int) -> None:
    work = _LocalBatch(instances, rows, _fingerprints(rows))
    for _ in work.run(effort, threads):
        pass


def _fingerprints(rows: Assignments) -> Unsigned:
    """A seed for each row that depends on nothing but the row."""
    keys = np.random.SeedSequence(rows.shape[1]).generate_state(rows.shape[1], np.uint64)
    return (rows.astype(np.uint64) @ keys) | np.uint64(1)


class _LocalBatch:
    """One batch on its way through the compiled calls; `rows` (B, n) are improved in place."""

    def __init__(self, instances: Instances, rows: Assignments, seeds: Unsigned) -> None:
        rules = Rules.of(instances.problem)
        self._fixed = (*compiled(instances.conditioning), rules, rules.unlimited())
        self._instances, self._seeds = instances, seeds
        self._seconds = np.zeros(len(rows))
        self.rows, self.finished = rows, 0

    def answers(self) -> Solutions:
        """What `rows` are worth."""
        problem = self._instances.problem
        return Solutions.of(problem, self.rows, method="local", seconds=self._seconds)

    def run(self, effort: Effort, threads: int, seconds: float | None = None) -> Iterator[int]:
        """How many rows are finished, chunk after chunk, within so many seconds a row."""
        count = len(self.rows)
        until = np.inf if seconds is None else timing.now() + seconds * count
        entries = len(self._instances.conditioning.layout.values)
        size = max(1, min(LOCAL.chunk, LOCAL.chunk_entries // max(1, entries)))
        chunks = [slice(a, min(a + size, count)) for a in range(0, count, size)]
        for rows in over_threads(lambda rows: self._chunk(rows, effort, until), chunks, threads):
            self.finished = rows.stop
            yield rows.stop

    def _chunk(self, rows: slice, effort: Effort, until: float) -> slice:
        from cmpe.core.mixtures import blend
        from cmpe.core.repair import search

        begin = timing.now()
        if begin > until:
            return rows
        evidence, found = self._instances.evidence[rows], self.rows[rows]
        search(evidence, *self._fixed, effort, self._seeds[rows], found)
        if effort.sweeps > 0:
            blend(evidence, *self._fixed[:3], found[np.newaxis].copy(), LOCAL.rounds, found)
        self._seconds[rows] = (timing.now() - begin) / (rows.stop - rows.start)
        return rows
