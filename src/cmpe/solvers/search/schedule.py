"""What `search` does when: budgets, and the members, noise and multiplier steps of its passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.core.compiler import timing
from cmpe.solvers.search.pool import MemberKind, Subgraphs

PASSES = 500
KINDS = MemberKind(5.0, 0, 16), MemberKind(8.0, 0, 32), MemberKind(12.0, 120, 64)
QUICK = 8  # passes of the first kind
FIRST, AT_LEAST = 0.15, 20  # of the budget, and passes, that the second gets; then a share
SHARE = 0.2
HEAT = 0.7  # of the roughness of a row's tables, falling to 0 at COLD of the budget
COLD = 0.9
CALM = 10  # passes before any noise: multipliers first
LONGEST, SHORTEST = 1.0, 0.02  # multiplier steps, for members of all and of few variables
CALL = 64  # passes of one compiled call, at most
GUESS = 0.2  # of the time to take up rows: a pass, until some are timed
SHARES = 8  # compiled calls of a timed run, about
PASSES_PER_KICK, KICKS = 25, 20  # random moves of the last polish: by passes; where time abounds
LEAST_POLISH = 0.02  # of the budget: a share of it that says so
POLISH, MOST_POLISH = 5.0, 0.35  # the last polish: of the time to take up rows, of the budget

Passes = tuple[NDArray[np.int64], Floats, Floats]


class Budget(NamedTuple):
    """How long to search: passes of every row, or seconds a row."""

    passes: int = PASSES
    seconds: float | None = None
    clock: Callable[[], float] = timing.now
    heat: float = 1.0  # how much noise, times HEAT


class BudgetClock:
    """What is spent of a block's budget, with a reserve for the last polish."""

    def __init__(self, budget: Budget, begin: float, rows: int, apart: float = 0.0) -> None:
        """Since `begin` rows were taken up, but for the seconds `apart`."""
        taken = budget.clock() - begin - apart
        self._begin, self._clock, self.passes = begin, budget.clock, budget.passes
        self.heat = HEAT * budget.heat
        self.thorough, self._total = True, np.inf
        self.kicks = budget.passes // PASSES_PER_KICK
        if budget.seconds is not None:
            total = rows * budget.seconds
            reserve = POLISH * taken  # polishing takes that often taking up
            self.thorough = reserve <= MOST_POLISH * total
            self.kicks = KICKS if reserve <= LEAST_POLISH * total else 0
            self._total = total - reserve * (1.0 if self.thorough else 0.1)
        self.guess = GUESS * taken / self._total if self._total > 0 else 1.0

    @property
    def abounds(self) -> bool:
        """Whether there is time for everything."""
        return self.is_timed and self.kicks == KICKS

    @property
    def is_timed(self) -> bool:
        """Whether time decides, and not the number of passes."""
        return self._total < np.inf

    def spent(self) -> float:
        """Share of the time for passes that is over."""
        return (self._clock() - self._begin) / self._total if self._total > 0 else 1.0


def schedule(
    pool: Subgraphs, clock: BudgetClock, seed: int, first: int = QUICK
) -> Iterator[Passes]:
    """Members, noise and longest multiplier steps, a call's worth at a time.

    The `first` passes are of the first kind, and look for multipliers.
    """
    quick, globally, locally = pool.groups
    if not len(globally):
        return
    random = np.random.default_rng([seed, 1])
    variables = np.diff(pool.pool.members[:, :2], axis=1)[:, 0] / len(pool.layout.cards)
    work = np.maximum(1.0, pool.pool.work)
    done, count, ready, worked = 0, 1, 0.0, 0.0
    while True:
        if clock.is_timed:
            spent = clock.spent()
            ready = spent if done == 0 else ready
            rate = (spent - ready) / done if done else clock.guess  # of the time, a pass
            most = CALL if done else max(1, first)  # nothing is timed yet
            count = int(np.clip(1 / SHARES / max(rate, 1e-6), 1, most)) if spent < 1 - rate else 0
            progress = spent + rate * np.arange(count)
        else:
            count = min(CALL, clock.passes - done)
            progress = (done + np.arange(count)) / max(1, clock.passes)
        if count <= 0:
            return
        everywhere = (random.random(count) < SHARE) | (progress < FIRST)
        number = np.arange(done, done + count)
        members = np.select(
            [number < first, everywhere | (number < first + AT_LEAST)],
            [random.choice(quick, count), random.choice(globally, count)],
            random.choice(locally, count),
        )
        if clock.is_timed and done:  # members differ much in what they take
            expected = np.cumsum(work[members]) * (spent - ready) / worked
            longest = min(1.0 - spent, spent - ready)  # what is expected may be far off
            count = max(1, int((expected <= longest).sum()))
            members, number, progress = members[:count], number[:count], progress[:count]
        done, worked = done + count, worked + work[members].sum()
        heat = clock.heat * np.maximum(0.0, 1.0 - progress / COLD) * (number >= CALM)
        yield members, heat, np.maximum(SHORTEST, LONGEST * variables[members])
