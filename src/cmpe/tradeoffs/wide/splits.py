"""One split relaxation for all multipliers.

The problems of all multipliers have tables over the same variables, so that a split (see
`bounds.splitting`), which takes a second to make and a tenth to use, is made once. A larger one
follows where the first is too loose.
"""

from __future__ import annotations

import math
from contextlib import suppress

from cmpe.bounds.base import Work
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.splitting import Splitting, by_size
from cmpe.core.compiler import timing
from cmpe.errors import TooLarge
from cmpe.problem import Instances
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS


class SharedSplit:
    """The split that serves all multipliers of a row, once one has been made."""

    def __init__(self, memory: float | None = None) -> None:
        self._memory = memory
        self._left = list(WIDE_FRONTS.split_seconds)
        self._split: Relaxation | None = None
        self._next = 0.0  # when so many seconds are spent

    @property
    def is_made(self) -> bool:
        """Whether there is one."""
        return self._split is not None

    def enlarge(self, instances: Instances, spent: float, seconds: float) -> bool:
        """Make the next split, within so many seconds; whether there is a new one."""
        if not self._left or spent < self._next:
            return False
        begin = timing.now()
        work = Work(self._left.pop(0), until=begin + seconds, memory=self._memory)
        try:
            self._split = by_size(instances.conditioning, work)
        except TooLarge:  # or out of time
            self._left = []
            return False
        self._next = spent + WIDE_FRONTS.later_split * (timing.now() - begin)
        return True

    def bound(self, instances: Instances, seconds: float) -> float:
        """On the best objective; inf where there is no split of these tables."""
        if self._split is None or not self._split.fits(instances.conditioning):
            return math.inf
        work = Work(seconds, memory=self._memory)
        with suppress(TooLarge):
            return float(Splitting(self._split).upper_bound(instances, work).upper[0])
        return math.inf
