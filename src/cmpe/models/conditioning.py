"""What evidence leaves of several models: one structure for all rows, one table each per row.

Rows that observe the same variables share the scopes of the remaining tables; only the entries
differ. `Conditioning` finds that structure once; `tables` fills in the entries of a whole batch
in one compiled pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.models.flat import FlatTables, Floats, Integers
from cmpe.models.loglinear import LogLinearModel

Scope = tuple[int, ...]


class Gather(NamedTuple):
    """How the entries of one model flow into the shared tables (see `kernels.condition`)."""

    values: Floats
    offsets: Integers
    starts: Integers
    columns: Integers
    strides: Integers
    entries: Integers
    steps: Integers
    targets: Integers


class Conditioning:
    """The tables that several models keep once `observed` is known.

    `scopes` are sorted by size, then by variables; scope 0 is the empty one (the constant).
    Variables of cardinality 1 are never free. The entries of all tables lie end to end as
    `layout` (a FlatTables of zeros) says.
    """

    def __init__(self, models: Sequence[LogLinearModel], observed: Sequence[int]) -> None:
        cards = models[0].cardinalities
        self.cardinalities = cards
        self.observed = tuple(observed)
        known = set(self.observed) | {v for v, k in enumerate(cards) if k == 1}
        self.free = tuple(v for v in range(len(cards)) if v not in known)
        kept = [[self._kept(f.scope, known) for f in m.factors] for m in models]
        distinct = {scope for scopes in kept for scope in scopes} | {()}
        self.scopes: tuple[Scope, ...] = tuple(sorted(distinct, key=lambda s: (len(s), s)))
        self.layout = FlatTables.shaped(cards, self.scopes)
        self.gathers = [self._gather(m, s) for m, s in zip(models, kept, strict=True)]

    @staticmethod
    def _kept(scope: Scope, known: set[int]) -> Scope:
        return tuple(sorted(v for v in scope if v not in known))

    def _gather(self, model: LogLinearModel, kept: Sequence[Scope]) -> Gather:
        place = {scope: i for i, scope in enumerate(self.scopes)}
        column = {v: i for i, v in enumerate(self.observed)}
        flat = model.flat
        starts: list[int] = [0]
        columns: list[int] = []
        strides: list[int] = []
        steps: list[Integers] = []
        targets: list[Integers] = []
        for f, scope in enumerate(kept):
            own = slice(flat.starts[f], flat.starts[f + 1])
            stride = dict(
                zip(flat.variables[own].tolist(), flat.strides[own].tolist(), strict=True)
            )
            seen = [v for v in stride if v in column]
            columns.extend(column[v] for v in seen)
            strides.extend(stride[v] for v in seen)
            starts.append(len(columns))
            steps.append(
                _offsets([self.cardinalities[v] for v in scope], [stride[v] for v in scope])
            )
            targets.append(self.layout.offsets[place[scope]] + np.arange(len(steps[-1])))
        return Gather(
            flat.values,
            flat.offsets,
            np.asarray(starts, dtype=np.int64),
            np.asarray(columns, dtype=np.int64),
            np.asarray(strides, dtype=np.int64),
            np.concatenate([[0], np.cumsum([len(s) for s in steps])]).astype(np.int64),
            np.concatenate([np.zeros(0, np.int64), *steps]),
            np.concatenate([np.zeros(0, np.int64), *targets]),
        )

    def tables(self, which: int, evidence: NDArray[np.integer]) -> Floats:
        """The entries of model `which` for every row of `evidence` (B, |observed|): (B, E)."""
        from cmpe.models import kernels

        lanes = np.ascontiguousarray(evidence.T, dtype=np.int64)  # (|observed|, B)
        out = np.zeros((len(self.layout.values), len(evidence)))
        kernels.condition(lanes, self.gathers[which], out)
        return np.ascontiguousarray(out.T)


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> Integers:
    """The flat offsets of a sub-table, in C order of its own axes."""
    total = np.zeros(1, dtype=np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        total = (total[:, np.newaxis] + stride * np.arange(size)).ravel()
    return total
