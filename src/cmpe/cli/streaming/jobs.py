"""From a block of rows to the bytes of a part, for each command.

Jobs travel to other processes and machines. `seconds` are null in parts: times differ from run to
run, and parts do not. The journal has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe import solving
from cmpe.cli.streaming.rows import bound_values, bounds_by_name, front_values, rank_lines
from cmpe.errors import CmpeError, InputError
from cmpe.formats.results import cells_of
from cmpe.streams.folder import AnswerPart

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.bounds.base import Work
    from cmpe.formats.tables.columns import FileRows
    from cmpe.problem import Problem
    from cmpe.solvers.base import Limits, Running
    from cmpe.solvers.dispatch import Chosen
    from cmpe.streams.pieces import Piece

PARQUET = "parquet"


def read_piece(problem: Problem, first: int, piece: Piece) -> FileRows:
    """The rows of a piece; an error says where the piece begins."""
    try:
        return piece.read(problem)
    except CmpeError as error:
        raise InputError(f"{error} (rows counted from {first})") from None


def as_lines(lines: Iterable[str]) -> bytes:
    """Lines as bytes."""
    return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True)
class SolveJob:
    """What `cmpe solve` writes."""

    problem: Problem
    method: Chosen
    limits: Limits
    suffix: str

    def __call__(self, first: int, piece: Piece) -> AnswerPart:
        """Answer the rows of a piece."""
        from cmpe.formats.results import json_rows
        from cmpe.solution.frames import parquet_bytes

        rows, carried = read_piece(self.problem, first, piece)
        how = self.limits
        found = solving.solve(
            self.problem, **rows.keywords, method=self.method, time_limit=how.seconds, gap=how.gap,
            seed=how.seed, running=how,
        )  # fmt: skip
        timeless = replace(found, seconds=np.full(len(found), np.nan))
        if self.suffix == PARQUET:
            data = parquet_bytes(timeless, first, carried)
        else:
            data = as_lines(json_rows(self.problem, timeless, first, carried))
        return AnswerPart(data, len(found), Counter(found.labels), float(found.seconds.sum()))


@dataclass(frozen=True)
class BoundJob:
    """What `cmpe bound` writes."""

    problem: Problem
    names: tuple[str, ...]
    work: Work
    training: Values | None
    device: str

    def __call__(self, first: int, piece: Piece) -> AnswerPart:
        """Bound the rows of a piece."""
        rows, carried = read_piece(self.problem, first, piece)
        known = bounds_by_name(self, rows)
        values = [bound_values(i, known, self.names, carried) for i in range(len(rows))]
        seconds = sum(sum(row["seconds"].values()) for row in values)
        lines = [{**row, "index": first + i, "seconds": None} for i, row in enumerate(values)]
        tally = Counter("infeasible" if row["infeasible"] else "bounded" for row in values)
        return AnswerPart(_json_lines(lines), len(rows), tally, seconds)


@dataclass(frozen=True)
class FrontJob:
    """What `cmpe front` writes."""

    problem: Problem
    over: int
    between: tuple[float, float] | None
    seconds: float | None
    running: Running

    def __call__(self, first: int, piece: Piece) -> AnswerPart:
        """Trace the rows of a piece."""
        from cmpe.tradeoffs.front import front

        rows, carried = read_piece(self.problem, first, piece)
        found = front(
            self.problem,
            **rows.keywords,
            over=self.over,
            between=self.between,
            time_limit=self.seconds,
            running=self.running,
        )
        lines = [
            {**front_values(first + i, f, cells_of(carried, i)), "seconds": None}
            for i, f in enumerate(found)
        ]
        tally = Counter(_state(f.infeasible, f.complete) for f in found)
        return AnswerPart(_json_lines(lines), len(found), tally, sum(f.seconds for f in found))


@dataclass(frozen=True)
class BestJob:
    """What `cmpe best` writes."""

    problem: Problem
    k: int
    distance: int | None
    seconds: float | None
    running: Running

    def __call__(self, first: int, piece: Piece) -> AnswerPart:
        """Rank the answers of the rows of a piece."""
        from cmpe.tradeoffs.best import ListedAnswers, best

        rows, carried = read_piece(self.problem, first, piece)
        found = best(
            self.problem,
            **rows.keywords,
            k=self.k,
            distance=self.distance,
            time_limit=self.seconds,
            running=self.running,
        )
        spent = sum(float(each.answers.seconds.sum()) for each in found)
        timeless = [
            replace(r, kept=ListedAnswers(replace(r.answers, seconds=np.full(len(r), np.nan))))
            for r in found
        ]
        tally = Counter(_state(each.infeasible, each.complete) for each in found)
        return AnswerPart(
            as_lines(rank_lines(self.problem, timeless, first, carried)), len(found), tally, spent
        )


def _state(infeasible: bool, complete: bool) -> str:
    return "infeasible" if infeasible else "complete" if complete else "incomplete"


def _json_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    import json

    return as_lines(json.dumps(row) for row in rows)
