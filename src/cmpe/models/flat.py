"""Tables end to end: the one layout that compiled code reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.errors import ModelError

MODERATE = 1e200  # a sum that needs no closer look


@dataclass(frozen=True)
class FlatTables:
    """Tables over shared variables as arrays.

    Table f starts at `values[offsets[f]]`. Its scope is `variables[starts[f]:starts[f + 1]]`;
    the entry for assignment z is at offsets[f] + sum of strides * z over that scope.
    """

    cardinalities: Integers  # (n,)
    values: Floats  # (T,)
    offsets: Integers  # (F + 1,)
    starts: Integers  # (F + 1,)
    variables: Integers  # (S,)
    strides: Integers  # (S,)

    @classmethod
    def of(
        cls, cardinalities: Sequence[int], tables: Sequence[tuple[tuple[int, ...], Floats]]
    ) -> FlatTables:
        """Lay out (scope, table) pairs; tables must have the shape of their scope."""
        scopes = [scope for scope, _ in tables]
        values = np.concatenate([t.ravel() for _, t in tables]) if tables else np.zeros(0)
        return cls.shaped(cardinalities, scopes, values)

    @classmethod
    def shaped(
        cls,
        cardinalities: Sequence[int],
        scopes: Sequence[tuple[int, ...]],
        values: Floats | None = None,
    ) -> FlatTables:
        """The layout of tables over `scopes`, with these values or all zero."""
        cards = np.asarray(cardinalities, dtype=np.int64)
        arities = np.fromiter(map(len, scopes), dtype=np.int64, count=len(scopes))
        starts = np.concatenate([[0], np.cumsum(arities)]).astype(np.int64)
        flat = chain.from_iterable(scopes)
        variables = np.fromiter(flat, dtype=np.int64, count=int(starts[-1]))
        strides = np.ones(len(variables), dtype=np.int64)
        sizes = np.ones(len(scopes), dtype=np.int64)
        for arity in np.unique(arities[arities > 0]).tolist():
            own = np.flatnonzero(arities == arity)
            slots = starts[own]
            for axis in range(arity - 1, -1, -1):
                strides[slots + axis] = sizes[own]
                sizes[own] *= cards[variables[slots + axis]]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        filled = np.zeros(int(offsets[-1])) if values is None else values
        return cls(cards, filled, offsets, starts, variables, strides)

    def followed_by(self, more: FlatTables, values: Floats) -> FlatTables:
        """These tables and then others, which lie end to end in `values`."""
        if not more.count:
            return replace(self, cardinalities=more.cardinalities, values=values)
        return FlatTables(
            more.cardinalities,
            values,
            np.concatenate([self.offsets[:-1], more.offsets + self.offsets[-1]]),
            np.concatenate([self.starts[:-1], more.starts + self.starts[-1]]),
            np.concatenate([self.variables, more.variables]),
            np.concatenate([self.strides, more.strides]),
        )

    @property
    def count(self) -> int:
        """How many tables."""
        return len(self.offsets) - 1

    @property
    def scopes(self) -> tuple[bytes, bytes]:
        """Equal for tables of equal scopes."""
        return self.starts.tobytes(), self.variables.tobytes()

    @property
    def largest_sum(self) -> float:
        """No sum of finite entries, one of each table, is further from 0."""
        values = self.values
        if not values.size:
            return 0.0
        low = values.min()
        low = low if low > -np.inf else values.min(where=values > -np.inf, initial=0.0)
        rough = max(float(values.max()), -float(low)) * self.count
        if rough < MODERATE:
            return max(rough, 0.0)
        sizes = np.abs(np.where(values > -np.inf, values, 0.0))
        with np.errstate(over="ignore"):
            return float(np.maximum.reduceat(sizes, self.offsets[:-1]).sum())

    def evaluate(self, assignments: NDArray[np.integer]) -> Floats:
        """The sum of all tables at each row of `assignments` (B, n): (B,)."""
        from cmpe.core import tables as kernels

        if not np.issubdtype(assignments.dtype, np.integer):
            assignments = _as_integers(assignments)
        rows = np.ascontiguousarray(assignments, dtype=np.int32)
        out = np.zeros(len(rows))
        bad = kernels.evaluate(
            rows,
            self.values,
            self.offsets,
            self.starts,
            self.variables,
            self.strides,
            self.cardinalities,
            out,
        )
        if bad >= 0:
            row, variable = divmod(bad, rows.shape[1])
            raise ModelError(
                f"row {row}, variable {variable}: a value must be from 0 to "
                f"{self.cardinalities[variable] - 1}, found {rows[row, variable]}"
            )
        return out


def stacked(functions: Sequence[FlatTables]) -> tuple[FlatTables, Integers]:
    """The tables of functions of the same variables, one after another, and where each begins."""
    joined: dict[str, Any] = {}
    for name, lengths in (("offsets", "values"), ("starts", "variables")):
        before = np.cumsum([0, *(len(getattr(f, lengths)) for f in functions)])
        shifted = [getattr(f, name)[:-1] + n for f, n in zip(functions, before, strict=False)]
        joined[name] = np.concatenate([*shifted, before[-1:]]).astype(np.int64)
    for name in ("values", "variables", "strides"):
        joined[name] = np.concatenate([getattr(f, name) for f in functions])
    begins = np.cumsum([0, *(f.count for f in functions)]).astype(np.int64)
    return replace(functions[0], **joined), begins


def end_to_end(arrays: Sequence[Floats]) -> Floats:
    """One array after another: a view where they follow one another in memory, else a copy."""
    first = arrays[0].base
    places = [each.__array_interface__["data"][0] for each in arrays]
    ends = [place + each.nbytes for place, each in zip(places, arrays, strict=True)]
    if not isinstance(first, np.ndarray) or first.ndim != 1 or first.dtype != np.float64:
        return np.concatenate(arrays)
    if any(each.base is not first for each in arrays) or places[1:] != ends[:-1]:
        return np.concatenate(arrays)
    begin = (places[0] - first.__array_interface__["data"][0]) // first.itemsize
    return first[begin : begin + sum(map(len, arrays))]


def strides_of(scope: Sequence[int], cardinalities: Sequence[int]) -> dict[int, int]:
    """By how much each variable of a table moves the position in it, the last one by 1."""
    stride, size = {}, 1
    for variable in reversed(scope):
        stride[variable] = size
        size *= cardinalities[variable]
    return stride


def ranges(starts: Integers, lengths: Integers) -> Integers:
    """All of start, start + 1, ..., start + length - 1, one range after another."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.repeat(starts - (ends - lengths), lengths)
    out: Integers = (np.arange(total) + shift).astype(np.int64)
    return out


def _as_integers(values: NDArray[np.generic]) -> NDArray[np.int64]:
    whole = values.astype(np.int64)
    if not np.array_equal(whole, values):
        raise ModelError("an assignment must hold whole numbers, found fractions")
    return whole
