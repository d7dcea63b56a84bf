"""The best feasible assignment of a row, its bound, and their history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments
from cmpe.problem import Problem
from cmpe.solution import OPTIMALITY_TOLERANCE


@dataclass(frozen=True)
class TraceEvent:
    """What was known of a row after some seconds; NaN where there is no incumbent yet."""

    seconds: float
    incumbent: float
    bound: float
    states: int  # of frontiers; of a wide row: turns
    by: str = "exact"  # whose turn it was


@dataclass
class Incumbent:
    """The best feasible assignment of a row."""

    problem: Problem
    gap: float
    assignment: Assignments | None = None  # (n,)
    objective: float = -np.inf

    def offer(self, assignment: Assignments) -> bool:
        """Take a better feasible assignment; whether it was one."""
        if (assignment < 0).any() or not self.problem.is_feasible(assignment)[0]:
            return False
        objective = float(self.problem.objective.value(assignment)[0])
        if not objective > self.objective:
            return False
        self.assignment, self.objective = assignment, objective
        return True

    @property
    def enough(self) -> float:
        """A bound up to here proves it: half the tolerance or the gap above it."""
        if self.assignment is None:
            return -np.inf
        size = max(1.0, abs(self.objective))
        return self.objective + max(0.5 * OPTIMALITY_TOLERANCE * size, self.gap - 1e-12 * size)


@dataclass
class Known:
    """What is known of a row: the incumbent, and a bound on everything."""

    best: Incumbent
    upper: float = np.inf

    @property
    def closed(self) -> bool:
        """Whether the bound proves the incumbent, or that there is none."""
        return self.upper <= self.best.enough or self.upper == -np.inf

    @property
    def reach(self) -> float:
        """How far the bound is above the incumbent."""
        return self.upper - self.best.objective
