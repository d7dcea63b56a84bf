"""The tables of wide problems on tensors: no elimination, all rows of a batch at once.

Local search, messages and split relaxations read the same things: the entries that evidence
leaves of every function, (E, B) each with a row of evidence as a column, and indices of *slots*.
A slot is one value of one free variable, in the order of `Conditioning.free`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Assignments, Integers
from cmpe.bounds.base import PADDING
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import TooLarge
from cmpe.problem import Instances
from cmpe.tensor.device import INF, scalar_on
from cmpe.tensor.layout import Bags, EvidenceTables, satisfied
from cmpe.tensor.plan import device_evidence


class BatchTables(NamedTuple):
    """`bounds.base.RowTables` of many rows: entries of t made finite."""

    h: Tensor  # (E, B)
    t: Tensor  # (m, E, B)
    least: Tensor  # (B,) below any finite h
    units: Tensor  # (m, B)


class Runs:
    """Consecutive numbers, ragged: run r is starts[r]:starts[r] + lengths[r]; none is empty.

    Runs of one length are handled together, so that maximisers need no padding.
    """

    def __init__(self, starts: Integers, lengths: Integers, device: torch.device) -> None:
        self._parts = []
        for length in np.unique(lengths).tolist():
            which = np.flatnonzero(lengths == length)
            rows = starts[which] + np.arange(length)[:, np.newaxis]  # (length, runs)
            self._parts.append(tuple(torch.as_tensor(a, device=device) for a in (which, rows)))
        self._count = len(lengths)

    def max(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The greatest of the numbers (N, B) of each run, and the first place that has it."""
        shape = (self._count, numbers.shape[1])
        most = numbers.new_zeros(shape)
        place = torch.zeros(shape, dtype=torch.int64, device=numbers.device)
        for which, rows in self._parts:
            inside = numbers.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)
            own, at = inside.max(0)
            most.index_copy_(0, which, own)
            place.index_copy_(0, which, at)
        return most, place


class WideTables:
    """The structure that the rows of some instances share, on one device."""

    def __init__(self, instances: Instances, device: str) -> None:
        self.instances, self.structure = instances, instances.conditioning
        self.like = scalar_on(device)
        layout = self.structure.layout
        self.entries, self.offsets = len(layout.values), layout.offsets
        self._functions = [
            EvidenceTables(g, self.entries, self.like) for g in self.structure.gathers
        ]
        number = {v: i for i, v in enumerate(self.structure.free)}
        cards = [self.structure.cardinalities[v] for v in self.structure.free]
        self.cards = np.array(cards, dtype=np.int64)
        self.first = np.concatenate([[0], np.cumsum(self.cards)]).astype(np.int64)  # of slots
        self.slots = int(self.first[-1])
        arities = np.diff(layout.starts)
        self.axis_table = np.repeat(np.arange(len(arities)), arities)  # (A,)
        free = [number[int(v)] for v in layout.variables]
        self.axis_variable = np.array(free, dtype=np.int64)
        self.axis_stride = layout.strides

    @cached_property
    def tables(self) -> Runs:
        """The entries of each table."""
        return Runs(self.offsets[:-1], np.diff(self.offsets), self.like.device)

    @cached_property
    def variables(self) -> Runs:
        """The slots of each free variable."""
        return Runs(self.first[:-1], self.cards, self.like.device)

    @cached_property
    def _bags(self) -> Bags:
        sizes = np.diff(self.offsets)
        return Bags.of([np.arange(self.entries)], sizes, self.like.device)

    @cached_property
    def _positions(self) -> tuple[Bags, Tensor]:
        bags = Bags.of([self.axis_variable], np.diff(self.structure.layout.starts), self.device)
        start = torch.as_tensor(self.offsets[:-1], device=self.device)[:, None]
        return bags.weighted(self.axis_stride), start

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.like.device

    def index(self, numbers: NDArray[np.integer]) -> Tensor:
        """Whole numbers on the device."""
        return torch.as_tensor(np.asarray(numbers, dtype=np.int64), device=self.device)

    def positions(self, z: Tensor) -> Tensor:
        """The entry of each table at z (F, B): (T, B)."""
        bags, start = self._positions
        return bags.sum(z.to(torch.float64)).long() + start

    def given(self, rows: slice) -> list[Tensor]:
        """What evidence leaves of each function, -inf included: (E, B) each."""
        evidence = device_evidence(self.instances.evidence[rows], self.device)
        return [function.given(evidence) for function in self._functions]

    def limits(self) -> Tensor:
        """Limits under which every assignment that the problem calls feasible stays: (m, 1)."""
        limits = [c.loosened(PADDING) for c in self.instances.problem.constraints]
        return self.like.new_tensor(limits).view(-1, 1)

    def row_tables(self, rows: slice) -> BatchTables:
        """`bounds.base.row_tables`, the rows of a chunk together."""
        h, *raw = self.given(rows)
        varies, units = self._spread(h), h.new_ones((len(raw), h.shape[1]))
        t = h.new_zeros((len(raw), *h.shape))
        for j, constraint in enumerate(self.instances.problem.constraints):
            spread = self._spread(raw[j])
            both = (spread > 0) & (varies > 0)
            units[j] = torch.where(both, varies / torch.where(both, spread, 1.0), 1.0)
            finite, limit = constraint.function.is_finite, constraint.loosened(PADDING)
            t[j] = raw[j] if finite else satisfied(self._bags, raw[j], limit)
        return BatchTables(h, t, self._least(h), units)

    def floored(self, h: Tensor) -> Tensor:
        """`bounds.messages.floored`: -inf in h becomes a loss that no other table makes up for."""
        zero = h == -INF
        least = -self._bags.max(-h.masked_fill(zero, 0.0)).sum(0)
        most = self._bags.max(h).clamp(min=0.0).sum(0)
        return torch.where(zero, least - most - 1.0, h)

    def _lowest(self, entries: Tensor) -> Tensor:
        return -self._bags.max((-entries).masked_fill(entries == -INF, -INF))

    def _spread(self, entries: Tensor) -> Tensor:
        most = self._bags.max(entries)
        return torch.where(most == -INF, 0.0, most - self._lowest(entries)).sum(0)

    def mean_spread(self, entries: Tensor) -> Tensor:
        """How far apart a table's largest and least finite entries are, on average; 1 for 0."""
        spread = self._spread(entries) / (len(self.offsets) - 1)
        return torch.where(spread > 0.0, spread, 1.0)

    def _least(self, h: Tensor) -> Tensor:
        least = self._lowest(h).sum(0)
        known = torch.where(least.isfinite(), least, 0.0)
        return torch.where(least.isfinite(), known - 1e-6 * (1.0 + known.abs()), -INF)

    def chunks(self, numbers: int) -> Iterator[slice]:
        """Rows that fit into memory together, at `numbers` numbers a row beside the tables."""
        functions = 2 * len(self._functions) + 4
        per_row = 8 * (functions * self.entries + numbers)
        if per_row > MEMORY_LIMIT:
            raise TooLarge(
                f"one row needs {per_row / 2**30:.4g} GiB; "
                f"the limit is {MEMORY_LIMIT / 2**30:.4g} GiB"
            )
        count, most = len(self.instances), MEMORY_LIMIT // per_row
        for start in range(0, count, most):
            yield slice(start, min(start + most, count))

    def starts(self, rows: Assignments) -> Tensor:
        """Full assignments (B, n) as values of the free variables: (F, B)."""
        return self.index(rows[:, list(self.structure.free)].T.copy())

    def complete(self, z: Tensor, rows: slice) -> Assignments:
        """Values of the free variables (F, B) as full assignments (B, n)."""
        return self.instances.complete(z.T.cpu().numpy(), rows)
