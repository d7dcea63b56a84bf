"""`cmpe.front`: every trade-off between the objective and one constraint, for every row.

The points are the non-dominated pairs (h, t): no other assignment has an h as high and a t as low
with one of them better. So the answer to CMPE(x, q) is the last point with t <= q, for every q.
Where the front is not proved complete, `bound` says for every q what no assignment exceeds.

Rows that observe the same variables are a batch; equal rows are answered once. A problem with
cutset networks is the union of its leaves' problems: their fronts are joined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import real_number
from cmpe.arrays import FREE, Floats, Indices, Values
from cmpe.core.compiler.notices import asked_for
from cmpe.display import as_results, html_table, number_text
from cmpe.errors import MethodError
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Constraint, Evidence, Instances, Problem, need_problem
from cmpe.problem.groups import by_observed, each_once
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Answer, Solutions, Status
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.solvers.exact import too_wide
from cmpe.solvers.spread import need_here, spread_list
from cmpe.tradeoffs.narrow import NarrowBatch, RowWindows
from cmpe.tradeoffs.points import (
    FirstColumns,
    ListedPoints,
    Steps,
    TracedPoints,
    below_finite,
    joined,
    loosened,
    t_tolerance,
)
from cmpe.tradeoffs.wide import wide_front

SHOWN_POINTS = 12


@dataclass(frozen=True, eq=False, repr=False)
class Front:
    """The front of one row over constraint `over`: points by rising value of the constraint.

    `front[i]` is the answer of a point; `front.at(q)` is the answer to a limit. An infeasible row
    has a complete front without points.
    """

    problem: Problem
    over: int
    traced: TracedPoints
    observed: NDArray[np.bool_]  # (n,)
    between: tuple[float, float] | None = None  # the limits that were asked for, all if None

    @property
    def complete(self) -> bool:
        """Whether it is proved that no point is missing."""
        return bool(self.traced.complete)

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that no assignment satisfies the other constraints."""
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
        """The time of the row in seconds."""
        return self.traced.seconds

    @property
    def limit(self) -> float:
        """The problem's own limit q."""
        return self.problem.constraints[self.over].limit

    @property
    def relation(self) -> str:
        """`<=` or `>=`, as the constraint was given."""
        return self.problem.constraints[self.over].relation

    @property
    def name(self) -> str:
        """The name of the constraint, or ""."""
        return self.problem.constraints[self.over].name

    def assignments(self, which: Indices | None = None) -> Values:
        """The assignments of all points, or of those numbered `which`: (P, n)."""
        chosen = self._order if which is None else self._order[which]
        return self.traced.points.assignments(chosen)

    @cached_property
    def supported(self) -> NDArray[np.bool_]:
        """Which points maximise h - mu t for some mu: those on the upper hull (P,)."""
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
        """An upper bound of h over assignments with t <= q (or t >= q, as given)."""
        return float(self.traced.bound(np.array([self._sign * q + self._slack(q)]))[0])

    def _slack(self, q: float) -> float:
        return float(t_tolerance(np.array(float(q))))

    def _number(self, q: float) -> int:
        """The engine's number of the answer at q, -1 if there is none."""
        limit = self._sign * q + self._slack(q)
        return int(np.searchsorted(self.traced.t, limit, side="right")) - 1

    def at(self, q: float) -> Answer:
        """The answer to the problem with limit q; optimal where the front is complete there."""
        q = real_number("q", q)
        if math.isnan(q):
            raise MethodError("q must be a number, found nan")
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

        After it, a looser limit gains less of the objective.
        """
        if not len(self):
            raise MethodError("a front without points has no knee: no assignment is feasible")
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
        """One line: the number of points, and whether they are proved complete."""
        if self.infeasible:
            return "no assignment satisfies the other constraints: proved"
        points = f"{len(self)} {'point' if len(self) == 1 else 'points'}"
        proof = "complete: proved" if self.complete else "not complete: see bound(q)"
        return f"{points}, {proof}"

    def __repr__(self) -> str:
        if not len(self):
            return f"Front({self.summary})"
        ends = f"{self.name or 't'} {number_text(self.values[0])} to {number_text(self.values[-1])}"
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
        limited = f"{self.name or 't'} {self.relation} q"
        return html_table(repr(self), ("point", limited, "h", "supported"), rows)


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


@as_results
@asked_for("front")
def front(  # noqa: PLR0913
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    over: int | str = 0,
    between: tuple[float, float] | None = None,
    time_limit: float | None = None,
    running: Running | None = None,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
) -> list[Front]:
    """The front of every row of `evidence`: all non-dominated pairs of h and constraint `over`.

    `over` is the name or the number of a constraint; the others hold as given. `between` = (a, b)
    restricts the front to limits from a to b. `time_limit` is in seconds per row:
    an incomplete front then has a bound for every limit. Rows too wide for elimination have a
    certified band, refined until their time is over (60 s without a limit). `potentials` and
    `limits` are as in `solve`; the limits of `over` are only shown.
    """
    need_problem(problem, "front")
    if not problem.constraints:
        raise MethodError("a front needs a constraint: Problem(h, [t <= q]); found none")
    problem.need_tables("front")
    number = problem.constraint_number(over, "over")
    told = Limits.of(running, seconds=time_limit)
    own = Rows.own(problem, evidence, potentials, limits)
    if own is not None and len(own) and (own.has_numbers or not told.is_spread):
        need_here(running)
        return _own_fronts(own, number, between, time_limit=time_limit, running=running)
    if told.is_spread:
        ask = partial(_block, number, between, time_limit, told.of_a_block())
        return spread_list(ask, problem, evidence, told)
    asked = FrontQuestion(number, _window(between, problem.constraints[number]), told)
    batches = by_observed(problem, evidence)
    total = sum(len(numbers) for _, numbers in batches)
    out: list[Front | None] = [None] * total
    done = 0
    for instances, numbers in batches:
        seen = np.zeros(problem.variables, dtype=bool)
        seen[list(instances.problem.evidence_variables)] = True
        for row, traced in zip(numbers, _each_row(instances, asked, done, total), strict=True):
            out[row] = Front(instances.problem, number, traced, seen, between)
        done += len(numbers)
    return [found for found in out if found is not None]


def _own_fronts(
    rows: Rows, over: int, between: tuple[float, float] | None, **options: Any
) -> list[Front]:
    """The fronts of rows that are lifted, each about the row's own problem."""
    first, where, _ = rows.distinct()
    few = rows.take(first)
    unlimited = few
    if few.limits is not None:  # a front holds every limit of `over`
        most = few.limits.copy()
        most[:, over] = few.problem.limits[over]
        unlimited = replace(few, limits=most)
    found = front(
        unlimited.lifted, few.numbered(few.evidence), over=over, between=between, **options
    )
    out = []
    for row, traced in enumerate(found):
        points = FirstColumns(traced.traced.points, rows.problem.variables)
        out.append(
            Front(
                few.problem_of(row),
                over,
                replace(traced.traced, points=points),
                few.evidence[row] != FREE,
                between,
            )
        )
    return [out[place] for place in where]


def _block(
    over: int,
    between: tuple[float, float] | None,
    time_limit: float | None,
    running: Running,
    problem: Problem,
    rows: Values,
) -> list[Front]:
    """The fronts of a block of rows, on a machine of a cluster."""
    return front(
        problem, rows, over=over, between=between, time_limit=time_limit, running=running
    )  # fmt: skip


@dataclass(frozen=True)
class FrontQuestion:
    """Which constraint, which of its values (as in t <= q), and how long."""

    over: int
    window: tuple[float, float]
    limits: Limits


def _window(between: tuple[float, float] | None, constraint: Constraint) -> tuple[float, float]:
    """The window of t as in t <= q."""
    if between is None:
        return -math.inf, math.inf
    if not isinstance(between, Sequence) or len(between) != 2:
        raise MethodError(f"between must be as in between=(-12.5, 3), found {between!r}")
    low, high = (real_number("between", value, example="(-12.5, 3)") for value in between)
    if not low <= high:
        raise MethodError(f"between must rise, found {between!r}")
    return (low, high) if constraint.sign > 0 else (-high, -low)


def _each_row(
    instances: Instances, asked: FrontQuestion, done: int, total: int
) -> list[TracedPoints]:
    """Each distinct row once."""
    few, where = each_once(instances)
    share = len(instances) / max(1, len(few))

    def report(finished: int, _: int) -> None:
        asked.limits.report(done + round(share * finished), total)

    told = replace(asked, limits=replace(asked.limits, progress=report))
    found = fronts_of(few, told)
    counts = np.bincount(where, minlength=len(few))
    shared = [replace(f, seconds=f.seconds / c) for f, c in zip(found, counts, strict=True)]
    return [shared[i] for i in where]


def fronts_of(instances: Instances, asked: FrontQuestion) -> list[TracedPoints]:
    """The front of every row of one structure."""
    if not len(instances):
        return []
    if not instances.problem.is_log_linear:
        return _by_branch(instances, asked)
    if too_wide(instances.problem, Limits()):
        return wide_front(instances, asked.over, asked.window, asked.limits)
    return narrow_fronts(instances, asked)


def _by_branch(instances: Instances, asked: FrontQuestion) -> list[TracedPoints]:
    rows = instances.full()
    parts: list[list[TracedPoints]] = [[] for _ in range(len(instances))]
    quiet = replace(asked, limits=replace(asked.limits, progress=None))
    for branch in instances.problem.branches:
        numbers = np.flatnonzero(branch.agrees(rows))
        if len(numbers):
            found = fronts_of(branch.instances(rows[numbers]), quiet)
            for number, traced in zip(numbers, found, strict=True):
                parts[number].append(traced)
    nothing = nothing_found(instances.problem)
    asked.limits.report(len(instances), len(instances))
    return [_window_kept(joined(part or [nothing]), asked.window[0]) for part in parts]


def _window_kept(traced: TracedPoints, low: float) -> TracedPoints:
    """Of points at or below the window's lower end only the best."""
    first = max(0, int(np.searchsorted(traced.t, low, side="right")) - 1)
    return traced if first == 0 else traced.kept(np.arange(first, len(traced.h)))


def nothing_found(problem: Problem, *, complete: bool = True) -> TracedPoints:
    """No point: proved that there is none, or nothing known."""
    rows = np.zeros((0, problem.variables), dtype=problem.dtype)
    steps = None if complete else Steps(np.array([np.inf]), np.array([np.inf]))
    return TracedPoints(np.zeros(0), np.zeros(0), ListedPoints(rows), complete, steps)


def narrow_fronts(instances: Instances, asked: FrontQuestion) -> list[TracedPoints]:
    """By elimination: points with a finite t, and the best one with t = -inf."""
    own = instances.problem.constraints[asked.over]
    others = [c for j, c in enumerate(instances.problem.constraints) if j != asked.over]
    arranged = instances
    if asked.over > 0:
        problem = instances.problem
        arranged = Instances(
            Problem(problem.objective, [own, *others], problem.evidence_variables),
            instances.evidence,
        )
    ends = FrontEnds(instances, own, others, asked)
    lowest = ends.lowest()
    known, states = ends.known()
    live = np.flatnonzero(states == KNOWN)
    batch = NarrowBatch(
        arranged.take(live),
        RowWindows(
            np.tile([loosened(q) for q in asked.window], (len(live), 1)),
            tuple(known[i] for i in live),
            asked.limits.seconds,
        ),
    )
    found = dict(zip(live.tolist(), batch.run(asked.limits), strict=True))
    out = []
    for row in range(len(instances)):
        nothing = nothing_found(instances.problem, complete=states[row] != UNKNOWN)
        parts = [found.get(row, nothing)]
        if lowest is not None:
            parts.append(lowest[row])
        whole = parts[0] if len(parts) == 1 else joined(parts)
        out.append(_window_kept(whole, loosened(asked.window[0])))
    return out


KNOWN, NONE, UNKNOWN = range(3)  # what is known of a row's finite points


class FrontEnds:
    """What elimination needs to begin with, by ordinary solves.

    With one constraint the hull has both ends of the front, and nothing is solved. With others a
    point is needed that satisfies them: one solve, at the lower end of the window, where its answer
    is the first point that is wanted, else at the upper end. Only rows without an answer at the
    lower end are solved again. Where t may be -inf the best point with t = -inf is a solve of its
    own, because elimination leaves such assignments out.
    """

    def __init__(
        self,
        instances: Instances,
        own: Constraint,
        others: Sequence[Constraint],
        asked: FrontQuestion,
    ) -> None:
        self._instances = instances
        self._own = own
        self._others = list(others)
        self._asked = asked
        models = instances.problem.models
        self._objective, self._model = models[0], models[1 + asked.over]

    def _solved(
        self,
        objective: LogLinearModel,
        constraints: Sequence[Constraint],
        rows: Indices | None = None,
    ) -> Solutions:
        problem = Problem(objective, constraints, self._instances.problem.evidence_variables)
        told = replace(self._asked.limits, progress=None, start=None)
        evidence = self._instances.evidence
        return answer(problem, evidence if rows is None else evidence[rows], "exact", told)

    def lowest(self) -> list[TracedPoints] | None:
        """The best point with t = -inf of every row; None where t is finite."""
        model = self._model
        if model.is_finite:
            return None
        answers = self._solved(
            self._objective, [Constraint(model, below_finite(model)), *self._others]
        )
        return [self._lowest_of(answers, row) for row in range(len(answers))]

    def _lowest_of(self, answers: Solutions, row: int) -> TracedPoints:
        problem = self._instances.problem
        status = Status.of(answers.status[row])
        if status is Status.INFEASIBLE:
            return nothing_found(problem)
        points = ListedPoints(answers.assignments[row : row + 1])
        steps = Steps(np.array([np.inf]), np.array([answers.bound[row]]))
        if not answers.feasible[row]:
            return replace(nothing_found(problem, complete=False), steps=steps)
        h = answers.objective[row : row + 1]
        proved = status is Status.OPTIMAL
        return TracedPoints(h, np.array([-np.inf]), points, proved, None if proved else steps)

    @cached_property
    def _finite(self) -> LogLinearModel:
        """h, -inf where t is."""
        support = self._model.negated()[1]
        return self._objective + support if support.factors else self._objective

    def unlimited(self) -> Solutions:
        """The greatest h with a finite t, of every row, whatever t is."""
        return self._solved(self._finite, self._others)

    def known(self) -> tuple[list[Floats], Indices]:
        """Points (h, t) that exist, and what is known of each row's finite points."""
        count, (low, high) = len(self._instances), self._asked.window
        points, states = [np.zeros((0, 2))] * count, np.full(count, KNOWN)
        if not self._others:
            return points, states
        left = np.arange(count)
        for limit in (low, high) if low > -math.inf else (high,):
            limited = [] if limit == math.inf else [replace(self._own, at_most=limit)]
            answers = self._solved(self._finite, [*limited, *self._others], left)
            for row in np.flatnonzero(answers.feasible):
                found = answers.assignments[row : row + 1]
                h, t = self._objective.value(found), self._own.function.value(found)
                points[left[row]] = np.stack([h, t], axis=1)
            proved = answers.status == Status.INFEASIBLE
            states[left] = np.where(answers.feasible, KNOWN, np.where(proved, NONE, UNKNOWN))
            left = left[~answers.feasible]
        return points, states
