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
from typing import NamedTuple

import numpy as np
from scipy.sparse import hstack

from cmpe.arrays import Floats
from cmpe.bounds.base import Bounds, Work, loosened_limits, over_chunks
from cmpe.bounds.linearization import LinearProgram, highs_model, sparse
from cmpe.bounds.settings import SETTINGS
from cmpe.core.compiler import timing
from cmpe.errors import TooLarge
from cmpe.models.polynomial import Monomial, MultilinearPolynomial
from cmpe.problem import Instances

ROUNDING = 1e-12  # A share of the numbers' size: what float64 sums may have lost.

Weights = dict[Monomial, float]


class Polynomials(NamedTuple):
    """Maximise the objective subject to polynomial <= limit, over [0, 1]^n."""

    objective: MultilinearPolynomial
    constraints: tuple[tuple[MultilinearPolynomial, float], ...]

    @classmethod
    def of(cls, instances: Instances) -> Polynomials:
        """The functions before evidence; limits are those that feasible assignments stay under."""
        models = replace(instances.problem, continuous=()).models
        polynomials = [MultilinearPolynomial.from_model(model) for model in models]
        limits = loosened_limits(instances).tolist()
        return cls(polynomials[0], tuple(zip(polynomials[1:], limits, strict=True)))

    def given(self, values: Mapping[int, float]) -> Polynomials:
        """The problem with some variables fixed."""
        return Polynomials(
            _given(self.objective, values),
            tuple((_given(polynomial, values), limit) for polynomial, limit in self.constraints),
        )


@dataclass(frozen=True)
class Rlt:
    """The bound of one linear program a row; `products` adds the constraints' products.

    It needs finite tables over variables of two values or in [0, 1]. Steps are iterations of the
    simplex method. The multipliers are the prices of the constraints' own rows.
    """

    products: bool = True

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row."""
        whole, observed = Polynomials.of(instances), instances.problem.evidence_variables
        out = Bounds.empty(len(instances), len(whole.constraints))

        def chunk(rows: slice) -> None:
            for at in range(rows.start, rows.stop):
                begin = timing.now()
                values = dict(zip(observed, instances.evidence[at].tolist(), strict=True))
                bounds = _bounded(whole.given(values), self.products, work)
                out.upper[at], out.infeasible[at] = bounds.bound, bounds.bound == -np.inf
                out.multipliers[at], out.steps[at] = bounds.multipliers, bounds.steps
                out.seconds[at] = timing.now() - begin

        over_chunks(instances, chunk, work.threads)
        return out


class _Priced(NamedTuple):
    """A bound that the prices of some rows prove."""

    bound: float
    multipliers: Floats  # the prices of the constraints' rows, which come first
    steps: int


def _bounded(problem: Polynomials, products: bool, work: Work) -> _Priced:
    """The bound of the relaxation; -inf if it is proved infeasible."""
    program, constraints = _program(problem, products), len(problem.constraints)
    solved = _solved(program, constraints, work)
    if solved is not None:
        return solved
    nothing = np.zeros(program.rows.shape[0])
    bound = _priced(program, nothing) if _may_be_feasible(program, work) else -np.inf
    return _Priced(bound, nothing[:constraints], 0)


def _given(polynomial: MultilinearPolynomial, values: Mapping[int, float]) -> MultilinearPolynomial:
    weights: Weights = {}
    for monomial, weight in polynomial.weights.items():
        left = tuple(v for v in monomial if v not in values)
        factor = float(np.prod([values[v] for v in monomial if v in values]))
        weights[left] = weights.get(left, 0.0) + weight * factor
    return MultilinearPolynomial(polynomial.variables, weights)


def _program(problem: Polynomials, products: bool) -> LinearProgram:
    """All rows are `>=`; column 0 is the constant monomial, fixed to 1."""
    used = sorted({v for p in _polynomials(problem) for m in p.weights for v in m})
    rows = [_at_least(polynomial, limit) for polynomial, limit in problem.constraints]
    if products and len(rows) * len(used) <= SETTINGS.products:
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


def _polynomials(problem: Polynomials) -> Iterable[MultilinearPolynomial]:
    return (problem.objective, *(polynomial for polynomial, _ in problem.constraints))


def _at_least(polynomial: MultilinearPolynomial, limit: float) -> Weights:
    """q - t >= 0."""
    row = {monomial: -weight for monomial, weight in polynomial.weights.items()}
    row[()] = row.get((), 0.0) + limit
    return row


def _times(row: Weights, variable: int, upper: bool) -> Weights:
    """The row times z, or times 1 - z."""
    product = {tuple(sorted((*m, variable))): a for m, a in row.items()}
    if not upper:
        return product
    return {m: row.get(m, 0.0) - product.get(m, 0.0) for m in dict.fromkeys([*row, *product])}


def _largest(monomials: Iterable[Monomial]) -> list[Monomial]:
    """Monomials of two and more factors that are not part of another one."""
    chosen: list[Monomial] = []
    for monomial in sorted(monomials, key=lambda m: (-len(m), m)):
        if len(monomial) > SETTINGS.factors:
            raise TooLarge(
                f"a monomial of {len(monomial)} factors has 2^{len(monomial)} products; "
                f"the limit is {SETTINGS.factors} factors"
            )
        if len(monomial) > 1 and not any(_within(monomial, other) for other in chosen):
            chosen.append(monomial)
    return chosen


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


def _solved(program: LinearProgram, constraints: int, work: Work) -> _Priced | None:
    """The bound that HiGHS's prices prove; None if it found the program infeasible."""
    import highspy

    solver = highspy.Highs()
    options: dict[str, float] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": work.seed % (1 << 31),
    }
    if work.time_limit is not None:
        options["time_limit"] = float(work.time_limit)
    if work.steps is not None:
        options["simplex_iteration_limit"] = work.steps
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(highs_model(program))
    solver.run()
    if solver.getModelStatus() in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return None
    prices = np.maximum(0.0, -np.array(solver.getSolution().row_dual))
    if len(prices) != program.rows.shape[0] or not np.isfinite(prices).all():
        prices = np.zeros(program.rows.shape[0])
    steps = max(0, solver.getInfo().simplex_iteration_count)
    return _Priced(_priced(program, prices), prices[:constraints], steps)


def _priced(program: LinearProgram, prices: Floats) -> float:
    """max over w in the columns' bounds of c w + y (A w - b)."""
    reduced = program.cost + prices @ program.rows
    best = np.maximum(reduced * program.column_lower, reduced * program.column_upper)
    size = np.abs(program.cost).sum() + (prices @ abs(program.rows)).sum()
    return float(best.sum() - prices @ program.lower + ROUNDING * (1.0 + size))


def _may_be_feasible(program: LinearProgram, work: Work) -> bool:
    """False if proved infeasible: some prices make even the best w fall short of the rows."""
    rows, columns = program.rows.shape
    slack = sparse([[(0, 1.0)]] * rows, 1)
    # Maximise -s subject to A w + s >= b: below 0 means that no w satisfies all rows.
    worst = float(np.abs(program.rows).sum()) + 1.0
    phase = replace(
        program,
        cost=np.append(np.zeros(columns), -1.0),
        rows=hstack([program.rows, slack], format="csr"),
        column_lower=np.append(program.column_lower, 0.0),
        column_upper=np.append(program.column_upper, worst),
        integer=np.append(program.integer, False),
    )
    solved = _solved(phase, 0, work)
    return solved is None or solved.bound >= -1e-9
