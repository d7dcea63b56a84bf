"""Models given evidence: one structure for all rows, and the tables of each row.

Rows that observe the same variables share the scopes of the remaining tables; only the entries
differ. `Conditioning` finds that structure once; `tables` fills in the entries of a whole batch
in one compiled pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.models.flat import FlatTables, end_to_end, ranges
from cmpe.models.loglinear import LogLinearModel

Scope = tuple[int, ...]


class Gather(NamedTuple):
    """How the entries of one model flow into the shared tables (see `core.tables.condition`)."""

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
                end_to_end([g.values for g in parts]),
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
        self._structure = self
        cards = models[0].cardinalities
        self.cardinalities = cards
        self.observed = tuple(observed)
        known = np.array(cards, dtype=np.int64) == 1
        known[list(self.observed)] = True
        self.free = tuple(np.flatnonzero(~known).tolist())
        kept = [_KeptSlots.of(model.flat, ~known) for model in models]
        self.scopes, numbers = _distinct_scopes(kept, len(cards))
        self.layout = FlatTables.shaped(cards, self.scopes)
        column = np.full(len(cards), -1, dtype=np.int64)
        column[list(self.observed)] = np.arange(len(self.observed))
        self.gathers: list[Gather] = []
        for model, slots, number in zip(models, kept, numbers, strict=True):
            self.gathers.append(self._gather(model.flat, slots, number, column, models))

    def _gather(
        self,
        flat: FlatTables,
        kept: _KeptSlots,
        number: Integers,
        column: Integers,
        models: Sequence[LogLinearModel],
    ) -> Gather:
        """Models of equal scopes (M1 and its noisy copy M2) share all but the values."""
        for model, gather in zip(models, self.gathers, strict=False):
            other = model.flat
            if np.array_equal(other.starts, flat.starts) and np.array_equal(
                other.variables, flat.variables
            ):
                return gather._replace(values=flat.values)
        of_slots = column[flat.variables] if len(flat.variables) else flat.variables
        seen = of_slots >= 0
        starts = np.concatenate([[0], np.cumsum(seen)])[flat.starts]
        sizes = np.diff(self.layout.offsets)[number]
        entries = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        within = np.arange(entries[-1]) - np.repeat(entries[:-1], sizes)
        targets = within + np.repeat(self.layout.offsets[number], sizes)
        steps = within.copy()
        for arity, (own, slots) in kept.by_arity.items():
            # A table that keeps all its variables in their order is read as it lies.
            is_whole = arity == np.diff(flat.starts)[own]
            is_whole &= (slots == flat.starts[own, np.newaxis] + np.arange(arity)).all(axis=1)
            own, slots = own[~is_whole], slots[~is_whole]
            if not len(own):
                continue
            # The digits of an entry's number within its table, the last axis first.
            at = ranges(entries[own], sizes[own])
            left = within[at]
            steps[at] = 0
            for axis in range(arity - 1, -1, -1):
                size = flat.cardinalities[flat.variables[slots[:, axis]]]
                left, digit = np.divmod(left, np.repeat(size, sizes[own]))
                steps[at] += digit * np.repeat(flat.strides[slots[:, axis]], sizes[own])
        arrays = (starts, of_slots[seen], flat.strides[seen], entries, steps, targets)
        return Gather(
            flat.values, flat.offsets, *(array.astype(np.int64, copy=False) for array in arrays)
        )

    def with_values(self, models: Sequence[LogLinearModel] = ()) -> Conditioning:
        """The same structure with the numbers of models of equal scopes, or with none."""
        values = [model.flat.values for model in models] or [np.zeros(0)] * len(self.gathers)
        other = copy(self)
        other.__dict__.pop("every", None)
        other.gathers = [g._replace(values=v) for g, v in zip(self.gathers, values, strict=True)]
        if not models:
            other._structure = other
        return other

    @cached_property
    def every(self) -> Gathers:
        """How the entries of all models flow into the shared tables."""
        gather, first = self._structure._joined
        return Gathers(gather._replace(values=end_to_end([g.values for g in self.gathers])), first)

    @cached_property
    def _joined(self) -> Gathers:
        """The same without numbers."""
        return Gathers.of([g._replace(values=np.zeros(0)) for g in self.gathers])

    def tables(self, which: int, evidence: NDArray[np.integer]) -> Floats:
        """The entries of model `which` for every row of `evidence` (B, |observed|): (B, E)."""
        from cmpe.core import tables as kernels

        lanes = np.ascontiguousarray(evidence.T, dtype=np.int64)  # (|observed|, B)
        out = np.zeros((len(self.layout.values), len(evidence)))
        kernels.condition(lanes, self.gathers[which], out)
        return np.ascontiguousarray(out.T)


class _KeptSlots(NamedTuple):
    """The axes of a model's tables that stay, by how many a table keeps."""

    flat: FlatTables
    by_arity: dict[int, tuple[Integers, Integers]]  # tables (N,), their slots (N, arity), sorted

    @classmethod
    def of(cls, flat: FlatTables, stays: NDArray[np.bool_]) -> _KeptSlots:
        """Sorted by variable within each table."""
        owner = np.repeat(np.arange(flat.count), np.diff(flat.starts))
        slots = np.flatnonzero(stays[flat.variables]) if len(flat.variables) else owner
        slots = slots[np.lexsort((flat.variables[slots], owner[slots]))]
        arity = np.bincount(owner[slots], minlength=flat.count)
        first = np.cumsum(arity) - arity
        by_arity = {}
        for count in np.unique(arity).tolist():
            own = np.flatnonzero(arity == count)
            by_arity[count] = own, slots[first[own, np.newaxis] + np.arange(count)]
        return cls(flat, by_arity)


def _distinct_scopes(
    kept: Sequence[_KeptSlots], variables: int
) -> tuple[tuple[Scope, ...], list[Integers]]:
    """The distinct scopes, sorted, and of each model the number of every table's scope."""
    numbers = [np.zeros(part.flat.count, dtype=np.int64) for part in kept]
    scopes: list[Scope] = [()]
    for arity in sorted({count for part in kept for count in part.by_arity if count}):
        parts = [(part, out) for part, out in zip(kept, numbers, strict=True)]
        parts = [(part, out) for part, out in parts if arity in part.by_arity]
        members = [part.flat.variables[part.by_arity[arity][1]] for part, _ in parts]
        together = np.concatenate(members)
        if variables**arity < 1 << 62:  # one number for a scope: sorting is quick
            weights = variables ** np.arange(arity - 1, -1, -1, dtype=np.int64)
            _, first, where = np.unique(together @ weights, return_index=True, return_inverse=True)
            distinct = together[first]
        else:
            distinct, where = np.unique(together, axis=0, return_inverse=True)
        ends = np.cumsum([len(m) for m in members])
        for (part, out), own in zip(parts, np.split(where.ravel(), ends[:-1]), strict=True):
            out[part.by_arity[arity][0]] = len(scopes) + own
        scopes += map(tuple, distinct.tolist())
    return tuple(scopes), numbers
