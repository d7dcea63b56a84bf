"""`Ranked`: the best answers of one row, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Integers, Values
from cmpe.display import html_table, number_text, shortened
from cmpe.problem import Problem
from cmpe.solution import Answer, Solutions


@dataclass(frozen=True)
class PackedAnswers:
    """Answers that differ in a few variables: kept small, written out when they are asked for."""

    problem: Problem
    begun: Values  # (n,) what they share
    which: Integers  # (d,) the variables in which they differ
    stored: NDArray[np.uint16]  # (d, k) their values
    values: Floats  # (k, 1 + m) h and every t
    bound: float  # on the best objective

    def __len__(self) -> int:
        return len(self.values)

    @property
    def objective(self) -> Floats:
        """h of every answer: (k,)."""
        return self.values[:, 0]

    @cached_property
    def assignments(self) -> Values:
        """The answers (k, n) written out."""
        rows = np.tile(self.begun, (len(self), 1))
        rows[:, self.which] = self.stored.T
        return rows

    def solutions(self) -> Solutions:
        """The answers, judged."""
        rows = self.assignments
        h, t = self.values[:, 0].copy(), self.values[:, 1:].copy()
        whole = Solutions.evaluated(self.problem, rows, (h, t), bound=self.bound, method="best")
        seen = np.zeros(len(self.begun), dtype=bool)
        seen[list(self.problem.evidence_variables)] = True
        return replace(whole, observed=np.broadcast_to(seen, rows.shape))


@dataclass(frozen=True)
class ListedAnswers:
    """Answers as they are."""

    whole: Solutions

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def objective(self) -> Floats:
        """h of every answer: (k,)."""
        return self.whole.objective

    @property
    def assignments(self) -> Values:
        """The answers: (k, n)."""
        return self.whole.assignments

    def solutions(self) -> Solutions:
        """The answers."""
        return self.whole


@dataclass(frozen=True, eq=False, repr=False)
class Ranked:
    """The best answers of one row, in order: `ranked[0]` is the best."""

    kept: PackedAnswers | ListedAnswers
    complete: bool  # proved: these are the best, or all there are
    bound: float  # no feasible assignment that is missing has a higher h; -inf: none is missing

    @cached_property
    def answers(self) -> Solutions:
        """The answers, the best first."""
        return self.kept.solutions()

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, rank: int) -> Answer:
        return self.answers[rank]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def objective(self) -> Floats:
        """h of every answer, falling: (k,)."""
        return self.kept.objective

    @property
    def assignments(self) -> Values:
        """The answers: (k, n)."""
        return self.kept.assignments

    @property
    def infeasible(self) -> bool:
        """Proved: there is no feasible assignment."""
        return self.complete and not len(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame, the best answer first (extra `frames`)."""
        return self.answers.to_frame()

    @property
    def summary(self) -> str:
        """One line: how many answers, what is proved."""
        if self.infeasible:
            return "no feasible assignment: proved"
        count = f"{len(self)} {'answer' if len(self) == 1 else 'answers'}"
        if not self.complete:
            return f"{count}; a missing one has h <= {number_text(self.bound)}"
        return f"{count}, proved{' to be all there are' if self.bound == -np.inf else ''}"

    def __repr__(self) -> str:
        lines = [f"  {i}: {self[i]!r}" for i in range(min(10, len(self)))]
        more = ["  ..."] if len(self) > 10 else []
        return "\n".join([f"Ranked({self.summary})", *lines, *more])

    def _repr_html_(self) -> str:
        rows = [
            (
                str(i),
                number_text(a.objective),
                shortened([f"{k}={v}" for k, v in a.free.items()], 88),
            )
            for i, a in zip(range(20), self, strict=False)
        ]
        return html_table(self.summary, ("rank", "objective", "answer"), rows)


def ranked_of(
    problem: Problem, rows: Values, k: int | None = None, *, complete: bool, bound: float
) -> Ranked:
    """The first k answers of `rows`, all if None; what is missing in `rows` has h <= `bound`."""
    found = rows.reshape(-1, problem.variables)
    whole = Solutions.of(problem, found, bound=bound, method="best")
    return in_order(whole, np.arange(len(found)), k or len(found), complete=complete, bound=bound)


def in_order(whole: Solutions, which: Indices, k: int, *, complete: bool, bound: float) -> Ranked:
    """Of the answers numbered `which` the first k, by falling h, then by the assignment."""
    h = whole.objective[which]
    order = falling(h, whole.assignments[which])
    missing = max(bound, float(h[order[k]])) if len(h) > k else bound
    answers = whole.take(which[order[:k]]).bounded(max(bound, float(h.max(initial=-np.inf))))
    return Ranked(ListedAnswers(answers), complete, missing)


def falling(h: Floats, rows: Values) -> Indices:
    """The numbers of answers by falling h, then by the assignment."""
    order = np.argsort(-h, kind="stable")
    starts = np.concatenate([[True], np.diff(h[order]) != 0.0])
    if not starts.all():
        for first, end in _runs(starts[: len(h)]):
            if end - first > 1:
                tied = order[first:end]
                order[first:end] = tied[_by_value(rows[tied])]
    return order


def _by_value(rows: Values) -> Indices:
    """The lexicographic order of rows of values, by their bytes."""
    keys = [row.tobytes() for row in rows.astype(">u8")]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def _runs(starts: Any) -> Iterator[tuple[int, int]]:
    """The runs (first, end) that begin where `starts` is True."""
    first = np.flatnonzero(starts)
    return zip(first.tolist(), [*first[1:].tolist(), len(starts)], strict=True)
