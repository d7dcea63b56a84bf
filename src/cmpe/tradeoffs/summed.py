"""Marginal MAP: the k most probable assignments of chosen variables, all others summed out.

    score(o) = log of the sum over the other variables u of exp h(o, u, x)

The others are eliminated by log-sums, all rows at once, in an order that the elimination planner
chooses among them alone. What is left is a table model over the chosen variables, each row with
numbers of its own, which `best` ranks as it ranks any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Floats
from cmpe.domain import Domain
from cmpe.elimination.plan import MEMORY_LIMIT, make_plan
from cmpe.errors import MethodError, TooLarge
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.problem.expansion import expanded
from cmpe.problem.problem import Form
from cmpe.problem.rows import Potential, Rows


def summed_out(rows: Rows, over: Sequence[int]) -> Rows:
    """The rows as a question about the variables `over` alone, the others summed out.

    All rows observe the same variables. Observed variables stay, so that answers show them.
    """
    problem = rows.problem
    seen = (rows.evidence != FREE).any(axis=0)
    if ((rows.evidence != FREE) != seen).any():
        raise MethodError("rest='sum' needs rows that observe the same variables")
    kept = [v for v in range(problem.variables) if seen[v] or v in set(over)]
    domain = _part(problem.domain, kept)
    if problem.form is Form.RULES:  # variables that rules bring have one value for each assignment
        rows = _with_tables(rows, seen)
        problem = rows.problem
        seen = np.append(seen, np.zeros(problem.variables - len(seen), dtype=bool))
    _need_constraints_of(problem, kept)
    place = {v: i for i, v in enumerate(kept)}
    tables = _Tables(rows, seen).eliminated([v for v in range(problem.variables) if v not in place])
    zero = LogLinearModel(domain.cardinalities, (), domain.names, domain.states)
    constraints = [_moved(c, domain, place) for c in problem.constraints]
    posed = Problem(zero, constraints, [place[v] for v in problem.evidence_variables if seen[v]])
    potentials = tuple(
        Potential(tuple(place[v] for v in s), np.broadcast_to(t, (len(rows), *t.shape[1:])))
        for s, t in tables
    )
    return Rows(posed, rows.evidence[:, kept], potentials, rows.limits)


def _with_tables(rows: Rows, seen: NDArray[np.bool_]) -> Rows:
    """The rows of a problem whose rules are tables, over more variables."""
    whole = expanded(rows.problem, np.flatnonzero(seen).tolist())
    hidden = np.full((len(rows), len(whole.hidden)), FREE, dtype=rows.evidence.dtype)
    return replace(rows, problem=whole.problem, evidence=np.column_stack([rows.evidence, hidden]))


def _need_constraints_of(problem: Problem, kept: Sequence[int]) -> None:
    """A constraint on a variable that is summed out would need its own count in every sum."""
    for number, model in enumerate(problem.models[1:]):
        odd = sorted({v for factor in model.factors for v in factor.scope} - set(kept))
        if odd:
            raise MethodError(
                f"rest='sum' sums {problem.domain.called(odd[0])} out, which constraint {number} "
                "reads; add it to `over`, or write rest='max'"
            )


def _moved(constraint: Constraint, domain: Domain, place: dict[int, int]) -> Constraint:
    """The same constraint over the variables that stay."""
    model = constraint.function
    assert isinstance(model, LogLinearModel)
    factors = tuple(Factor(tuple(place[v] for v in f.scope), f.log_table) for f in model.factors)
    moved = LogLinearModel(domain.cardinalities, factors, domain.names, domain.states)
    return replace(constraint, function=moved, support=None)


def _part(domain: Domain, kept: Sequence[int]) -> Domain:
    """The domain of some of the variables."""
    return Domain(
        tuple(domain.cardinalities[v] for v in kept),
        tuple(domain.name(v) if domain.names else f"x{v}" for v in kept),
        tuple(domain.states[v] for v in kept) if domain.states else (),
    )


Scope = tuple[int, ...]


class _Tables:
    """The objective's tables of every row: (B, states ...), or (1, states ...) shared by all."""

    def __init__(self, rows: Rows, seen: NDArray[np.bool_]) -> None:
        self._cards, self._count = rows.problem.domain.cardinalities, len(rows)
        self._tables = [
            self._conditioned(factor.scope, factor.log_table[np.newaxis], rows, seen)
            for factor in rows.problem.models[0].factors
        ]
        self._tables += [self._conditioned(p.scope, p.values, rows, seen) for p in rows.potentials]

    @staticmethod
    def _conditioned(
        scope: Scope, values: Floats, rows: Rows, seen: NDArray[np.bool_]
    ) -> tuple[Scope, Floats]:
        """A table read at each row's observed values."""
        known = [axis for axis, v in enumerate(scope) if seen[v]]
        if not known:
            return scope, values
        free = [axis for axis in range(len(scope)) if axis not in known]
        turned = values.transpose(0, *(1 + a for a in known), *(1 + a for a in free))
        row = np.zeros(1, np.intp) if len(values) == 1 else np.arange(len(values))
        at = tuple(rows.evidence[:, scope[axis]].astype(np.intp) for axis in known)
        return tuple(scope[axis] for axis in free), turned[(row, *at)]

    def eliminated(self, variables: Sequence[int]) -> list[tuple[Scope, Floats]]:
        """The tables over all other variables that are left when these are summed out."""
        tables, chosen = self._tables, set(variables)
        scopes = [tuple(v for v in scope if v in chosen) for scope, _ in tables]
        plan = make_plan(self._cards, [s for s in scopes if s], variables=variables)
        self._need_room([scope for scope, _ in tables], plan.order)
        for variable in plan.order:
            tables = self._without(tables, variable)
        return _joined(tables)

    def _need_room(self, scopes: list[Scope], order: Sequence[int]) -> None:
        """Refuse before any memory is taken: the variables that stay widen every table."""
        left = [frozenset(scope) for scope in scopes]
        for variable in order:
            joined = frozenset((variable,)).union(*(s for s in left if variable in s))
            left = [s for s in left if variable not in s]
            left.append(joined - {variable})
            if 24 * self._count * math.prod(self._cards[v] for v in joined) > MEMORY_LIMIT:
                raise TooLarge(
                    f"rest='sum' needs tables of {len(joined)} variables; choose fewer variables "
                    "with `over`, or write rest='max'"
                )

    def _without(
        self, tables: list[tuple[Scope, Floats]], variable: int
    ) -> list[tuple[Scope, Floats]]:
        """The tables once a variable is summed out."""
        taken = [each for each in tables if variable in each[0]]
        left = [each for each in tables if variable not in each[0]]
        if not taken:  # it is in no table: every value counts
            return [*left, ((), np.full(1, math.log(self._cards[variable])))]
        others = sorted({v for scope, _ in taken for v in scope} - {variable})
        whole = (*others, variable)
        total = sum(_aligned(scope, table, whole) for scope, table in taken)
        return [*left, (tuple(others), _log_sum(np.asarray(total)))]


def _aligned(scope: Scope, table: Floats, whole: Scope) -> Floats:
    """A table with the axes of `whole`, of length 1 where it does not read the variable."""
    order = sorted(range(len(scope)), key=lambda axis: whole.index(scope[axis]))
    turned = table.transpose(0, *(1 + axis for axis in order))
    shape = [len(table)] + [1] * len(whole)
    for axis, length in zip(order, turned.shape[1:], strict=True):
        shape[1 + whole.index(scope[axis])] = length
    return turned.reshape(shape)


def _log_sum(table: Floats) -> Floats:
    """The log of the sum of exp over the last axis; -inf where all are."""
    most = table.max(axis=-1, keepdims=True)
    shift = np.where(np.isneginf(most), 0.0, most)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(table - shift).sum(axis=-1)) + shift[..., 0])


def _joined(tables: list[tuple[Scope, Floats]]) -> list[tuple[Scope, Floats]]:
    """Tables over the same variables are added up."""
    out: dict[Scope, Floats] = {}
    for scope, table in tables:
        rising = tuple(sorted(scope))
        turned = _aligned(scope, table, rising)
        out[rising] = out[rising] + turned if rising in out else turned
    return list(out.items())
