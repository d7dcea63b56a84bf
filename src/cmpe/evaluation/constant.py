"""The constant baseline: one assignment of the free variables that answers every row.

A learned solver that does no better than the best constant has not learned to read the evidence.
Constants are chosen on training rows, several along the trade-off between the mean of h and the
share of rows that they violate.

With log-linear functions the mean of h over rows is itself a log-linear function of the free
variables, and so is the mean of t_j. So a candidate is the optimum of

    maximise mean h(y)  subject to  mean t_j(y) <= q_j - m_j,

where m_j is by how much t_j exceeds its mean on the worst `rate` of the rows. With cutset networks,
whose means are not log-linear, candidates are the answers to some training rows at limits
q_j - m_j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.bounds.lagrangian import lane_bytes
from cmpe.bounds.settings import SETTINGS
from cmpe.evaluation.settings import CONSTANT
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Constraint, Evidence, Instances, Problem, need_problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Running
from cmpe.solving import solve

Ask = Callable[[Floats | None], Values]  # from limits (m,), or none, to candidates (K, n)


@dataclass(frozen=True)
class Constant:
    """One assignment for all rows, and how it fares on the training rows."""

    assignment: Values  # (n,); evidence replaces the values of observed variables
    objective: float  # mean h
    violated: float  # share of rows

    def answers(self, problem: Problem, evidence: Evidence) -> Solutions:
        """The same answer to every row."""
        rows = problem.given(evidence).full()
        return Solutions.of(problem, np.where(rows < 0, self.assignment, rows), method="constant")


def constants(
    problem: Problem, evidence: Evidence, *, running: Running | None = None
) -> tuple[Constant, ...]:
    """Constants chosen on rows of evidence, from the fewest violations to the largest mean of h.

    None of them is dominated by another one. There are none for functions without tables.
    """
    need_problem(problem, "constants")
    instances = problem.given(evidence).take(slice(CONSTANT.rows))
    if not problem.has_tables or not len(instances):
        return ()
    ask = _of_means(instances, running) if problem.is_log_linear else _of_rows(instances, running)
    known: dict[bytes, Constant] = {}
    here = _best(instances, ask(None), known)
    if here is None:
        return ()
    for rate in CONSTANT.rates if problem.constraints else ():
        for _ in range(2):  # the second time with the margins of the first answer
            limits: Floats = problem.limits - _margins(instances, here, rate)
            found = _best(instances, ask(limits), known)
            if found is None or found is here:
                break
            here = found
    return _undominated(known.values())


def chosen(found: Sequence[Constant], allowed: float = CONSTANT.allowed) -> Constant:
    """The constant of largest mean h among those that violate at most `allowed` of the training
    rows; where none does, the one that violates least."""
    least = max(allowed, min(each.violated for each in found))
    return max((each for each in found if each.violated <= least), key=lambda each: each.objective)


def _of_means(instances: Instances, running: Running | None) -> Ask:
    """Optima of the mean functions."""
    problem, structure = instances.problem, instances.conditioning
    models = []
    for which in range(len(problem.functions)):
        total = np.zeros(len(structure.layout.values))
        for start in range(0, len(instances), CONSTANT.chunk):
            tables = instances.tables(which, slice(start, start + CONSTANT.chunk))
            total += np.maximum(tables, CONSTANT.forbidden).sum(axis=0)
        means = total / len(instances)
        models.append(LogLinearModel.from_flat(problem.domain, structure.scopes, means))
    method = "exact" if lane_bytes(problem) <= SETTINGS.cheap_bytes else "local"

    def ask(limits: Floats | None) -> Values:
        pairs = () if limits is None else zip(models[1:], limits.tolist(), strict=True)
        asked = Problem(
            models[0], tuple(Constraint(t, q) for t, q in pairs), problem.evidence_variables
        )
        found = solve(asked, instances.evidence[:1], method=method, running=running)
        return found.assignments[found.feasible]

    return ask


def _of_rows(instances: Instances, running: Running | None) -> Ask:
    """Answers to some rows."""
    problem = instances.problem
    rows = np.unique(instances.evidence, axis=0)
    rows = rows[np.linspace(0, len(rows) - 1, min(CONSTANT.some_rows, len(rows))).astype(int)]

    def ask(limits: Floats | None) -> Values:
        constraints = problem.constraints if limits is not None else ()
        moved = tuple(
            Constraint(c.function, q)
            for c, q in zip(constraints, [] if limits is None else limits, strict=True)
        )
        found = solve(replace(problem, constraints=moved), rows, method="exact", running=running)
        return found.assignments[found.feasible]

    return ask


def _margins(instances: Instances, constant: Constant, rate: float) -> Floats:
    """By how much each t_j of a constant exceeds its mean, at most, on all but `rate` of the rows:
    (m,)."""
    values = constant.answers(instances.problem, instances.evidence).constraint_values
    least = np.where(np.isfinite(values), values, np.inf).min(axis=0)
    values = np.where(np.isfinite(values), values, np.where(np.isfinite(least), least, 0.0))
    worst = np.quantile(values, 1.0 - rate, axis=0, method="higher")
    return np.asarray(worst - values.mean(axis=0))


def _best(
    instances: Instances, candidates: Values, known: dict[bytes, Constant]
) -> Constant | None:
    """The candidate (K, n) with the largest mean of h, None without candidates. Those that are not
    `known` by their free values are judged on all rows, and known then."""
    free = list(instances.problem.free)
    found = []
    for row in candidates:
        key = row[free].tobytes()
        if key not in known:
            answers = Constant(row, 0.0, 0.0).answers(instances.problem, instances.evidence)
            violated = float((~answers.feasible).mean())
            known[key] = Constant(row, float(answers.objective.mean()), violated)
        found.append(known[key])
    return max(found, key=lambda each: each.objective, default=None)


def _undominated(found: Iterable[Constant]) -> tuple[Constant, ...]:
    """Those that no other one beats in both, from the fewest violations on."""
    kept: list[Constant] = []
    for each in sorted(found, key=lambda each: (each.violated, -each.objective)):
        if not kept or each.objective > kept[-1].objective:
            kept.append(each)
    return tuple(kept)
