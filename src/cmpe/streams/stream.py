"""Streams: evidence in blocks, answered on any executor, kept in parts as they finish.

In memory are the job and two blocks for each core, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from cmpe.errors import InputError
from cmpe.execution.base import Executor
from cmpe.execution.blocks import map_blocks
from cmpe.problem import Problem
from cmpe.streams.folder import AnswerFolder, AnswerPart, StreamQuestion
from cmpe.streams.pieces import Piece, Source


class Job(Protocol):
    """What answers a block; it travels to other processes and machines."""

    @property
    def problem(self) -> Problem:
        """What is asked."""
        ...

    def __call__(self, first: int, piece: Piece) -> AnswerPart:
        """Answer the rows of a piece, of which `first` is the number of the first."""
        ...


Report = Callable[[int, int], None]


def answer_stream(
    source: Source,
    job: Job,
    folder: tuple[Path, StreamQuestion],
    work: Callable[[], Executor],
    *,
    resume: bool = False,
    report: Report | None = None,
) -> AnswerFolder:
    """Answer every block that the folder does not hold yet; after Ctrl-C go on with `resume`."""
    out = AnswerFolder(*folder).begin(resume=resume)
    with closing(out):
        if out.complete:
            return out
        read = _Read(source, out)
        try:
            _answer(read, job, out, work, report)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted after {out.rows} rows; add --resume to go on"
            ) from None
        if len(out.done) < read.parts:
            raise InputError(f"{out.path}: expected {read.parts} parts, found {len(out.done)}")
        out.finish()
    return out


class _Read:
    """The blocks that are missing, and how many there are in all, once they are read."""

    def __init__(self, source: Source, out: AnswerFolder) -> None:
        self._source, self._out = source, out
        size, rows = out.asked.block, source.rows
        self.parts = 0 if rows is None else -(-rows // size)
        self.seen = rows or 0

    def blocks(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        done = frozenset(self._out.done)
        size = self._out.asked.block

        def is_wanted(number: int) -> bool:
            self.parts = max(self.parts, number + 1)
            self.seen = max(self.seen, number * size)
            return number not in done

        for number, first, piece in self._source.blocks(size, is_wanted):
            self.seen = max(self.seen, first + piece.count)
            yield number, (first, piece)


def _answer(
    read: _Read, job: Job, out: AnswerFolder, work: Callable[[], Executor], report: Report | None
) -> None:
    executor = work()
    with closing(executor):
        for number, part in map_blocks(executor, job, read.blocks()):
            out.write(number, part)
            if report is not None:
                report(out.rows, max(out.rows, read.seen))
