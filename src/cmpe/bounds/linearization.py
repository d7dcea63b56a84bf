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

import itertools
from collections.abc import Sequence
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
    lp.integrality_ = [kinds[int(i)] for i in program.integer]
    return lp


@dataclass
class _Builder:
    """Columns, rows and entry indicators while they are being laid out."""

    columns: int = 0
    integer: list[int] = field(default_factory=list)
    rows: list[Terms] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    indicators: list[tuple[float, Terms]] = field(default_factory=list)
    entry_row: list[int] = field(default_factory=list)  # the row "indicator >= 0", or -1

    def add_columns(self, count: int, *, integer: bool) -> list[int]:
        new = list(range(self.columns, self.columns + count))
        self.columns += count
        if integer:
            self.integer.extend(new)
        return new

    def add_row(self, terms: Terms, lower: float, upper: float) -> int:
        self.rows.append(terms)
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.rows) - 1

    def add_entry(self, constant: float, terms: Terms, row: int = -1) -> None:
        self.indicators.append((constant, terms))
        self.entry_row.append(row)


class LocalPolytope:
    """The linear program that all rows of evidence share, up to numbers."""

    def __init__(
        self, conditioning: Conditioning, continuous: Sequence[int] = (), also: Sequence[int] = ()
    ) -> None:
        """`continuous` variables take any number in [0, 1]; `also` get columns without a table."""
        self._continuous = frozenset(continuous)
        self._cards = conditioning.cardinalities
        self._free = conditioning.free
        self._scopes = conditioning.scopes
        self._starts = conditioning.layout.offsets[:-1]
        build = _Builder()
        mentioned = {*also, *(v for scope in self._scopes for v in scope)}
        self._columns = {v: self._add_variable(build, v) for v in self._free if v in mentioned}
        for scope in self._scopes:
            self._add_scope(build, scope)
        self._finish(build)

    def _add_variable(self, build: _Builder, variable: int) -> list[int]:
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
        columns = build.add_columns(int(np.prod(sizes)), integer=False)
        grid = np.array(columns).reshape(sizes)
        for axis, variable in enumerate(scope):
            for value in range(sizes[axis]):
                constant, terms = self.indicator(variable, value)
                row = [(int(c), 1.0) for c in grid.take(value, axis=axis).ravel()]
                build.add_row(row + [(c, -a) for c, a in terms], constant, constant)
        for column in columns:
            build.add_entry(0.0, [(column, 1.0)])

    def _finish(self, build: _Builder) -> None:
        self.columns = build.columns
        self._rows = sparse(build.rows, build.columns)
        self._lower, self._upper = np.array(build.lower), np.array(build.upper)
        self._integer = np.zeros(build.columns, dtype=bool)
        self._integer[build.integer] = True
        self._constant = np.array([constant for constant, _ in build.indicators])
        self._indicators = sparse([terms for _, terms in build.indicators], build.columns)
        self._entry_row = np.array(build.entry_row, dtype=np.int64)
        single = [terms[0] if len(terms) == 1 else (-1, 0.0) for _, terms in build.indicators]
        self._entry_column = np.array([column for column, _ in single], dtype=np.int64)

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
            own = self._columns.get(variable, [])
            if len(own) == 1:
                out[i] = int(columns[own[0]] > 0.5)
            elif own:
                out[i] = int(np.argmax(columns[own]))
        return out

    def encode(self, free_values: Sequence[float]) -> Floats:
        """All columns of an assignment of the free variables: a point of the polytope."""
        value = dict(zip(self._free, free_values, strict=True))
        columns = np.zeros(self.columns)
        weights: dict[int, Floats] = {}
        for variable, own in self._columns.items():
            z, size = value[variable], self._cards[variable]
            weights[variable] = np.array([1.0 - z, z]) if size == 2 else np.eye(size)[int(z)]
            columns[own] = weights[variable][-len(own) :]
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
    lengths = [len(terms) for terms in rows]
    flat = list(itertools.chain.from_iterable(rows))
    indices = np.array([c for c, _ in flat], dtype=np.int32)
    data = np.array([a for _, a in flat], dtype=np.float64)
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
    return csr_array((data, indices, start), shape=(len(rows), columns))
