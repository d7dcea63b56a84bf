"""A front: every trade-off between the objective and one constraint of a row.

The points are the non-dominated pairs (h, t): no other assignment has an h as high and a t as low
with one of them better. So the answer to CMPE(x, q) is the last point with t <= q, for every q.
Where the front is not proved complete, `bound` says for every q what no assignment exceeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Values
from cmpe.display import html_table, number_text
from cmpe.errors import MethodError
from cmpe.problem import Problem
from cmpe.solution import Answer, Solutions
from cmpe.tradeoffs.points import JoinedPoints, Points, t_tolerance, undominated

SHOWN_POINTS = 12


@dataclass(frozen=True)
class Steps:
    """An upper bound of the best h with t <= q: `upper[i]` for q up to `at[i]`, `at` rising."""

    at: Floats
    upper: Floats

    def of(self, q: Floats) -> Floats:
        """The bound at each q; inf beyond the last step."""
        place = np.searchsorted(self.at, q, side="left")
        return np.append(self.upper, np.inf)[place]


@dataclass(frozen=True)
class TracedPoints:
    """What an engine knows of one row's front, with t as in t <= q."""

    h: Floats  # (P,) recomputed by the problem
    t: Floats  # (P,)
    points: Points
    complete: bool
    steps: Steps | None = None  # where the front is not complete
    seconds: float = 0.0

    def kept(self, which: Indices) -> TracedPoints:
        """Only the points `which`."""
        picked = JoinedPoints((self.points,), np.zeros(len(which), dtype=np.intp), which)
        return replace(self, h=self.h[which], t=self.t[which], points=picked)

    def bound(self, q: Floats) -> Floats:
        """No assignment with t <= q has a higher h than this."""
        own = np.append(-np.inf, self.h)[np.searchsorted(self.t, q, side="right")]
        return own if self.complete or self.steps is None else np.maximum(own, self.steps.of(q))


def joined(parts: list[TracedPoints]) -> TracedPoints:
    """The front of all assignments together, from the fronts of parts of them."""
    h, t = (np.concatenate([getattr(p, name) for p in parts]) for name in ("h", "t"))
    points = JoinedPoints.of([(p.points, len(p.h)) for p in parts])
    complete = all(p.complete for p in parts)
    steps = None
    if not complete:
        ends = [p.t if p.steps is None else p.steps.at for p in parts]
        at = np.unique(np.concatenate([*ends, [np.inf]]))
        steps = Steps(at, np.max([p.bound(at) for p in parts], axis=0))
    whole = TracedPoints(h, t, points, complete, steps, sum(p.seconds for p in parts))
    return whole.kept(undominated(h, t))


@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """The front of one row over constraint `over`: points by rising value of the constraint.

    `front[i]` is the answer of a point; `front.at(q)` that of a limit. A row that no assignment
    satisfies has a complete front without points.
    """

    problem: Problem
    over: int
    traced: TracedPoints
    observed: NDArray[np.bool_]  # (n,)
    between: tuple[float, float] | None = None  # the limits that were asked for, all if None

    @property
    def complete(self) -> bool:
        """Whether no point is missing: proved."""
        return bool(self.traced.complete)

    @property
    def infeasible(self) -> bool:
        """Proved: no assignment satisfies the other constraints."""
        return self.complete and not len(self)

    @property
    def _sign(self) -> float:
        return self.problem.constraints[self.over].sign

    @cached_property
    def _order(self) -> Indices:
        """The engine's points by rising shown value."""
        numbers = np.arange(len(self.traced.h))
        return numbers if self._sign > 0 else numbers[::-1]

    @property
    def objective(self) -> Floats:
        """h of every point: (P,)."""
        return self.traced.h[self._order]

    @property
    def values(self) -> Floats:
        """The constraint's value of every point, rising: (P,)."""
        return self._sign * self.traced.t[self._order]

    @property
    def seconds(self) -> float:
        """How long the row took."""
        return self.traced.seconds

    @property
    def limit(self) -> float:
        """The problem's own limit q."""
        return self.problem.constraints[self.over].limit

    @property
    def relation(self) -> str:
        """`<=` or `>=`, as the constraint was given."""
        return self.problem.constraints[self.over].relation

    def assignments(self, which: Indices | None = None) -> Values:
        """The assignments of all points, or of those numbered `which`: (P, n)."""
        chosen = self._order if which is None else self._order[which]
        return self.traced.points.assignments(chosen)

    @cached_property
    def supported(self) -> NDArray[np.bool_]:
        """Which points a multiplier finds: those on the upper hull of all points (P,)."""
        on_hull = _on_hull(self.traced.t, self.traced.h)
        return on_hull[self._order]

    @property
    def steps(self) -> list[tuple[float, float]]:
        """(value, bound): with a limit up to that value nothing exceeds the bound.

        Empty where the front is complete. Values rise for `<=` and fall for `>=`.
        """
        if self.complete or self.traced.steps is None:
            return []
        at = self.traced.steps.at
        pairs = zip((self._sign * at).tolist(), self.traced.bound(at).tolist(), strict=True)
        return list(pairs)

    def bound(self, q: float) -> float:
        """No assignment with t <= q (or t >= q, as it was asked) has a higher h than this."""
        return float(self.traced.bound(np.array([self._sign * q + self._slack(q)]))[0])

    def _slack(self, q: float) -> float:
        return float(t_tolerance(np.array(float(q))))

    def _number(self, q: float) -> int:
        """The engine's number of the answer at q, -1 if there is none."""
        limit = self._sign * q + self._slack(q)
        return int(np.searchsorted(self.traced.t, limit, side="right")) - 1

    def at(self, q: float) -> Answer:
        """The answer to the problem with limit q; optimal where the front is complete there."""
        self._check_limit(q)
        number = self._number(q)
        if number < 0:
            rows = np.full((1, self.problem.variables), -1, dtype=self.problem.dtype)
        else:
            rows = self.traced.points.assignments(np.array([number], dtype=np.intp))
        return self._answers(rows, q)[0]

    def _check_limit(self, q: float) -> None:
        if self.between is None:
            return
        low, high = self.between
        if not low <= q <= high:
            raise MethodError(f"this front is between {low:g} and {high:g}, found {q:g}")

    def _answers(self, rows: Values, q: float) -> Solutions:
        own = self.problem.constraints[self.over]
        asked = replace(own, at_most=own.sign * q)
        limits = list(self.problem.constraints)
        limits[self.over] = asked
        problem = Problem(self.problem.objective, limits, self.problem.evidence_variables)
        bound = self.bound(q)
        answers = Solutions.of(
            problem, rows, bound=bound, infeasible=bound == -np.inf, method="front"
        )
        return replace(answers, observed=np.repeat(self.observed[np.newaxis], len(rows), axis=0))

    def __len__(self) -> int:
        return len(self.traced.h)

    def __getitem__(self, number: int) -> Answer:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there are {len(self)} points, found number {number}")
        place = np.array([number % len(self)])
        return self._answers(self.assignments(place), self._limit_of(place[0]))[0]

    def _limit_of(self, number: Any) -> float:
        """A limit that the point is the answer to: its own value."""
        value = float(self.values[number])
        return value if np.isfinite(value) else self._sign * -np.finfo(np.float64).max

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))

    def knee(self) -> Answer:
        """The point farthest above the straight line between the ends, both axes scaled to 1.

        After it, more of the constraint buys less of the objective.
        """
        t, h = self.values, self.objective
        finite = np.flatnonzero(np.isfinite(t))
        if not len(finite):
            return self[0]
        t, h = t[finite], h[finite]
        wide, high = max(np.ptp(t), 1e-300), max(np.ptp(h), 1e-300)
        above = (h - h[0]) / high - (t - t[0]) / wide * np.sign(h[-1] - h[0])
        return self[int(finite[int(np.argmax(above))])]

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row per point with value, objective and states (extra `frames`)."""
        answers = self._answers(self.assignments(), self.limit)
        frame = answers.to_frame().drop(columns=["status", "gap", "method", "seconds", "bound"])
        frame.insert(0, "value", self.values)
        frame.insert(1, "supported", self.supported)
        return frame

    def plot(self, axes: Any = None) -> Any:
        """Draw the front as steps, the bound as a band, and q (extra `report`): the figure."""
        from cmpe.pictures.fronts import draw_fronts

        return draw_fronts([self], axes)

    @property
    def summary(self) -> str:
        """One line: how many points, what is proved."""
        if self.infeasible:
            return "no assignment satisfies the other constraints: proved"
        points = f"{len(self)} {'point' if len(self) == 1 else 'points'}"
        proof = "complete: proved" if self.complete else "not complete: see bound(q)"
        return f"{points}, {proof}"

    def __repr__(self) -> str:
        if not len(self):
            return f"Front({self.summary})"
        ends = f"t {number_text(self.values[0])} to {number_text(self.values[-1])}"
        falls = f"h {number_text(self.objective[0])} to {number_text(self.objective[-1])}"
        return f"Front({self.summary}; {ends}, {falls})"

    def _repr_html_(self) -> str:
        shown = np.unique(np.linspace(0, len(self) - 1, min(len(self), SHOWN_POINTS)).astype(int))
        rows = [
            (
                str(i),
                number_text(self.values[i]),
                number_text(self.objective[i]),
                "yes" if self.supported[i] else "",
            )
            for i in shown
        ]
        return html_table(repr(self), ("point", f"t {self.relation} q", "h", "supported"), rows)


def _on_hull(t: Floats, h: Floats) -> NDArray[np.bool_]:
    """Which of the points, by rising t and h, lie on their upper hull; a t of -inf does."""
    out = np.zeros(len(t), dtype=bool)
    hull: list[int] = []
    for i in range(len(t)):
        if not np.isfinite(t[i]):
            out[i] = True
            continue
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            above = (h[b] - h[a]) * (t[i] - t[a]) - (h[i] - h[a]) * (t[b] - t[a])
            if above >= -1e-9 * (1.0 + abs(h[i] - h[a])) * (1.0 + abs(t[i] - t[a])):
                break
            hull.pop()
        hull.append(i)
    out[hull] = True
    return out
