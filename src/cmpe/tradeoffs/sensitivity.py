"""`cmpe.sensitivity`: the sensitivity of an answer to values, limits and tables.

Per row: the multipliers mu* of the dual, for every constraint the limits between which the answer
stays optimal, and for every value of every variable the least loss of forcing it there,

    regret(v, a) = h* - max { h(y) : y feasible, y_v = a }.

and for every table of the objective how much its entries may change before the answer does,

    radius(f) = min over the variables v of f, a != y_v of regret(v, a) / 2,

because the answer's own entry may fall by it while all others rise. Both are exact where
elimination reaches; elsewhere they are bounded from below and marked so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Floats, Values
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.core.compiler.notices import asked_for
from cmpe.display import as_results, html_table, number_text
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.problem.groups import by_observed, each_once
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Answer, Solutions, Status
from cmpe.solution.frames import frame_of_rows
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.solvers.exact import too_wide
from cmpe.solvers.spread import need_here
from cmpe.tradeoffs.front import FrontEnds, FrontQuestion, fronts_of
from cmpe.tradeoffs.narrow import NarrowBatch, RowWindows
from cmpe.tradeoffs.points import h_tolerance, loosened, t_tolerance
from cmpe.tradeoffs.regrets import forced_objectives


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The sensitivity of one answer; empty for a row without a feasible answer."""

    answer: Answer
    multipliers: Floats  # (m,) mu* of each constraint, NaN where unknown
    intervals: tuple[tuple[float, float], ...]  # of each limit: the answer is optimal from, to
    proved: bool  # whether the answer and the intervals are; else a NaN end is unknown
    regrets: dict[Any, Floats]  # per free variable: nats lost by each value; inf: none is feasible
    exact: dict[Any, NDArray[np.bool_]]  # whether each is exact, or a lower bound
    scopes: tuple[tuple[Any, ...], ...]  # the variables of each of the objective's tables

    @property
    def active(self) -> tuple[bool, ...]:
        """For each constraint, whether some looser limit allows a higher h."""
        relations = [c.relation for c in self.answer.constraints]
        return tuple(
            (math.isfinite(high) if relation == "<=" else math.isfinite(low))
            for relation, (low, high) in zip(relations, self.intervals, strict=True)
        )

    def least_regret(self) -> dict[Any, float]:
        """For each free variable, the cost of the best other value; low if it is uncertain."""
        return {
            key: float(np.sort(values)[1]) if len(values) > 1 else math.inf
            for key, values in self.regrets.items()
        }

    @property
    def radius(self) -> dict[tuple[Any, ...], float]:
        """For each table, the change of its entries, in nats, that leaves the answer optimal.

        Tables of the same variables have the same radius; that of a table of
        observed variables is inf.
        """
        return {scope: regret / 2 for scope, (regret, _) in self._nearest().items()}

    @property
    def radius_exact(self) -> dict[tuple[Any, ...], bool]:
        """By table: whether its radius is the largest, or a lower bound of it."""
        return {scope: exact for scope, (_, exact) in self._nearest().items()}

    def _nearest(self) -> dict[tuple[Any, ...], tuple[float, bool]]:
        """By table: the least regret of another entry, and whether it is exact."""
        others = {}
        for key, values in self.regrets.items():
            order = np.argsort(values, kind="stable")[1:2]
            others[key] = [(float(values[a]), bool(self.exact[key][a])) for a in order]
        near = {
            scope: [each for v in scope for each in others.get(v, ())]
            for scope in (self.scopes if self.regrets else ())
        }
        return {scope: min(each, default=(math.inf, True)) for scope, each in near.items()}

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row per free variable and state (extra `frames`)."""
        columns = ["variable", "state", "regret", "exact"]
        return frame_of_rows(
            [dict(zip(columns, cell, strict=True)) for cell in self._cells()], columns
        )

    def _cells(self) -> list[tuple[Any, Any, float, bool]]:
        label = self.answer.label
        return [
            (key, label(key, value), float(regret), bool(exact))
            for key, values in self.regrets.items()
            for value, (regret, exact) in enumerate(zip(values, self.exact[key], strict=True))
        ]

    def __repr__(self) -> str:
        names = [f"{c.name}: " if c.name else "" for c in self.answer.constraints]
        words = [
            f"{named}mu {number_text(mu)}, optimal for q from {number_text(low)} to "
            f"{number_text(high)}"
            for named, mu, (low, high) in zip(names, self.multipliers, self.intervals, strict=True)
        ]
        return f"Sensitivity({'; '.join(words) or 'no constraint'})"

    def _repr_html_(self) -> str:
        cells = [
            (str(key), str(state), number_text(regret) if exact else f">= {number_text(regret)}")
            for key, state, regret, exact in self._cells()
        ]
        table = html_table(repr(self), ("variable", "state", "regret"), cells)
        radii = [
            (", ".join(map(str, scope)), f"{'' if exact else '>= '}{number_text(regret / 2)}")
            for scope, (regret, exact) in sorted(self._nearest().items(), key=lambda pair: pair[1])
            if math.isfinite(regret)
        ]
        caption = "how much the entries of a table may change, in nats, before the answer does"
        return table + html_table(caption, ("table", "radius"), radii)


@as_results
@asked_for("sensitivity")
def sensitivity(
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    time_limit: float | None = None,
    running: Running | None = None,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
) -> list[Sensitivity]:
    """The sensitivity of the answer to every row of `evidence` (see `Sensitivity`).

    `time_limit` is in seconds per row, for the answer and for each of the two analyses.
    `potentials` and `limits` are as in `solve`.
    """
    need_problem(problem, "sensitivity")
    problem.need_tables("sensitivity")
    own = Rows.own(problem, evidence, potentials, limits)
    if own is not None and len(own):
        need_here(running)
        return _own_sensitivities(own, time_limit=time_limit, running=running)
    told = Limits.of(running, seconds=time_limit)
    batches = by_observed(problem, evidence)
    out: list[Sensitivity | None] = [None] * sum(len(numbers) for _, numbers in batches)
    for instances, numbers in batches:
        few, where = each_once(instances)
        found = _batch(few, told)
        for row, place in zip(numbers, where, strict=True):
            out[row] = found[place]
    return [found for found in out if found is not None]


def _own_sensitivities(rows: Rows, **options: Any) -> list[Sensitivity]:
    """The same of rows that are lifted; limits are said as the row's, variables by name."""
    first, where, _ = rows.distinct()
    few = rows.take(first)
    problem = rows.problem
    out = []
    found = sensitivity(few.lifted, few.numbered(few.evidence), **options)
    for row, each in enumerate(found):
        answer_of = each.answer
        answers = Solutions.of(
            few.problem_of(row),
            answer_of.assignment[: problem.variables],
            bound=answer_of.bound,
            infeasible=answer_of.status is Status.INFEASIBLE,
            method=answer_of.method,
            seconds=answer_of.seconds,
            multipliers=each.multipliers,
        )
        seen = few.evidence[row : row + 1] != FREE
        shifts = (problem.signs * few.shifts[row]).tolist()
        out.append(
            replace(
                each,
                answer=replace(answers, observed=seen)[0],
                intervals=tuple(
                    (low - shift, high - shift)
                    for (low, high), shift in zip(each.intervals, shifts, strict=True)
                ),
                regrets=_by_name(problem, each.regrets),
                exact=_by_name(problem, each.exact),
                scopes=_scopes(problem),
            )
        )
    return [out[place] for place in where]


def _by_name(problem: Problem, found: Mapping[int, Any]) -> dict[Any, Any]:
    """What is found by number of a lifted problem's variables, for the problem's own."""
    names = problem.domain.names
    return {names[v] if names else v: each for v, each in found.items() if v < problem.variables}


def _batch(instances: Instances, limits: Limits) -> list[Sensitivity]:
    problem = instances.problem
    told = replace(limits, progress=None)
    answers = answer(problem, instances.evidence, limits=told)
    multipliers = _multipliers(instances, answers, told.cores)
    highs = [_next_values(instances, answers, j, limits) for j in range(len(problem.constraints))]
    forced = forced_objectives(instances, answers, limits)
    keys: tuple[Any, ...] = problem.domain.names or tuple(range(problem.variables))
    out = []
    for row in range(len(instances)):
        intervals = tuple(
            _shown(float(answers.constraint_values[row, j] * c.sign), float(highs[j][row]), c.sign)
            for j, c in enumerate(problem.constraints)
        )
        regrets, exact = {}, {}
        if answers.feasible[row]:
            best = float(answers.objective[row])
            for place, v in enumerate(problem.free):
                values, sure = forced[row][place]
                lost = best - values
                regrets[keys[v]] = np.where(lost < 1e-9 * max(1.0, abs(best)), 0.0, lost)
                exact[keys[v]] = sure
        proved = Status.of(answers.status[row]) in (Status.OPTIMAL, Status.INFEASIBLE)
        known = proved and not any(math.isnan(h[row]) for h in highs)
        found = Sensitivity(
            answers[row], multipliers[row], intervals, known, regrets, exact, _scopes(problem)
        )
        out.append(found)
        limits.report(row + 1, len(instances))
    return out


def _scopes(problem: Problem) -> tuple[tuple[Any, ...], ...]:
    """The variables of each table of the objective, by name; none of a cutset network."""
    objective = problem.parts.objective
    keys: tuple[Any, ...] = problem.domain.names or tuple(range(problem.variables))
    tables = objective.factors if isinstance(objective, LogLinearModel) else ()
    return tuple(dict.fromkeys(tuple(keys[v] for v in table.scope) for table in tables))


def _shown(low: float, high: float, sign: float) -> tuple[float, float]:
    """An interval of t as in t <= q, in the constraint's own sense."""
    return (low, high) if sign > 0 else (-high, -low)


def _multipliers(instances: Instances, answers: Solutions, cores: int) -> Floats:
    """mu* of every row: what the method knows, else by the dual; NaN where it is too wide."""
    known = answers.multipliers.copy()
    rest = np.flatnonzero(np.isnan(known).any(axis=1) & answers.feasible)
    if len(rest) and known.shape[1] and _is_narrow(instances.problem):
        known[rest] = lagrangian_dual(instances.take(rest), threads=cores).multipliers
    return known


def _is_narrow(problem: Problem) -> bool:
    if problem.is_log_linear:
        return not too_wide(problem, Limits())
    return not any(too_wide(branch.problem, Limits()) for branch in problem.branches)


def _next_values(instances: Instances, answers: Solutions, over: int, limits: Limits) -> Floats:
    """The least t_over, as in t <= q, of an assignment that beats the answer: inf if none does.

    The other constraints hold. NaN: not known.
    """
    problem, own = instances.problem, instances.problem.constraints[over]
    out = np.full(len(instances), np.nan)
    good = np.flatnonzero(answers.status == Status.OPTIMAL)
    if not len(good) or not _is_narrow(problem):
        return out
    q = loosened(own.at_most)
    quiet = replace(limits, progress=None)
    part = instances.take(good)
    if problem.is_log_linear:
        traced = _above(part, answers.take(good), over, quiet)
    else:
        traced = fronts_of(part, FrontQuestion(over, (own.at_most, math.inf), quiet))
    for row, found in zip(good, traced, strict=True):
        if found is None:
            out[row] = math.inf
            continue
        best = answers.objective[row]
        higher = (found.h > best + h_tolerance(best)) & (found.t > q)
        if found.complete:
            out[row] = found.t[higher].min(initial=math.inf)
    return out


def _above(instances: Instances, answers: Solutions, over: int, limits: Limits) -> list[Any]:
    """Points between the answer and a better one that breaks the limit; None: nothing better."""
    problem, own = instances.problem, instances.problem.constraints[over]
    others = [c for j, c in enumerate(problem.constraints) if j != over]
    asked = FrontQuestion(over, (own.at_most, math.inf), limits)
    better = _better(instances, answers, over, FrontEnds(instances, own, others, asked))
    live = np.flatnonzero((better >= 0).all(axis=1))
    out: list[Any] = [None] * len(instances)
    if not len(live):
        return out
    arranged = Problem(problem.objective, [own, *others], problem.evidence_variables)
    t = own.function.value(better[live])
    windows = np.stack([np.full(len(live), loosened(own.at_most)), t + t_tolerance(t)], axis=1)
    known = []
    for row in live:
        rows = np.stack([better[row], answers.assignments[row]])
        known.append(np.stack([problem.objective.value(rows), own.function.value(rows)], axis=1))
    batch = NarrowBatch(
        Instances(arranged, instances.evidence[live]),
        RowWindows(windows, tuple(known), limits.seconds),
    )
    told = replace(limits, progress=None)
    for row, found in zip(live, batch.run(told), strict=True):
        out[row] = found
    return out


def _better(instances: Instances, answers: Solutions, over: int, ends: FrontEnds) -> Values:
    """An assignment that beats the answer and breaks constraint `over` only, as low as is known.

    -1 where there is none: proved by a solve without the constraint.
    """
    problem = instances.problem
    best = answers.objective + h_tolerance(answers.objective)
    out = np.array(lagrangian_dual(instances).violating)
    out[(out < 0).any(axis=1)] = 0
    values = problem.constraint_values(out) - problem.limits - problem.tolerances
    others = np.delete(values, over, axis=1)
    good = (problem.objective.value(out) > best) & (others <= 0).all(axis=1)
    good &= np.isfinite(problem.constraint_values(out)[:, over])
    if not good.all():
        free = ends.unlimited()
        rows = np.where(good[:, np.newaxis], out, free.assignments)
        above = good | (free.feasible & (free.objective > best))
        out = np.where(above[:, np.newaxis], rows, -1)
    return out
