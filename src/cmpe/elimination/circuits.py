"""Sums over assignments as circuits: elimination without the terms that are always 0.

Tables of rules hold mostly entries of -inf. Where all rows have the same ones, the terms of a
bucket tree that contain such an entry are left out, and an entry of a message that is one other
number stands for that number. So an implication costs two terms, and a rule over many variables as
many terms as its states have steps.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.core.buckets import (
    AXES,
    AXIS_COUNT,
    CARD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    OFFSET,
    SIZE,
    STEP,
    STRIDES,
    CompiledPlan,
)
from cmpe.core.circuits import CircuitTerms
from cmpe.elimination.settings import ELIMINATION
from cmpe.errors import TooLarge

NONE = -1  # no node


class CircuitSums(NamedTuple):
    """Of each row: the log-partition, its derivatives, and the expectation of all constants."""

    log_partition: Floats  # (B,)
    probabilities: Floats  # (B, leaves)
    mean: Floats  # (B,)


@dataclass(frozen=True)
class Circuit:
    """The sum over the assignments of one structure; rows (B, leaves) give what they add."""

    terms: CircuitTerms
    draws: int  # random numbers that a sample takes at most

    @classmethod
    def of(cls, plan: CompiledPlan, tables: Floats, leaves: Integers, count: int) -> Circuit:
        """Lay out a plan with its last bucket of no variable (`sums.with_top`).

        `tables` (E,) are the entries that all rows share; `leaves` (E,) names the leaf, below
        `count`, that is added to an entry, or -1.
        """
        layout = _Layout(plan, tables, leaves, count)
        for bucket in plan.buckets:
            layout.add(bucket)
        return cls(layout.terms(), max(1, len(plan.buckets)))

    def sums(self, leaves: Floats, *, threads: int = 1) -> CircuitSums:
        """Log-partitions, probabilities of leaves, and expectations."""
        from cmpe.core import circuits as kernels

        out = CircuitSums(np.zeros(len(leaves)), np.zeros(leaves.shape), np.zeros(len(leaves)))

        def part(rows: slice) -> None:
            kernels.sums(self.terms, leaves[rows], *(a[rows] for a in out))

        size, each = len(leaves), ELIMINATION.chunk
        chunks = [slice(a, min(a + each, size)) for a in range(0, size, each)]
        if threads > 1 and len(chunks) > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, chunks))
        else:
            for rows in chunks:
                part(rows)
        return out

    def samples(
        self, leaves: Floats, count: int, generator: np.random.Generator
    ) -> NDArray[np.int8]:
        """`count` exact samples of every row (B, count, leaves): 1 where a leaf is in it, else 0.

        -1 where no assignment is allowed.
        """
        from cmpe.core import circuits as kernels

        out = np.zeros((len(leaves), count, self.terms.leaves), dtype=np.int8)
        kernels.samples(self.terms, leaves, generator.random((len(leaves), count, self.draws)), out)
        return out


class _Layout:
    """A circuit while its buckets are laid out: of each entry, its node and what is added to it."""

    def __init__(self, plan: CompiledPlan, tables: Floats, leaves: Integers, count: int) -> None:
        self.plan, self.leaves, self.nodes = plan, count, count
        self.total = 0  # terms
        self.node = np.full(plan.total + 1, NONE, dtype=np.int64)
        self.added = np.zeros(plan.total + 1)
        self.node[: len(tables)], self.added[: len(tables)] = leaves, tables
        self.lengths: list[Integers] = []  # terms of each node
        self.constants: list[Floats] = []
        self.widths: list[Integers] = []  # operands of each term
        self.operands: list[Integers] = []

    def add(self, bucket: Integers) -> None:
        """The terms of a bucket's message."""
        places = self._places(bucket)
        added = self.added[places].sum(axis=0)
        entry, value = np.nonzero(added > -np.inf)
        first = int(bucket[MESSAGE])
        self.added[first : first + int(bucket[SIZE])] = -np.inf
        constants = added[entry, value]
        operands = self.node[places[:, entry, value]].T
        width = (operands != NONE).sum(axis=1)
        single = (np.bincount(entry, minlength=1)[entry] == 1) & (width <= 1)
        self.node[first + entry[single]] = operands[single].max(axis=1, initial=NONE)
        self.added[first + entry[single]] = constants[single]
        entry, constants, operands = entry[~single], constants[~single], operands[~single]
        made, lengths = np.unique(entry, return_counts=True)
        self.node[first + made] = self.nodes + np.arange(len(made))
        self.added[first + made] = 0.0
        self.nodes += len(made)
        self.lengths.append(lengths)
        self.constants.append(constants)
        self.widths.append(width[~single])
        self.operands.append(operands[operands != NONE])
        self.total += len(entry)
        if self.total > ELIMINATION.terms:
            raise TooLarge(f"elimination adds more than {ELIMINATION.terms} terms a row")

    def _places(self, bucket: Integers) -> Integers:
        """Where each input has each entry and value: (inputs, entries, values)."""
        plan, width = self.plan, int(bucket[AXIS_COUNT])
        axes = slice(int(bucket[AXES]), int(bucket[AXES]) + width)
        digits = np.indices(tuple(plan.axis_cards[axes].tolist())).reshape(width, int(bucket[SIZE]))
        values = np.arange(bucket[CARD])
        parts = []
        for place in plan.inputs[bucket[INPUTS] : bucket[INPUTS] + bucket[INPUT_COUNT]]:
            strides = plan.strides[place[STRIDES] : place[STRIDES] + width]
            entries = place[OFFSET] + strides @ digits
            parts.append(entries[:, np.newaxis] + place[STEP] * values)
        return np.reshape(parts, (-1, int(bucket[SIZE]), len(values))).astype(np.int64)

    def terms(self) -> CircuitTerms:
        """All arrays; the last message is the whole sum."""
        return CircuitTerms(
            leaves=self.leaves,
            starts=_starts(self.lengths),
            constants=np.concatenate(self.constants),
            places=_starts(self.widths),
            operands=np.concatenate(self.operands),
            root=int(self.node[-1]),
            base=float(self.added[-1]),
        )


def _starts(lengths: list[Integers]) -> Integers:
    return np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *lengths]))
