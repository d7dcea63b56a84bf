"""Soft evidence: likelihoods of a variable's states instead of a state.

A likelihood l(v) adds log l(v) to h; 0 forbids the state. In a single mapping a list is one state
per row, unless it has as many entries as the variable has states and one is no whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, numbers_of
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, ModelError
from cmpe.problem.cells import HUGE


class Separated(NamedTuple):
    """Evidence without its soft cells, and log-likelihoods by variable, of one row or of each."""

    evidence: Any
    potentials: dict[int, Floats]  # (1 or B, states)


def separated(domain: Domain, evidence: Any, continuous: Sequence[int] = ()) -> Separated:
    """Take the soft cells out of mappings and frames; other evidence has none."""
    reader = _Reader(domain, frozenset(continuous))
    if isinstance(evidence, Mapping):
        tensors = {v: numbers_of(c) for v, c in evidence.items() if hasattr(c, "detach")}
        return reader.mapping({**evidence, **tensors} if tensors else evidence)
    if hasattr(evidence, "columns") and len(evidence):
        return reader.frame(evidence)
    is_list = isinstance(evidence, list | tuple)
    if is_list and len(evidence) and all(isinstance(row, Mapping) for row in evidence):
        return reader.rows(list(evidence), evidence)
    return Separated(evidence, {})


class _Reader(NamedTuple):
    domain: Domain
    continuous: frozenset[int]

    def mapping(self, evidence: Mapping[Any, Any]) -> Separated:
        """A mapping from variables to a state, to a state per row, or to likelihoods."""
        if not any(isinstance(cells, Mapping) or _is_column(cells) for cells in evidence.values()):
            return Separated(evidence, {})
        hard, soft = {}, {}
        for label, cells in evidence.items():
            variable = self._variable(label)
            if variable is None:
                hard[label] = cells
            elif self._is_one(variable, cells):
                soft[variable] = self._log(variable, cells, 0)[np.newaxis]
            elif _is_column(cells) and _has_soft(cells):
                known, rows = self._column(variable, list(cells))
                soft[variable] = known
                if any(cell is not None for cell in rows):
                    hard[label] = rows
            else:
                hard[label] = cells
        return Separated(hard if soft else evidence, soft)

    def rows(self, rows: Sequence[Mapping[Any, Any]], given: Any) -> Separated:
        """One mapping per row."""
        soft: dict[int, Floats] = {}
        labels = {label for row in rows for label, cell in row.items() if _is_soft(cell)}
        for label in labels:
            variable = self._variable(label)
            if variable is None:
                continue
            soft[variable], hard = self._column(variable, [row.get(label) for row in rows])
            rows = [{**row, label: cell} for row, cell in zip(rows, hard, strict=True)]
        return Separated(rows if soft else given, soft)

    def frame(self, frame: Any) -> Separated:
        """Columns of cells, and columns `NAME=STATE` of likelihoods."""
        named = self._named_states(list(frame.columns))
        known = {v: self._of_columns(v, frame, states) for v, states in named.items()}
        taken = [label for states in named.values() for label in states.values()]
        rest = frame.drop(columns=taken) if taken else frame
        labels = list(rest.columns)
        if any(_has_soft(rest[label]) for label in labels):
            cells = [list(rest[label]) for label in labels]
            rows = [dict(zip(labels, row, strict=True)) for row in zip(*cells, strict=True)]
            rest, soft = self.rows(rows, rows)
            for variable, own in soft.items():
                known[variable] = known[variable] + own if variable in known else own
        return Separated(rest, known)

    def _of_columns(self, variable: int, frame: Any, states: Mapping[int, Any]) -> Floats:
        """Log-likelihoods (B, states) from one column for each state; 0 in rows that have none."""
        out = np.empty((len(frame), len(states)))
        for state, label in states.items():
            try:
                out[:, state] = np.asarray(frame[label], dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise EvidenceError(
                    f"column {label!r}: likelihoods must be numbers; {error}"
                ) from None
        is_empty = np.isnan(out).all(axis=1)
        out[is_empty] = 1.0
        odd = ~((out >= 0) & (out < np.inf))
        wrong = np.flatnonzero(odd.any(axis=1) | ~out.any(axis=1))
        if len(wrong):
            self._log(variable, out[wrong[0]], int(wrong[0]))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(out))

    def _named_states(self, labels: Sequence[Any]) -> dict[int, dict[int, Any]]:
        """The columns `NAME=STATE` by variable and state; every state must have one."""
        found: dict[int, dict[int, Any]] = {}
        for label in labels:
            if not isinstance(label, str) or "=" not in label or self._is_variable(label):
                continue
            name, state = self.domain.apart(label)
            if not self._is_variable(name):
                continue
            variable = self.domain.variable(name)
            try:
                number = self.domain.state(variable, state)
            except ModelError as error:
                raise EvidenceError(f"column {label!r}: {error}") from None
            found.setdefault(variable, {})[number] = label
        for variable, states in found.items():
            missing = set(range(self.domain.cardinalities[variable])) - set(states)
            if missing:
                lacks = self.domain.label(variable, min(missing))
                raise EvidenceError(
                    f"{self.domain.called(variable)}: likelihoods need a column for every state; "
                    f"found none for {lacks!r}"
                )
        return found

    def _is_variable(self, label: Any) -> bool:
        return self._variable(label) is not None

    def _variable(self, label: Any) -> int | None:
        """The number of a discrete variable; None of another, and of what is no variable."""
        number = getattr(label, "item", lambda: label)()
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        try:
            found = self.domain.variable(number)
        except ModelError:
            return None
        return None if found in self.continuous else found

    def _is_one(self, variable: int, cells: Any) -> bool:
        """Whether the cells of a single mapping are the likelihoods of one row."""
        if isinstance(cells, Mapping):
            return True
        if not _is_column(cells) or len(cells) != self.domain.cardinalities[variable]:
            return False
        if any(isinstance(c, bool) or not isinstance(c, int | float | np.number) for c in cells):
            return False
        cells = [c.item() if isinstance(c, np.generic) else c for c in cells]
        numbers = np.array([c if abs(c) < HUGE else np.inf for c in cells], dtype=np.float64)
        known = numbers[np.isfinite(numbers)]
        if (known != np.floor(known)).any():
            return True
        if len(known) == len(numbers) and all(isinstance(c, float | np.floating) for c in cells):
            raise EvidenceError(
                f"{self.domain.called(variable)}: states must be whole numbers or names, "
                f"likelihoods a mapping or a row of a list; found {numbers.tolist()}, which may be "
                f"either; write {known.astype(int).tolist()} or "
                f"{dict(enumerate(numbers.tolist()))}"
            )
        return False

    def _column(self, variable: int, cells: list[Any]) -> tuple[Floats, list[Any]]:
        """Log-likelihoods (B, states), 0 where a cell has none, and the other cells."""
        out = np.zeros((len(cells), self.domain.cardinalities[variable]))
        hard: list[Any] = []
        for row, cell in enumerate(cells):
            if _is_soft(cell):
                out[row] = self._log(variable, cell, row)
            hard.append(None if _is_soft(cell) else cell)
        return out, hard

    def _log(self, variable: int, cell: Any, row: int) -> Floats:
        """The logarithms of one row's likelihoods, checked."""
        where = f"row {row}, {self.domain.called(variable)}"
        if isinstance(cell, Mapping):
            cell = self._by_state(variable, cell, where)
        size = self.domain.cardinalities[variable]
        try:
            found = numbers_of(cell).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise EvidenceError(
                f"{where}: likelihoods must be numbers, found {cell!r:.80}"
            ) from None
        if found.shape != (size,):
            raise EvidenceError(
                f"{where}: likelihoods must be {size} numbers, one for each state; found shape "
                f"{found.shape}"
            )
        if not (np.isfinite(found) & (found >= 0)).all():
            odd = found[~(np.isfinite(found) & (found >= 0))][0]
            raise EvidenceError(f"{where}: likelihoods must be at least 0, found {odd}")
        if not found.any():
            raise EvidenceError(f"{where}: a likelihood must be above 0, found only zeros")
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(found))

    def _by_state(self, variable: int, weights: Mapping[Any, Any], where: str) -> list[Any]:
        """The weights in the order of the states; every state needs one."""
        size = self.domain.cardinalities[variable]
        out: list[Any] = [None] * size
        for state, weight in weights.items():
            try:
                number = self.domain.state(variable, state)
            except ModelError as error:
                raise EvidenceError(f"{where}: {error}") from None
            if out[number] is not None:
                label = self.domain.label(variable, number)
                raise EvidenceError(f"{where}: state {label!r} has two likelihoods; give it one")
            out[number] = weight
        if any(weight is None for weight in out):
            lacks = self.domain.label(variable, out.index(None))
            raise EvidenceError(
                f"{where}: likelihoods must be given for every state; found none for {lacks!r}"
            )
        return out


def _is_soft(cell: Any) -> bool:
    """Whether a cell of one row holds likelihoods."""
    return _holds_many(type(cell))


def _has_soft(cells: Any) -> bool:
    """Whether some cell of a column does."""
    kind = getattr(getattr(cells, "dtype", None), "kind", "O")
    if kind != "O":
        return getattr(cells, "ndim", 1) == 2
    return any(map(_holds_many, set(map(type, cells))))


def _holds_many(kind: type) -> bool:
    return issubclass(kind, Mapping | list | tuple | np.ndarray) or hasattr(kind, "detach")


def _is_column(cells: Any) -> bool:
    return isinstance(cells, list | tuple) or getattr(cells, "ndim", 0) in (1, 2)
