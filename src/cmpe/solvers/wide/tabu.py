"""`TabuTurns`: tabu search on single moves, with an elite, for rows that are small but dense.

Subgraphs of bounded width hold two or three variables of a complete graph, so that `search` is no
more than a climb there; a step here costs a look at every move, microseconds.
"""

from __future__ import annotations

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.core.compiler import timing
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.local.graph import Graph, Rules, mean_spread
from cmpe.solvers.wide.reduced import Reduced

MOST_SLOTS = 1 << 13  # values of all variables: a step looks at all of them
ELITE = 8
PATIENCE = 6  # turns in vain, then others have the time
SLICE_SECONDS = 0.02  # a compiled call takes about so long
PRICE = 2.0  # of a potential of 0, at first, in spreads of a table


class TabuTurns:
    """Runs of tabu search from the incumbent and from what earlier runs found."""

    name = "tabu"

    def __init__(self, reduced: Reduced, best: Incumbent, seed: int) -> None:
        from cmpe.core import tabu

        self._kernels, self._reduced, self._best = tabu, reduced, best
        problem = reduced.instances.problem
        self._rules = Rules.of(problem)
        self._graph = Graph.of(reduced.instances.conditioning)
        self._point = tabu.room(self._graph, self._channels())
        width, slots = len(self._graph.free), len(self._graph.owner)
        spread = mean_spread(problem.models[0])
        state = np.random.SeedSequence([seed, 7]).generate_state(1, np.uint64)
        self._walk = tabu.Walk(
            barred=np.zeros(slots, dtype=np.int64),
            prices=PRICE * spread * np.array([1.0, *self._rules.weights]),
            best=np.zeros(width, dtype=np.uint64),
            run=np.zeros(width, dtype=np.uint64),
            elite=np.zeros((ELITE, width), dtype=np.uint64),
            worth=np.full(ELITE, -np.inf),
            levels=np.full(2, -np.inf),
            counts=np.zeros(6, dtype=np.int64),
            state=state | np.uint64(1),
        )
        self._pace, self._in_vain = 64, 0

    @property
    def finished(self) -> bool:
        """Whether the last turns were in vain."""
        return self._in_vain >= PATIENCE

    @staticmethod
    def suits(reduced: Reduced) -> bool:
        """Whether there are few enough moves, and some."""
        return 0 < reduced.values <= MOST_SLOTS

    def _channels(self) -> Floats:
        """The tables as `local` has them: finite parts, then counts of -inf: (E, C)."""
        instances, zeros = self._reduced.instances, self._rules.zeros
        count = max(len(zeros), int(zeros.max()) + 1)
        out = np.zeros((len(instances.conditioning.layout.values), count + count % 2))
        for which, channel in enumerate(zeros):
            entries = instances.tables(which)[0]
            is_zero = entries == -np.inf
            out[:, which] = np.where(is_zero, 0.0, entries)
            if channel >= 0:
                out[:, channel] = is_zero
        return out

    def play(self, until: float) -> float:
        """Steps until then, from where the last turn stopped; nothing is bounded by them."""
        self._take_up()
        walk, before = self._walk, self._walk.levels[0]
        while timing.now() < until:
            begin = timing.now()
            self._kernels.go(self._pace, self._graph, self._rules, self._point, walk)
            if timing.now() - begin < SLICE_SECONDS:
                self._pace *= 2
            elif self._pace > 1:
                self._pace //= 2
        self._in_vain += 1
        if walk.levels[0] > before:
            self._in_vain = 0
            instances = self._reduced.instances
            free = walk.best.astype(np.int32)[np.newaxis]
            self._best.offer(self._reduced.lift(instances.complete(free)[0]))
        return np.inf

    def _take_up(self) -> None:
        """Let the incumbent join the elite, if others found it."""
        best, walk = self._best, self._walk
        if best.assignment is None:
            return
        values: Assignments | None = self._reduced.lower(best.assignment)
        if values is None:
            return
        instances = self._reduced.instances
        worth = float(instances.problem.objective.value(values)[0])
        if worth > walk.levels[0]:
            walk.levels[0] = worth
            worst = int(np.argmin(walk.worth))
            walk.worth[worst] = worth
            walk.elite[worst] = walk.best[:] = values[list(instances.problem.free)]
