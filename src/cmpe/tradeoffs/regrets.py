"""The best h for each value of each variable, from which regrets follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values
from cmpe.bounds.base import Work
from cmpe.bounds.marginals import value_bounds
from cmpe.bounds.splitting import by_size
from cmpe.problem import Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer
from cmpe.solvers.exact import too_wide
from cmpe.tradeoffs.forcing import with_forced_values
from cmpe.tradeoffs.settings import TRADEOFFS

Forced = list[tuple[Floats, NDArray[np.bool_]]]  # per free variable: best h by value, exact or not


def forced_objectives(instances: Instances, answers: Solutions, limits: Limits) -> list[Forced]:
    """The best h with each value forced, per row and free variable; bounds where not exact."""
    if not instances.problem.is_log_linear:
        return _forced_by_branch(instances, answers, limits)
    if too_wide(instances.problem, Limits()):
        return [
            _bounded(instances.take(slice(row, row + 1)), limits) if answers.feasible[row] else []
            for row in range(len(instances))
        ]
    rows = np.flatnonzero(answers.feasible)
    full = instances.full()
    out: list[Forced] = [[] for _ in range(len(instances))]
    each = max(1, sum(instances.problem.objective.cardinalities[v] for v in instances.problem.free))
    step = max(1, TRADEOFFS.forced_rows // each)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        found = forced_values(instances.problem, full[part], limits)
        for row, forced in zip(part, found, strict=True):
            out[row] = _with_answer(forced, answers, row, instances.problem)
    return out


def _with_answer(forced: Forced, answers: Solutions, row: int, problem: Problem) -> Forced:
    """The answer's own values lose nothing, to the last bit."""
    optimal = Status.of(answers.status[row]) is Status.OPTIMAL
    for (values, exact), v in zip(forced, problem.free, strict=True):
        own = int(answers.assignments[row, v])
        if optimal:
            values[own], exact[own] = answers.objective[row], True
    return forced


def forced_values(problem: Problem, full: Values, limits: Limits) -> list[Forced]:
    """The best feasible h of rows (B, n; -1 where free) with each value of each free variable."""
    free, cards = problem.free, problem.objective.cardinalities
    if not free:
        return [[] for _ in full]
    wide = with_forced_values(problem)
    wishes = [(place, a) for place, v in enumerate(free) for a in range(cards[v])]
    selectors = np.zeros((len(wishes), len(free)), dtype=full.dtype)
    for number, (place, a) in enumerate(wishes):
        selectors[number, place] = 1 + a
    every = np.repeat(full, len(wishes), axis=0)
    rows = wide.rows(every, np.tile(selectors, (len(full), 1)))
    found = answer(wide.problem, rows, "exact", replace(limits, progress=None))
    proved = found.proved
    best = np.where(proved & found.feasible, found.objective, found.bound)
    out: list[Forced] = []
    sizes = [cards[v] for v in free]
    ends = np.cumsum(sizes)[:-1]
    for row in range(len(full)):
        own = slice(row * len(wishes), (row + 1) * len(wishes))
        pairs = zip(
            np.split(best[own].copy(), ends), np.split(proved[own].copy(), ends), strict=True
        )
        out.append(list(pairs))
    return out


def _forced_by_branch(instances: Instances, answers: Solutions, limits: Limits) -> list[Forced]:
    """The best of all leaves; a variable that a leaf fixes takes no other value there."""
    problem, full = instances.problem, instances.full()
    cards = problem.objective.cardinalities
    out: list[Forced] = [
        [(np.full(cards[v], -np.inf), np.ones(cards[v], dtype=bool)) for v in problem.free]
        for _ in range(len(instances))
    ]
    for branch in problem.branches:
        rows = np.flatnonzero(branch.agrees(full) & answers.feasible)
        if not len(rows):
            continue
        inside = branch.instances(full[rows])
        own = answer(inside.problem, inside.evidence, "exact", replace(limits, progress=None))
        found = forced_values(inside.problem, inside.full(), limits)
        place_of = {v: place for place, v in enumerate(problem.free)}
        for number, row in enumerate(rows):
            for (values, exact), v in zip(found[number], inside.problem.free, strict=True):
                _take_higher(out[row][place_of[v]], values, exact)
            for v in set(problem.free) - set(inside.problem.free):
                values = np.full(cards[v], -np.inf)
                fixed = int(inside.full()[number, v])
                is_sure = own.status[number] in (Status.OPTIMAL, Status.INFEASIBLE)
                values[fixed] = own.objective[number] if own.feasible[number] else own.bound[number]
                _take_higher(out[row][place_of[v]], values, np.full(cards[v], is_sure))
    return out


def _take_higher(
    known: tuple[Floats, NDArray[np.bool_]], values: Floats, exact: NDArray[np.bool_]
) -> None:
    higher = values > known[0]
    known[0][higher] = values[higher]
    known[1][:] = np.where(higher, exact, known[1] & (exact | (values < known[0])))


def _bounded(instance: Instances, limits: Limits) -> Forced:
    """A wide row: what each value can reach at most, by a split relaxation."""
    work = Work(time_limit=limits.seconds, steps=TRADEOFFS.regret_steps)
    relaxation = by_size(instance.conditioning, work)
    found = value_bounds(instance, relaxation, work)
    return [(values.copy(), np.zeros(len(values), dtype=bool)) for values in found.values]
