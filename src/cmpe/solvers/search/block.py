"""A block of rows on its way through `search`: at most LANES of them, in one state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats, Integers, Unsigned
from cmpe.core.search.settings import SETTINGS
from cmpe.models.conditioning import Gather
from cmpe.problem import Instances
from cmpe.solvers.local.graph import Graph, Rules
from cmpe.solvers.local.mixing import mixed
from cmpe.solvers.search.messages import message_room, rounds_within
from cmpe.solvers.search.pool import Subgraphs
from cmpe.solvers.search.schedule import Budget, BudgetClock, Passes, schedule

USUAL = Budget()
NO_TASK: dict[str, Any] = {  # fields of a task that does not read them
    "starts": np.zeros((0, 0), dtype=np.int32),
    "passes": np.zeros(0, dtype=np.int64),
    "heats": np.zeros(0),
    "caps": np.zeros(0),
    "lanes": np.zeros(0, dtype=np.int64),
    "answers": np.zeros((0, 0), dtype=np.int32),
    "repairs": 0,
    "sweeps": 0,
    "kicks": 0,
}


@dataclass(frozen=True)
class Shared:
    """What all blocks of a batch share; each thread keeps scratch room for its blocks."""

    graph: Graph
    gather: Gather
    pool: Subgraphs
    rules: Rules
    scales: Floats  # (m,): spread of h / spread of t_j
    seed: int
    scratch: threading.local = field(default_factory=threading.local)
    stop: threading.Event = field(default_factory=threading.Event)  # after Ctrl-C: no more passes


class SearchBlock:
    """At most LANES rows, in the lanes of one state. Spare lanes take replicas of the rows, which
    only count where time decides: an answer would else depend on how many rows there are."""

    def __init__(self, shared: Shared, part: Instances, random: Unsigned) -> None:
        from cmpe.core.lanes import LANES
        from cmpe.core.search import loop as kernels

        self.shared, self._part, self._kernels = shared, part, kernels
        self._quick, self._apart = (
            SETTINGS.quick,
            0.0,
        )  # passes for multipliers; seconds of messages
        self._row = np.arange(LANES) % len(part)  # of each lane
        layout = shared.pool.layout
        replica = np.arange(LANES, dtype=np.uint64) // np.uint64(len(part))
        hashed = random[self._row] + replica * np.uint64(0x9E3779B97F4A7C15)
        self.state = _empty_state(layout, shared.scales, hashed | np.uint64(1))
        self._condition()
        if not hasattr(shared.scratch, "room"):
            shared.scratch.room = _scratch(shared)
        self._room = shared.scratch.room

    def price(self, multipliers: Floats) -> None:
        """Begin at these multipliers (B, m), with short steps, which double while one is wrong."""
        self._quick = 0
        self.state.multipliers[:] = multipliers[self._row].T
        self.state.steps[:] = SETTINGS.known_step * self.shared.scales[:, np.newaxis]

    def begin(self, start: Assignments, kind: str, budget: Budget = USUAL) -> None:
        """Stand at `start` (B, n), and where a row has none, where `kind` leads: messages if they
        fit into the time, else single moves. Every other replica of a row begins with these."""
        from cmpe.core.search import starts as start_kernels

        fixed, layout = self.shared, self.shared.pool.layout
        free = list(self._part.conditioning.free)
        values = np.ascontiguousarray(start[self._row][:, free].T, dtype=np.int32)  # (F, L)
        self._work(self._kernels.BEGIN, starts=values)
        chosen: NDArray[np.bool_] = np.any(values < 0, axis=0)
        rounds = rounds_within(layout, budget, len(self._part)) if kind == "messages" else 0
        if rounds and chosen.any():
            before = budget.clock()
            chosen &= np.arange(len(chosen)) // len(self._part) % 2 == 0
            room = message_room(layout, 1 + len(fixed.scales))
            start_kernels.pass_messages(
                chosen, rounds, layout, fixed.rules, fixed.scales, self.state, self._room, room
            )
            values[:, chosen] = self.state.z[:, chosen]
            self._apart = budget.clock() - before
        if kind != "random":
            self._work(self._kernels.CLIMB, starts=values, rules=fixed.rules.unlimited())

    def _condition(self) -> None:
        from cmpe.core.tables import condition

        lanes = np.ascontiguousarray(self._part.evidence[self._row].T, dtype=np.int64)
        condition(lanes, self.shared.gather, self.state.block)

    def run(self, budget: Budget, begin: float) -> Assignments:
        """The best assignment of each row (B, n)."""
        shared = self.shared
        clock = BudgetClock(budget, begin, len(self._part), self._apart)
        for passes in schedule(shared.pool, clock, shared.seed, self._quick):
            self.go(passes)
            if shared.stop.is_set():
                break
        lanes = np.arange(len(self._part))
        if clock.is_timed:  # the replica of the highest h; ties go to the first
            order = np.lexsort((-self.state.best, self._row))
            lanes = order[np.searchsorted(self._row[order], lanes)]
        if shared.stop.is_set():
            return self._finish(lanes, 0, 0)
        found = self._finish(lanes, SETTINGS.sweeps if clock.thorough else 0, clock.kicks)
        if not clock.thorough:
            return found
        others = self._replicas() if clock.abounds else []
        return mixed(self._part, [found, *others], trades=1)

    def go(self, passes: Passes, repair: int = SETTINGS.repairs) -> None:
        """Some passes; what is nearly feasible has so many steps of repair."""
        members, heats, caps = passes
        self._work(self._kernels.RUN, passes=members, heats=heats, caps=caps, repairs=repair)

    def _replicas(self) -> list[Assignments]:
        """What each replica of the rows came to, after single moves; none where there is one."""
        rows, lanes = len(self._part), len(self._row)
        every = [np.arange(first, first + rows) for first in range(0, lanes - rows + 1, rows)]
        return [self._finish(part, 0, 0) for part in every] if len(every) > 1 else []

    def _finish(self, lanes: Integers, sweeps: int, kicks: int) -> Assignments:
        fixed, state = self.shared, self.state
        answers = np.zeros((len(lanes), len(state.z)), dtype=np.int32)
        if len(fixed.graph.owner) > SETTINGS.large:
            sweeps, kicks = 0, 0
        steps = 50 * len(fixed.graph.free)
        self._work(
            self._kernels.FINISH, lanes=lanes, answers=answers, repairs=steps, sweeps=sweeps,
            kicks=kicks,
        )  # fmt: skip
        return self._part.complete(answers)

    def _work(self, kind: int, *, rules: Rules | None = None, **given: Any) -> None:
        """Call the one compiled function with the given fields of its task."""
        kernels, fixed = self._kernels, self.shared
        shared = kernels.SearchTables(fixed.pool.pool, fixed.pool.layout, fixed.graph, fixed.scales)
        task = kernels.Task(kind, **(NO_TASK | given))
        kernels.work(task, shared, rules or fixed.rules, self.state, self._room)


def _empty_state(layout: Any, scales: Floats, random: Unsigned) -> Any:
    """A state without rows in it."""
    from cmpe.core.search.loop import State

    lanes, limits = len(random), len(scales)
    entries, tables, free = int(layout.offsets[-1]), len(layout.offsets) - 1, len(layout.cards)
    wide = np.float32
    scale = np.repeat(scales[:, np.newaxis], lanes, axis=1)
    return State(
        tables=np.empty(((1 + limits) * entries, lanes), dtype=wide),
        z=np.zeros((free, lanes), dtype=np.int32),
        current=np.zeros(((1 + limits) * tables, lanes), dtype=wide),
        totals=np.zeros((1 + limits, lanes)),
        multipliers=SETTINGS.multiplier * scale,
        steps=SETTINGS.step * scale,
        signs=np.zeros((limits, lanes)),
        best=np.full(lanes, -np.inf),
        kept=np.zeros((free, lanes), dtype=np.int32),
        random=random,
        rest=np.zeros(lanes, dtype=np.int64),
        block=np.empty(((1 + limits) * entries, lanes)),
    )


def _scratch(shared: Shared) -> Any:
    """Room for one thread."""
    from cmpe.core.lanes import LANES
    from cmpe.core.moves import Notes, Point
    from cmpe.core.search.loop import Scratch
    from cmpe.core.search.passes import MOST_DIGITS

    graph, zeros = shared.graph, shared.rules.zeros
    rows, choices, inputs = shared.pool.sizes.tolist()
    free, slots, entries = len(graph.free), len(graph.owner), int(graph.offsets[-1])
    channels = max(len(zeros), int(zeros.max()) + 1)
    channels += channels % 2
    values = np.zeros((entries, channels))

    def point() -> Point:
        return Point(
            values,
            np.zeros(free, dtype=np.uint64),
            np.zeros(len(graph.offsets) - 1, dtype=np.uint64),
            np.zeros(channels),
            np.zeros((slots + 1, channels)),
        )

    return Scratch(
        values=np.zeros((rows, LANES), dtype=np.float32),
        chosen=np.zeros((choices, LANES), dtype=np.uint8),
        weights=np.ones((len(zeros), LANES), dtype=np.float32),
        index=np.zeros((1, LANES), dtype=np.int32),
        moved=np.zeros(free, dtype=np.uint8),
        offsets=np.zeros(inputs, dtype=np.int64),
        steps=np.zeros(inputs, dtype=np.int64),
        digits=np.zeros(MOST_DIGITS, dtype=np.int64),
        sizes=np.zeros(MOST_DIGITS, dtype=np.int64),
        point=point(),
        spare=point(),
        notes=Notes(
            np.zeros(slots, dtype=np.int64),
            np.zeros(free, dtype=np.uint64),
            np.zeros((2, free), dtype=np.uint64),
            np.zeros(free, dtype=np.bool_),
            np.ones(1, dtype=np.uint64),
        ),
    )
