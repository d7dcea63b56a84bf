"""Rows of evidence as people give them: arrays, mappings, frames, full rows; checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arguments import whole_number
from cmpe.arrays import FREE, Values
from cmpe.errors import EvidenceError

Evidence = ArrayLike | Mapping[int, ArrayLike]
LARGEST = 2**31 - 1


def as_given(
    evidence: Evidence, variables: int, observed: Sequence[int]
) -> Mapping[int, ArrayLike] | NDArray[Any]:
    """A mapping with variables of the problem as keys, or an array.

    The columns of a frame, and the index of a series (one row), are variables, in any order.
    """
    if isinstance(evidence, str | bytes | PathLike):
        raise EvidenceError(
            f"evidence must be numbers, found {str(evidence)!r}; read a file with "
            "cmpe.read_evidence(path, problem)"
        )
    if hasattr(evidence, "to_frame") and hasattr(evidence, "index"):  # a pandas series
        evidence = evidence.to_frame().T
    if hasattr(evidence, "columns"):
        return _from_frame(evidence, variables, observed)
    if isinstance(evidence, Mapping):
        return {_variable(name, variables): values for name, values in evidence.items()}
    return _array(evidence)


def _variable(name: object, variables: int) -> int:
    number = whole_number("a key of evidence, the number of a variable,", name, 0, EvidenceError)
    if number >= variables:
        raise EvidenceError(f"evidence must be of variables 0 to {variables - 1}, found {number}")
    return number


def _from_frame(
    frame: Any, variables: int, observed: Sequence[int]
) -> Mapping[int, ArrayLike] | NDArray[Any]:
    """Its columns by variable; all variables together are full rows, -1 where free."""
    names = [_variable(name, variables) for name in frame.columns]
    if len(set(names)) != len(names):
        raise EvidenceError(f"the columns of a frame must be distinct, found {names}")
    columns = {
        name: np.asarray(frame[label]) for name, label in zip(names, frame.columns, strict=True)
    }
    if set(names) == set(range(variables)) != set(observed):
        return np.stack([columns[v] for v in range(variables)], axis=1)
    if names == list(range(len(observed))) and set(names) != set(observed):
        raise EvidenceError(
            f"columns 0 to {len(names) - 1} of a frame must be those variables, and this problem "
            "observes others; name its columns by variables, or give frame.to_numpy()"
        )
    return columns


def _array(evidence: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(evidence)
    except (ValueError, TypeError):
        raise EvidenceError(
            "evidence must be rows of equal length, found rows that differ; a row that leaves "
            "more variables free has -1 there"
        ) from None


def two_dimensional(evidence: ArrayLike, *, fractions: bool) -> Values:
    """(B, columns), int64, or float64 where `fractions` are allowed."""
    rows = _array(evidence)
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
    if rows.size and not (rows.min() >= -LARGEST and rows.max() <= LARGEST):
        raise EvidenceError(
            f"evidence must be values of variables, found {rows.min()} to {rows.max()}"
        )
    return rows.astype(np.int64)


def from_mapping(
    evidence: Mapping[int, ArrayLike], observed: Sequence[int], *, fractions: bool
) -> Values:
    """The values of `observed`, in that order, of B rows each; a single value is that of all."""
    if set(evidence) != set(observed):
        odd = sorted(set(evidence) ^ set(observed))
        raise EvidenceError(
            f"evidence must observe exactly the evidence variables; check {odd[:5]}"
        )
    columns = {v: _array(evidence[v]) for v in observed}
    if not columns:
        return np.zeros((1, 0), dtype=np.int64)
    _check_lengths(columns)
    whole = np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns.values())), axis=1)
    return two_dimensional(whole, fractions=fractions)


def _check_lengths(columns: Mapping[int, NDArray[Any]]) -> None:
    """Refuse lists of different lengths: only a single value stands for all rows."""
    first, most = -1, -1
    for variable, column in columns.items():
        if column.ndim > 1:
            raise EvidenceError(
                f"variable {variable} must have a value, or a list of one value per row; found "
                f"{column.ndim} axes"
            )
        if column.ndim == 0:
            continue
        if most >= 0 and len(column) != most:
            raise EvidenceError(
                f"every list must have a value per row: variable {first} has {most}, "
                f"variable {variable} has {len(column)}; a value of all rows needs no list"
            )
        first, most = variable, len(column)


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
