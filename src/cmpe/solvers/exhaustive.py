"""Enumeration of every assignment: the oracle of the tests, and honest for tiny problems."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import MethodError, TooLarge
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.rows import RowAnswer, solve_rows

CHUNK = 1 << 15


@dataclass(frozen=True)
class ExhaustiveSolver:
    """Evaluates the problem's own functions on every completion of the evidence.

    It shares no code with conditioning or elimination, so it can judge them. The time limit is
    ignored: the size guard bounds the work.
    """

    running: Running = Running()
    most_states: int = 1 << 22

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """Proved optimum, or proved infeasibility, of every row."""
        Limits(time_limit)
        if problem.continuous:
            raise MethodError("exhaustive enumerates values; found continuous variables")
        instances = problem.given(evidence)
        states = math.prod(problem.objective.cardinalities[v] for v in problem.free)
        if states > self.most_states:
            raise TooLarge(
                f"exhaustive enumerates at most {self.most_states} assignments a row; "
                f"this problem has {states:.3g}; try another method"
            )
        return solve_rows(instances, _Enumerate(instances, states), "exhaustive", self.running)


@dataclass(frozen=True)
class _Enumerate:
    instances: Instances
    states: int

    def __call__(self, row: int) -> RowAnswer:
        problem = self.instances.problem
        best, winner = -np.inf, None
        for first in range(0, self.states, CHUNK):
            values = self._completions(first, min(first + CHUNK, self.states))
            evidence = np.repeat(self.instances.evidence[row : row + 1], len(values), axis=0)
            full = Instances(problem, evidence).complete(values)
            objective = np.where(problem.is_feasible(full), problem.objective.value(full), -np.inf)
            at = int(np.argmax(objective))
            if objective[at] > best:
                best, winner = float(objective[at]), values[at]
        return RowAnswer(winner, best, infeasible=winner is None)

    def _completions(self, first: int, last: int) -> NDArray[np.int32]:
        free = self.instances.problem.free
        sizes = [self.instances.problem.objective.cardinalities[v] for v in free]
        if not free:
            return np.zeros((last - first, 0), dtype=np.int32)
        digits = np.unravel_index(np.arange(first, last), sizes)
        return np.stack(digits, axis=1).astype(np.int32)
