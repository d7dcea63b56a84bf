"""A problem whose rules are tables, by means of more variables (`elimination.rules`).

People see none of these variables: answers, ranks and distances are over their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cmpe.elimination.rules import Hidden, TabledRules, tabled_rules
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.problem.problem import Problem

MOST_KEPT = 8  # sets of observed variables


@dataclass(frozen=True)
class Expansion:
    """A problem without rules; its first variables are those of the user's problem."""

    problem: Problem
    tabled: TabledRules

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """The variables after the user's."""
        return self.tabled.hidden


def expanded(problem: Problem, observed: Sequence[int] = ()) -> Expansion:
    """The problem with tables for its rules, for rows that observe these variables at least."""
    known, key = problem.expansions, tuple(observed)
    if key not in known:
        while len(known) >= MOST_KEPT:
            known.pop(next(iter(known)), None)
        known[key] = _expanded(problem, key)
    found: Expansion = known[key]
    return found


def _expanded(problem: Problem, observed: tuple[int, ...]) -> Expansion:
    objective = problem.objective
    assert isinstance(objective, RuledModel)
    functions = [c.function for c in problem.constraints]
    tabled = tabled_rules(objective, functions, observed)
    constraints = []
    for constraint in problem.constraints:
        function = constraint.function
        assert isinstance(function, LogLinearModel)
        wider = LogLinearModel(tabled.model.cardinalities, function.factors)
        constraints.append(replace(constraint, function=wider))
    inner = Problem(tabled.model, constraints, problem.evidence_variables, problem.name)
    return Expansion(inner, tabled)
