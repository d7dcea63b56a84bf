"""Reformulation-linearisation for variables in [0, 1] (Sherali and Tuncbilek 1992; paper §2).

    maximise h(z) subject to t_j(z) <= q_j, z in [0, 1]^n, for multilinear polynomials h and t_j

Every monomial I becomes a column w_I. For every monomial of two and more factors, each product

    product of z_i over some factors times product of (1 - z_i) over the others  >=  0

is written out and linearised; so are the constraints, and the products of each constraint with
every z_i and 1 - z_i, where squares appear as monomials with repeated factors. The linear program
is a relaxation. Its bound is computed from the dual prices y alone, as

    max over w in [0, 1] of c w + y (A w - b),   y >= 0,

which holds for any y: HiGHS's tolerances and time limit cannot make it wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import hstack

from cmpe.arrays import Floats
from cmpe.bounds.linearization import LinearProgram, highs_model, sparse
from cmpe.errors import ModelError, TooLarge
from cmpe.models.polynomial import Monomial, MultilinearPolynomial
from cmpe.problem import FEASIBILITY_TOLERANCE

MOST_FACTORS = 10  # of one monomial: 2^10 products
MOST_PRODUCTS = 4000  # rows of constraints times variables: beyond, constraints stay alone
ROUNDING = 1e-12

Weights = dict[Monomial, float]


@dataclass(frozen=True)
class PolynomialProblem:
    """Maximise `objective` subject to polynomial <= limit, over [0, 1]^n."""

    objective: MultilinearPolynomial
    constraints: tuple[tuple[MultilinearPolynomial, float], ...] = ()

    def __post_init__(self) -> None:
        for polynomial, _ in self.constraints:
            if polynomial.variables != self.objective.variables:
                raise ModelError(
                    f"a constraint must have the objective's {self.objective.variables} variables, "
                    f"found {polynomial.variables}"
                )

    def given(self, values: Mapping[int, float]) -> PolynomialProblem:
        """The problem with some variables fixed."""
        return PolynomialProblem(
            _given(self.objective, values),
            tuple((_given(polynomial, values), limit) for polynomial, limit in self.constraints),
        )


def linearization_bound(
    problem: PolynomialProblem, *, products: bool = True, time_limit: float | None = None
) -> float:
    """An upper bound on the best feasible value; -inf if the relaxation is proved infeasible."""
    program = _program(problem, products)
    bound = _dual_bound(program, time_limit)
    if bound is not None:
        return bound
    return _box_bound(program) if _feasible(program, time_limit) else -np.inf


def _given(polynomial: MultilinearPolynomial, values: Mapping[int, float]) -> MultilinearPolynomial:
    for variable, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ModelError(f"variable {variable} must be from 0 to 1, found {value}")
    weights: Weights = {}
    for monomial, weight in polynomial.weights.items():
        left = tuple(v for v in monomial if v not in values)
        factor = float(np.prod([values[v] for v in monomial if v in values]))
        weights[left] = weights.get(left, 0.0) + weight * factor
    return MultilinearPolynomial(polynomial.variables, weights)


def _program(problem: PolynomialProblem, products: bool) -> LinearProgram:
    """All rows are `>=`; column 0 is the constant monomial, fixed to 1."""
    used = sorted({v for p in _polynomials(problem) for m in p.weights for v in m})
    rows = [_at_least(polynomial, limit) for polynomial, limit in problem.constraints]
    if products and len(rows) * len(used) <= MOST_PRODUCTS:
        rows += [_times(row, v, upper) for row in rows for v in used for upper in (False, True)]
    mentioned = {m for row in rows for m in row} | set(problem.objective.weights)
    rows += [row for monomial in _largest(mentioned) for row in _bound_products(monomial)]
    monomials = sorted(
        {m for row in rows for m in row} | mentioned | {()}, key=lambda m: (len(m), m)
    )
    column = {m: k for k, m in enumerate(monomials)}
    cost = np.zeros(len(column))
    for monomial, weight in problem.objective.weights.items():
        cost[column[monomial]] = weight
    lower = np.zeros(len(column))
    lower[0] = 1.0
    terms = [[(column[m], a) for m, a in row.items()] for row in rows]
    return LinearProgram(
        cost, 0.0, sparse(terms, len(column)), np.zeros(len(rows)), np.full(len(rows), np.inf),
        lower, np.ones(len(column)), np.zeros(len(column), dtype=bool),
    )  # fmt: skip


def _polynomials(problem: PolynomialProblem) -> Iterable[MultilinearPolynomial]:
    return (problem.objective, *(polynomial for polynomial, _ in problem.constraints))


def _at_least(polynomial: MultilinearPolynomial, limit: float) -> Weights:
    """q - t >= 0, with the tolerance that feasibility has everywhere."""
    loose = limit + FEASIBILITY_TOLERANCE * max(1.0, abs(limit))
    row = {monomial: -weight for monomial, weight in polynomial.weights.items()}
    row[()] = row.get((), 0.0) + loose
    return row


def _times(row: Weights, variable: int, upper: bool) -> Weights:
    """The row times z, or times 1 - z."""
    product = {tuple(sorted((*m, variable))): a for m, a in row.items()}
    if not upper:
        return product
    return {m: row.get(m, 0.0) - product.get(m, 0.0) for m in dict.fromkeys([*row, *product])}


def _largest(monomials: Iterable[Monomial]) -> list[Monomial]:
    """Monomials of two and more factors that are not part of another one."""
    kept: list[Monomial] = []
    for monomial in sorted(monomials, key=lambda m: (-len(m), m)):
        if len(monomial) > MOST_FACTORS:
            raise TooLarge(
                f"a monomial of {len(monomial)} factors has 2^{len(monomial)} products; "
                f"the limit is {MOST_FACTORS} factors"
            )
        if len(monomial) > 1 and not any(_within(monomial, other) for other in kept):
            kept.append(monomial)
    return kept


def _within(part: Monomial, whole: Monomial) -> bool:
    return all(part.count(v) <= whole.count(v) for v in set(part))


def _bound_products(monomial: Monomial) -> list[Weights]:
    """Every product of factors z or 1 - z, written out."""
    rows = []
    for signs in itertools.product((False, True), repeat=len(monomial)):
        row: Weights = {(): 1.0}
        for variable, upper in zip(monomial, signs, strict=True):
            row = _times(row, variable, upper)
        rows.append({m: a for m, a in row.items() if a != 0.0})
    unique = {tuple(sorted(row.items())): row for row in rows}
    return list(unique.values())


def _dual_bound(program: LinearProgram, time_limit: float | None) -> float | None:
    """The bound that HiGHS's prices prove; None if it found the program infeasible."""
    import highspy

    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1)):
        solver.setOptionValue(name, value)
    if time_limit is not None:
        solver.setOptionValue("time_limit", float(time_limit))
    solver.passModel(highs_model(program))
    solver.run()
    if solver.getModelStatus() in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return None
    prices = np.array(solver.getSolution().row_dual)
    if len(prices) != program.rows.shape[0]:
        prices = np.zeros(program.rows.shape[0])
    return _priced(program, np.maximum(0.0, -prices))


def _priced(program: LinearProgram, prices: Floats) -> float:
    """max over w in the columns' bounds of c w + y (A w - b)."""
    reduced = program.cost + prices @ program.rows
    best = np.maximum(reduced * program.column_lower, reduced * program.column_upper)
    size = np.abs(program.cost).sum() + (prices @ abs(program.rows)).sum()
    return float(best.sum() - prices @ program.lower + ROUNDING * (1.0 + size))


def _box_bound(program: LinearProgram) -> float:
    return _priced(program, np.zeros(program.rows.shape[0]))


def _feasible(program: LinearProgram, time_limit: float | None) -> bool:
    """False if proved infeasible: some prices make even the best w fall short of the rows."""
    rows, columns = program.rows.shape
    slack = sparse([[(0, 1.0)]] * rows, 1)
    # maximise -s subject to A w + s >= b: below 0 means that no w satisfies all rows
    worst = float(np.abs(program.rows).sum()) + 1.0
    phase = replace(
        program,
        cost=np.append(np.zeros(columns), -1.0),
        rows=hstack([program.rows, slack], format="csr"),
        column_lower=np.append(program.column_lower, 0.0),
        column_upper=np.append(program.column_upper, worst),
        integer=np.append(program.integer, False),
    )
    bound = _dual_bound(phase, time_limit)
    return bound is None or bound >= -1e-9
