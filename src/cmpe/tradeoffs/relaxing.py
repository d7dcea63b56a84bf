"""`cmpe.relax`: the cheapest change of findings and limits that gives a row an answer.

    minimise   sum of c_v over findings v that change  +  sum of c_j max(0, t_j(y) - q_j)

over all y that the model and the rules allow, where c are the costs. For each set S of constraints
whose limits change this is an ordinary problem, with t_j >= q_j for j in S and t_j <= q_j for all
others that may change, and the constraints that may not as they are. So at most 2^k problems with
an objective of tables are solved, for k limits that may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from cmpe.arguments import real_number
from cmpe.arrays import FREE, Floats
from cmpe.core.compiler.notices import asked_for
from cmpe.display import html_table, number_text
from cmpe.errors import MethodError
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.problem import Evidence, Problem
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials
from cmpe.solution import Status
from cmpe.solution.frames import frame_of_rows
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.tradeoffs.conflict import one_row
from cmpe.tradeoffs.settings import TRADEOFFS


@dataclass(frozen=True, repr=False)
class Relaxed:
    """The changes that lead to an answer: `cmpe.solve(it.problem, it.evidence)`."""

    problem: Problem  # with the changed limits
    evidence: dict[Any, Any]  # without the findings that change
    cost: float  # inf: no change that was allowed is enough, or none was found
    findings: dict[Any, tuple[Any, Any]]  # of each finding that changes: what it is, what it may be
    limits: dict[str, tuple[float, float]]  # of each limit that changes: what it is, what it needs
    proved: bool  # nothing cheaper is enough

    def __str__(self) -> str:
        if self.cost == np.inf:
            return f"no change is enough{': proved' if self.proved else ' that was found'}"
        changes = [f"{name}: {new} instead of {old}" for name, (old, new) in self.findings.items()]
        changes += [
            f"{name}: limit {number_text(new)} instead of {number_text(old)}"
            for name, (old, new) in self.limits.items()
        ]
        proved = ", proved to be the cheapest" if self.proved else ""
        return f"{'; '.join(changes) or 'nothing to change'} (cost {self.cost:g}{proved})"

    def __repr__(self) -> str:
        return f"Relaxed({self})"

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each change (extra `frames`)."""
        changes = (*self.findings.items(), *self.limits.items())
        rows = [{"change": str(name), "is": old, "needs": new} for name, (old, new) in changes]
        return frame_of_rows(rows, ["change", "is", "needs"])

    def _repr_html_(self) -> str:
        rows = [
            (str(name), str(old), str(new))
            for name, (old, new) in (*self.findings.items(), *self.limits.items())
        ]
        proved = ", proved" if self.proved else ""
        return html_table(f"cost {self.cost:g}{proved}", ("change", "is", "needs"), rows)


@asked_for("relax")
def relax(
    problem: Problem,
    row: Evidence | None = None,
    *,
    costs: Mapping[Any, float] | None = None,
    time_limit: float | None = None,
    running: Running | None = None,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
) -> Relaxed:
    """The cheapest change of one row that gives it an answer.

    `costs` lists what may change: a finding, by the name of its variable, with the cost of changing
    it; a limit, by the constraint's name or number, with the cost of each unit. Without `costs`
    every finding costs 1 and no limit changes, so the fewest findings change. Rules do not change.
    `time_limit` is in seconds in all; `potentials` and `limits` are as in `solve`.
    """
    rows = one_row(problem, row, "relax", potentials, limits)
    problem.need_tables("relax")
    search = _Relaxing(rows.problem_of(0), rows.evidence[0], costs)
    return search.run(Limits.of(running, seconds=time_limit))


class _Relaxing:
    """One row, and what may change."""

    def __init__(
        self, problem: Problem, seen: np.ndarray[Any, Any], costs: Mapping[Any, float] | None
    ) -> None:
        self._problem, self._seen = problem, seen
        self._findings: dict[int, float] = {}
        self._limits: dict[int, float] = {}
        observed = np.flatnonzero(seen != FREE).tolist()
        if costs is None:
            self._findings = dict.fromkeys(observed, 1.0)
        for key, cost in (costs or {}).items():
            price = real_number(f"the cost of {key!r}", cost, MethodError)
            if not 0.0 < price < np.inf:
                raise MethodError(f"the cost of {key!r} must be above 0, found {cost}")
            number = self._constraint(key)
            if number is not None:
                self._limits[number] = price
                continue
            variable = problem.domain.variable(key)
            if variable not in observed:
                raise MethodError(f"a cost of {key!r}, which the row does not observe")
            self._findings[variable] = price
        if len(self._limits) > TRADEOFFS.most_limits:
            raise MethodError(
                f"at most {TRADEOFFS.most_limits} limits may change, found {len(self._limits)}"
            )

    def _constraint(self, key: Any) -> int | None:
        """The number of a constraint by its name; by its number where no variable has it."""
        names = [c.name for c in self._problem.constraints]
        if isinstance(key, str) and key in names:
            return names.index(key)
        is_number = isinstance(key, int) and not isinstance(key, bool)
        return key if is_number and self._problem.domain.names and key < len(names) else None

    def run(self, limits: Limits) -> Relaxed:
        """The cheapest over all sets of limits that change, the smallest sets first."""
        deadline = Deadline(replace(limits, progress=None, start=None))
        best, row, least = np.inf, None, np.inf
        chosen = sorted(self._limits)
        sets = [s for size in range(len(chosen) + 1) for s in combinations(chosen, size)]
        for changed in sets:
            posed, evidence = self._posed(changed)
            found = answer(posed, evidence, "auto", deadline.left())
            if found.status[0] == Status.INFEASIBLE:
                continue
            least = min(least, -float(found.bound[0]))
            if found.feasible[0] and -float(found.objective[0]) < best:
                best, row = max(0.0, -float(found.objective[0])), found.assignments[0]
        proved = best <= least + 1e-6 * max(1.0, abs(best)) if row is not None else least == np.inf
        return self._of(row, best, proved=bool(proved))

    def _posed(self, changed: tuple[int, ...]) -> tuple[Problem, Floats]:
        """Minimise the cost where these limits are reached or exceeded, and the evidence."""
        problem, cards = self._problem, self._problem.domain.cardinalities
        parts = problem.parts.support()
        tables = [
            Factor((v,), np.where(np.arange(cards[v]) == self._seen[v], 0.0, -cost))
            for v, cost in self._findings.items()
        ]
        constraints: list[Constraint] = []
        for j, each in enumerate(parts.constraints):
            if j not in changed:
                constraints.append(each)
                continue
            function, cost = each.function, self._limits[j]
            if not isinstance(function, LogLinearModel):
                raise MethodError(f"the limit of {type(function).__name__} cannot change")
            minus, support = function.negated()
            tables += [Factor(f.scope, cost * f.log_table) for f in minus.factors]
            tables.append(Factor((), np.array(cost * each.at_most)))
            tables += support.factors
            constraints.append(Constraint(minus, -each.at_most, support=each.support))
        known = sorted(v for v in np.flatnonzero(self._seen != FREE) if v not in self._findings)
        posed = problem.made_of(
            parts._replace(
                objective=_with_tables(parts.objective, tables), constraints=tuple(constraints)
            )
        )
        return posed.observing([int(v) for v in known]), self._seen[known][np.newaxis]

    def _of(self, row: np.ndarray[Any, Any] | None, cost: float, *, proved: bool) -> Relaxed:
        problem, domain = self._problem, self._problem.domain
        observed = np.flatnonzero(self._seen != FREE).tolist()
        if row is None:
            kept = {self._key(v): domain.label(v, self._seen[v].item()) for v in observed}
            return Relaxed(problem, kept, np.inf, {}, {}, proved)
        doubted = [v for v in observed if row[v] != self._seen[v]]
        values = problem.constraint_values(row)[0]
        moved = [
            j for j in sorted(self._limits)
            if values[j] > problem.limits[j] + problem.tolerances[j]
        ]  # fmt: skip
        parts = problem.parts
        constraints = tuple(
            replace(c, at_most=float(values[j])) if j in moved else c
            for j, c in enumerate(parts.constraints)
        )
        relaxed = problem.made_of(parts._replace(constraints=constraints))
        kept = {
            self._key(v): domain.label(v, self._seen[v].item())
            for v in observed
            if v not in doubted
        }
        return Relaxed(
            relaxed.observing([v for v in observed if v not in doubted]),
            kept,
            cost,
            {
                self._key(v): (
                    domain.label(v, self._seen[v].item()), domain.label(v, row[v].item())
                )
                for v in doubted
            },
            {
                c.name or f"t{j}": (c.limit, c.sign * float(values[j]))
                for j, c in enumerate(problem.constraints)
                if j in moved
            },
            proved,
        )  # fmt: skip

    def _key(self, variable: int) -> Any:
        domain = self._problem.domain
        return domain.names[variable] if domain.names else variable


def _with_tables(objective: Any, tables: list[Factor]) -> LogLinearModel | RuledModel:
    """An objective with more tables."""
    if isinstance(objective, RuledModel):
        base = replace(objective.base, factors=(*objective.base.factors, *tables))
        return replace(objective, base=base)
    if not isinstance(objective, LogLinearModel):
        raise MethodError(
            f"relax needs log-linear models; found a function of kind {type(objective).__name__}"
        )
    return replace(objective, factors=(*objective.factors, *tables))
