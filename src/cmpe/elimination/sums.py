"""Sums over assignments by elimination: log-partitions, marginals and samples of batches of rows.

The messages of a bucket tree carry the state of running counts along (`core.sums`), so that the
sums are over the assignments whose counts lie within limits. With counts of caps c_1, ..., c_m a
message has up to (c_1 + 1) ... (c_m + 1) states, and joining two messages takes that number squared
at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats, Integers
from cmpe.core.buckets import (
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    SIZE,
    VARIABLE,
    CompiledPlan,
)
from cmpe.core.sums import CountedPlan, Weights
from cmpe.elimination.counts import Count
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.elimination.settings import ELIMINATION
from cmpe.errors import TooLarge
from cmpe.models.flat import FlatTables

Box = tuple[int, ...]


class Marginals(NamedTuple):
    """Of each row: the log-partition and the probabilities of values and of table entries."""

    log_partition: Floats  # (B,)
    values: tuple[Floats, ...]  # of each bucket's variable: (B, states)
    entries: Floats  # (B, E)


@dataclass(frozen=True)
class LogSum:
    """The sum over the assignments of one structure, within the limits of counts.

    `tables` are rows of table entries (B, E) as `layout` has them. Rows share the structure. They
    also share what entries add to a count, unless `Count.added` has a row for each.
    """

    counted: CountedPlan
    counts: tuple[Count, ...]
    boxes: Integers  # (states, m) the totals that each state of the last bucket means

    @classmethod
    def of(
        cls,
        plan: CompiledPlan,
        layout: FlatTables,
        counts: tuple[Count, ...] = (),
        memory_limit: int = MEMORY_LIMIT,
    ) -> LogSum:
        """Lay out the states; refuses what takes too much memory or time."""
        shape = _Shape(with_top(plan, layout), layout, counts)
        shape.check(memory_limit)
        return cls(shape.counted(), counts, _totals(shape.boxes[-1]))

    def log_partitions(self, tables: Floats, *, threads: int = 1) -> Floats:
        """The log-partition of every row: (B,), -inf where no assignment is allowed."""
        from cmpe.core import sums as kernels

        out = np.zeros(len(tables))
        self._each(
            tables, threads, lambda rows, w: kernels.log_partitions(self.counted, w, out[rows])
        )
        return out

    def marginals(self, tables: Floats, *, threads: int = 1) -> Marginals:
        """The log-partition of every row and its derivatives: probabilities."""
        from cmpe.core import sums as kernels

        out = np.zeros(len(tables))
        values = np.zeros((len(tables), int(self.counted.values[-1])))
        entries = np.zeros(tables.shape)
        self._each(
            tables,
            threads,
            lambda rows, w: kernels.marginals(
                self.counted, w, out[rows], values[rows], entries[rows]
            ),
        )
        by_bucket = np.split(values, self.counted.values[1:-1], axis=1)[: self.variables.size]
        return Marginals(out, tuple(by_bucket), entries)

    def samples(
        self,
        tables: Floats,
        count: int,
        generator: np.random.Generator,
        variables: int,
        *,
        threads: int = 1,
    ) -> Assignments:
        """`count` exact samples of every row over so many variables: (B, count, variables).

        The values of eliminated variables; 0 elsewhere. -1 where no assignment is allowed.
        """
        from cmpe.core import sums as kernels

        out = np.zeros((len(tables), count, variables), dtype=np.int32)
        uniforms = generator.random((len(tables), self.draws, count))
        self._each(
            tables,
            threads,
            lambda rows, w: kernels.samples(self.counted, w, uniforms[rows], out[rows]),
        )
        return out

    @property
    def draws(self) -> int:
        """How many random numbers a sample takes."""
        counted = len(self.counted.joins) + 1 if self.counts else 0
        return max(1, self.variables.size + counted)

    @property
    def variables(self) -> Integers:
        """The variable of each bucket, in the order of elimination."""
        return self.counted.plan.buckets[:-1, VARIABLE]

    def _each(self, tables: Floats, threads: int, work: Callable[[slice, Weights], None]) -> None:
        """Work on every chunk of rows; compiled code runs in parallel."""
        shared = all(len(c.added) == 1 for c in self.counts)
        length = len(self.counts)
        accepted = self._accepted(len(tables))
        added = np.zeros((1 if shared else len(tables), tables.shape[1], length), dtype=np.int64)
        for j, count in enumerate(self.counts):
            added[:, :, j] = count.added

        def part(rows: slice) -> None:
            entries = added if shared else added[rows]
            chunk = np.ascontiguousarray(tables[rows], dtype=np.float64)
            work(rows, Weights(chunk, entries, accepted[rows]))

        size, each = len(tables), ELIMINATION.chunk
        chunks = [slice(a, min(a + each, size)) for a in range(0, size, each)]
        if threads > 1 and len(chunks) > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, chunks))
        else:
            for rows in chunks:
                part(rows)

    def _accepted(self, rows: int) -> Floats:
        """0 for the states of the last bucket that lie within a row's limits, else -inf."""
        inside = np.ones((rows, len(self.boxes)), dtype=bool)
        for j, count in enumerate(self.counts):
            total = self.boxes[:, j]
            inside &= count.low[:, np.newaxis] <= total
            if not count.saturates:
                inside &= total <= count.high[:, np.newaxis]
        return np.where(inside, 0.0, -np.inf)


def with_top(plan: CompiledPlan, layout: FlatTables) -> CompiledPlan:
    """The plan with one more bucket, of no variable, that joins the roots and the constants."""
    roots = np.flatnonzero(plan.buckets[:, AXIS_COUNT] == 0)
    constants = np.flatnonzero(np.diff(layout.starts) == 0)
    inputs = [(int(layout.offsets[f]), 0, 0, -1) for f in constants]
    inputs += [(int(plan.buckets[k, MESSAGE]), 0, 0, int(k)) for k in roots]
    top = np.zeros((1, plan.buckets.shape[1]), dtype=np.int64)
    top[0, [VARIABLE, CARD, SIZE, MESSAGE]] = -1, 1, 1, plan.total
    top[0, [INPUTS, INPUT_COUNT]] = len(plan.inputs), len(inputs)
    return plan._replace(
        buckets=np.concatenate([plan.buckets, top]),
        inputs=np.concatenate([plan.inputs, np.array(inputs, dtype=np.int64).reshape(-1, 4)]),
        most_inputs=max(plan.most_inputs, len(inputs) + 1),
    )


class _Shape:
    """How many states each message has, and how they are joined."""

    def __init__(self, plan: CompiledPlan, layout: FlatTables, counts: tuple[Count, ...]) -> None:
        self.plan, self.counts = plan, counts
        self.caps = tuple(count.cap for count in counts)
        tops = [np.maximum.reduceat(c.added.max(axis=0), layout.offsets[:-1]) for c in counts]
        self.boxes: list[Box] = []  # of each bucket: the highest total of each count, plus 1
        self.own: list[Box] = []  # the same of its tables alone
        self.joins: list[tuple[int, Box, Box, Box]] = []
        self.join_starts = [0]
        self.work = self.memory = 0
        table = np.searchsorted(layout.offsets, plan.inputs[:, 0], side="right") - 1
        for bucket in plan.buckets.tolist():
            inputs = range(bucket[INPUTS], bucket[INPUTS] + bucket[INPUT_COUNT])
            child_of = {i: int(plan.inputs[i, CHILD]) for i in inputs}
            tables = [int(table[i]) for i, child in child_of.items() if child < 0]
            here = self._capped(tuple(int(top[tables].sum()) for top in tops))
            box, pairs = here, 0
            for i, child in child_of.items():
                if child < 0 or math.prod(self.boxes[child]) == 1:
                    continue
                joined = self.boxes[child]
                after = self._capped(tuple(a + b - 2 for a, b in zip(box, joined, strict=True)))
                self.joins.append((i, box, joined, after))
                pairs += math.prod(box) * math.prod(joined)
                box = after
            self.own.append(here)
            self.boxes.append(box)
            self.join_starts.append(len(self.joins))
            self.memory += 8 * bucket[SIZE] * math.prod(box)
            self.work += bucket[SIZE] * bucket[CARD] * (pairs + math.prod(box))

    def _capped(self, totals: Box) -> Box:
        return tuple(min(t, cap) + 1 for t, cap in zip(totals, self.caps, strict=True))

    def check(self, memory_limit: int) -> None:
        """Refuse before any memory is taken."""
        pairs = [math.prod(a) * math.prod(b) for _, a, b, _ in self.joins]
        if self.memory > memory_limit or max(pairs, default=0) > ELIMINATION.pairs:
            raise TooLarge(
                f"elimination with running counts needs {self.memory >> 20} MiB and joins of "
                f"{max(pairs, default=0)} pairs of states; the limits are {memory_limit >> 20} MiB "
                f"and {ELIMINATION.pairs} pairs"
            )
        if self.counts and self.work > ELIMINATION.weights:
            raise TooLarge(
                f"elimination with running counts adds {self.work} weights a row; the limit is "
                f"{ELIMINATION.weights}"
            )

    def counted(self) -> CountedPlan:
        """The same as arrays."""
        plan, m = self.plan, len(self.caps)
        states = np.array([math.prod(box) for box in self.boxes], dtype=np.int64)
        maps: dict[tuple[Box, Box], int] = {}
        parts: list[Integers] = []
        rows = []
        for i, before, joined, after in self.joins:
            if (before, joined) not in maps:
                maps[before, joined] = sum(map(len, parts))
                parts.append(self._map(before, joined, after))
            sizes = map(math.prod, (before, joined, after))
            rows.append((i, *sizes, maps[before, joined]))
        starts = np.cumsum(np.concatenate([[0], plan.buckets[:, SIZE] * states]))
        own_states = [math.prod(box) for box in self.own]
        return CountedPlan(
            plan=plan,
            starts=starts.astype(np.int64),
            states=states,
            caps=np.array(self.caps, dtype=np.int64),
            saturates=np.array([int(c.saturates) for c in self.counts], dtype=np.int64),
            radix=np.array([_radix(box) for box in self.own], dtype=np.int64).reshape(
                len(own_states), m
            ),
            first=np.array(own_states, dtype=np.int64),
            joins=np.array(rows, dtype=np.int64).reshape(-1, 5),
            join_starts=np.array(self.join_starts, dtype=np.int64),
            maps=np.concatenate([np.zeros(0, dtype=np.int64), *parts]),
            values=np.cumsum([0, *plan.buckets[:, CARD].tolist()]).astype(np.int64),
            most_states=int(
                max(states.max(), *own_states, *(math.prod(j[3]) for j in self.joins), 1)
            ),
            most_joins=int(np.diff(self.join_starts).max(initial=0)),
        )

    def _map(self, before: Box, joined: Box, after: Box) -> Integers:
        """The state that each pair makes, or -1."""
        total = _totals(before)[:, np.newaxis] + _totals(joined)[np.newaxis]
        caps = np.array(self.caps, dtype=np.int64)
        stays = np.array([c.saturates for c in self.counts])
        outside = ((total > caps) & ~stays).any(axis=2)
        made = np.minimum(total, caps) @ np.array(_radix(after), dtype=np.int64)
        return np.asarray(np.where(outside, -1, made).ravel(), dtype=np.int64)


def _totals(box: Box) -> NDArray[np.int64]:
    """The totals (states, m) that each state of a box stands for."""
    numbers = np.arange(math.prod(box))
    digits = np.unravel_index(numbers, box) if box else ()
    return np.stack([numbers, *digits], axis=1)[:, 1:].astype(np.int64)


def _radix(box: Box) -> Box:
    """By how much each count moves the number of a state, the last one by 1."""
    return tuple(math.prod(box[j + 1 :]) for j in range(len(box)))
