"""The tables of wide problems on tensors: no elimination, all rows of a batch at once.

Split relaxations read the entries that evidence leaves of every function: (E, B) each, with a row
of evidence as a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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

    @cached_property
    def _bags(self) -> Bags:
        sizes = np.diff(self.offsets)
        return Bags.of([np.arange(self.entries)], sizes, self.like.device)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.like.device

    def index(self, numbers: NDArray[np.integer]) -> Tensor:
        """Whole numbers on the device."""
        return torch.as_tensor(np.asarray(numbers, dtype=np.int64), device=self.device)

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

    def _lowest(self, entries: Tensor) -> Tensor:
        return -self._bags.max((-entries).masked_fill(entries == -INF, -INF))

    def _spread(self, entries: Tensor) -> Tensor:
        most = self._bags.max(entries)
        return torch.where(most == -INF, 0.0, most - self._lowest(entries)).sum(0)

    def _least(self, h: Tensor) -> Tensor:
        least = self._lowest(h).sum(0)
        finite = torch.where(least.isfinite(), least, 0.0)
        return torch.where(least.isfinite(), finite - 1e-6 * (1.0 + finite.abs()), -INF)

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
