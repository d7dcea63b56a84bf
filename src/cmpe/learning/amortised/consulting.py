"""`Panel`: several schedules of a network answer the same rows, then questions that follow.

1. Schedules that suit the rows' mask are asked, their answers go through single moves, which are
   traded, and are mixed (`solvers.local.mixing`). More schedules are kept than are asked: of many
   rows, the first tell which ones complement one another best.
2. A network for any mask can be asked by itself. Some variables keep the values of the answer so
   far as if they had been observed, and the others are answered once more. What comes back is
   different in places, and better in some of them, because what was kept is good evidence; it is
   mixed with the answer so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.learning.amortised.tuning.portfolio import complements
from cmpe.learning.improvement import moved
from cmpe.problem import Instances
from cmpe.solvers.local.mixing import mixed

ASKED = 8  # schedules
PROBED = 64  # rows that tell which of them, of at least MANY_ROWS with one mask
MANY_ROWS = 4 * PROBED
FOLLOWED = 8  # questions that follow
KEPT = 0.25  # share of the variables that keep their values in each of them
FOLLOWING = 21  # a generator apart from other ones

Ask = Callable[[Assignments, int], tuple[Assignments, Floats]]


@dataclass(frozen=True)
class Panel:
    """Rows of one mask, and who answers them."""

    block: Instances
    ask: Ask  # answers (B, n) and mu (B, m) to evidence (B, n), by the number of a schedule
    schedules: int
    cores: int = 1
    many: int = MANY_ROWS
    probed: int = PROBED

    def suited(self) -> list[int]:
        """The schedules that are asked."""
        if self.schedules <= ASKED or len(self.block) < self.many:
            return list(range(min(ASKED, self.schedules)))
        few = self.block.take(slice(0, self.probed))
        given = few.full()
        every = (self.ask(given, number)[0] for number in range(self.schedules))
        answers = [[moved(few, rows, self.cores)] for rows in every]
        return complements([few], answers, ASKED, self.cores)

    def answers(self, followed: int = FOLLOWED, seed: int = 0) -> tuple[Assignments, Floats]:
        """The mixture (B, n) of all answers, `followed` questions among them; mu of the first."""
        chosen, given = self.suited(), self.block.full()
        said = [self.ask(given, number) for number in chosen]
        best = self._mixed(*(moved(self.block, rows, self.cores) for rows, _ in said))
        random = np.random.default_rng((seed, FOLLOWING))
        for k in range(followed):
            kept = random.random(given.shape[1]) < KEPT
            rows, _ = self.ask(np.where(kept, best, given), chosen[k % len(chosen)])
            best = self._mixed(best, moved(self.block, rows, self.cores))
        return best, said[0][1]

    def _mixed(self, *answers: Assignments) -> Assignments:
        return mixed(self.block, answers, threads=self.cores)
