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

from cmpe.arrays import Floats, Integers
from cmpe.models.flat import FlatTables, strides_of
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


class Gathers(NamedTuple):
    """Those of several models end to end: compiled code is then the same for any number."""

    gather: Gather  # targets are within one model's entries
    first: Integers  # (M + 1,) where each model's tables start

    @classmethod
    def of(cls, parts: Sequence[Gather]) -> Gathers:
        """Lay them end to end."""
        return cls(
            Gather(
                np.concatenate([g.values for g in parts]),
                _chained([g.offsets for g in parts]),
                _chained([g.starts for g in parts]),
                np.concatenate([g.columns for g in parts]),
                np.concatenate([g.strides for g in parts]),
                _chained([g.entries for g in parts]),
                np.concatenate([g.steps for g in parts]),
                np.concatenate([g.targets for g in parts]),
            ),
            np.cumsum([0, *(len(g.offsets) - 1 for g in parts)], dtype=np.int64),
        )


def _chained(starts: Sequence[Integers]) -> Integers:
    """Starts of lists that follow one another as starts of all of them."""
    sizes = np.concatenate([np.diff(own) for own in starts])
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


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
        self._models = tuple(models)
        self.gathers: list[Gather] = []
        for model, scopes in zip(models, kept, strict=True):
            self.gathers.append(self._gather(model, scopes, self.gathers))

    @staticmethod
    def _kept(scope: Scope, known: set[int]) -> Scope:
        if known.isdisjoint(scope):
            return scope if len(scope) < 2 else tuple(sorted(scope))
        return tuple(sorted([v for v in scope if v not in known]))

    def _gather(
        self, model: LogLinearModel, kept: Sequence[Scope], known: Sequence[Gather]
    ) -> Gather:
        """Models of equal scopes (M1 and its noisy copy M2) share all but the values."""
        flat = model.flat
        for other, gather in zip(self._models, known, strict=False):
            if [f.scope for f in other.factors] == [f.scope for f in model.factors]:
                return gather._replace(values=flat.values)
        place = {scope: int(self.layout.offsets[i]) for i, scope in enumerate(self.scopes)}
        column = {v: i for i, v in enumerate(self.observed)}
        starts, entries = [0], [0]
        columns: list[int] = []
        strides: list[int] = []
        steps: list[int] = []
        targets: list[int] = []
        offsets: dict[tuple[tuple[int, ...], ...], list[int]] = {}  # few shapes, many tables
        for factor, scope in zip(model.factors, kept, strict=True):
            stride = strides_of(factor.scope, self.cardinalities)
            if len(scope) < len(factor.scope):
                for v in factor.scope:
                    if v in column:
                        columns.append(column[v])
                        strides.append(stride[v])
            starts.append(len(columns))
            shape = tuple([self.cardinalities[v] for v in scope]), tuple([stride[v] for v in scope])
            if shape not in offsets:
                offsets[shape] = _offsets(*shape)
            own = offsets[shape]
            steps += own
            targets += range(place[scope], place[scope] + len(own))
            entries.append(len(steps))
        arrays = (starts, columns, strides, entries, steps, targets)
        return Gather(
            flat.values, flat.offsets, *(np.array(array, dtype=np.int64) for array in arrays)
        )

    def tables(self, which: int, evidence: NDArray[np.integer]) -> Floats:
        """The entries of model `which` for every row of `evidence` (B, |observed|): (B, E)."""
        from cmpe.models import kernels

        lanes = np.ascontiguousarray(evidence.T, dtype=np.int64)  # (|observed|, B)
        out = np.zeros((len(self.layout.values), len(evidence)))
        kernels.condition(lanes, self.gathers[which], out)
        return np.ascontiguousarray(out.T)


def _offsets(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The flat offsets of a sub-table, in C order of its own axes."""
    total = [0]
    for size, stride in zip(sizes, strides, strict=True):
        total = [at + stride * k for at in total for k in range(size)]
    return total
