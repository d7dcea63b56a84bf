"""Batches whose rows have their own numbers: log-potentials that are added to h, and limits.

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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Floats, Indices, Values, numbers_of
from cmpe.domain import Domain, Placement
from cmpe.errors import EvidenceError, MethodError, ModelError
from cmpe.models.constraint import tolerance_of
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import NeuralFunction, row_fractions
from cmpe.models.ruled import RuledModel
from cmpe.problem.evidence import Evidence
from cmpe.problem.expansion import Expansion, expanded
from cmpe.problem.groups import full_rows
from cmpe.problem.problem import Form, Problem
from cmpe.problem.soft import Separated, separated

Potentials = ArrayLike | Mapping[Any, Any]
Limits = ArrayLike | Mapping[Any, Any]


class Potential(NamedTuple):
    """Log-potentials of every row over one scope; -inf forbids."""

    scope: tuple[int, ...]
    values: NDArray[Any]  # (B, states of the first variable, ...), float32 or float64


@dataclass(frozen=True)
class Rows:
    """Evidence, the log-potentials that each row adds to h, and each row's own limits."""

    problem: Problem
    evidence: Values  # (B, n), -1 where free
    potentials: tuple[Potential, ...] = ()
    limits: Floats | None = None  # (B, m), as in t <= q
    inputs: NDArray[Any] | None = None  # (B, ...): what networks and modules read of each row

    @classmethod
    def own(
        cls,
        problem: Problem,
        evidence: Evidence | None,
        potentials: Potentials | None = None,
        limits: Limits | None = None,
        *,
        inputs: ArrayLike | None = None,
        ignore_extra: bool = False,
    ) -> Rows | None:
        """What people give, checked; None where the problem itself answers such rows.

        That is where they have no numbers of their own, and the problem no rules of many variables.
        """
        evidence = _without_limits(problem.domain, evidence, limits)
        separate = separated(problem.domain, evidence, problem.continuous)
        is_plain = potentials is None and limits is None and not separate.potentials
        if is_plain and inputs is None and problem.form is not Form.RULES:
            return None
        rows = cls._separate(problem, separate, ignore_extra).with_numbers(potentials, limits)
        rows = rows.with_inputs(inputs)
        return rows if rows.has_numbers or problem.form is Form.RULES else None

    @classmethod
    def of(
        cls,
        problem: Problem,
        evidence: Evidence | None,
        potentials: Potentials | None = None,
        limits: Limits | None = None,
        *,
        inputs: ArrayLike | None = None,
        ignore_extra: bool = False,
    ) -> Rows:
        """What people give, checked, with or without numbers of rows' own."""
        evidence = _without_limits(problem.domain, evidence, limits)
        separate = separated(problem.domain, evidence, problem.continuous)
        rows = cls._separate(problem, separate, ignore_extra).with_numbers(potentials, limits)
        return rows.with_inputs(inputs)

    @classmethod
    def _separate(cls, problem: Problem, evidence: Separated, ignore_extra: bool) -> Rows:
        """Rows with their soft evidence as potentials, which may be of another number of rows."""
        hard, soft = evidence
        _need_tables(problem, is_needed=bool(soft))
        rows = full_rows(
            problem.observing(()) if soft else problem, hard, ignore_extra=ignore_extra
        )
        return cls(problem, rows, tuple(Potential((v,), values) for v, values in soft.items()))

    def with_numbers(self, potentials: Potentials | None, limits: Limits | None) -> Rows:
        """The same rows with more potentials, which are added, and limits.

        One row of evidence serves all rows of numbers.
        """
        problem = self.problem
        _need_tables(problem, is_needed=potentials is not None or limits is not None)
        more = [] if potentials is None else _potentials(problem.domain, potentials)
        most = self.limits if limits is None else _limits(problem, limits)
        counts = {len(self.evidence), *(len(p.values) for p in (*self.potentials, *more))}
        counts |= set() if most is None else {len(most)}
        count = max(counts - {1}, default=1)
        if counts - {1, count}:
            raise EvidenceError(
                f"evidence, potentials and limits must have as many rows; found {sorted(counts)}"
            )
        summed: dict[tuple[int, ...], NDArray[Any]] = {}
        for scope, values in (*self.potentials, *more):
            known = summed.get(scope)
            summed[scope] = values if known is None else np.add(known, values, dtype=np.float64)
        own = tuple(Potential(scope, _repeated(values, count)) for scope, values in summed.items())
        most = None if most is None else np.ascontiguousarray(_repeated(most, count))
        return Rows(problem, _repeated(self.evidence, count), own, most)

    def with_inputs(self, inputs: ArrayLike | None) -> Rows:
        """The same rows with what networks and modules read of each; one row serves all inputs."""
        if inputs is None:
            return self
        read = _numbers("inputs", inputs)
        if read.ndim < 2 or not np.isfinite(read).all():
            raise EvidenceError(
                f"inputs must be finite numbers of shape (rows, ...), found shape {read.shape}"
            )
        if len(self) != 1 and len(self) != len(read):
            raise EvidenceError(
                f"inputs must have {len(self)} rows, as the evidence; found {len(read)}"
            )
        whole = self.take(np.zeros(len(read), dtype=np.intp)) if len(self) == 1 else self
        return replace(whole, inputs=read)

    @property
    def keywords(self) -> dict[str, Any]:
        """What gives these rows to `cmpe.solve`; without inputs to `front`, `best` and `bound`."""
        keys: Sequence[Any] = self.problem.domain.names or range(self.problem.variables)
        own = {tuple(keys[v] for v in scope): values for scope, values in self.potentials}
        most = None if self.limits is None else self.limits * self.problem.signs
        read = {} if self.inputs is None else {"inputs": self.inputs}
        return {"evidence": self.evidence, "potentials": own or None, "limits": most, **read}

    def __len__(self) -> int:
        return len(self.evidence)

    @property
    def has_numbers(self) -> bool:
        """Whether rows have potentials, limits or inputs of their own."""
        return self._has_tables or self.inputs is not None

    @property
    def _has_tables(self) -> bool:
        return bool(self.potentials) or self.limits is not None

    @property
    def most(self) -> Floats:
        """Every row's limits, as in t <= q: (B, m)."""
        if self.limits is not None:
            return self.limits
        return np.broadcast_to(self.problem.limits, (len(self), len(self.problem.constraints)))

    def take(self, rows: Indices | slice) -> Rows:
        """Some of the rows."""
        return replace(
            self,
            evidence=self.evidence[rows],
            potentials=tuple(Potential(p.scope, p.values[rows]) for p in self.potentials),
            limits=None if self.limits is None else self.limits[rows],
            inputs=None if self.inputs is None else self.inputs[rows],
        )

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """All rows of all parts, in order; what a part has no potentials over gets zeros."""
        first = parts[0]
        scopes = dict.fromkeys(p.scope for part in parts for p in part.potentials)
        cards = first.problem.domain.cardinalities
        own = []
        for scope in scopes:
            shape = tuple(cards[v] for v in scope)
            tables = [
                dict(part.potentials).get(scope, np.zeros((len(part), *shape))) for part in parts
            ]
            own.append(Potential(scope, np.concatenate(tables)))
        most = [part.limits for part in parts if part.limits is not None]
        read = [part.inputs for part in parts if part.inputs is not None]
        return replace(
            first,
            evidence=np.concatenate([part.evidence for part in parts]),
            potentials=tuple(own),
            limits=np.concatenate(most) if most else None,
            inputs=np.concatenate(read) if read else None,
        )

    def distinct(self, start: Values | None = None) -> tuple[Indices, Indices, Indices]:
        """Where each distinct row first appears, each row's place among them, how often each does.

        Rows are equal where evidence, potentials, limits and inputs are, and the `start` of each.
        """
        count = len(self)
        if count < 2:
            return np.arange(count), np.arange(count), np.ones(count, dtype=np.intp)
        numbers = [self.evidence, *(p.values for p in self.potentials)]
        numbers += [each for each in (self.limits, self.inputs, start) if each is not None]
        keys = np.zeros(count, dtype=np.uint64)
        rng = np.random.default_rng(0)
        for each in numbers:
            flat = np.ascontiguousarray(each, dtype=np.float64).view(np.uint64)
            flat = flat.reshape(count, math.prod(each.shape[1:]))
            keys += (flat ^ (flat >> np.uint64(32))) @ rng.integers(
                1, 1 << 63, flat.shape[1], dtype=np.uint64
            )
        _, first, where = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, where = first[order], rank[where.ravel()]
        if len(first) < count and not all(_same(each, first[where]) for each in numbers):
            first = where = np.arange(count)  # two different rows of one key: never mind equal ones
        return first, where, np.bincount(where, minlength=len(first))

    @cached_property
    def lifted(self) -> Problem:
        """The problem in which the last variable is the row's number.

        Of rows without numbers of their own: the problem with tables for its rules.
        """
        if not self.has_numbers:
            return self._expansion.problem
        problem = self.problem
        if problem.form in (Form.CONTINUOUS, Form.LEAVES, Form.OTHER):
            return self._with_number()
        domain = Domain((*problem.domain.cardinalities, max(1, len(self))))
        number = problem.variables
        own = [[((number, *p.scope), p.values) for p in self.potentials]]
        own += [[((number,), shift)] if shift.any() else [] for shift in self.shifts.T]
        objective, *functions = _extended(domain, problem.functions, own)
        constraints = [
            replace(constraint, function=function, at_most=float(most))
            for constraint, function, most in zip(
                problem.constraints, functions, self._most, strict=True
            )
        ]
        lifted = problem.lifted(domain, objective, constraints)
        return self._known_as_lifted(lifted)

    def _known_as_lifted(self, lifted: Problem) -> Problem:
        lifted.__dict__["lift"] = self
        return lifted

    def _with_number(self) -> Problem:
        """The problem with the row's number for modules to read: in [0, 1] beside such variables.

        Rows of these problems have no tables of their own.
        """
        problem = self.problem
        number, is_tabled = problem.variables, problem.has_tables
        values = max(1, len(self)) if is_tabled else 2
        domain = Domain((*problem.domain.cardinalities, values))
        place = Placement(domain, tuple(range(number)), (None,) * number)

        def placed(function: Any) -> Any:
            wider = function.placed(place)
            is_module = isinstance(wider, NeuralFunction) and self.inputs is not None
            return wider.reading(self.inputs) if is_module else wider

        objective, *functions = map(placed, problem.functions)
        constraints = [
            replace(c, function=f) for c, f in zip(problem.constraints, functions, strict=True)
        ]
        continuous = problem.continuous if is_tabled else (*problem.continuous, number)
        return self._known_as_lifted(
            Problem(objective, constraints, (number,), continuous=continuous)
        )

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
        tolerances = tolerance_of(self._most) - tolerance_of(self.limits)
        return np.asarray((self._most - self.limits) + tolerances)  # 0 where limits are shared

    @property
    def asked(self) -> tuple[Problem, Values]:
        """An ordinary problem, and rows over its variables, that ask the same."""
        if not (self.has_numbers or self.problem.form is Form.RULES):
            return self.problem, self.evidence
        return Rows(self.lifted, self.numbered(self.evidence)).asked

    def numbered(self, rows: Values) -> Values:
        """Rows (B, n), -1 where free, over the variables of the lifted problem."""
        if self.has_numbers:
            is_fraction = bool(self.lifted.continuous)
            numbers = row_fractions(len(rows)) if is_fraction else np.arange(len(rows))
            return np.column_stack([rows, numbers.astype(self.lifted.dtype)])
        hidden = np.full((len(rows), len(self._expansion.hidden)), FREE, dtype=rows.dtype)
        return np.column_stack([rows, hidden])

    def begun(self, rows: Values) -> Values:
        """Assignments (B, n) to begin from, over the variables of the lifted problem."""
        return self.numbered(rows) if self.has_numbers else self._expansion.tabled.completed(rows)

    def problem_of(self, row: int) -> Problem:
        """One row's problem, with its potentials and limits as its own."""
        problem, parts = self.problem, self.problem.parts
        own = [(p.scope, p.values[row]) for p in self.potentials]
        objective = parts.objective
        if own:
            [objective] = _extended(problem.domain, [objective], [own])
        limits = problem.limits if self.limits is None else self.limits[row]
        constraints = tuple(
            replace(c, at_most=float(q)) for c, q in zip(parts.constraints, limits, strict=True)
        )
        observed = np.flatnonzero(self.evidence[row] != FREE).tolist()
        own_parts = parts._replace(objective=objective, constraints=constraints)
        return problem.made_of(own_parts).observing(observed)


def _same(values: NDArray[Any], other: Indices) -> bool:
    """Whether each row is that of the same place in `other`, bit by bit."""
    moved = np.flatnonzero(other != np.arange(len(other)))
    return values[moved].tobytes() == values[other[moved]].tobytes()


def _without_limits(domain: Domain, evidence: Any, limits: Any) -> Any:
    """A frame without the columns that limits are taken from, as in {"faults": frame["budget"]}."""
    if not isinstance(limits, Mapping) or not hasattr(evidence, "columns"):
        return evidence
    taken = {getattr(q, "name", None) for q in limits.values()} - {*domain.names}
    return evidence.drop(columns=[c for c in evidence.columns if isinstance(c, str) and c in taken])


def _need_tables(problem: Problem, *, is_needed: bool) -> None:
    if is_needed and not (problem.is_log_linear or problem.form is Form.RULES):
        raise MethodError(
            "soft evidence, potentials and limits of rows need log-linear models of discrete "
            f"variables; found {problem.form.value}"
        )


def _extended(
    domain: Domain,
    functions: Sequence[Function],
    own: Sequence[Sequence[tuple[tuple[int, ...], Floats]]],
) -> list[LogLinearModel | RuledModel]:
    """Functions with more tables, over a domain with more variables.

    All tables lie in one array, so that what reads them copies no row's numbers again.
    """
    bases = [f.base if isinstance(f, RuledModel) else f for f in functions]
    models = [base for base in bases if isinstance(base, LogLinearModel)]
    pairs = list(zip(functions, models, own, strict=True))
    sizes = [len(base.flat.values) + sum(u.size for _, u in more) for _, base, more in pairs]
    whole = np.empty(sum(sizes))
    out: list[LogLinearModel | RuledModel] = []
    for (function, base, more), end in zip(pairs, np.cumsum(sizes), strict=True):
        values = whole[end - sizes[len(out)] : end]
        at = len(base.flat.values)
        values[:at] = base.flat.values
        for _, table in more:
            values[at : at + table.size].reshape(table.shape)[...] = table
            at += table.size
        model = base.extended(domain, [scope for scope, _ in more], values)
        out.append(replace(function, base=model) if isinstance(function, RuledModel) else model)
    return out


def _repeated(values: NDArray[Any], count: int) -> NDArray[Any]:
    """The one row as often as there are rows; others as they are."""
    return np.broadcast_to(values, (count, *values.shape[1:])) if len(values) != count else values


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
    is_state = np.arange(whole.shape[2]) < np.array(cards)[:, np.newaxis]
    wrong = np.argwhere(~(whole < np.inf) & is_state)  # NaN or inf
    if len(wrong):
        row, v, state = wrong[0].tolist()
        raise _not_a_potential(domain, row, (v,), whole[row, v, state])
    return [Potential((v,), whole[:, v, :k]) for v, k in enumerate(cards)]


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


def _checked(domain: Domain, scope: tuple[int, ...], values: NDArray[Any]) -> Potential:
    wrong = ~(values < np.inf)  # NaN or inf
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise _not_a_potential(domain, row, scope, values[wrong][0])
    return Potential(scope, values)


def _not_a_potential(
    domain: Domain, row: int, scope: tuple[int, ...], found: float
) -> EvidenceError:
    called = " and ".join(domain.called(v) for v in scope)
    return EvidenceError(
        f"row {row}, {called}: log-potentials must be finite, or -inf to forbid; found {found}"
    )


def _limits(problem: Problem, limits: Limits) -> Floats:
    """Limits (B, m) as in t <= q, given in the sense in which each constraint was written."""
    count = len(problem.constraints)
    if isinstance(limits, Mapping):
        columns = _limits_by_constraint(problem, limits)
        longest = max((q.size for q in columns.values()), default=1)
        out = np.tile(problem.limits, (longest, 1))
        for j, q in columns.items():
            if q.size not in (1, longest):
                raise EvidenceError(
                    f"limits must have as many rows for every constraint; found {q.size} and "
                    f"{longest}"
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
        called = repr(problem.constraints[j].name) if problem.constraints[j].name else j
        raise EvidenceError(
            f"row {row}, constraint {called}: a limit must be a finite number, found "
            f"{out[row, j]}; for none, write one that always holds"
        )
    return out


def _limits_by_constraint(problem: Problem, limits: Mapping[Any, Any]) -> dict[int, Floats]:
    """One limit per row, by the number of the constraint.

    The name of an equality, which is two limits, stands for both.
    """
    out: dict[int, Floats] = {}
    for key, given in limits.items():
        q = _numbers("limits", given)
        named = [j for j, c in enumerate(problem.constraints) if c.name == key]
        written = (problem.signs * problem.limits)[named]
        if len(named) != 2 or written[0] != written[1]:
            named = [problem.constraint_number(key, "limits", EvidenceError)]
        if q.ndim > 1:
            raise EvidenceError(
                f"limits of constraint {key!r} must be one number per row; found shape {q.shape}"
            )
        for j in named:
            if j in out:
                raise EvidenceError(f"limits: constraint {key!r} is given twice; give it once")
            out[j] = q
    return out


def _numbers(what: str, values: Any) -> NDArray[Any]:
    """An array or a tensor of float32 or float64, as it is; other numbers as float64."""
    try:
        out = numbers_of(values)
        out = out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # the last of a whole number beyond floats
        found = type(values).__name__
        raise EvidenceError(f"{what} must be an array of numbers, found {found}") from None
    return out
