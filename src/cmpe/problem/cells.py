"""Cells of evidence: states by name or number, empty if unknown.

None, NaN and what pandas calls NA mean that the variable is free; so do -1 and the words for a
missing value, unless they are names of states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Values, numbers_of
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, ModelError

MISSING = frozenset({"NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "?"})
HUGE = 1e300  # A whole number beyond it may not fit into a float; it is no state.


def encoded(domain: Domain, variable: int, cells: Any, *, is_continuous: bool) -> Values:
    """The values of one variable, of one row (no axis) or of many; -1 where it is free."""
    column = _column(cells)
    if column.ndim > 1:
        raise EvidenceError(
            f"{domain.called(variable)} must have a value, or a list of one value per row; found "
            f"{column.ndim} axes"
        )
    if is_continuous or not domain.names:
        return _numbers(domain, variable, column)
    if column.dtype.kind in "iu" and not _looks_numbered(domain, variable):
        _check_states(domain, variable, column)
        return column
    return _states(domain, variable, column)


def _column(cells: Any) -> NDArray[Any]:
    """Numbers as an array of numbers; anything else as objects, so that no text swallows a NaN."""
    if not (isinstance(cells, list | tuple) or hasattr(cells, "__array__")):
        column = np.empty((), dtype=object)
        column[()] = cells
        return column
    try:
        column = numbers_of(cells)
    except (ValueError, TypeError):  # lists of different lengths in one list
        return np.asarray(cells, dtype=object)
    return column if column.dtype.kind in "iubf" else np.asarray(cells, dtype=object)


def _numbers(domain: Domain, variable: int, column: NDArray[Any]) -> Values:
    """A column of a variable without named states."""
    if column.dtype.kind in "iub":
        return column
    if column.dtype.kind == "f":
        missing = np.isnan(column)
        return np.where(missing, FREE, column) if missing.any() else column
    out = np.empty(column.shape, dtype=np.float64)
    for row, cell in enumerate(column.ravel().tolist()):
        is_free = is_missing(cell) or _is_word_for_missing(cell)
        if not (is_free or isinstance(cell, int | float | np.number)):
            raise EvidenceError(
                f"row {row}, {domain.called(variable)}: evidence must be a number, found {cell!r}; "
                "a model needs names for its states to be given by name"
            )
        out.flat[row] = FREE if is_free else float(cell) if abs(cell) < HUGE else HUGE
    return out


def _looks_numbered(domain: Domain, variable: int) -> bool:
    return not domain.states or not domain.states[variable] or domain.has_numbers(variable)


def _check_states(domain: Domain, variable: int, column: NDArray[Any]) -> None:
    size = domain.cardinalities[variable]
    wrong = np.flatnonzero((column != FREE) & ((column < 0) | (column >= size)).ravel())
    if len(wrong):
        _state(domain, variable, column.ravel()[wrong[0]], int(wrong[0]))


def _states(domain: Domain, variable: int, column: NDArray[Any]) -> Values:
    known: dict[tuple[str, type], int] = {}
    out = np.empty(column.shape, dtype=np.int64)
    for row, cell in enumerate(column.ravel().tolist()):
        if is_missing(cell):
            out.flat[row] = FREE
            continue
        key = (str(cell), type(cell))
        if key not in known:
            known[key] = _state(domain, variable, cell, row)
        out.flat[row] = known[key]
    return out


def _state(domain: Domain, variable: int, cell: Any, row: int) -> int:
    try:
        return domain.state(variable, cell)
    except ModelError as error:
        if _is_free_mark(cell) or _is_word_for_missing(cell):
            return FREE
        raise EvidenceError(f"row {row}: {error}") from None


def _is_free_mark(cell: Any) -> bool:
    return isinstance(cell, int | float | np.number) and cell == FREE


def _is_word_for_missing(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip() in MISSING


def is_missing(cell: Any) -> bool:
    """Whether a cell says nothing: None, NaN, or NA of pandas."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))
