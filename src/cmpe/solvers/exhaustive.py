"""Enumeration of every assignment: the oracle of the tests, and honest for tiny problems."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.errors import MethodError, TooLarge
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.rows import RowAnswer, solve_rows

CHUNK = 1 << 15


@dataclass(frozen=True)
class Exhaustive:
    """Evaluates the problem's own functions on every completion of the evidence.

    It shares no code with conditioning or elimination, so it can judge them.
    """

    most_states: int = 1 << 22

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum, or proved infeasibility, of every row; without a bound at the limit."""
        problem = instances.problem
        if problem.continuous:
            raise MethodError("exhaustive enumerates values; found continuous variables")
        states = math.prod(problem.objective.cardinalities[v] for v in problem.free)
        if states > self.most_states:
            raise TooLarge(
                f"exhaustive enumerates at most {self.most_states} assignments a row; "
                f"this problem has {states:.3g}; try another method"
            )
        job = Enumerate(instances, states, limits.of_a_row())
        return solve_rows(instances, job, "exhaustive", limits, one_core=True)


@dataclass(frozen=True)
class Enumerate:
    """Answers one row."""

    instances: Instances
    states: int
    limits: Limits

    def __call__(self, row: int) -> RowAnswer:
        """The best of its completions."""
        best, winner = -np.inf, None
        deadline = Deadline(self.limits)
        for first in range(0, self.states, CHUNK):
            try:
                values = self._completions(first, min(first + CHUNK, self.states))
                objective = self.judged(row, values)
            except KeyboardInterrupt:
                return RowAnswer(winner, interrupted=True)
            at = int(np.argmax(objective))
            if objective[at] > best:
                best, winner = float(objective[at]), values[at]
            if deadline.expired() and first + CHUNK < self.states:
                return RowAnswer(winner)
        return RowAnswer(winner, best, infeasible=winner is None)

    def judged(self, row: int, values: NDArray[np.int32]) -> Floats:
        """h of each completion, -inf where it is not feasible."""
        problem = self.instances.problem
        evidence = np.repeat(self.instances.evidence[row : row + 1], len(values), axis=0)
        full = Instances(problem, evidence).complete(values)
        return np.where(problem.is_feasible(full), problem.objective.value(full), -np.inf)

    def _completions(self, first: int, last: int) -> NDArray[np.int32]:
        free = self.instances.problem.free
        sizes = [self.instances.problem.objective.cardinalities[v] for v in free]
        if not free:
            return np.zeros((last - first, 0), dtype=np.int32)
        digits = np.unravel_index(np.arange(first, last), sizes)
        return np.stack(digits, axis=1).astype(np.int32)
