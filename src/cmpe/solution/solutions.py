"""Answers with their certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Floats, Values
from cmpe.display import html_table, number_text, shortened
from cmpe.domain import Domain
from cmpe.problem import Problem
from cmpe.problem.rows import Rows
from cmpe.solution.rows import WIDTH, Answer
from cmpe.solution.status import Status

OPTIMALITY_TOLERANCE = 1e-6
SHOWN_ROWS = 10


class StatedLimit(NamedTuple):
    """What a constraint is called, and `<=` or `>=` which limit."""

    name: str  # "" where it has none
    relation: str
    limit: float


@dataclass(frozen=True)
class Question:
    """What answers are shown with: the variables, and each constraint's name and limit."""

    domain: Domain
    limits: tuple[StatedLimit, ...] = ()

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """Of a problem."""
        stated = (StatedLimit(c.name, c.relation, c.limit) for c in problem.constraints)
        return cls(problem.domain, tuple(stated))


@dataclass(frozen=True, eq=False, repr=False)
class Solutions:
    """One answer per evidence row. Where there is no assignment it is -1 and the values NaN.

    `answers[i]` is a row: a mapping from variable to state with its objective, bound and proof;
    `answers["Rain"]` lists the states of a variable, None where a row has no answer.
    """

    assignments: Values  # (B, n)
    objective: Floats  # (B,)
    constraint_values: Floats  # (B, m)
    violations: Floats  # (B, m), t - q
    bound: Floats  # (B,), an upper bound on the best feasible objective
    status: NDArray[np.int8]  # (B,), of Status
    method: NDArray[np.str_]  # (B,)
    seconds: Floats  # (B,)
    asked: Question
    multipliers: Floats  # (B, m): mu* of the dual, NaN where unknown
    observed: NDArray[np.bool_] | None = None  # (B, n): what was evidence, where that is known
    limits: Floats | None = None  # (B, m): each row's own, as written; None where all share them
    index: Any = None  # of the frame that the rows came in, where they came in one
    carried: Mapping[str, Sequence[Any]] | None = None  # columns of the evidence, such as ids

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
        multipliers: ArrayLike = np.nan,
    ) -> Solutions:
        """Recompute every value in float64 and derive every status.

        A row of `assignments` that starts with -1 has no answer. `infeasible` marks rows whose
        infeasibility is proved, which have no answer either; `multipliers` (B, m) are the dual's,
        where it was minimised. The bound is never left below a feasible objective.
        """
        rows = np.array(assignments, dtype=problem.dtype, ndmin=2)
        count = len(rows)
        found = (rows >= 0).all(axis=1)
        if found.all():
            objective = problem.objective.value(rows)
            values = problem.constraint_values(rows)
        else:
            objective = np.full(count, np.nan)
            values = np.full((count, len(problem.constraints)), np.nan)
            objective[found] = problem.objective.value(rows[found])
            values[found] = problem.constraint_values(rows[found])
        return cls.evaluated(
            problem, rows, (objective, values), bound=bound, infeasible=infeasible, method=method,
            seconds=seconds, multipliers=multipliers,
        )  # fmt: skip

    @classmethod
    def evaluated(  # noqa: PLR0913
        cls,
        problem: Problem,
        rows: Values,
        found_values: tuple[Floats, Floats],
        *,
        bound: ArrayLike = np.inf,
        infeasible: ArrayLike = False,
        method: str | Sequence[str] = "",
        seconds: ArrayLike = 0.0,
        multipliers: ArrayLike = np.nan,
        limits: Floats | None = None,
    ) -> Solutions:
        """The same of assignments whose values the problem's own functions have given.

        They are h (B,) and t (B, m), NaN where there is no assignment. Arrays are not copied, but
        where rows that are proved infeasible have assignments.
        `limits` (B, m) are those of rows that have their own, as in t <= q.
        """
        objective, values = found_values
        count = len(rows)
        feasible = problem.are_feasible(objective, values, limits)
        proved = np.asarray(infeasible, dtype=bool) & ~feasible
        if not np.isnan(objective[proved]).all():
            rows = np.where(proved[:, np.newaxis], FREE, rows).astype(rows.dtype)
            objective = np.where(proved, np.nan, objective)
            values = np.where(proved[:, np.newaxis], np.nan, values)
        upper = np.where(proved, -np.inf, bound)
        upper = np.where(feasible, np.maximum(upper, objective), upper)
        status = np.full(count, Status.UNKNOWN.code, dtype=np.int8)
        status[objective > -np.inf] = Status.VIOLATED
        status[feasible] = Status.FEASIBLE
        status[feasible & _closed(upper, objective)] = Status.OPTIMAL
        status[proved] = Status.INFEASIBLE
        return cls(
            assignments=rows,
            objective=objective,
            constraint_values=values * problem.signs,
            violations=values - (problem.limits if limits is None else limits),
            bound=upper,
            status=status,
            method=_of_each(method, count, np.str_),
            seconds=_of_each(seconds, count, np.float64),
            asked=Question.of(problem),
            multipliers=np.array(np.broadcast_to(np.asarray(multipliers, float), values.shape)),
            limits=None if limits is None else limits * problem.signs,
        )

    @classmethod
    def of_rows(cls, rows: Rows, lifted: Solutions) -> Solutions:
        """The answers to rows with their own numbers, from those to their lifted problem.

        Constraints are recomputed by the problem itself and judged with each row's limits.
        """
        problem = rows.problem
        assignments = np.ascontiguousarray(lifted.assignments[:, : problem.variables])
        found = ~np.isnan(lifted.objective)
        values = np.full((len(rows), len(problem.constraints)), np.nan)
        if rows.inputs is None:
            values[found] = problem.constraint_values(assignments[found])
        else:  # constraints may read them
            values[found] = (lifted.constraint_values * problem.signs - rows.shifts)[found]
        judged = cls.evaluated(
            problem, assignments, (lifted.objective, values), bound=lifted.bound,
            infeasible=lifted.status == Status.INFEASIBLE, method=lifted.method.tolist(),
            seconds=lifted.seconds, multipliers=lifted.multipliers, limits=rows.limits,
        )  # fmt: skip
        return replace(judged, observed=rows.evidence != FREE)

    def __len__(self) -> int:
        return len(self.objective)

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which answers satisfy every constraint: (B,)."""
        return np.asarray((self.status == Status.OPTIMAL) | (self.status == Status.FEASIBLE))

    @property
    def proved(self) -> NDArray[np.bool_]:
        """Which rows have a proved optimum, or are proved to have no feasible answer: (B,)."""
        return np.asarray((self.status == Status.OPTIMAL) | (self.status == Status.INFEASIBLE))

    @property
    def labels(self) -> list[str]:
        """The status of each row as a word."""
        return [Status.of(s).label for s in self.status]

    @property
    def gap(self) -> Floats:
        """bound - objective in nats, NaN without a feasible answer: (B,)."""
        gap = np.full(len(self), np.nan)
        answered = self.feasible
        gap[answered] = self.bound[answered] - self.objective[answered]
        return gap

    @overload
    def __getitem__(self, rows: int) -> Answer: ...
    @overload
    def __getitem__(self, rows: str) -> list[Any]: ...
    @overload
    def __getitem__(self, rows: slice | Sequence[int] | NDArray[Any]) -> Solutions: ...
    def __getitem__(
        self, rows: int | str | slice | Sequence[int] | NDArray[Any]
    ) -> Answer | list[Any] | Solutions:
        if isinstance(rows, str):
            variable = self.asked.domain.variable(rows)
            return [
                self.asked.domain.label(variable, v) if v >= 0 else None
                for v in self.assignments[:, variable].tolist()
            ]
        if isinstance(rows, int | np.integer):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"rows are numbered 0 to {len(self) - 1}, found {rows}")
            return Answer(self, int(rows) % len(self))
        return self.take(np.arange(len(self))[rows])

    def __iter__(self) -> Iterator[Answer]:
        return (Answer(self, i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Solutions):
            return NotImplemented
        pairs = ((getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    def to_frame(self) -> Any:
        """A pandas DataFrame: states by variable, then status, values and time (extra `frames`).

        It has the index of the frame that was the evidence, and before the states the columns that
        `solve` was given as `keep`. `frame.attrs["observed"]` lists the variables that every row
        observed.
        """
        from cmpe.solution.frames import frame_of

        return frame_of(self)

    def to_csv(self, path: Path | str) -> None:
        """Write the same as text, with a header."""
        from cmpe.solution.frames import csv_text, write_whole

        write_whole(path, csv_text(self).encode())

    def to_parquet(self, path: Path | str) -> None:
        """Write the same as a Parquet file (extra `frames`)."""
        from cmpe.solution.frames import parquet_bytes, write_whole

        write_whole(path, parquet_bytes(self))

    @property
    def summary(self) -> str:
        """The number of rows of each status."""
        counts = [(s.label, int((self.status == s).sum())) for s in Status]
        words = ", ".join(f"{count} {label}" for label, count in counts if count)
        return f"{len(self)} {'row' if len(self) == 1 else 'rows'}: {words or 'none'}"

    def __repr__(self) -> str:
        lines = [f"Solutions({self.summary})", *(f"  {i}: {self[i]!r}" for i in self._shown)]
        return "\n".join(lines + (["  ..."] if len(self) > len(self._shown) else []))

    @property
    def _shown(self) -> range:
        return range(min(SHOWN_ROWS, len(self)))

    def _repr_html_(self) -> str:
        limits = [
            f"{name or 't'} {relation} {_limit_text(self, q)}"
            for name, relation, q in self.asked.limits
        ]
        rows = []
        for i in self._shown:
            row = self[i]
            values = [number_text(c.value) for c in row.constraints]
            answer = shortened([f"{key}={state}" for key, state in row.free.items()], WIDTH)
            numbers = [number_text(row.objective), *values, number_text(row.bound)]
            rows.append([str(i), row.status.label, *numbers, answer])
        return html_table(
            self.summary, ["row", "status", "objective", *limits, "bound", "answer"], rows
        )

    def take(self, rows: ArrayLike) -> Solutions:
        """The answers of `rows`, in that order."""
        index = np.asarray(rows)
        return self._part(index)

    def span(self, first: int, end: int) -> Solutions:
        """The answers from `first` to before `end`, of the same memory."""
        return self._part(slice(first, end))

    def _part(self, rows: slice | NDArray[Any]) -> Solutions:
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        more = {name: getattr(self, name) for name in _MAYBE}
        more = {name: None if each is None else each[rows] for name, each in more.items()}
        numbers = np.arange(len(self))[rows].tolist() if self.carried else []
        carried = self.carried and {
            name: [cells[i] for i in numbers] for name, cells in self.carried.items()
        }
        return Solutions(asked=self.asked, **arrays, **more, carried=carried)

    def bounded(self, upper: float) -> Solutions:
        """The same feasible answers, each with this bound on the best objective and its status."""
        bound = np.maximum(upper, self.objective)
        closed = _closed(bound, self.objective)
        status = np.where(closed, Status.OPTIMAL.code, Status.FEASIBLE.code).astype(np.int8)
        return replace(self, bound=bound, status=status)

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
        arrays: Any = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _ARRAYS}
        more: Any = {
            name: np.concatenate([getattr(p, name) for p in parts])
            for name in _MAYBE
            if all(getattr(p, name) is not None for p in parts)
        }
        return Solutions(asked=parts[0].asked, **arrays, **more)


_MAYBE = ("observed", "limits", "index")  # arrays that may be missing
_ARRAYS = tuple(f.name for f in fields(Solutions) if f.name not in ("asked", "carried", *_MAYBE))


def _limit_text(answers: Solutions, limit: float) -> str:
    return f"{limit:g}" if answers.limits is None else "q"


def _of_each(value: Any, count: int, kind: type[np.generic]) -> NDArray[Any]:
    """An array of one value per row, from that of all rows or from the rows' own."""
    if isinstance(value, str | float):
        return np.full(count, value)
    return np.array(np.broadcast_to(np.asarray(value, dtype=kind), count))


def _closed(upper: Floats, objective: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        allowed = OPTIMALITY_TOLERANCE * np.maximum(1.0, np.abs(objective))
        return np.asarray(upper - objective <= allowed, dtype=np.bool_)
