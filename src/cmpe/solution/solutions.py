"""Answers with their certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats, Values
from cmpe.problem import Problem

OPTIMALITY_TOLERANCE = 1e-6


class Status(IntEnum):
    """What is known of one answer; `sentence` says it to a person."""

    OPTIMAL = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    VIOLATED = 3
    UNKNOWN = 4

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The word used in files and tables."""
        return self.name.lower()

    @property
    def sentence(self) -> str:
        """What the status means."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.OPTIMAL: "proved: no feasible assignment has a higher objective",
    Status.FEASIBLE: "satisfies every constraint; a better assignment may exist below the bound",
    Status.INFEASIBLE: "proved: no assignment satisfies every constraint",
    Status.VIOLATED: "the best assignment found breaks a constraint",
    Status.UNKNOWN: "a limit was reached and no assignment of non-zero weight was found",
}


@dataclass(frozen=True)
class Solutions:
    """One answer per evidence row. Where there is no assignment it is -1 and the values NaN."""

    assignments: Values  # (B, n)
    objective: Floats  # (B,)
    constraint_values: Floats  # (B, m)
    violations: Floats  # (B, m), t - q
    bound: Floats  # (B,), an upper bound on the best feasible objective
    status: NDArray[np.int8]  # (B,), of Status
    method: NDArray[np.str_]  # (B,)
    seconds: Floats  # (B,)

    @classmethod
    def of(
        cls,
        problem: Problem,
        assignments: ArrayLike,
        *,
        bound: ArrayLike = np.inf,
        infeasible: ArrayLike = False,
        method: str | Sequence[str] = "",
        seconds: ArrayLike = 0.0,
    ) -> Solutions:
        """Recompute every value in float64 and derive every status.

        A row of `assignments` that starts with -1 has no answer. `infeasible` marks rows whose
        infeasibility is proved. The bound is never left below a feasible objective.
        """
        rows = np.array(assignments, dtype=problem.dtype, ndmin=2)
        count = len(rows)
        found = (rows >= 0).all(axis=1)
        objective = np.full(count, np.nan)
        values = np.full((count, len(problem.constraints)), np.nan)
        feasible = np.zeros(count, dtype=bool)
        if found.any():
            objective[found] = problem.objective.value(rows[found])
            values[found] = problem.constraint_values(rows[found])
            feasible[found] = problem.are_feasible(objective[found], values[found])
        proved = np.broadcast_to(np.asarray(infeasible, dtype=bool), count) & ~feasible
        upper = np.where(proved, -np.inf, np.broadcast_to(np.asarray(bound, dtype=float), count))
        upper[feasible] = np.maximum(upper[feasible], objective[feasible])
        status = np.full(count, Status.UNKNOWN, dtype=np.int8)
        status[found & (objective > -np.inf)] = Status.VIOLATED
        status[feasible] = Status.FEASIBLE
        status[feasible & _closed(upper, objective)] = Status.OPTIMAL
        status[proved] = Status.INFEASIBLE
        return cls(
            assignments=rows,
            objective=objective,
            constraint_values=values,
            violations=values - problem.limits,
            bound=upper,
            status=status,
            method=np.array(np.broadcast_to(np.asarray(method, dtype=np.str_), count)),
            seconds=np.array(np.broadcast_to(np.asarray(seconds, dtype=float), count)),
        )

    def __len__(self) -> int:
        return len(self.objective)

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which answers satisfy every constraint: (B,)."""
        return np.isin(self.status, (Status.OPTIMAL, Status.FEASIBLE))

    @property
    def labels(self) -> list[str]:
        """The status of each row as a word."""
        return [Status(int(s)).label for s in self.status]

    @property
    def gap(self) -> Floats:
        """bound - objective in nats, NaN without a feasible answer: (B,)."""
        gap = np.full(len(self), np.nan)
        answered = self.feasible
        gap[answered] = self.bound[answered] - self.objective[answered]
        return gap

    def take(self, rows: ArrayLike) -> Solutions:
        """The answers of `rows`, in that order."""
        index = np.asarray(rows)
        return Solutions(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def replaced(self, rows: NDArray[np.integer], new: Solutions) -> Solutions:
        """These answers, with those of `rows` taken from `new`."""
        order = np.arange(len(self))
        order[rows] = len(self) + np.arange(len(rows))
        return Solutions.concatenate([self, new]).take(order)

    def or_better(self, other: Solutions) -> Solutions:
        """Of each row the feasible answer of the higher objective; ties keep these."""
        better = other.feasible & ~(self.feasible & (self.objective >= other.objective))
        rows = np.flatnonzero(better)
        return self.replaced(rows, other.take(rows))

    @staticmethod
    def concatenate(parts: Sequence[Solutions]) -> Solutions:
        """All rows of all parts, in order."""
        return Solutions(
            **{
                f.name: np.concatenate([getattr(p, f.name) for p in parts])
                for f in fields(Solutions)
            }
        )


def _closed(upper: Floats, objective: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        allowed = OPTIMALITY_TOLERANCE * np.maximum(1.0, np.abs(objective))
        return np.asarray(upper - objective <= allowed, dtype=np.bool_)
