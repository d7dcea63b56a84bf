"""Marginal MAP: the k most probable assignments of chosen variables, all others summed out.

    score(o) = log of the sum over the other variables u of exp h(o, u, x)

The others are eliminated by log-sums, all rows at once, in an order that the elimination planner
chooses among them alone. What is left is a table model over the chosen variables, each row with
numbers of its own, which `best` ranks as it ranks any other.

The chosen variables widen every table. Where a table would be too large, a bucket is divided: one
part is summed over the variable, the others are maximised over it (mini-buckets: Dechter and Rish
2003). What is left is then an upper bound of the score. Its best assignments are listed, and each
gets its exact score by a sum with the chosen variables observed, until the bound says that nothing
better is missing (`Summed.best`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Floats, Values
from cmpe.domain import Domain
from cmpe.elimination.plan import MEMORY_LIMIT, make_plan
from cmpe.errors import MethodError, TooLarge
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.problem.expansion import expanded
from cmpe.problem.problem import Form
from cmpe.problem.rows import Potential, Rows
from cmpe.solvers.base import Deadline, Limits
from cmpe.tradeoffs.chosen import best_over
from cmpe.tradeoffs.settings import TRADEOFFS


@dataclass(frozen=True)
class ScoredAnswers:
    """What one row's list is made of."""

    rows: Values  # (k, n)
    scores: Floats  # (k,)
    complete: bool
    bound: float  # on the score of what is missing


@dataclass(frozen=True)
class Summed:
    """Rows as a question about chosen variables alone, the others summed out."""

    rows: Rows  # about the variables that stay
    exact: bool  # else the objective is an upper bound of the score
    _whole: Rows
    _kept: tuple[int, ...]  # the variables that stay

    @classmethod
    def of(cls, rows: Rows, over: Sequence[int]) -> Summed:
        """All rows observe the same variables, which stay, so that answers show them."""
        problem = rows.problem
        seen = (rows.evidence != FREE).any(axis=0)
        if ((rows.evidence != FREE) != seen).any():
            raise MethodError("rest='sum' needs rows that observe the same variables")
        kept = [v for v in range(problem.variables) if seen[v] or v in set(over)]
        domain = _part(problem.domain, kept)
        if problem.form is Form.RULES:  # variables of rules have one value for each assignment
            rows = _with_tables(rows, seen)
            problem = rows.problem
            seen = np.append(seen, np.zeros(problem.variables - len(seen), dtype=bool))
        _need_constraints_of(problem, kept)
        place = {v: i for i, v in enumerate(kept)}
        others = [v for v in range(problem.variables) if v not in place]
        tables, exact = _Tables(rows, seen).eliminated(others, exactly=False)
        zero = LogLinearModel(domain.cardinalities, (), domain.names, domain.states)
        constraints = [_moved(c, domain, place) for c in problem.constraints]
        posed = Problem(
            zero, constraints, [place[v] for v in problem.evidence_variables if seen[v]]
        )
        potentials = tuple(
            Potential(tuple(place[v] for v in s), np.broadcast_to(t, (len(rows), *t.shape[1:])))
            for s, t in tables
        )
        asked = Rows(posed, rows.evidence[:, kept], potentials, rows.limits)
        return cls(asked, exact, rows, tuple(kept))

    def scores(self, row: int, assignments: Values) -> Floats:
        """The exact score of assignments (k, kept) of the variables that stay: (k,)."""
        rows = self._whole.take(np.full(len(assignments), row, dtype=np.intp))
        evidence = rows.evidence.copy()
        evidence[:, list(self._kept)] = assignments
        rows = replace(rows, evidence=evidence)
        seen = np.zeros(evidence.shape[1], dtype=bool)
        seen[list(self._kept)] = True
        others = np.flatnonzero(~seen).tolist()
        tables, _ = _Tables(rows, seen).eliminated(others, exactly=True)
        total = np.zeros(len(rows))
        for _, table in tables:
            total = total + table
        return total

    def best(self, row: int, k: int, within: float, limits: Limits) -> ScoredAnswers:
        """The k best assignments of a row, no more than `within` nats off."""
        deadline, count = Deadline(limits), max(TRADEOFFS.first_scored, 2 * k)
        own = self.rows.take(np.array([row]))
        chosen = tuple(range(own.problem.variables))
        while True:
            (listed,) = best_over(own, chosen, count, np.inf, deadline.left())
            scores = self.scores(row, listed.rows) if len(listed.rows) else np.zeros(0)
            bound = -np.inf if listed.complete and len(listed.rows) < count else listed.bound
            order = np.argsort(-scores, kind="stable")
            least = scores[order[0]] - within if len(order) else -np.inf
            kept = order[(scores[order] >= least) & (scores[order] > -np.inf)][:k]
            enough = float(scores[kept[-1]]) if len(kept) == k else least
            complete = bound <= enough
            if (
                complete
                or not listed.complete
                or count >= TRADEOFFS.most_listed
                or deadline.expired()
            ):
                bound = float(np.delete(scores, kept).max(initial=bound))
                return ScoredAnswers(listed.rows[kept], scores[kept], bool(complete), bound)
            count *= 4


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

    def eliminated(
        self, variables: Sequence[int], *, exactly: bool
    ) -> tuple[list[tuple[Scope, Floats]], bool]:
        """The tables over all other variables that are left when these are summed out.

        Whether they are exact; else, unless that is asked for, their sum is an upper bound.
        """
        tables, chosen = self._tables, set(variables)
        scopes = [tuple(v for v in scope if v in chosen) for scope, _ in tables]
        plan = make_plan(self._cards, [s for s in scopes if s], variables=variables)
        most = MEMORY_LIMIT
        if not self._fits([scope for scope, _ in tables], plan.order):
            if exactly:
                raise TooLarge(
                    "rest='sum' needs tables of too many variables; choose fewer variables with "
                    "`over`, or write rest='max'"
                )
            most = TRADEOFFS.part_bytes
        for variable in plan.order:
            tables = self._without(tables, variable, most)
        return _joined(tables), most == MEMORY_LIMIT

    def _bytes(self, scope: Iterable[int]) -> int:
        return 24 * self._count * math.prod(self._cards[v] for v in scope)

    def _fits(self, scopes: list[Scope], order: Sequence[int]) -> bool:
        """Whether memory holds every table; the variables that stay widen them."""
        left = [frozenset(scope) for scope in scopes]
        for variable in order:
            joined = frozenset((variable,)).union(*(s for s in left if variable in s))
            left = [s for s in left if variable not in s]
            left.append(joined - {variable})
            if self._bytes(joined) > MEMORY_LIMIT:
                return False
        return True

    def _without(
        self, tables: list[tuple[Scope, Floats]], variable: int, most: int
    ) -> list[tuple[Scope, Floats]]:
        """The tables once a variable is summed out, in parts of so many bytes at most."""
        taken = [each for each in tables if variable in each[0]]
        left = [each for each in tables if variable not in each[0]]
        if not taken:  # it is in no table: every value counts
            return [*left, ((), np.full(1, math.log(self._cards[variable])))]
        parts: list[list[tuple[Scope, Floats]]] = []
        for each in sorted(taken, key=lambda table: -len(table[0])):
            fitting = (p for p in parts if self._bytes(_union([*p, each])) <= most)
            part = next(fitting, None)
            if part is None:
                parts.append([each])
            else:
                part.append(each)
        for number, part in enumerate(parts):
            others = tuple(sorted(_union(part) - {variable}))
            whole = (*others, variable)
            total = np.asarray(sum(_aligned(scope, table, whole) for scope, table in part))
            left.append((others, total.max(axis=-1) if number else _log_sum(total)))
        return left


def _union(tables: Iterable[tuple[Scope, Floats]]) -> set[int]:
    return {v for scope, _ in tables for v in scope}


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
