"""Problems with more evidence: a forced value, or answers to be excluded.

Every further wish is a further evidence variable, so that rows with different wishes still share
one structure, one plan and one compiled call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Values
from cmpe.domain import Domain, Placement
from cmpe.models.constraint import Constraint
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem


@dataclass(frozen=True)
class Widened:
    """A problem with further evidence variables, numbered from `first` on."""

    problem: Problem
    first: int

    def rows(self, full: Values, further: Values) -> Values:
        """Evidence of the wider problem from rows (B, n) and the further variables' values."""
        whole = np.concatenate([full, further], axis=1)
        return whole[:, list(self.problem.evidence_variables)]


def _placed(function: Function, domain: Domain) -> Function:
    count = function.variables
    moved: Function = function.placed(  # type: ignore[attr-defined]
        Placement(domain, tuple(range(count)), (None,) * count)
    )
    return moved


def _widened(problem: Problem, further: Sequence[int]) -> tuple[Domain, Function, list[Constraint]]:
    """The functions of a problem over further variables of these cardinalities, unnamed."""
    domain = Domain((*problem.objective.cardinalities, *further))
    constraints = [replace(c, function=_placed(c.function, domain)) for c in problem.constraints]
    return domain, _placed(problem.objective, domain), constraints


def with_forced_values(problem: Problem) -> Widened:
    """One further variable per free one: 0 says nothing, 1 + a that it must be a.

    The objective, made of tables, is -inf where a forced value is not taken.
    """
    free, first = problem.free, problem.variables
    cards = [problem.objective.cardinalities[v] for v in free]
    domain, _, constraints = _widened(problem, [1 + k for k in cards])
    factors = []
    for place, (v, k) in enumerate(zip(free, cards, strict=True)):
        table = np.full((1 + k, k), -np.inf)
        table[0] = 0.0
        table[1 + np.arange(k), np.arange(k)] = 0.0
        factors.append(Factor((first + place, v), table))
    kept = (*problem.models[0].factors, *factors)
    whole = LogLinearModel(domain.cardinalities, kept)
    observed = (*problem.evidence_variables, *range(first, domain.variables))
    return Widened(Problem(whole, constraints, observed), first)


def with_distance(problem: Problem, answers: int, distance: int) -> Widened:
    """`answers` further copies of the free variables, from each of which the answer must differ
    in at least `distance` variables."""
    free, first = problem.free, problem.variables
    cards = [problem.objective.cardinalities[v] for v in free]
    domain, objective, constraints = _widened(problem, cards * answers)
    for number in range(answers):
        begin = first + number * len(free)
        factors = tuple(
            Factor((begin + place, v), np.eye(k) - 1.0)
            for place, (v, k) in enumerate(zip(free, cards, strict=True))
        )
        same = LogLinearModel(domain.cardinalities, factors)  # minus how many differ
        constraints.append(Constraint(same, -float(distance) + 0.5))
    observed = (*problem.evidence_variables, *range(first, domain.variables))
    return Widened(Problem(objective, constraints, observed), first)
