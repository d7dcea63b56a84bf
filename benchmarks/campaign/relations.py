"""Answers that must not change, or change in a known way, when a problem is written otherwise."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.cases import Case, random_case, told
from benchmarks.campaign.journal import Journal
from cmpe.arrays import Floats, Values

PROVERS = ("auto", "exact", "milp")
REPEATED = ("auto", "exact", "lagrangian", "local", "search", "milp")
CLOSE = 1e-6

Change = Callable[[np.random.Generator, Case], tuple[Case, float, float]]


def permuted(rng: np.random.Generator, case: Case) -> tuple[Case, float, float]:
    """Variables in another order."""
    count = case.problem.variables
    place = rng.permutation(count)  # variable v becomes place[v]
    cards = [0] * count
    for v, k in enumerate(case.problem.objective.cardinalities):
        cards[place[v]] = k

    def moved(function: cmpe.LogLinearModel) -> cmpe.LogLinearModel:
        factors = (
            cmpe.Factor(tuple(int(place[v]) for v in f.scope), f.log_table)
            for f in function.factors
        )
        return cmpe.LogLinearModel(tuple(cards), tuple(factors))

    observed = tuple(int(place[v]) for v in case.problem.evidence_variables)
    return _changed(case, moved, observed), 1.0, 0.0


def scaled(rng: np.random.Generator, case: Case) -> tuple[Case, float, float]:
    """h times a number."""
    by = float(10.0 ** rng.uniform(-2, 2))
    model: Any = case.problem.objective
    factors = tuple(cmpe.Factor(f.scope, f.log_table * by) for f in model.factors)
    problem = replace(case.problem, objective=replace(model, factors=factors))
    return replace(case, problem=problem), by, 0.0


def shifted(rng: np.random.Generator, case: Case) -> tuple[Case, float, float]:
    """h plus a number."""
    by = float(rng.normal() * 10)
    model: Any = case.problem.objective
    constant = cmpe.Factor((), np.array(by))
    problem = replace(case.problem, objective=replace(model, factors=(*model.factors, constant)))
    return replace(case, problem=problem), 1.0, by


def split(rng: np.random.Generator, case: Case) -> tuple[Case, float, float]:
    """Every table as the sum of two."""

    def halved(function: cmpe.LogLinearModel) -> cmpe.LogLinearModel:
        parts = []
        for factor in function.factors:
            noise = rng.normal(size=factor.log_table.shape)
            parts += [
                cmpe.Factor(factor.scope, noise),
                cmpe.Factor(factor.scope, factor.log_table - noise),
            ]
        return replace(function, factors=tuple(parts))

    return _changed(case, halved, case.problem.evidence_variables), 1.0, 0.0


def redundant(rng: np.random.Generator, case: Case) -> tuple[Case, float, float]:
    """A constraint twice, and one that always holds."""
    problem = case.problem
    more = [cmpe.Constraint(problem.objective, problem.objective.ceiling() + 1.0)]
    more += list(problem.constraints[:1])
    return replace(case, problem=replace(problem, constraints=(*problem.constraints, *more))), 1, 0


def _changed(case: Case, change: Callable[[Any], Any], observed: tuple[int, ...]) -> Case:
    problem = case.problem
    constraints = tuple(cmpe.Constraint(change(c.function), c.at_most) for c in problem.constraints)
    return replace(case, problem=cmpe.Problem(change(problem.objective), constraints, observed))


CHANGES: tuple[Change, ...] = (permuted, scaled, shifted, split, redundant)


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """One problem written in several ways, one answered in several ways."""
    case = random_case(rng, str(rng.choice(["whole", "real", "zeros", "mixed"])))
    method = str(rng.choice(PROVERS))
    change = CHANGES[int(rng.integers(len(CHANGES)))]
    try:
        other, factor, constant = change(rng, case)
        compare(journal, case, other, method, change.__name__, (factor, constant))
        _repeat(rng, journal, case, str(rng.choice(REPEATED)))
        _singly(journal, case, method)
    except Exception:
        about = f"{change.__name__}, {method}: {traceback.format_exc(limit=-3)}"
        journal.find("leak", about, {"case.json": told(case)})


def _facts(problem: cmpe.Problem, rows: Values, method: str) -> tuple[Values, Floats]:
    answers = cmpe.solve(problem, rows, method=method)
    return answers.status, np.asarray(answers.objective)


def compare(
    journal: Journal, case: Case, other: Case, method: str, name: str, affine: tuple[float, float]
) -> None:
    journal.count(f"relations: {name}", len(case.rows))
    journal.count("row-by-method checks", 2 * len(case.rows))
    factor, constant = affine
    status, before = _facts(case.problem, case.rows, method)
    again, after = _facts(other.problem, other.rows, method)
    hair = CLOSE * max(1.0, factor) * (1.0 + np.abs(np.where(np.isfinite(before), before, 0.0)))
    expected = before * factor + constant
    same = np.isclose(expected, after, rtol=0.0, atol=hair, equal_nan=True)
    if not ((status == again) & same).all():
        about = f"{method}, {name}: {status} {before} became {again} {after}"
        files = {"case.json": told(case), "other.json": told(other)}
        journal.find("changed", about, files)


def _repeat(rng: np.random.Generator, journal: Journal, case: Case, method: str) -> None:
    """Twice, and with two threads: the same assignments."""
    journal.count("relations: twice", len(case.rows))
    journal.count("row-by-method checks", 2 * len(case.rows))
    seed = int(rng.integers(1000))
    running = cmpe.Running(threads=int(rng.integers(1, 3)))
    first = cmpe.solve(case.problem, case.rows, method=method, seed=seed)
    second = cmpe.solve(case.problem, case.rows, method=method, seed=seed, running=running)
    if not np.array_equal(first.assignments, second.assignments) or not np.array_equal(
        first.status, second.status
    ):
        journal.find("changed", f"{method} twice, {running}", {"case.json": told(case)})


def _singly(journal: Journal, case: Case, method: str) -> None:
    """Row by row: the same objectives."""
    journal.count("relations: batch against single", len(case.rows))
    journal.count("row-by-method checks", 2 * len(case.rows))
    status, whole = _facts(case.problem, case.rows, method)
    for row in range(len(case.rows)):
        again, alone = _facts(case.problem, case.rows[row], method)
        close = np.isclose(whole[row], alone[0], rtol=CLOSE, atol=CLOSE, equal_nan=True)
        if again[0] != status[row] or not close:
            about = f"{method}, row {row} alone: {alone[0]!r}, in a batch {whole[row]!r}"
            journal.find("changed", about, {"case.json": told(case)})
            return
