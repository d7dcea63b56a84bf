"""`search`: large-neighbourhood search for problems too wide to eliminate.

docs/wide.md explains it. A pool of induced subgraphs of bounded width serves all rows of a
structure. A pass re-optimises one of them exactly for h - sum mu_j t_j given the rest, for a block
of rows at once, one row a lane; the multipliers follow the sign of each violation, noise on the
variables' own tables fades as time runs out. Feasible assignments are kept; promising ones are
repaired and polished by the moves of `local`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Assignments, Floats
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.core.compiler import timing
from cmpe.core.search.settings import SETTINGS
from cmpe.errors import Interrupted, MethodError, TooLarge
from cmpe.execution.threads import over_threads
from cmpe.models.conditioning import Conditioning, Gather
from cmpe.problem import Instances
from cmpe.problem.starts import checked, not_worse
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.local.graph import Graph, Rules, compiled, mean_spread
from cmpe.solvers.search.block import SearchBlock, Shared
from cmpe.solvers.search.pool import PoolMaker, pool_maker
from cmpe.solvers.search.schedule import KINDS, Budget

METHOD = "search"
BYTES_PER_NUMBER = 12  # of a block: as a double and as a float
BEGINNINGS = ("messages", "icm", "random")


@dataclass(frozen=True)
class Search:
    """Good feasible answers on wide problems, from a start or from scratch.

    With a time limit it uses that many seconds a row; without one, `passes` passes, and the
    answers are then the same with any number of threads. The bound is the Lagrangian dual's where
    a member covers everything, that is where elimination is cheap, and +inf elsewhere.
    """

    passes: int = SETTINGS.passes
    begin: str = BEGINNINGS[0]  # or another of them, for rows without a start
    bounds: bool = True  # whether to bound what is cheap to bound
    heat: float = 1.0  # how much noise, in multiples of the usual

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """The best feasible assignment found, else the least violated one."""
        given = FREE if limits.start is None else limits.start
        _require(instances, limits.bytes)
        work = SearchBatch(
            instances, checked(instances, given), limits.seed, until=_pool_until(instances, limits)
        )
        cores = limits.cores
        try:
            budget = Budget(self.passes, limits.seconds, heat=self.heat)
            for done in work.run(budget, cores, self.begin):
                limits.report(done, len(instances))
        except KeyboardInterrupt:
            raise Interrupted(work.answers(), work.finished) from None
        return work.bounded(cores) if self.bounds else work.answers()


def _require(instances: Instances, memory: int) -> None:
    """Refuse before memory is taken: a block has all tables once per lane, twice over."""
    from cmpe.core.lanes import LANES

    functions = 1 + len(instances.problem.constraints)
    need = BYTES_PER_NUMBER * LANES * functions * len(instances.conditioning.layout.values)
    if need > memory:
        raise TooLarge(
            f"search needs {need >> 20} MiB for a block of rows; the limit is {memory >> 20} MiB"
        )


def _pool_until(instances: Instances, limits: Limits) -> float:
    """When the pool must be made: a share of the rows' time, or of what the call has left."""
    if limits.seconds is None:
        return np.inf
    now = timing.now()
    left = limits.until - now if limits.until < np.inf else 0.0
    return now + max(
        SETTINGS.pool_share * len(instances) * limits.seconds, SETTINGS.pool_call * left
    )


def search(
    instances: Instances,
    assignments: ArrayLike = FREE,
    *,
    multipliers: ArrayLike | None = None,
    budget: Budget | None = None,
    begin: str = BEGINNINGS[0],
    seed: int = 0,
    threads: int = 1,
) -> Assignments:
    """Improve one assignment per row (B, n); evidence is put in, -1 is no start.

    Rows without a start begin where soft max-product leads (`messages`), or single moves from a
    random assignment (`icm`), or at that one (`random`). A feasible assignment is never made worse.
    `multipliers` (B, m) near the right ones save the passes that look for them.
    """
    work = SearchBatch(instances, checked(instances, assignments), seed, multipliers)
    for _ in work.run(budget or Budget(), threads, begin):
        pass
    return work.settled()


_COMPILED: WeakKeyDictionary[Conditioning, tuple[Graph, Gather, PoolMaker]] = WeakKeyDictionary()


class SearchBatch:
    """One batch on its way; `rows` (B, n) are replaced as blocks finish."""

    def __init__(
        self,
        instances: Instances,
        rows: Assignments,
        seed: int,
        multipliers: ArrayLike | None = None,
        until: float = np.inf,
    ) -> None:
        structure, problem = instances.conditioning, instances.problem
        if structure not in _COMPILED:
            maker = pool_maker(structure, KINDS)
            _COMPILED[structure] = (*compiled(structure), maker)
        graph, gather, maker = _COMPILED[structure]
        rules = Rules.of(problem)
        scales = mean_spread(problem.models[0]) * rules.weights
        self.shared = Shared(graph, gather, maker.made(until), rules, scales, seed)
        self.instances, self.start, self.rows = instances, rows, rows.copy()
        self.multipliers = None if multipliers is None else _prices(instances, multipliers)
        random = np.random.SeedSequence(seed).generate_state(max(1, len(rows)), np.uint64)
        self.random: NDArray[np.uint64] = random.astype(np.uint64)
        self.finished = 0
        self._seconds = np.zeros(len(rows))

    def settled(self) -> Assignments:
        """The rows, or their start where that is feasible and worth more."""
        return not_worse(self.instances.problem, self.rows, self.start)

    def answers(self) -> Solutions:
        """What the rows are worth."""
        problem, spent = self.instances.problem, self._seconds
        return Solutions.of(problem, self.settled(), method=METHOD, seconds=spent)

    def bounded(self, threads: int) -> Solutions:
        """The answers with the dual's bounds, where elimination is cheap."""
        pool = self.shared.pool
        variables, members = len(pool.layout.cards), pool.pool.members
        if variables and not (members[:, 1] - members[:, 0] == variables).any():
            return self.answers()
        begin = timing.now()
        dual = lagrangian_dual(self.instances, threads=threads)
        spent = (timing.now() - begin) / max(1, len(self.rows))
        return Solutions.of(
            self.instances.problem,
            self.settled(),
            bound=dual.bound,
            infeasible=dual.infeasible,
            method=METHOD,
            seconds=self._seconds + spent,
        )

    def run(self, budget: Budget, threads: int, begin: str) -> Iterator[int]:
        """How many rows are finished, block after block."""
        if budget.passes < 0:
            raise MethodError(f"passes must be at least 0, found {budget.passes}")
        if begin not in BEGINNINGS:
            raise MethodError(f"a search begins with {', '.join(BEGINNINGS)}; found {begin!r}")
        from cmpe.core.lanes import LANES

        count = len(self.rows)
        if not len(self.shared.pool.layout.cards):  # nothing to decide
            self.finished = count
            yield count
            return
        edges = np.linspace(0, count, -(-count // LANES) + 1).astype(int)  # of even blocks
        blocks = [slice(a, b) for a, b in pairwise(edges.tolist())]
        work, stop = partial(self._block, budget=budget, kind=begin), self.shared.stop
        for rows in over_threads(work, blocks, threads, stop):
            self.finished = rows.stop
            yield rows.stop

    def _block(self, rows: slice, budget: Budget, kind: str) -> slice:
        begin = budget.clock()
        part = self.instances.take(rows)
        start = self.start[rows]
        block = SearchBlock(self.shared, part, self.random[rows])
        if self.multipliers is not None:
            block.price(self.multipliers[rows])
        block.begin(start, kind, budget)
        self.rows[rows] = block.run(budget, begin)
        self._seconds[rows] = (budget.clock() - begin) / (rows.stop - rows.start)
        return rows


def _prices(instances: Instances, multipliers: ArrayLike) -> Floats:
    """Multipliers (B, m), checked."""
    given = np.asarray(multipliers, dtype=np.float64)
    shape = (len(instances), len(instances.problem.constraints))
    if given.shape != shape or not (given >= 0).all():
        raise MethodError(f"multipliers must be {shape} numbers from 0 on, found {given.shape}")
    return given
