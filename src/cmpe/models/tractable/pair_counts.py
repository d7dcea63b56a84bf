"""How often pairs of values occur in data: one matrix product, no loop over pairs.

Value 0 of a variable is what is left when the others are counted, so a data set is a matrix of
indicators [z_v = k] for k >= 1 (for binary columns: the data themselves), and all pairwise counts
are `X' W X`. Rare indicators are kept sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats, Integers
from cmpe.errors import InputError

SPARSE_BELOW = 0.08  # Below this share of ones a sparse product is faster.
EXACT_IN_FLOAT32 = 1 << 24


@dataclass(frozen=True)
class PairCounts:
    """Rows (or weights, or pseudo-rows) by pairs of values.

    Entry [starts[u] + i - 1, starts[v] + j - 1] of `joint` counts z_u = i, z_v = j for i, j >= 1
    and u != v; the diagonal counts z_v = j.
    """

    cardinalities: tuple[int, ...]
    total: float
    joint: Floats  # (M, M), M = sum of (cardinality - 1)

    @property
    def starts(self) -> Integers:
        """Where the indicators of each variable begin: (n + 1,)."""
        return indicator_starts(self.cardinalities)

    def smoothed(
        self, rows: float, prior: PairCounts | None = None, prior_rows: float = 0.0
    ) -> PairCounts:
        """The same with `rows` more, spread evenly over all assignments, and `prior_rows` more,
        distributed as `prior` is."""
        if prior is None or prior_rows == 0.0:
            joint, prior_rows = self.joint.copy(), 0.0
        else:
            joint = (prior_rows / prior.total) * prior.joint
            joint += self.joint
        cards = np.array(self.cardinalities)
        cards = np.repeat(cards, cards - 1)
        if rows and len(cards):
            is_even = bool((cards == cards[0]).all())
            pairs = rows / cards[0] ** 2 if is_even else np.multiply.outer(rows / cards, 1 / cards)
            joint += pairs
            np.fill_diagonal(joint, np.diagonal(joint) + rows / cards - rows / cards**2)
        return PairCounts(self.cardinalities, self.total + rows + prior_rows, joint)

    def without(self, parts: Iterable[PairCounts]) -> PairCounts:
        """What is left when the rows of `parts` are taken away."""
        joint, total = self.joint.copy(), self.total
        for part in parts:
            joint -= part.joint
            total -= part.total
        return PairCounts(self.cardinalities, total, joint)

    def shares(self, variable: int) -> Floats:
        """The distribution of one variable: (k,)."""
        first, last = self.starts[variable : variable + 2]
        others = np.diagonal(self.joint)[first:last]
        return np.concatenate([[self.total - others.sum()], others]) / self.total


class Indicators:
    """A data set as indicators, ready for counting any subset of its rows."""

    def __init__(
        self, rows: NDArray[np.integer], cardinalities: Sequence[int], weights: Floats | None = None
    ) -> None:
        self.rows = rows
        self.cardinalities = tuple(cardinalities)
        self.weights = weights
        ones = np.count_nonzero(rows)
        columns = int(sum(k - 1 for k in cardinalities))
        self._is_sparse = ones < SPARSE_BELOW * max(1, len(rows) * columns)
        self._matrix = self._sparse() if self._is_sparse else self._dense()

    def _dense(self) -> NDArray[np.floating]:
        is_exact = self.weights is None and len(self.rows) < EXACT_IN_FLOAT32
        kind = np.float32 if is_exact else np.float64
        if max(self.cardinalities) <= 2:
            wide = np.array(self.cardinalities) == 2
            return self.rows[:, wide].astype(kind)
        pairs = [(v, k) for v, size in enumerate(self.cardinalities) for k in range(1, size)]
        columns = [self.rows[:, v] == k for v, k in pairs]
        return np.stack(columns, axis=1).astype(kind)

    def _sparse(self) -> Any:
        from scipy.sparse import csr_array

        row, variable = np.nonzero(self.rows)
        starts = indicator_starts(self.cardinalities)
        column = starts[variable] + self.rows[row, variable] - 1
        shape = (len(self.rows), int(starts[-1]))
        return csr_array((np.ones(len(row)), (row, column)), shape=shape)

    def counts(self, which: NDArray[np.intp] | None = None) -> PairCounts:
        """The counts of the rows `which` (default: all)."""
        matrix = self._matrix if which is None else self._matrix[which]
        weights = self.weights if which is None or self.weights is None else self.weights[which]
        if weights is None:
            total, weighted = float(matrix.shape[0]), matrix
        elif self._is_sparse:
            from scipy.sparse import diags_array

            total, weighted = float(weights.sum()), diags_array(weights) @ matrix
        else:
            total, weighted = float(weights.sum()), matrix * weights[:, np.newaxis]
        joint: Any = matrix.T @ weighted
        dense = joint.toarray() if self._is_sparse else np.asarray(joint, dtype=np.float64)
        return PairCounts(self.cardinalities, total, dense)


def indicator_starts(cardinalities: Sequence[int]) -> Integers:
    """Where the indicators of each variable begin: (n + 1,)."""
    return np.concatenate([[0], np.cumsum(np.array(cardinalities, dtype=np.int64) - 1)])


def check_data(
    data: ArrayLike, cardinalities: Sequence[int] | None = None
) -> tuple[NDArray[np.integer], tuple[int, ...]]:
    """Rows (N, n) of whole numbers and their cardinalities (default: the largest value + 1)."""
    rows = np.asarray(data)
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"data must be rows and columns, found shape {rows.shape}")
    if rows.dtype.kind not in "iub":
        raise InputError(f"data must be whole numbers, found dtype {rows.dtype}")
    rows = rows.astype(np.uint8) if rows.dtype.kind == "b" else rows
    if cardinalities is None:
        cardinalities = [max(2, int(k) + 1) for k in rows.max(axis=0)]
    sizes = np.array(cardinalities, dtype=np.int64)
    if len(sizes) != rows.shape[1]:
        raise InputError(f"data must have {len(sizes)} columns, found {rows.shape[1]}")
    wrong = (rows < 0) | (rows >= sizes)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"row {row}, column {column}: data must be from 0 to {sizes[column] - 1}, "
            f"found {rows[row, column]}"
        )
    return rows, tuple(int(k) for k in sizes)


def check_weights(weights: ArrayLike | None, count: int) -> Floats | None:
    """One finite weight of at least 0 per row, not all 0."""
    if weights is None:
        return None
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (count,):
        raise InputError(f"weights must be one per row ({count}), found shape {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise InputError("weights must be finite, at least 0 and not all 0")
    return array
