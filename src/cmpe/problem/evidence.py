"""Rows of evidence as people give them: arrays, mappings, full rows; checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Values
from cmpe.errors import EvidenceError

Evidence = ArrayLike | Mapping[int, ArrayLike]


def two_dimensional(evidence: ArrayLike, *, fractions: bool) -> Values:
    """(B, columns), int64, or float64 where `fractions` are allowed."""
    rows = np.asarray(evidence)
    rows = rows[np.newaxis, :] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise EvidenceError(f"evidence must have one or two axes, found {rows.ndim}")
    if fractions and rows.dtype.kind in "iubf":
        return rows.astype(np.float64)
    is_whole = rows.dtype.kind in "iub" or (
        rows.dtype.kind == "f" and (rows == np.floor(rows)).all()
    )
    if rows.size and not is_whole:
        raise EvidenceError(f"evidence must be whole numbers, found dtype {rows.dtype}")
    return rows.astype(np.int64)


def from_mapping(
    evidence: Mapping[int, ArrayLike], observed: Sequence[int], *, fractions: bool
) -> Values:
    """The values of `observed`, in that order, of B rows each."""
    if set(evidence) != set(observed):
        odd = sorted(set(evidence) ^ set(observed))
        raise EvidenceError(
            f"evidence must observe exactly the evidence variables; check {odd[:5]}"
        )
    columns = [np.atleast_1d(np.asarray(evidence[v])) for v in observed]
    if not columns:
        return np.zeros((1, 0), dtype=np.int64)
    return two_dimensional(np.stack(np.broadcast_arrays(*columns), axis=1), fractions=fractions)


def check_range(
    rows: Values, variables: Sequence[int], cards: Sequence[int], continuous: frozenset[int]
) -> None:
    """Every value below its variable's cardinality, whole unless the variable is in [0, 1]."""
    sizes = np.asarray(cards, dtype=np.int64)[list(variables)]
    wrong = ~((rows >= 0) & (rows <= sizes - 1))
    if rows.dtype.kind == "f":
        wrong |= (rows != np.floor(rows)) & ~np.isin(variables, list(continuous))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        kind = "in" if variables[column] in continuous else "from"
        what = "[0, 1]" if kind == "in" else f"0 to {sizes[column] - 1}"
        raise EvidenceError(
            f"row {row}, variable {variables[column]}: evidence must be {kind} {what}, "
            f"found {rows[row, column]}"
        )


def observed_groups(rows: Values) -> list[tuple[tuple[int, ...], NDArray[np.intp]]]:
    """Split full-width evidence by the set it observes: (variables, row numbers) pairs."""
    patterns, which = np.unique(rows != FREE, axis=0, return_inverse=True)
    return [
        (tuple(int(v) for v in np.flatnonzero(pattern)), np.flatnonzero(which.ravel() == k))
        for k, pattern in enumerate(patterns)
    ]
