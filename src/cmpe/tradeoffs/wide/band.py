"""The certified band of one row's front: points from below, lines and limits from above.

Let y be any assignment that satisfies the other constraints, with h(y) > -inf. Three kinds of
bound are kept, each of which holds for every limit q that it speaks of:

- A line. W >= max of h - mu t over all such y with a finite t (mu >= 0) gives, whatever y is,

      h(y) <= W + mu t(y) <= W + mu q    for every q >= t(y).

  So W + mu q is above the front at every q, and so is the least of several lines.
- A limit. A bound of the problem with t <= e is a bound for every q <= e.
- The least t. Where every finite t is at least `least`, nothing finite answers q < least.

Assignments with t = -inf satisfy every limit, and lines do not speak of them. `floor` bounds their
h. So with U(q) = min over the lines, -inf for q < least, no answer to q exceeds

    upper(q) = min( max(floor, U(q)), min over limits e >= q of their bounds ).

All three rise with q, so upper does, and upper(b) bounds every q in (a, b]: that makes steps of it.
From below, each point is an answer to every q >= t. Nothing of this depends on how good points and
bounds are: the band holds at every moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Values
from cmpe.problem import Problem
from cmpe.tradeoffs.points import (
    ListedPoints,
    Steps,
    TracedPoints,
    h_tolerance,
    loosened,
    t_tolerance,
    undominated,
)
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS

ROUNDING = 1e-9  # of the numbers that a line is made of
EQUAL = 1.001  # tolerances: values of t that are no further apart count as equal
EVERYWHERE = (-math.inf, math.inf)


@dataclass
class Band:
    """Points and bounds of one row, with t as in t <= q."""

    problem: Problem
    over: int
    lines: dict[float, float] = field(default_factory=dict)  # W by multiplier
    ends: dict[float, float] = field(default_factory=dict)  # bounds by limit
    least: float = -math.inf
    floor: float = math.inf

    def __post_init__(self) -> None:
        cards = self.problem.objective.cardinalities
        kind = np.min_scalar_type(max(cards, default=1) - 1)  # many points are kept small
        self.rows = np.zeros((0, self.problem.variables), dtype=kind)
        self.h, self.t = np.zeros(0), np.zeros(0)  # rising
        if self.problem.models[1 + self.over].is_finite:
            self.floor = -math.inf

    # --- what is learnt ---

    def add(self, rows: Values) -> None:
        """Take what is new of assignments (P, n) that satisfy the other constraints."""
        h, t, good = self.values(rows)
        new = np.flatnonzero(good & (h > self.lower(t)))
        new = new[undominated(h[new], t[new])]
        if not len(new):
            return
        rows = np.concatenate([self.rows, rows[new].astype(self.rows.dtype)])
        h, t = np.append(self.h, h[new]), np.append(self.t, t[new])
        kept = undominated(h, t)
        kept = kept[_most_useful(h[kept], t[kept])]
        self.rows, self.h, self.t = rows[kept], h[kept], t[kept]

    def values(self, rows: Values) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """h and t of assignments (P, n), and which of them satisfy the other constraints."""
        problem = self.problem
        h, t = problem.objective.value(rows), problem.constraint_values(rows)
        within = t - problem.limits <= problem.tolerances
        within[:, self.over] = True
        return h, t[:, self.over], np.isfinite(h) & within.all(axis=1)

    def add_line(self, mu: float, bound: float) -> None:
        """h - mu t is at most `bound` where t is finite."""
        self.lines[mu] = min(self.lines.get(mu, math.inf), bound)

    def add_end(self, limit: float, bound: float) -> None:
        """Nothing with t <= limit exceeds `bound`."""
        self.ends[limit] = min(self.ends.get(limit, math.inf), bound)

    # --- what is known ---

    def priced(self, mu: float) -> float:
        """The greatest h - mu t of a point with a finite t."""
        finite = np.isfinite(self.t)
        return float((self.h - mu * np.where(finite, self.t, 0.0))[finite].max(initial=-math.inf))

    def lower(self, q: Floats) -> Floats:
        """The best h of a point with t <= q, -inf where there is none."""
        return np.append(-np.inf, self.h)[np.searchsorted(self.t, q, side="right")]

    def upper(self, q: Floats) -> Floats:
        """What no answer to q exceeds."""
        return np.minimum(np.maximum(self.floor, self.of_finite(q)), self._ends(q))

    def of_finite(self, q: Floats) -> Floats:
        """What no answer to q with a finite t exceeds."""
        return np.minimum(np.where(q < self.least, -np.inf, self._lines(q)), self._ends(q))

    def _lines(self, q: Floats) -> Floats:
        """The least of the lines, each with what rounding may take off it."""
        out = np.full(q.shape, self.lines.get(0.0, math.inf))
        mu = np.array([m for m in self.lines if m > 0.0])
        finite = np.isfinite(q)
        if not len(mu) or not finite.any():
            return out
        bound = np.array([self.lines[m] for m in mu])
        if (bound == -np.inf).any():  # no t is finite
            return np.full(q.shape, -np.inf)
        known = np.isfinite(bound)
        slope = np.multiply.outer(q[finite], mu[known])
        size = 1.0 + np.abs(bound[known]) + np.abs(slope)
        line = bound[known] + slope + ROUNDING * size
        out[finite] = np.minimum(out[finite], line.min(axis=1, initial=np.inf))
        return out

    def _ends(self, q: Floats) -> Floats:
        """The lowest bound at a limit of at least q."""
        ends = np.array(sorted(self.ends))
        bound = np.array([self.ends[e] for e in ends])
        lowest = np.minimum.accumulate(bound[::-1])[::-1]
        return np.append(lowest, np.inf)[np.searchsorted(ends, q, side="left")]

    def hull(self) -> Indices:
        """The numbers of the points with a finite t on the upper hull, by rising t."""
        out: list[int] = []
        t, h = self.t.tolist(), self.h.tolist()
        for i in np.flatnonzero(np.isfinite(self.t)).tolist():
            while len(out) > 1:
                a, b = out[-2], out[-1]
                if (h[b] - h[a]) * (t[i] - t[a]) > (h[i] - h[a]) * (t[b] - t[a]):
                    break
                out.pop()
            out.append(i)
        return np.array(out, dtype=np.intp)

    def marks(self) -> Floats:
        """Where the bound or the points may bend, rising: limits, points, crossings of lines."""
        every = np.concatenate([self._crossings(), self.t, [*self.ends, self.least]])
        return np.unique(every[np.isfinite(every)])

    def _crossings(self) -> Floats:
        """Where the least of the lines goes from one to the next."""
        active: list[tuple[float, float]] = []
        crossings: list[float] = []
        for mu in sorted((m for m, w in self.lines.items() if math.isfinite(w)), reverse=True):
            bound = self.lines[mu]
            while active:  # from here on the flatter line is lower
                place = (bound - active[-1][1]) / (active[-1][0] - mu)
                if not crossings or place > crossings[-1]:
                    crossings.append(place)
                    break
                active.pop()
                crossings.pop()
            active.append((mu, bound))
        return np.array(crossings)

    def steps(self, window: tuple[float, float] = EVERYWHERE) -> Steps:
        """The bound as steps, fine enough not to widen the band by more than a share of it.

        They are fine in the window; beyond it one bound holds on either side.
        """
        marks = self.marks()
        inside = (marks > window[0]) & (marks < window[1])
        marks = np.unique([*marks[inside], *(q for q in window if math.isfinite(q))])
        if not len(marks):
            return Steps(np.array([np.inf]), self._at_least(np.array([np.inf])))
        low, high = marks[:-1], marks[1:]
        upper = self.upper(marks)
        with np.errstate(invalid="ignore"):
            rise, gap = upper[1:] - upper[:-1], upper[1:] - self.lower(low)
            share = np.where(np.isfinite(rise) & (gap > 0.0), rise / gap, 0.0)
        share = np.where(np.isfinite(share), share, 0.0)
        pieces = np.ceil(WIDE_FRONTS.pieces * np.clip(share, 0.0, 1.0)).clip(1).astype(np.intp)
        part = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        width = np.repeat((high - low) / pieces, pieces)
        at = np.unique([*marks, *(np.repeat(low, pieces) + part * width), np.inf])
        return Steps(at, self._at_least(at))

    def _at_least(self, q: Floats) -> Floats:
        """The bound, or a point that is above it by rounding."""
        return np.maximum(self.upper(q), self.lower(q))

    def traced(self, window: tuple[float, float], seconds: float) -> TracedPoints:
        """The points that answer limits of the window, and the band."""
        low, high = map(loosened, window)
        first = max(0, int(np.searchsorted(self.t, low, side="right")) - 1)
        kept = slice(first, int(np.searchsorted(self.t, high, side="right")))
        h, t = self.h[kept], self.t[kept]
        closed = self._is_closed(h, t, (low, high))
        points = ListedPoints(self.rows[kept].astype(self.problem.dtype))
        return TracedPoints(
            h, t, points, closed, None if closed else self.steps((low, high)), seconds
        )

    def _is_closed(self, h: Floats, t: Floats, window: tuple[float, float]) -> bool:
        """Whether the bound proves that no point is missing, within the tolerances.

        Up to where the next point begins, the bound is not above the point before; below the first
        one it is -inf.
        """
        next_t = np.append(t[1:] - EQUAL * t_tolerance(t[1:]), window[1])
        if (self.upper(next_t[len(next_t) - len(h) :]) > h + h_tolerance(h)).any():
            return False
        if not len(t):
            return float(self.upper(next_t)[0]) == -np.inf
        if t[0] <= window[0]:
            return True
        return float(self.upper(t[:1] - EQUAL * t_tolerance(t[:1]))[0]) == -np.inf


def _most_useful(h: Floats, t: Floats) -> Indices:
    """The numbers of at most `MOST_POINTS` of rising points: those that fill the most area."""
    if len(h) <= WIDE_FRONTS.most_points:
        return np.arange(len(h))
    fills = np.full(len(h), np.inf)
    fills[1:-1] = np.diff(h)[:-1] * np.diff(t)[1:]
    return np.sort(np.argsort(-fills, kind="stable")[: WIDE_FRONTS.most_points])
