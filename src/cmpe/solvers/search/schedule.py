"""The schedule of `search`: budgets, and the members, noise and multiplier steps of its passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.core.compiler import timing
from cmpe.core.search.settings import SETTINGS
from cmpe.solvers.search.pool import MemberKind, Subgraphs

KINDS = MemberKind(5.0, 0, 16), MemberKind(8.0, 0, 32), MemberKind(12.0, 120, 64)

Passes = tuple[NDArray[np.int64], Floats, Floats]


class Budget(NamedTuple):
    """How long to search: passes of every row, or seconds a row."""

    passes: int = SETTINGS.passes
    seconds: float | None = None
    clock: Callable[[], float] = timing.now
    heat: float = 1.0  # how much noise, times the heat of the settings


class BudgetClock:
    """What is spent of a block's budget, with a reserve for the last polish."""

    def __init__(self, budget: Budget, begin: float, rows: int, apart: float = 0.0) -> None:
        """Since `begin` rows were taken up, but for the seconds `apart`."""
        taken = budget.clock() - begin - apart
        self._begin, self._clock, self.passes = begin, budget.clock, budget.passes
        self.heat = SETTINGS.heat * budget.heat
        self.thorough, self._total = True, np.inf
        self.kicks = budget.passes // SETTINGS.passes_per_kick
        if budget.seconds is not None:
            total = rows * budget.seconds
            reserve = SETTINGS.polish * taken  # polishing takes that often taking up
            self.thorough = reserve <= SETTINGS.most_polish * total
            self.kicks = SETTINGS.kicks if reserve <= SETTINGS.least_polish * total else 0
            self._total = total - reserve * (1.0 if self.thorough else 0.1)
        self.guess = SETTINGS.pass_guess * taken / self._total if self._total > 0 else 1.0

    @property
    def abounds(self) -> bool:
        """Whether there is time for everything."""
        return self.is_timed and self.kicks == SETTINGS.kicks

    @property
    def is_timed(self) -> bool:
        """Whether time decides, and not the number of passes."""
        return self._total < np.inf

    def spent(self) -> float:
        """Share of the time for passes that is over."""
        return (self._clock() - self._begin) / self._total if self._total > 0 else 1.0


def schedule(
    pool: Subgraphs, clock: BudgetClock, seed: int, first: int = SETTINGS.quick
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
            most = SETTINGS.call if done else max(1, first)  # nothing is timed yet
            count = (
                int(np.clip(1 / SETTINGS.calls / max(rate, 1e-6), 1, most))
                if spent < 1 - rate
                else 0
            )
            progress = spent + rate * np.arange(count)
        else:
            count = min(SETTINGS.call, clock.passes - done)
            progress = (done + np.arange(count)) / max(1, clock.passes)
        if count <= 0:
            return
        everywhere = (random.random(count) < SETTINGS.global_share) | (
            progress < SETTINGS.global_start
        )
        number = np.arange(done, done + count)
        members = np.select(
            [number < first, everywhere | (number < first + SETTINGS.global_passes)],
            [random.choice(quick, count), random.choice(globally, count)],
            random.choice(locally, count),
        )
        if clock.is_timed and done:  # members differ much in what they take
            expected = np.cumsum(work[members]) * (spent - ready) / worked
            longest = min(1.0 - spent, spent - ready)  # what is expected may be far off
            count = max(1, int((expected <= longest).sum()))
            members, number, progress = members[:count], number[:count], progress[:count]
        done, worked = done + count, worked + work[members].sum()
        heat = (
            clock.heat * np.maximum(0.0, 1.0 - progress / SETTINGS.cold) * (number >= SETTINGS.calm)
        )
        yield (
            members,
            heat,
            np.maximum(SETTINGS.shortest_step, SETTINGS.longest_step * variables[members]),
        )
