"""A block of rows of a random problem in the loop of `search`."""

from __future__ import annotations

from typing import Self

import numpy as np
from hypothesis import assume

from cmpe import Problem
from cmpe.core.lanes import LANES
from cmpe.core.search import loop
from cmpe.solvers.local.graph import Rules
from cmpe.solvers.search import SearchBatch
from cmpe.solvers.search.block import NO_TASK, SearchBlock
from cmpe.solvers.search.pool import MemberKind, subgraphs
from tests.core.cases import Moving, random_case
from tests.problems import Shape

SHAPE = Shape(variables=5, values=3, arity=3, factors=9)
KINDS = MemberKind(2.0, 0, 2), MemberKind(3.0, 3, 2), MemberKind(20.0, 0, 1)


class Searching(Moving):
    """Arrays for `core.search.loop.work`; the pool has few members of every kind."""

    def __init__(self, problem: Problem, evidence: np.ndarray, rng: np.random.Generator) -> None:
        super().__init__(problem, evidence, rng)
        rows = np.full((len(self.instances), self.problem.variables), -1, dtype=np.int32)
        batch = SearchBatch(self.instances, rows, 0)
        self.subgraphs = subgraphs(self.structure, KINDS)
        self.pool, self.layout = self.subgraphs.pool, self.subgraphs.layout
        shared = batch.shared
        shared = type(shared)(
            shared.graph, shared.gather, self.subgraphs, shared.rules, shared.scales, 0
        )
        block = SearchBlock(shared, self.instances, batch.random[: len(rows)])
        self.state, self.scales, self.room = block.state, shared.scales, shared.scratch.room

    @classmethod
    def random(cls, seed: int, shape: Shape = SHAPE, least: int = 4) -> Self:
        """A random one with a free variable."""
        problem, evidence, rng = random_case(seed, shape, least)
        assume(problem.conditioning.free)
        return cls(problem, evidence, rng)

    def lanes_of(self, rows: np.ndarray) -> np.ndarray:
        """Assignments (B, n) as starts (F, LANES), row after row."""
        lanes = np.arange(LANES) % len(rows)
        return np.ascontiguousarray(rows[lanes][:, self.free].T, dtype=np.int32)

    def variables(self, m: int) -> list[int]:
        """The variables of a member, as numbers of free ones."""
        low, high = self.pool.members[m, loop.BUCKETS : loop.BUCKETS + 2]
        return self.pool.buckets[low:high, 0].tolist()

    def work(
        self,
        task: int,
        passes: np.ndarray | None = None,
        *,
        values: np.ndarray | None = None,
        heat: float = 0.0,
        cap: float = 1.0,
        numbers: tuple[int, int, int] = (20, 0, 0),
        rules: Rules | None = None,
    ) -> None:
        """Do one task with the state."""
        chosen = np.zeros(0, dtype=np.int64) if passes is None else passes.astype(np.int64)
        heats, caps = np.full(len(chosen), heat), np.full(len(chosen), cap)
        given = {"passes": chosen, "heats": heats, "caps": caps}
        given |= dict(zip(("repairs", "sweeps", "kicks"), numbers, strict=True))
        if task == loop.FINISH:
            given |= {"lanes": chosen, "answers": values}
        elif values is not None:
            given["starts"] = values
        shared = loop.SearchTables(self.pool, self.layout, self.graph, self.scales)
        what = loop.Task(task, **(NO_TASK | given))
        loop.work(what, shared, rules or self.rules, self.state, self.room)
