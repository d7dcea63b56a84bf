"""The local polytope: CMPE as a mixed-integer linear program (paper §2.2).

Every table entry e gets an indicator: an affine expression of the columns that is 1 where the
assignment selects the entry and 0 elsewhere.

- a binary variable is one 0/1 column x; its two indicators are 1 - x and x;
- a variable of k > 2 values is k 0/1 columns that sum to 1;
- a table over two binary variables is one column w = x_u x_v with McCormick's rows
  (indicators 1 - x_u - x_v + w, x_v - w, x_u - w, w, all >= 0): the local polytope exactly;
- any other table is one column per entry, whose sums over the entries with z_v = k equal the
  indicator of z_v = k: the convex hull of the table's graph, whatever its arity.

Only the variables' columns are integer; they force all others. The columns and rows depend on
the scopes alone, so one LocalPolytope serves all rows of evidence.

A variable in [0, 1] is one column that is not integer; its indicators 1 - x and x are what its two
values weigh. In a table with at most one such variable the integer columns still force all others,
to the weights of the table's multilinear extension: the program stays exact.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from cmpe.arrays import Floats
from cmpe.models.conditioning import Conditioning

Terms = list[tuple[int, float]]  # (column, coefficient)


@dataclass(frozen=True)
class LinearProgram:
    """Maximise cost @ z + offset subject to lower <= rows @ z <= upper and column bounds."""

    cost: Floats  # (columns,)
    offset: float
    rows: csr_array
    lower: Floats
    upper: Floats
    column_lower: Floats
    column_upper: Floats
    integer: NDArray[np.bool_]

    def with_row(self, coefficients: Floats, at_most: float) -> LinearProgram:
        """Add the row coefficients @ z <= at_most."""
        return replace(
            self,
            rows=vstack([self.rows, csr_array(coefficients[np.newaxis, :])], format="csr"),
            lower=np.append(self.lower, -np.inf),
            upper=np.append(self.upper, at_most),
        )


def highs_model(program: LinearProgram) -> Any:
    """The program as HiGHS takes it."""
    import highspy

    lp = highspy.HighsLp()
    rows, columns = program.rows.shape
    lp.num_row_, lp.num_col_ = rows, columns
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.offset_ = program.offset
    lp.col_cost_ = program.cost
    lp.col_lower_, lp.col_upper_ = program.column_lower, program.column_upper
    lp.row_lower_, lp.row_upper_ = program.lower, program.upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.rows.indptr
    lp.a_matrix_.index_ = program.rows.indices
    lp.a_matrix_.value_ = program.rows.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = np.array(kinds, dtype=object)[program.integer.astype(np.intp)].tolist()
    return lp


class _SparseRows:
    """The rows of a matrix while they are being laid out."""

    def __init__(self) -> None:
        self.lengths, self._columns, self._data = array("q"), array("q"), array("d")

    def add(self, terms: Terms) -> None:
        """One row."""
        self.lengths.append(len(terms))
        self._columns.extend([column for column, _ in terms])
        self._data.extend([coefficient for _, coefficient in terms])

    def add_all(self, columns: NDArray[np.int64], data: Floats) -> None:
        """Equally long rows (R, L)."""
        self.lengths.extend([columns.shape[1]] * len(columns))
        self._columns.frombytes(columns.tobytes())
        self._data.frombytes(data.tobytes())

    def matrix(self, columns: int) -> csr_array:
        """All rows."""
        start = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)]).astype(np.int32)
        indices = np.array(self._columns, dtype=np.int32)
        return csr_array((np.array(self._data), indices, start), shape=(len(start) - 1, columns))


@dataclass
class _Builder:
    """Columns, rows and entry indicators while they are being laid out."""

    columns: int = 0
    integer: list[int] = field(default_factory=list)
    rows: _SparseRows = field(default_factory=_SparseRows)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    indicators: _SparseRows = field(default_factory=_SparseRows)
    constants: array[float] = field(default_factory=lambda: array("d"))  # of the indicators
    entry_row: array[int] = field(default_factory=lambda: array("q"))  # "indicator >= 0", or -1

    def add_columns(self, count: int, *, integer: bool) -> range:
        new = range(self.columns, self.columns + count)
        self.columns += count
        if integer:
            self.integer.extend(new)
        return new

    def add_row(self, terms: Terms, lower: float, upper: float) -> int:
        self.rows.add(terms)
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.lower) - 1

    def add_equal_rows(self, columns: NDArray[np.int64], data: Floats, sides: list[float]) -> None:
        """Rows (R, L) that are equal to `sides`."""
        self.rows.add_all(columns, data)
        self.lower += sides
        self.upper += sides

    def add_entry(self, constant: float, terms: Terms, row: int = -1) -> None:
        self.indicators.add(terms)
        self.constants.append(constant)
        self.entry_row.append(row)

    def add_column_entries(self, columns: NDArray[np.int64]) -> None:
        """Entries of which each is a column."""
        self.indicators.add_all(columns[:, np.newaxis], np.ones((len(columns), 1)))
        self.constants.frombytes(np.zeros(len(columns)).tobytes())
        self.entry_row.extend([-1] * len(columns))


class LocalPolytope:
    """The linear program that all rows of evidence share, up to numbers."""

    def __init__(
        self,
        conditioning: Conditioning,
        continuous: Sequence[int] = (),
        also: Sequence[int] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`continuous` variables take any number in [0, 1]; `also` get columns without a table.

        `check` is called before every table, and may raise.
        """
        self._continuous = frozenset(continuous)
        self._cards = conditioning.cardinalities
        self._free = conditioning.free
        self._scopes = conditioning.scopes
        self._starts = conditioning.layout.offsets[:-1]
        build = _Builder()
        mentioned = {*also, *(v for scope in self._scopes for v in scope)}
        self._columns = {v: self._add_variable(build, v) for v in self._free if v in mentioned}
        for scope in self._scopes:
            check()
            self._add_scope(build, scope)
        check()
        self._finish(build)

    def _add_variable(self, build: _Builder, variable: int) -> range:
        size = self._cards[variable]
        whole = variable not in self._continuous
        columns = build.add_columns(1 if size == 2 else size, integer=whole)
        if size > 2:
            build.add_row([(c, 1.0) for c in columns], 1.0, 1.0)
        return columns

    def has(self, variable: int) -> bool:
        """Whether a variable has columns: it is free, and something reads it."""
        return variable in self._columns

    def indicator(self, variable: int, value: int) -> tuple[float, Terms]:
        """(constant, terms) that is 1 where the variable has the value: its weight in general."""
        columns = self._columns[variable]
        if len(columns) > 1:
            return 0.0, [(columns[value], 1.0)]
        return (0.0, [(columns[0], 1.0)]) if value else (1.0, [(columns[0], -1.0)])

    def _add_scope(self, build: _Builder, scope: tuple[int, ...]) -> None:
        if not scope:
            build.add_entry(1.0, [])
        elif len(scope) == 1:
            for value in range(self._cards[scope[0]]):
                build.add_entry(*self.indicator(scope[0], value))
        elif len(scope) == 2 and all(self._cards[v] == 2 for v in scope):
            self._add_product(build, scope)
        else:
            self._add_table(build, scope)

    def _add_product(self, build: _Builder, scope: tuple[int, ...]) -> None:
        (u,), (v,) = (self._columns[s] for s in scope)
        (w,) = build.add_columns(1, integer=False)
        for constant, terms in (
            (1.0, [(u, -1.0), (v, -1.0), (w, 1.0)]),
            (0.0, [(v, 1.0), (w, -1.0)]),
            (0.0, [(u, 1.0), (w, -1.0)]),
        ):
            build.add_entry(constant, terms, build.add_row(terms, -constant, np.inf))
        build.add_entry(0.0, [(w, 1.0)])

    def _add_table(self, build: _Builder, scope: tuple[int, ...]) -> None:
        sizes = [self._cards[v] for v in scope]
        columns = np.array(build.add_columns(math.prod(sizes), integer=False))
        grid = columns.reshape(sizes)
        for axis, variable in enumerate(scope):
            cells = np.moveaxis(grid, axis, 0).reshape(sizes[axis], -1)
            whole = [self.indicator(variable, value) for value in range(sizes[axis])]
            own = np.array([terms for _, terms in whole])[:, 0]  # (values, 2): of one term each
            data = np.ones((len(cells), cells.shape[1] + 1))
            data[:, -1] = -own[:, 1]
            numbers = np.column_stack([cells, own[:, 0].astype(np.int64)])
            build.add_equal_rows(numbers, data, [constant for constant, _ in whole])
        build.add_column_entries(columns)

    def _finish(self, build: _Builder) -> None:
        self.columns = build.columns
        self._rows = build.rows.matrix(build.columns)
        self._lower, self._upper = np.array(build.lower), np.array(build.upper)
        self._integer = np.zeros(build.columns, dtype=bool)
        self._integer[build.integer] = True
        self._constant = np.array(build.constants)
        self._indicators = whole = build.indicators.matrix(build.columns)
        self._entry_row = np.array(build.entry_row, dtype=np.int64)
        self._entry_column = np.full(len(self._entry_row), -1)
        is_column = np.diff(whole.indptr) == 1
        self._entry_column[is_column] = whole.indices[whole.indptr[:-1][is_column]]

    def program(
        self, objective: Floats, constraints: Sequence[Floats], at_most: Sequence[float]
    ) -> LinearProgram:
        """The program for one row: its entries of h and of each t_j, all (E,).

        -inf in h fixes the entry's indicator to 0. -inf in t_j satisfies the constraint: the
        entry gets minus what all other entries can exceed q_j by.
        """
        forbidden = np.isneginf(objective)
        base = self._forbid(forbidden)
        finite = np.where(forbidden, 0.0, objective)
        rows, upper = [base.rows], [base.upper]
        for table, limit in zip(constraints, at_most, strict=True):
            constant, row = self.weighted(self.constraint_weights(table, limit))
            rows.append(csr_array(row[np.newaxis, :]))
            upper.append(np.array([limit - constant]))
        offset, cost = self.weighted(finite)
        return replace(
            base,
            cost=cost,
            offset=offset,
            rows=vstack(rows, format="csr") if len(rows) > 1 else base.rows,
            lower=np.append(base.lower, np.full(len(constraints), -np.inf)),
            upper=np.concatenate(upper),
        )

    def magnitude(self, table: Floats) -> float:
        """The sum over tables of the largest finite entry's size, of entries (E,)."""
        sizes = np.where(np.isneginf(table), 0.0, np.abs(table))
        return float(np.maximum.reduceat(sizes, self._starts).sum())

    def weighted(self, weights: Floats) -> tuple[float, Floats]:
        """The sum of all entries' indicators, weighted (E,): its constant, and its columns."""
        return float(weights @ self._constant), np.asarray(weights @ self._indicators)

    def _forbid(self, forbidden: NDArray[np.bool_]) -> LinearProgram:
        column_lower, column_upper = np.zeros(self.columns), np.ones(self.columns)
        upper = self._upper.copy()
        by_row = forbidden & (self._entry_row >= 0)
        upper[self._entry_row[by_row]] = self._lower[self._entry_row[by_row]]
        by_column = forbidden & (self._entry_row < 0) & (self._entry_column >= 0)
        complement = self._constant == 1.0  # the indicator 1 - x: forbidding it fixes x to 1
        column_upper[self._entry_column[by_column & ~complement]] = 0.0
        column_lower[self._entry_column[by_column & complement]] = 1.0
        return LinearProgram(
            np.zeros(self.columns), 0.0, self._rows, self._lower, upper,
            column_lower, column_upper, self._integer,
        )  # fmt: skip

    def constraint_weights(self, table: Floats, limit: float) -> Floats:
        """The entries of a constraint (E,), finite: -inf as what takes every sum to the limit."""
        satisfied = np.isneginf(table)
        finite = np.where(satisfied, 0.0, table)
        if not satisfied.any():
            return finite
        highest = np.maximum.reduceat(finite, self._starts).sum()
        return finite - np.where(satisfied, max(0.0, highest - limit), 0.0)

    def decode(self, columns: Floats) -> NDArray[np.int32]:
        """The values of the free variables, each at its largest indicator: (|free|,)."""
        out = np.zeros(len(self._free), dtype=np.int32)
        for i, variable in enumerate(self._free):
            own = self._columns.get(variable, range(0))
            if len(own) == 1:
                out[i] = int(columns[own[0]] > 0.5)
            elif own:
                out[i] = int(np.argmax(columns[own.start : own.stop]))
        return out

    def encode(self, free_values: Sequence[float]) -> Floats:
        """All columns of an assignment of the free variables: a point of the polytope."""
        value = dict(zip(self._free, free_values, strict=True))
        columns = np.zeros(self.columns)
        weights: dict[int, Floats] = {}
        for variable, own in self._columns.items():
            z, size = value[variable], self._cards[variable]
            weights[variable] = np.array([1.0 - z, z]) if size == 2 else np.eye(size)[int(z)]
            columns[own.start : own.stop] = weights[variable][-len(own) :]
        for scope, start in zip(self._scopes, self._starts, strict=True):
            if len(scope) > 1:
                share = reduce(np.multiply.outer, (weights[v] for v in scope)).ravel()
                entries = self._entry_column[start : start + len(share)]
                columns[entries[entries >= 0]] = share[entries >= 0]  # of a product: (1, 1) alone
        return columns

    def no_good(self, free_values: Sequence[int]) -> tuple[Floats, float]:
        """A row (coefficients, at_most) that cuts off exactly this assignment."""
        coefficients, count, constant = np.zeros(self.columns), 0, 0.0
        for variable, value in zip(self._free, free_values, strict=True):
            if variable in self._columns:
                shift, terms = self.indicator(variable, int(value))
                constant += shift
                count += 1
                for column, weight in terms:
                    coefficients[column] += weight
        return coefficients, count - 1 - constant


def sparse(rows: Sequence[Terms], columns: int) -> csr_array:
    """Rows of (column, coefficient) pairs as a matrix."""
    out = _SparseRows()
    for terms in rows:
        out.add(terms)
    return out.matrix(columns)
