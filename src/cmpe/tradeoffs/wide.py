"""Fronts of wide rows: answers and bounds at chosen limits, refined where the band is widest.

An answer at q is a point; a bound at q holds for every lower limit too. Between two limits a < b
the best h lies between the best point with t <= a and the bound at b: a band. The interval with the
largest band is halved next, until the row's time is over. The band is valid at every moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.problem import Constraint, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.dispatch import solve
from cmpe.tradeoffs.front import Steps, TracedPoints
from cmpe.tradeoffs.points import ListedPoints, loosened, undominated

WIDE_SECONDS = 60.0  # of a row without a limit
SHARE = 0.05  # of a row's time for each of the first limits
LEAST_SLICE = 0.05  # seconds


def wide_front(
    instances: Instances, over: int, window: tuple[float, float], limits: Limits
) -> list[TracedPoints]:
    """The points found and the certified band of every row."""
    if limits.seconds is None:
        limits = replace(limits, seconds=WIDE_SECONDS)
    out = []
    for row in range(len(instances)):
        *_, last = refine(instances.take(slice(row, row + 1)), over, window, limits)
        out.append(last)
        limits.running.report(row + 1, len(instances))
    return out


def refine(
    instances: Instances, over: int, window: tuple[float, float], limits: Limits
) -> Iterator[TracedPoints]:
    """What is known of one row's front after each limit that was looked at."""
    band = _Band(instances, over, limits)
    yield from band.refined(*window)


@dataclass
class _Band:
    """Points and bounds of one row."""

    instances: Instances
    over: int
    limits: Limits
    rows: list[Values] = field(default_factory=list)  # (1, n) each
    h: list[float] = field(default_factory=list)
    t: list[float] = field(default_factory=list)
    bounds: dict[float, float] = field(default_factory=dict)  # by limit
    tries: dict[float, int] = field(default_factory=dict)

    def refined(self, low: float, high: float) -> Iterator[TracedPoints]:
        """Look at the ends, then where the band is widest."""
        deadline = Deadline(self.limits)
        begun = self.limits.seconds or WIDE_SECONDS
        problem = self.instances.problem
        self._look(high, SHARE * begun)
        yield self._traced(begun - (deadline.left().seconds or 0.0))
        if not math.isfinite(low):
            low = self._least(SHARE * begun)
        if math.isfinite(low):
            self._look(low, SHARE * begun)
            yield self._traced(begun - (deadline.left().seconds or 0.0))
        while not deadline.expired():
            q = self._widest(low, problem.constraints[self.over])
            if q is None:
                break
            left = deadline.left().seconds or 0.0
            share = SHARE * begun * 2.0 ** self.tries.get(q, 0)
            self._look(q, min(left, max(LEAST_SLICE, share)))
            yield self._traced(begun - (deadline.left().seconds or 0.0))

    def _posed(self, q: float) -> Problem:
        problem = self.instances.problem
        constraints: list[Constraint] = list(problem.constraints)
        constraints[self.over] = replace(constraints[self.over], at_most=q)
        return Problem(problem.objective, constraints, problem.evidence_variables)

    def _without(self) -> Problem:
        problem = self.instances.problem
        kept = [c for j, c in enumerate(problem.constraints) if j != self.over]
        return Problem(problem.objective, kept, problem.evidence_variables)

    def _look(self, q: float, seconds: float) -> Solutions:
        """Solve with limit q for some seconds, and note what comes out."""
        problem = self._without() if q == math.inf else self._posed(q)
        told = replace(self.limits.running, progress=None, start=self._start(problem))
        found = solve(
            problem, self.instances.evidence, method="auto", time_limit=seconds, running=told
        )
        if found.feasible[0]:
            self._note(found.assignments)
        end = loosened(q)  # what a solve calls feasible
        self.bounds[end] = min(self.bounds.get(end, math.inf), float(found.bound[0]))
        self.tries[q] = self.tries.get(q, -1) + 1
        return found

    def _note(self, rows: Values) -> None:
        problem = self.instances.problem
        self.rows.append(rows)
        self.h.append(float(problem.objective.value(rows)[0]))
        self.t.append(float(problem.constraint_values(rows)[0, self.over]))

    def _start(self, problem: Problem) -> Values | None:
        """The best point that is feasible there."""
        if not self.rows:
            return None
        known = np.concatenate(self.rows)
        good = np.where(problem.is_feasible(known), self.h, -np.inf)
        return known[[int(np.argmax(good))]] if np.isfinite(good.max()) else None

    def _least(self, seconds: float) -> float:
        """About the least t: minus a bound on -t, where elimination of t alone is no help."""
        own = self.instances.problem.constraints[self.over]
        negated = getattr(own.function, "negated", None)
        if negated is None:
            return -math.inf
        minus, support = negated()
        objective = minus + support if support.factors else minus
        kept = self._without().constraints
        problem = Problem(objective, kept, self.instances.problem.evidence_variables)
        found = solve(problem, self.instances.evidence, method="auto", time_limit=seconds)
        if found.feasible[0] and np.isfinite(
            self.instances.problem.objective.value(found.assignments)[0]
        ):
            self._note(found.assignments)
        bound = float(found.bound[0])
        return -bound if math.isfinite(bound) and own.function.is_finite else -math.inf

    def _widest(self, low: float, own: Constraint) -> float | None:
        """The limit to look at next: the middle of the widest band, or its end once more."""
        ends = np.array(sorted(q for q in self.bounds if math.isfinite(q)))
        highest = max((t for t in self.t if math.isfinite(t)), default=None)
        if (
            highest is not None
            and math.inf in self.bounds
            and (not len(ends) or highest > ends[-1])
        ):
            ends = np.append(ends, highest)
        if len(ends) < 1:
            return float(own.at_most) if own.at_most not in self.tries else None
        start = np.concatenate([[min(low, ends[0])], ends[:-1]])
        upper, lower = self._upper(ends), np.maximum(self._lower(start), -1e9)
        gap = np.clip(upper - lower, 0.0, 1e9)
        area = gap * np.clip(ends - start, 0.0, 1e9)
        # A limit that was halved to nothing is looked at for longer instead.
        best = int(np.argmax(area + 1e-12 * gap))
        if gap[best] <= 1e-6 * max(1.0, abs(float(self._upper(ends)[best]))):
            return None
        width = ends[best] - start[best]
        if 1e-3 * max(1.0, ends[-1] - start[0]) < width < math.inf:
            return float(start[best] + 0.5 * width)
        return float(ends[best])

    def _lower(self, q: Floats) -> Floats:
        """The best h of a point with t <= q."""
        h, t = np.array([-np.inf, *self.h]), np.array([-np.inf, *self.t])
        order = np.argsort(t, kind="stable")
        best = np.maximum.accumulate(h[order])
        return best[np.searchsorted(t[order], q, side="right") - 1]

    def _upper(self, q: Floats) -> Floats:
        """The lowest bound at a limit of at least q."""
        ends = np.array(sorted(self.bounds))
        bound = np.array([self.bounds[e] for e in ends])
        least = np.minimum.accumulate(bound[::-1])[::-1]
        return np.append(least, np.inf)[np.searchsorted(ends, q, side="left")]

    def _traced(self, spent: float) -> TracedPoints:
        problem = self.instances.problem
        rows = (
            np.concatenate(self.rows)
            if self.rows
            else np.zeros((0, problem.variables), dtype=problem.dtype)
        )
        h, t = np.array(self.h), np.array(self.t)
        points = TracedPoints(h, t, ListedPoints(rows), False, None, spent)
        kept = points.kept(undominated(h, t))
        at = np.unique(np.array([*self.bounds, *t[np.isfinite(t)], math.inf]))
        upper = np.maximum(self._upper(at), self._lower(at))
        return replace(kept, steps=Steps(at, upper), complete=_is_closed(kept, at, upper))


def _is_closed(kept: TracedPoints, at: Floats, upper: Floats) -> bool:
    """Nothing lies between points and bound: only an infeasible row is known to be so."""
    return not len(kept.h) and bool((upper == -np.inf).all())
