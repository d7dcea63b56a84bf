"""Constraints whose tables hold whole numbers (times a step) as counts that elimination can carry.

    t(z) <= q   is   number(z) <= floor((q - least t) / step)

where an entry adds (entry - least entry of its table) / step to the number. Counting the steps down
from the largest t, which must then reach a limit, is equivalent; the direction with fewer states is
chosen. A count without an upper limit stops at its lower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.elimination.settings import ELIMINATION
from cmpe.models.flat import FlatTables

SCALES = (1.0, 10.0, 100.0, 1000.0, 10000.0)  # decimals of costs that are no whole numbers
ROUNDING = 1e-9


@dataclass(frozen=True)
class Count:
    """One count of every row: what entries add, and between which totals it must lie."""

    added: Integers  # (1 or B, E), at least 0
    low: Integers  # (B,)
    high: Integers  # (B,)
    most: Integers  # (1 or B,) the largest total
    numbers: tuple[int, ...]  # of the constraints that it stands for
    saturates: bool = False  # at its cap, which is then the largest `low`

    @property
    def cap(self) -> int:
        """The largest total that counts as a state of its own."""
        ends = self.low if self.saturates else self.high
        return int(np.clip(ends, 0, None).max(initial=0))

    def of_rows(self, rows: slice) -> Count:
        """The count of some of the rows, with the same cap."""
        added = self.added if len(self.added) == 1 else self.added[rows]
        return replace(self, added=added, low=self.low[rows], high=self.high[rows])


@dataclass(frozen=True)
class Counts:
    """All counts of a batch of rows."""

    counts: tuple[Count, ...]
    rest: tuple[int, ...]  # constraints that are no counts

    @classmethod
    def of(cls, layout: FlatTables, limited: Sequence[tuple[Floats, Floats]]) -> Counts:
        """From the tables (B, E) of each constraint and the largest value (B,) that it allows."""
        counts: list[Count] = []
        rest: list[int] = []
        for number, (tables, most) in enumerate(limited):
            count = _CountReader(layout, tables, most, number).read()
            if count is None:
                rest.append(number)
            else:
                _merge(counts, count, layout)
        chosen = [_cheaper(count, layout) for count in counts]
        return cls(tuple(c for c in chosen if not _holds_always(c)), tuple(rest))

    def without_largest(self) -> Counts:
        """The count with most states becomes one of the rest."""
        worst = max(self.counts, key=lambda count: count.cap)
        rest = tuple(count for count in self.counts if count is not worst)
        return Counts(rest, tuple(sorted((*self.rest, *worst.numbers))))


@dataclass(frozen=True)
class _CountReader:
    """One constraint's tables on their way to a count."""

    layout: FlatTables
    tables: Floats
    most: Floats
    number: int

    def read(self) -> Count | None:
        arity = np.repeat(np.diff(self.layout.starts), np.diff(self.layout.offsets))
        constant = self.tables[:, arity == 0].sum(axis=1)
        tables = self.tables
        if (tables[:, arity > 0] == tables[:1, arity > 0]).all():
            tables = tables[:1]
        tables = np.where(arity > 0, tables, 0.0)
        if np.isneginf(tables).any() or np.isneginf(constant).any():
            return self._with_zeros(tables, constant)
        least = _least(self.layout, tables)
        step, added = _whole(tables - _spread(self.layout, least))
        if added is None:
            return None
        with np.errstate(invalid="ignore"):
            left = (self.most - constant - least.sum(axis=1)) / step
        most = _largest(self.layout, added).sum(axis=1)
        high = np.floor(np.clip(left, -1.0, most.max(initial=0))).astype(np.int64)
        return Count(added, np.zeros_like(high), high, most, (self.number,))

    def _with_zeros(self, tables: Floats, constant: Floats) -> Count | None:
        """A value of -inf satisfies the limit: count down, and such an entry is enough."""
        free = np.isneginf(tables)
        largest = _largest(self.layout, tables)
        largest = np.where(np.isneginf(largest), 0.0, largest)
        down = np.where(free, 0.0, _spread(self.layout, largest) - tables)
        step, added = _whole(down)
        if added is None:
            return None
        most = _largest(self.layout, added).sum(axis=1)
        need = np.where(np.isneginf(constant), 0.0, constant + largest.sum(axis=1) - self.most)
        low = np.ceil(np.clip(need / step, 0.0, most.max(initial=0) + 1.0)).astype(np.int64)
        added = np.where(free, low.max(initial=0), added)
        most = np.array([ELIMINATION.count_steps])
        high = np.full_like(low, most[0])
        return Count(added, low, high, most, (self.number,), saturates=True)


def _whole(above: Floats) -> tuple[float, Integers | None]:
    """The largest step whose multiples all numbers are, and how many steps each is."""
    values = np.unique(above)
    for scale in SCALES:
        scaled = values * scale
        rounded = np.round(scaled)
        if (
            scaled[-1] < ELIMINATION.count_steps
            and (np.abs(scaled - rounded) <= ROUNDING * np.maximum(1.0, scaled)).all()
        ):
            divisor = max(1, int(np.gcd.reduce(rounded.astype(np.int64))))
            step = divisor / scale
            return step, np.round(above / step).astype(np.int64)
    return 1.0, None


def _merge(found: list[Count], new: Count, layout: FlatTables) -> None:
    """Add a count, or give one of the same or of opposite steps another limit."""
    for place, old in enumerate(found):
        if old.saturates or new.saturates or old.added.shape != new.added.shape:
            continue
        numbers = (*old.numbers, *new.numbers)
        if np.array_equal(old.added, new.added):
            high = np.minimum(old.high, new.high)
            found[place] = replace(old, high=high, numbers=numbers)
            return
        if np.array_equal(old.added, _turned(new.added, layout)):
            low = np.maximum(old.low, new.most - new.high)
            found[place] = replace(old, low=low, numbers=numbers)
            return
    found.append(new)


def _cheaper(count: Count, layout: FlatTables) -> Count:
    """The direction with fewer states."""
    if count.saturates:
        return count
    turned = replace(
        count,
        added=_turned(count.added, layout),
        low=count.most - count.high,
        high=count.most - count.low,
    )
    both = [replace(c, saturates=bool((c.high >= c.most).all())) for c in (count, turned)]
    return min(both, key=lambda c: c.cap)


def _holds_always(count: Count) -> bool:
    return count.saturates and bool((count.low <= 0).all())


def _turned(added: Integers, layout: FlatTables) -> Integers:
    """The steps down from each table's largest entry instead of up from its least."""
    return np.asarray(_spread(layout, _largest(layout, added)) - added)


def _least(layout: FlatTables, values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.minimum.reduceat(values, layout.offsets[:-1], axis=1))


def _largest(layout: FlatTables, values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.maximum.reduceat(values, layout.offsets[:-1], axis=1))


def _spread(layout: FlatTables, by_table: NDArray[Any]) -> NDArray[Any]:
    """A number of each table for each of its entries."""
    return np.repeat(by_table, np.diff(layout.offsets), axis=1)
