"""The next steps for a band, and the reduction of its area that each could bring.

The area between bound and points, over the limits that were asked for, has two parts. The concave
hull of the points is below every line that will ever be found, so lines can take off what is
between bound and hull: an edge of the hull has a slope, and the line of that slope is what the edge
lacks. What is between hull and points takes more points, or bounds of single limits: each interval
between two points may hold one more, or be closed by a bound just below its upper end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cmpe.arrays import Floats
from cmpe.tradeoffs.points import h_tolerance, loosened, t_tolerance
from cmpe.tradeoffs.wide.band import EQUAL, Band
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS


class Kind(StrEnum):
    """What is asked."""

    LINE = "line"  # the best h - mu t
    LIMIT = "limit"  # the best h with t <= q
    LEAST = "least"  # the least t
    LOWEST = "lowest"  # the best h with t = -inf


@dataclass(frozen=True)
class BandQuestion:
    """What is asked, of which multiplier or limit, and the area that it could take off."""

    kind: Kind
    at: float = 0.0
    worth: float = 0.0


class Profile:
    """The band over a window of limits, cut where it bends."""

    def __init__(self, band: Band, window: tuple[float, float]) -> None:
        self._band, self._window = band, window
        finite = np.isfinite(band.t)
        self.t, self.h = band.t[finite], band.h[finite]
        self.q = np.zeros(0)
        if len(self.t):
            first, last = float(self.t[0]), float(self.t[-1])
            low = max(window[0], first)
            beyond = max(low, last) + WIDE_FRONTS.beyond * max(1.0, last - first)
            high = max(low, loosened(window[1]) if window[1] < np.inf else beyond)
            marks = band.marks()
            self.q = np.unique([low, *marks[(marks > low) & (marks < high)], high])
        self.upper, self.lower = band.upper(self.q), band.lower(self.q)

    @property
    def area(self) -> float:
        """Of the band from its first point on, in nats squared."""
        return float(self._above(self.lower).sum())

    def _above(self, lower: Floats) -> Floats:
        """The area of each piece between the bound and steps that begin at each q."""
        mean = 0.5 * (self.upper[1:] + self.upper[:-1])
        return np.clip(mean - lower[:-1], 0.0, WIDE_FRONTS.most_gap) * np.diff(self.q)

    def slack(self, mu: float) -> float:
        """How far the bound is above the points' hull where that has slope mu."""
        if not len(self.q):
            return np.inf
        return float((self.upper - mu * self.q).max()) - self._band.priced(mu)

    def questions(self) -> list[BandQuestion]:
        """What is worth asking; nothing where bound and points meet."""
        if not len(self.t):
            return self._without_points()
        return [*self._edges(), *self._intervals(), *self._floor(), *self._below()]

    def _without_points(self) -> list[BandQuestion]:
        """Where no point has a finite t: whatever may find one, or bound what is there."""
        top = float(self._band.upper(np.array([np.inf]))[0])
        best = float(self._band.h.max(initial=-np.inf))
        if top == -np.inf or top <= best + float(h_tolerance(np.array(top))):
            return []
        kinds = [Kind.LINE, Kind.LEAST] + [Kind.LOWEST] * (self._band.floor > -np.inf)
        return [BandQuestion(kind, worth=1.0) for kind in kinds]

    def _edges(self) -> list[BandQuestion]:
        """The slope of each edge of the hull, and 0 beyond its end."""
        hull = self._band.hull()
        t, h = self._band.t[hull], self._band.h[hull]
        excess = np.clip(self.upper - np.interp(self.q, t, h), 0.0, WIDE_FRONTS.most_gap)
        excess = np.where(excess > h_tolerance(self.lower), excess, 0.0)
        areas = 0.5 * (excess[1:] + excess[:-1]) * np.diff(self.q)
        worth = self._between(areas, np.append(t, np.inf))
        return _best(Kind.LINE, np.append(np.diff(h) / np.diff(t), 0.0), worth)

    def _intervals(self) -> list[BandQuestion]:
        """The limit just below each point: what there is between it and the point before."""
        last = self.q[-1:] if self.q[-1] < self.t[-1] else self.t[-1:]
        inner = self.t[(self.t > self.q[0]) & (self.t < last)]
        cuts = np.concatenate([self.q[:1], inner, last])
        worth = self._between(self._above(self.lower), cuts)
        slack = t_tolerance(cuts[1:])
        is_end = cuts[1:] == loosened(self._window[1])
        at = np.where(is_end, self._window[1], cuts[1:] - 2.0 * slack)
        below = np.where(is_end, cuts[1:], cuts[1:] - EQUAL * slack)
        lower = self._band.lower(cuts[:-1])
        is_open = self._band.upper(below) - lower > h_tolerance(lower)
        return _best(Kind.LIMIT, self._halved(cuts, at), np.where(is_open, worth, 0.0))

    def _halved(self, cuts: Floats, at: Floats) -> Floats:
        """The limits, in the middle of intervals that are long and were not halved yet."""
        middle = 0.5 * (cuts[1:] + cuts[:-1])
        asked = np.isin(middle + t_tolerance(middle), list(self._band.ends))
        least = np.maximum(WIDE_FRONTS.long * (self.q[-1] - self.q[0]), 8.0 * t_tolerance(middle))
        long = np.diff(cuts) > least
        return np.where(long & ~asked, middle, at)

    def _floor(self) -> list[BandQuestion]:
        """What the bound of t = -inf adds."""
        if self._band.floor == -np.inf:
            return []
        with np.errstate(invalid="ignore"):  # where both are infinite, nothing is added
            added = self.upper - np.maximum(self._band.of_finite(self.q), self.lower)
        added = np.where(added > h_tolerance(self.lower), added, 0.0).clip(
            0.0, WIDE_FRONTS.most_gap
        )
        worth = float((0.5 * (added[1:] + added[:-1]) * np.diff(self.q)).sum())
        return [BandQuestion(Kind.LOWEST, worth=worth)] if worth > 0.0 else []

    def _below(self) -> list[BandQuestion]:
        """What there is below the first point with a finite t, where such limits are asked for.

        Nobody knows what it is worth: as much as the same width elsewhere.
        """
        first = float(self.t[0])
        slack = float(t_tolerance(self.t[:1])[0])
        below = np.array([first - EQUAL * slack])
        upper, lower = float(self._band.upper(below)[0]), float(self._band.lower(below)[0])
        if below[0] <= self._window[0] or upper <= lower + float(h_tolerance(self.h[:1])[0]):
            return []
        span = max(1.0, float(self.q[-1] - self.q[0]))
        width = first - max(self._window[0], self._band.least)
        worth = (width if width < np.inf else span) * max(1.0, self.area / span)
        if np.isneginf(self._band.t[0]):
            return [BandQuestion(Kind.LIMIT, first - 2.0 * slack, worth)]
        return [BandQuestion(Kind.LEAST, worth=worth)]

    def _between(self, areas: Floats, cuts: Floats) -> Floats:
        """The sum of the pieces' areas between each two of `cuts`."""
        return np.diff(np.interp(cuts, self.q, np.append(0.0, np.cumsum(areas))))


def _best(kind: Kind, at: Floats, worth: Floats) -> list[BandQuestion]:
    """The few that are worth most."""
    few = np.argsort(-worth, kind="stable")[: WIDE_FRONTS.candidates]
    return [BandQuestion(kind, float(at[i]), float(worth[i])) for i in few if worth[i] > 0.0]
