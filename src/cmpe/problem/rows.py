"""Rows of a batch with numbers of their own: log-potentials that are added to h, and limits.

A table is conditioned by reading it at the observed values. So the potentials of a row are a table
over the row's number and some variables, and the row's number is one more observed variable. A
limit of a row's own is a constant in its constraint, a table over the row's number alone:

    h'(z, r) = h(z) + sum over scopes s of U_s(r, z_s)
    t'(z, r) = t(z) + Q + tolerance(Q) - q_r - tolerance(q_r)  <=  Q = max over r of |q_r|

This lifted problem is an ordinary one. Every engine and bound answers it as it is. Rows of a
problem with rules of many variables are lifted in the same way, to one that has tables for them
(`expansion`) and further variables after the user's: first by their numbers, then by the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Floats, Indices, Values
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, MethodError, ModelError
from cmpe.models.constraint import tolerance_of
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.problem.evidence import Evidence
from cmpe.problem.expansion import Expansion, expanded
from cmpe.problem.groups import full_rows
from cmpe.problem.problem import Form, Problem
from cmpe.problem.soft import separated

Potentials = ArrayLike | Mapping[Any, Any]
Limits = ArrayLike | Mapping[Any, Any]


@dataclass(frozen=True)
class Potential:
    """Log-potentials of every row over one scope; -inf forbids."""

    scope: tuple[int, ...]
    values: Floats  # (B, states of the first variable, ...)


@dataclass(frozen=True)
class Rows:
    """Evidence, the log-potentials that each row adds to h, and each row's own limits."""

    problem: Problem
    evidence: Values  # (B, n), -1 where free
    potentials: tuple[Potential, ...] = ()
    limits: Floats | None = None  # (B, m), as in t <= q

    @classmethod
    def own(
        cls,
        problem: Problem,
        evidence: Evidence | None,
        potentials: Potentials | None = None,
        limits: Limits | None = None,
        *,
        ignore_extra: bool = False,
    ) -> Rows | None:
        """What people give, checked; None where the problem itself answers such rows.

        That is where they have no numbers of their own, and the problem no rules of many variables.
        One row of evidence serves all rows of numbers.
        """
        hard, soft = separated(problem.domain, evidence, problem.continuous)
        is_ruled = problem.form is Form.RULES
        if potentials is None and limits is None and not soft and not is_ruled:
            return None
        if not (problem.is_log_linear or is_ruled):
            raise MethodError(
                "soft evidence, potentials and limits of rows need log-linear models of discrete "
                f"variables; found {problem.form.value}"
            )
        rows = full_rows(
            problem.observing(()) if soft else problem, hard, ignore_extra=ignore_extra
        )
        given = [Potential((v,), values) for v, values in soft.items()]
        given += [] if potentials is None else _potentials(problem.domain, potentials)
        most = None if limits is None else _limits(problem, limits)
        if not given and most is None and not is_ruled:  # potentials of no variable
            return None
        counts = {len(rows), *(len(p.values) for p in given)}
        counts |= set() if most is None else {len(most)}
        count = max(counts - {1}, default=1)
        if counts - {1, count}:
            raise EvidenceError(
                f"evidence, potentials and limits must have as many rows; found {sorted(counts)}"
            )
        given = [replace(p, values=_repeated(p.values, count)) for p in given]
        most = None if most is None else np.ascontiguousarray(_repeated(most, count))
        return cls(problem, _repeated(rows, count), tuple(given), most)

    @classmethod
    def of(
        cls,
        problem: Problem,
        evidence: Evidence | None,
        potentials: Potentials | None = None,
        limits: Limits | None = None,
    ) -> Rows:
        """What people give, checked, with or without numbers of rows' own."""
        own = cls.own(problem, evidence, potentials, limits)
        return cls(problem, full_rows(problem, evidence)) if own is None else own

    def __len__(self) -> int:
        return len(self.evidence)

    @property
    def has_numbers(self) -> bool:
        """Whether rows have potentials or limits of their own."""
        return bool(self.potentials) or self.limits is not None

    def take(self, rows: Indices | slice) -> Rows:
        """Some of the rows."""
        return replace(
            self,
            evidence=self.evidence[rows],
            potentials=tuple(Potential(p.scope, p.values[rows]) for p in self.potentials),
            limits=None if self.limits is None else self.limits[rows],
        )

    def distinct(self) -> tuple[Indices, Indices, Indices]:
        """Where each distinct row first appears, each row's place among them, how often each does.

        Rows are equal where evidence, potentials and limits are.
        """
        numbers = [self.evidence, *(p.values for p in self.potentials)]
        numbers += [] if self.limits is None else [self.limits]
        places: dict[bytes, int] = {}
        where = np.empty(len(self), dtype=np.intp)
        first: list[int] = []
        for row in range(len(self)):
            digest = blake2b(digest_size=16)
            for each in numbers:
                digest.update(each[row].tobytes())
            place = places.setdefault(digest.digest(), len(first))
            if place == len(first):
                first.append(row)
            where[row] = place
        return np.array(first, dtype=np.intp), where, np.bincount(where, minlength=len(first))

    @cached_property
    def lifted(self) -> Problem:
        """The problem in which the last variable is the row's number.

        Of rows without numbers of their own: the problem with tables for its rules.
        """
        if not self.has_numbers:
            return self._expansion.problem
        problem = self.problem
        domain = Domain((*problem.domain.cardinalities, max(1, len(self))))
        number = problem.variables
        own = [((number, *p.scope), p.values) for p in self.potentials]
        objective = _extended(domain, problem.objective, own)
        constraints = []
        for j, constraint in enumerate(problem.constraints):
            shift = self.shifts[:, j]
            own = [((number,), shift)] if shift.any() else []
            function = _extended(domain, constraint.function, own)
            constraints.append(replace(constraint, function=function, at_most=float(self._most[j])))
        return Problem(objective, constraints, (number,))

    @cached_property
    def _expansion(self) -> Expansion:
        """Tables for rules, chosen for what all rows observe."""
        return expanded(self.problem, np.flatnonzero((self.evidence != FREE).all(axis=0)).tolist())

    @cached_property
    def _most(self) -> Floats:
        """Q of each constraint: its own limit where no row has another."""
        common = self.problem.limits
        if self.limits is None:
            return common
        most = np.abs(self.limits).max(axis=0, initial=0.0)
        return np.where((self.limits == common).all(axis=0), common, most)

    @cached_property
    def shifts(self) -> Floats:
        """What the lifted problem adds to each constraint's value: (B, m)."""
        if self.limits is None:
            return np.zeros((len(self), len(self.problem.constraints)))
        most = self._most + tolerance_of(self._most)
        return np.asarray(most - self.limits - tolerance_of(self.limits))

    def numbered(self, rows: Values) -> Values:
        """Rows (B, n), -1 where free, over the variables of the lifted problem."""
        if self.has_numbers:
            return np.column_stack([rows, np.arange(len(rows), dtype=rows.dtype)])
        hidden = np.full((len(rows), len(self._expansion.hidden)), FREE, dtype=rows.dtype)
        return np.column_stack([rows, hidden])

    def begun(self, rows: Values) -> Values:
        """Assignments (B, n) to begin from, over the variables of the lifted problem."""
        return self.numbered(rows) if self.has_numbers else self._expansion.tabled.completed(rows)

    def problem_of(self, row: int) -> Problem:
        """One row's problem, with its potentials and limits as its own."""
        problem, parts = self.problem, self.problem.parts
        own = [(p.scope, p.values[row]) for p in self.potentials]
        objective = _extended(problem.domain, parts.objective, own) if own else parts.objective
        limits = problem.limits if self.limits is None else self.limits[row]
        constraints = tuple(
            replace(c, at_most=float(q)) for c, q in zip(parts.constraints, limits, strict=True)
        )
        observed = np.flatnonzero(self.evidence[row] != FREE).tolist()
        own_parts = parts._replace(objective=objective, constraints=constraints)
        return problem.made_of(own_parts).observing(observed)


def _extended(
    domain: Domain, function: Function, own: Sequence[tuple[tuple[int, ...], Floats]]
) -> LogLinearModel | RuledModel:
    """A function with more tables, over a domain with more variables; tables are copied once."""
    if isinstance(function, RuledModel):
        base = _extended(domain, function.base, own)
        assert isinstance(base, LogLinearModel)
        return replace(function, base=base)
    assert isinstance(function, LogLinearModel)
    values = np.concatenate([function.flat.values, *(np.asarray(u).reshape(-1) for _, u in own)])
    scopes = [*(factor.scope for factor in function.factors), *(scope for scope, _ in own)]
    return LogLinearModel.from_flat(domain, scopes, values)


def _repeated(values: NDArray[Any], count: int) -> NDArray[Any]:
    """The one row as often as there are rows; others as they are."""
    return np.broadcast_to(values, (count, *values.shape[1:])) if len(values) == 1 else values


def _potentials(domain: Domain, potentials: Potentials) -> list[Potential]:
    """Log-potentials by variable or pair, or of all variables as one padded array."""
    if isinstance(potentials, Mapping):
        return [_of_scope(domain, key, values) for key, values in potentials.items()]
    whole = _numbers("potentials", potentials)
    cards = domain.cardinalities
    if whole.ndim == 2:
        whole = whole[np.newaxis]
    if whole.ndim != 3 or whole.shape[1] != len(cards) or whole.shape[2] < max(cards):
        raise EvidenceError(
            f"potentials must have shape (rows, {len(cards)}, {max(cards)}), or be a mapping from "
            f"variables to arrays (rows, states); found {whole.shape}"
        )
    return [_checked(domain, (v,), whole[:, v, :k]) for v, k in enumerate(cards)]


def _of_scope(domain: Domain, key: Any, values: Any) -> Potential:
    """The potentials of one variable, or of a tuple of them."""
    names = key if isinstance(key, tuple) else (key,)
    try:
        scope = tuple(domain.variable(name) for name in names)
    except ModelError as error:
        raise EvidenceError(f"potentials: {error}") from None
    if len(set(scope)) != len(scope):
        raise EvidenceError(f"potentials of {key!r}: the variables must be distinct")
    given = _numbers(f"potentials of {key!r}", values)
    shape = tuple(domain.cardinalities[v] for v in scope)
    if given.ndim == len(shape):
        given = given[np.newaxis]
    if given.ndim != 1 + len(shape) or given.shape[1:] != shape:
        text = ", ".join(["rows", *map(str, shape)])
        raise EvidenceError(f"potentials of {key!r} must have shape ({text}), found {given.shape}")
    return _checked(domain, scope, given)


def _checked(domain: Domain, scope: tuple[int, ...], values: Floats) -> Potential:
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        called = " and ".join(domain.called(v) for v in scope)
        raise EvidenceError(
            f"row {row}, {called}: log-potentials must be finite, or -inf to forbid; found "
            f"{values[wrong][0]}"
        )
    return Potential(scope, values)


def _limits(problem: Problem, limits: Limits) -> Floats:
    """Limits (B, m) as in t <= q, given in the sense in which each constraint was written."""
    count = len(problem.constraints)
    if isinstance(limits, Mapping):
        given = {
            problem.constraint_number(key, "limits", EvidenceError): _numbers("limits", q)
            for key, q in limits.items()
        }
        longest = max((q.size for q in given.values()), default=1)
        out = np.tile(problem.limits, (longest, 1))
        for j, q in given.items():
            if q.ndim > 1 or q.size not in (1, longest):
                called = repr(problem.constraints[j].name) if problem.constraints[j].name else j
                raise EvidenceError(
                    f"limits of constraint {called} must be one number per row; found shape "
                    f"{q.shape}"
                )
            out[:, j] = problem.signs[j] * q
    else:
        given_all = _numbers("limits", limits)
        if given_all.ndim == 1 and (count == 1 or len(given_all) != count):
            given_all = given_all[:, np.newaxis]
        if given_all.ndim == 1:
            given_all = given_all[np.newaxis]
        if given_all.ndim != 2 or given_all.shape[1] != count:
            raise EvidenceError(
                f"limits must have shape (rows, {count}), one column for each constraint; found "
                f"{given_all.shape}"
            )
        out = problem.signs * given_all
    wrong = ~np.isfinite(out)
    if wrong.any():
        row, j = (int(i) for i in np.argwhere(wrong)[0])
        raise EvidenceError(f"row {row}, constraint {j}: a limit must be a finite number")
    return out


def _numbers(what: str, values: Any) -> Floats:
    """An array or a tensor as float64."""
    if hasattr(values, "detach"):  # a tensor of torch, which may be on another device
        values = values.detach().cpu().numpy()
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = type(values).__name__
        raise EvidenceError(f"{what} must be an array of numbers, found {found}") from None
    return out
