"""Every method and every bound against the truth, row by row; what is wrong is made small."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

import cmpe
from benchmarks.campaign import beyond
from benchmarks.campaign.cases import Case, Truth, random_case, told, truths, value
from benchmarks.campaign.journal import Journal
from cmpe.errors import CmpeError

OFTEN = ("auto", "exact", "exhaustive", "lagrangian", "local", "search", "milp")
# Slower ones, each of which is asked a part of the problems: its package, and the share.
SELDOM = {
    "milp:scip": ("pyscipopt", 0.2), "milp:gurobi": ("gurobipy", 0.1),
    "toulbar2": ("pytoulbar2", 0.02), "cpsat": ("ortools", 0.05),
}  # fmt: skip
BEYOND = 0.02  # the share of problems without tables
CLOSE = 1e-6  # relative to max(1, the numbers added up)


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """One problem, all methods."""
    if rng.random() < BEYOND:
        beyond.unit(rng, journal)
        return
    case = random_case(rng)
    seldom = [
        n
        for n, (package, share) in SELDOM.items()
        if rng.random() < share and is_installed(package)
    ]
    known = truths(case)
    journal.count("problems")
    journal.count("rows", len(known))
    for method in (*OFTEN, *seldom):
        part = replace(case, rows=case.rows[:3]) if method == "toulbar2" else case
        wrong = wrong_rows(part, method, known)
        journal.count("row-by-method checks", len(part.rows))
        journal.count(f"checks of {method}", len(part.rows))
        for row, sentence in wrong[:1]:
            small = smallest(replace(part, rows=part.rows[row : row + 1]), method)
            journal.find("wrong", f"{method}: {sentence}", {"case.json": told(small)})
    for name in cmpe.BOUNDS:
        if case.problem.form in cmpe.BOUNDS[name].takes:
            journal.count("row-by-method checks", len(case.rows))
            journal.count(f"checks of bound {name}", len(case.rows))
            for row, sentence in wrong_bounds(case, name, known)[:1]:
                only = replace(case, rows=case.rows[row : row + 1])
                journal.find("wrong", f"bound {name}: {sentence}", {"case.json": told(only)})


def is_installed(package: str) -> bool:
    """Whether a package is installed."""
    return find_spec(package) is not None


def wrong_rows(case: Case, method: str, known: list[Truth]) -> list[tuple[int, str]]:
    """(row, what is wrong) for each row whose answer cannot be right."""
    try:
        answers = cmpe.solve(case.problem, case.rows, method=method)
    except CmpeError as error:
        is_refused = "toulbar2 counts costs up to" in str(error)
        return [] if is_refused else [(0, f"{type(error).__name__}: {error}")]
    except Exception:  # a leak is a finding, whatever it is
        return [(0, traceback.format_exc(limit=-3))]
    found = []
    for row, truth in enumerate(known[: len(case.rows)]):
        wrong = _judged(case, row, answers.take(np.array([row])), truth)
        found += [(row, f"{w} (truth {truth.strict!r} to {truth.loose!r})") for w in wrong]
    return found


def _judged(case: Case, row: int, answer: cmpe.Solutions, truth: Truth) -> Iterator[str]:
    problem = case.problem
    status = cmpe.Status.of(answer.status[0])
    objective, bound = float(answer.objective[0]), float(answer.bound[0])
    hair = CLOSE * max(1.0, truth.scale)
    if status is cmpe.Status.INFEASIBLE and truth.strict > -math.inf:
        yield "says infeasible"
    if bound < truth.strict - hair:
        yield f"bound {bound!r} is below the optimum"
    assignment = answer.assignments[0]
    if status not in (cmpe.Status.OPTIMAL, cmpe.Status.FEASIBLE):
        return
    if assignment[list(problem.evidence_variables)].tolist() != case.rows[row].tolist():
        yield "the assignment contradicts its evidence"
    worth = float(value(problem.objective, assignment[np.newaxis])[0])
    if not abs(worth - objective) <= hair:
        yield f"says h = {objective!r}, its assignment has {worth!r}"
    if objective > truth.loose + hair:
        yield f"{status.label} with h = {objective!r} above the optimum"
    if status is cmpe.Status.OPTIMAL and objective < truth.strict - hair:
        yield f"says optimal with h = {objective!r}"


def wrong_bounds(case: Case, name: str, known: list[Truth]) -> list[tuple[int, str]]:
    """(row, what is wrong) for each row whose bound cannot be one."""
    try:
        bounds = cmpe.bound(case.problem, case.rows, method=name, work=cmpe.Work(steps=20))
    except Exception:
        return [(0, traceback.format_exc(limit=-3))]
    return [
        (row, f"{bounds.upper[row]!r} below the optimum {truth.strict!r}")
        for row, truth in enumerate(known)
        if bounds.upper[row] < truth.strict - CLOSE * max(1.0, truth.scale)
    ]


def smallest(case: Case, method: str) -> Case:
    """The case with every constraint and factor left out that the mistake does not need."""

    def is_wrong(other: Case) -> bool:
        return bool(wrong_rows(other, method, truths(other)))

    again = True
    while again:
        again = False
        for smaller in _smaller(case):
            if is_wrong(smaller):
                case, again = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    problem = case.problem
    for j in range(len(problem.constraints)):
        rest = problem.constraints[:j] + problem.constraints[j + 1 :]
        yield replace(case, problem=replace(problem, constraints=rest))
    for other in _fewer_factors(problem.objective):
        yield replace(case, problem=replace(problem, objective=other))
    for j, constraint in enumerate(problem.constraints):
        for other in _fewer_factors(constraint.function):
            changed = list(problem.constraints)
            changed[j] = cmpe.Constraint(other, constraint.at_most)
            yield replace(case, problem=replace(problem, constraints=tuple(changed)))


def _fewer_factors(function: object) -> Iterator[cmpe.LogLinearModel]:
    if isinstance(function, cmpe.LogLinearModel):
        for k in range(len(function.factors)):
            yield replace(function, factors=function.factors[:k] + function.factors[k + 1 :])
