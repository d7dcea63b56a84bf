"""Rows of evidence in all forms, checked: arrays, mappings, frames, full rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Values, numbers_of
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, ModelError
from cmpe.problem.cells import encoded

Evidence = ArrayLike | Mapping[Any, Any] | Sequence[Mapping[Any, Any]]
LARGEST = 2**31 - 1


class FullRows(NamedTuple):
    """Evidence over all variables (B, n), -1 where free."""

    rows: Values


Given = Mapping[int, Values] | FullRows | NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """What evidence is read by: the variables of a problem, and what to do with other columns."""

    domain: Domain
    observed: Sequence[int] = ()
    continuous: Collection[int] = ()
    ignore_extra: bool = False

    def read(self, evidence: Evidence) -> Given:
        """Values by variable (what is observed), full rows, or an array as it was given.

        The columns of a frame, the index of a series (one row) and the keys of mappings are
        variables, by name or number, in any order.
        """
        if isinstance(evidence, str | bytes | PathLike):
            raise EvidenceError(
                f"evidence must be numbers or states, found {str(evidence)!r}; read a file with "
                "cmpe.read_evidence(path, problem)"
            )
        if hasattr(evidence, "to_frame") and hasattr(evidence, "index"):  # a pandas series
            evidence = evidence.to_frame().T
        if hasattr(evidence, "columns"):
            labels = list(evidence.columns)
            if len(set(labels)) != len(labels):
                raise EvidenceError(f"the columns of a frame must be distinct, found {labels}")
            frame: Any = evidence
            return self._by_variable(labels, [frame[label] for label in labels], len(frame))
        if isinstance(evidence, Mapping):
            return self._by_variable(list(evidence), list(evidence.values()), None)
        if isinstance(evidence, list | tuple) and not len(evidence):  # no rows
            return np.zeros((0, len(self.observed)), dtype=np.int64)
        if _is_mappings(evidence):
            labels = list(dict.fromkeys(key for row in evidence for key in row))
            columns = [[row.get(label) for row in evidence] for label in labels]
            return self._by_variable(labels, columns, len(evidence))
        return _array(cast("ArrayLike", evidence))

    def _by_variable(self, labels: list[Any], columns: list[Any], count: int | None) -> Given:
        """`count` rows; None: as many as the columns say, one where none says it."""
        found: dict[int, Values] = {}
        for label, cells in zip(labels, columns, strict=True):
            variable = self._variable(label)
            if variable is None:
                continue
            if variable in found:
                raise EvidenceError(f"{self.domain.called(variable)} must be given once")
            is_continuous = variable in self.continuous
            found[variable] = encoded(self.domain, variable, cells, is_continuous=is_continuous)
        if count is not None:
            self._check_positions(labels, found)
        is_free = any((column == FREE).any() for column in found.values())
        if not is_free and (found or count is None):
            return found
        lengths = check_lengths(found)
        rows = self._free(max([1, *lengths] if count is None else [count]))
        for variable, column in found.items():
            rows[:, variable] = column
        return FullRows(rows)

    def _free(self, count: int) -> Values:
        kind = np.float64 if self.continuous else np.int64
        return np.full((count, self.domain.variables), FREE, dtype=kind)

    def _variable(self, label: Any) -> int | None:
        number = getattr(label, "item", lambda: label)()  # a NumPy number as Python's
        try:
            return self.domain.variable(int(number) if _is_whole_float(number) else number)
        except ModelError as error:
            if self.ignore_extra:
                return None
            raise EvidenceError(f"evidence: {error}") from None

    def _check_positions(self, labels: Sequence[Any], found: Collection[int]) -> None:
        """Columns 0, 1, ... of a frame may be counted, not named: then nobody knows which."""
        if self.domain.names or set(found) == set(self.observed):
            return
        if list(found) == list(range(len(self.observed))) and len(found) < self.domain.variables:
            raise EvidenceError(
                f"columns 0 to {len(labels) - 1} of a frame must be those variables, and this "
                "problem observes others; name its columns by variables, or give frame.to_numpy()"
            )


def _is_mappings(evidence: object) -> TypeGuard[Sequence[Mapping[Any, Any]]]:
    is_list = isinstance(evidence, list | tuple) and len(evidence) > 0
    return is_list and all(isinstance(row, Mapping) for row in evidence)  # type: ignore[attr-defined]


def _is_whole_float(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def _array(evidence: ArrayLike) -> NDArray[Any]:
    try:
        return numbers_of(evidence)
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
    check_lengths(columns)
    whole = np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns.values())), axis=1)
    return two_dimensional(whole, fractions=fractions)


def check_lengths(columns: Mapping[int, NDArray[Any]]) -> set[int]:
    """How many rows lists have; refuses several: only a single value stands for all rows."""
    lengths = {v: len(column) for v, column in columns.items() if column.ndim}
    if len(set(lengths.values())) > 1:
        first = next(iter(lengths))
        other = next(v for v, length in lengths.items() if length != lengths[first])
        raise EvidenceError(
            f"every list must have a value per row: variable {first} has {lengths[first]}, "
            f"variable {other} has {lengths[other]}; a value of all rows needs no list"
        )
    return set(lengths.values())


def check_range(
    rows: Values, variables: Sequence[int], domain: Domain, continuous: frozenset[int]
) -> None:
    """Every value below its variable's cardinality, whole unless the variable is in [0, 1]."""
    sizes = np.asarray(domain.cardinalities, dtype=np.int64)[list(variables)]
    wrong = ~((rows >= 0) & (rows <= sizes - 1))
    if rows.dtype.kind == "f":
        wrong |= (rows != np.floor(rows)) & ~np.isin(variables, list(continuous))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        kind = "in" if variables[column] in continuous else "from"
        what = "[0, 1]" if kind == "in" else f"0 to {sizes[column] - 1}"
        raise EvidenceError(
            f"row {row}, {domain.called(variables[column])}: evidence must be {kind} {what}, "
            f"found {rows[row, column]}"
        )


def observed_groups(rows: Values) -> list[tuple[tuple[int, ...], NDArray[np.intp]]]:
    """Split full-width evidence by the set it observes: (variables, row numbers) pairs."""
    seen = rows != FREE
    if len(rows) and (seen == seen[0]).all():  # sorting takes longer
        return [(tuple(np.flatnonzero(seen[0]).tolist()), np.arange(len(rows)))]
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    return [
        (tuple(int(v) for v in np.flatnonzero(pattern)), np.flatnonzero(which.ravel() == k))
        for k, pattern in enumerate(patterns)
    ]
