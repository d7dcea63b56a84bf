"""Answers of `search` to questions of any masks and limits, to be learnt from.

An observed variable is added, whose value is the number of the question and whose entries of t_j
are -q_j: so questions with limits of their own are rows of one problem with the limits 0.
"""

from __future__ import annotations

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.problem.groups import by_observed
from cmpe.solvers.search import search
from cmpe.solvers.search.schedule import Budget


def selecting(problem: Problem, limits: Floats) -> Problem:
    """The problem with one more variable, which selects a row of limits (R, m)."""
    cards, selector = (*problem.objective.cardinalities, len(limits)), problem.variables
    h, *rest = problem.models
    constraints = [
        Constraint(LogLinearModel(cards, (*t.factors, Factor((selector,), -column))), 0.0)
        for t, column in zip(rest, limits.T, strict=True)
    ]
    return Problem(LogLinearModel(cards, h.factors), constraints)


def search_answers(
    problem: Problem, given: Assignments, limits: Floats, seconds: float, seed: int = 0
) -> Assignments:
    """What `search` finds in so many seconds a question (B, n); -1 where nothing feasible is found.

    `given` (B, n) is -1 where free.
    """
    whole = selecting(problem, np.asarray(limits, dtype=np.float64))
    rows = np.column_stack([given, np.arange(len(given))]).astype(np.int32)
    out = np.full((len(given), problem.variables), -1, dtype=np.int32)
    for instances, numbers in by_observed(whole, rows):
        found = search(instances, budget=Budget(seconds=seconds), seed=seed)
        fits = whole.is_feasible(found)
        out[numbers[fits]] = found[fits, :-1]
    return out
