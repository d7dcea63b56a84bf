"""Fronts, ranks, intervals and regrets by enumeration: the oracle of these tests.

It shares nothing with the engines but the functions' own values and the problem's limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from benchmarks.front_check import non_dominated

from cmpe import Problem
from tests.problems import all_assignments


@dataclass(frozen=True)
class Enumerated:
    """Every completion of one row of evidence, with its values."""

    problem: Problem
    rows: np.ndarray  # (N, n)
    h: np.ndarray
    t: np.ndarray  # (N, m), as in t <= q

    @classmethod
    def of(cls, problem: Problem, full: np.ndarray) -> Enumerated:
        rows = all_assignments(problem.objective.cardinalities)
        rows = rows[((full < 0) | (rows == full)).all(axis=1)]
        return cls(problem, rows, problem.objective.value(rows), problem.constraint_values(rows))

    def satisfied(self, without: int | None = None) -> np.ndarray:
        """Which rows are feasible, if constraint `without` is dropped."""
        good = np.isfinite(self.h)
        for j, (q, tolerance) in enumerate(
            zip(self.problem.limits, self.problem.tolerances, strict=True)
        ):
            if j != without:
                good &= self.t[:, j] - q <= tolerance
        return good

    def front(self, over: int) -> tuple[np.ndarray, np.ndarray]:
        """h and t of the non-dominated pairs by rising t, each pair within the tolerances once."""
        good = self.satisfied(over)
        return non_dominated(self.h[good], self.t[good, over])

    def ranked(self) -> tuple[np.ndarray, np.ndarray]:
        """All feasible rows and their h, the best first, ties by the assignment."""
        good = self.satisfied()
        rows, h = self.rows[good], self.h[good]
        order = np.lexsort((*rows.T[::-1], -h))
        return rows[order], h[order]

    def next_value(self, over: int) -> float:
        """The least t of what beats the best feasible h once the limit allows it."""
        best = self.h[self.satisfied()].max()
        higher = self.satisfied(over) & (self.h > best + 1e-6 * max(1.0, abs(best)))
        return float(self.t[higher, over].min(initial=math.inf))

    def regret(self, variable: int, value: int) -> float:
        """What forcing a value costs."""
        good = self.satisfied()
        forced = self.h[good & (self.rows[:, variable] == value)].max(initial=-math.inf)
        return float(self.h[good].max() - forced)


def enumerated(problem: Problem, evidence: np.ndarray) -> list[Enumerated]:
    """Every row of evidence."""
    return [Enumerated.of(problem, full) for full in problem.given(evidence).full()]
