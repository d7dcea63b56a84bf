"""The points of a front as engines give them, and their assignments: kept small, read on demand.

A front may have tens of thousands of points whose assignments differ in a few variables. Compiled
code leaves them as nodes: each is made of two others, or is one variable's value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Integers, Values
from cmpe.errors import TooLarge
from cmpe.models.flat import FlatTables, stacked
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import FEASIBILITY_TOLERANCE, Problem
from cmpe.solution import OPTIMALITY_TOLERANCE

MOST_VALUES = 65_535  # of a variable: values are kept in 16 bits, and one number says that none is


def need_short_values(problem: Problem) -> None:
    """Refuse free variables whose values 16 bits do not hold."""
    for v in problem.free:
        card = problem.objective.cardinalities[v]
        if card > MOST_VALUES:
            raise TooLarge(
                f"fronts and the k best need free variables of at most {MOST_VALUES:,} values, "
                f"found {card:,} of variable {v}"
            )


class Points(Protocol):
    """Assignments by number."""

    def assignments(self, which: Indices) -> Values:
        """The assignments (P, n) of the points `which`."""
        ...


@dataclass(frozen=True)
class ListedPoints:
    """Assignments as they are."""

    rows: Values  # (P, n)

    def assignments(self, which: Indices) -> Values:
        """The assignments (P, n) of the points `which`."""
        return self.rows[which]


@dataclass(frozen=True)
class FirstColumns:
    """Points of more variables, of which the first ones are shown."""

    points: Points
    variables: int

    def assignments(self, which: Indices) -> Values:
        """The assignments (P, n) of the points `which`."""
        return np.ascontiguousarray(self.points.assignments(which)[:, : self.variables])


@dataclass(frozen=True)
class NodePoints:
    """Assignments as nodes: two parts each, or -1 - value and -1 - bucket."""

    begun: Values  # (n,) evidence, 0 elsewhere
    variables: NDArray[np.int64]  # of each bucket
    nodes: NDArray[np.int32]  # (N, 2)
    roots: NDArray[np.int64]  # (P,)

    def assignments(self, which: Indices) -> Values:
        """The assignments (P, n) of the points `which`."""
        from cmpe.core.fronts.reading import recall

        rows = np.empty((len(which), len(self.begun)), dtype=self.begun.dtype)
        recall(self.nodes, self.roots[which], self.variables, self.begun, rows)
        return rows

    def values(self, tables: EvaluatedTables, component: NDArray[np.int64]) -> Floats:
        """The functions at all points (P, F), but for rounding as `LogLinearModel.value` has them.

        `component` is that of each bucket: no table has variables of two.
        """
        from cmpe.core.fronts.values import point_values

        out = np.empty((len(self.roots), len(tables.begins) - 1))
        point_values(
            self.nodes, self.roots, self.variables, component, self.begun, tables, out
        )  # fmt: skip
        return out


class EvaluatedTables(NamedTuple):
    """The tables of several functions, as compiled code reads them (`FlatTables`)."""

    values: Floats
    offsets: Integers
    starts: Integers
    variables: Integers
    strides: Integers
    begins: Integers  # (F + 1,) the first table of each function

    @classmethod
    def of(cls, models: Sequence[LogLinearModel]) -> EvaluatedTables:
        """Of log-linear models."""
        flat, begins = stacked([m.flat for m in models] or [FlatTables.shaped([], [])])
        return cls(flat.values, flat.offsets, flat.starts, flat.variables, flat.strides, begins)


@dataclass(frozen=True)
class JoinedPoints:
    """Points of several kinds: number i is number `place[i]` of part `part[i]`."""

    parts: tuple[Points, ...]
    part: Indices
    place: Indices

    @classmethod
    def of(cls, pieces: Sequence[tuple[Points, int]]) -> JoinedPoints:
        """All points of all pieces (with how many they have), in order."""
        counts = [count for _, count in pieces]
        places = [np.arange(count) for count in counts]
        return cls(
            tuple(points for points, _ in pieces),
            np.repeat(np.arange(len(counts)), counts),
            np.concatenate(places) if places else np.zeros(0, dtype=np.intp),
        )

    def assignments(self, which: Indices) -> Values:
        """The assignments (P, n) of the points `which`."""
        part, place = self.part[which], self.place[which]
        found = [self.parts[p].assignments(place[part == p]) for p in range(len(self.parts))]
        if not found:
            return np.zeros((len(which), 0), dtype=np.int32)
        out = np.empty((len(which), found[0].shape[1]), dtype=found[0].dtype)
        for p, rows in enumerate(found):
            out[part == p] = rows
        return out


def loosened(q: float) -> float:
    """q with the feasibility tolerance; an infinite one as it is."""
    return q + FEASIBILITY_TOLERANCE * max(1.0, abs(q)) if math.isfinite(q) else q


def below_finite(model: LogLinearModel) -> float:
    """A limit that only a value of -inf keeps to."""
    least = [f.log_table[np.isfinite(f.log_table)].min(initial=0.0) for f in model.factors]
    below = float(sum(least)) * (1.0 + 1e-6) - 2.0
    return below - 1e-3 * abs(below)


def t_tolerance(t: Floats) -> Floats:
    """How far apart values of a constraint may be to count as equal; 0 at -inf."""
    return np.where(np.isfinite(t), FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(t)), 0.0)


def h_tolerance(h: Floats) -> Floats:
    """How far apart objectives may be to count as equal."""
    return OPTIMALITY_TOLERANCE * np.maximum(1.0, np.abs(h))


def undominated(h: Floats, t: Floats) -> Indices:
    """The numbers of the points that no other dominates, by rising t (and h).

    Values within the tolerances count as equal, and one point of equal ones stays.
    """
    from cmpe.core.fronts.values import one_of_equal

    kept: Indices = one_of_equal(h, t, OPTIMALITY_TOLERANCE, FEASIBILITY_TOLERANCE)
    return kept


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
