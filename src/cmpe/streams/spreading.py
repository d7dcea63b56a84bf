"""Rows in memory, spread over the cores of a cluster: cut into blocks, answered, put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from cmpe.arrays import Values
from cmpe.execution import Workplace
from cmpe.execution.blocks import map_blocks
from cmpe.execution.settings import EXECUTION
from cmpe.problem import Problem
from cmpe.streams.pieces import small


@dataclass(frozen=True)
class _BlockJob:
    """Asks for some rows of a problem."""

    ask: Callable[..., Any]
    problem: Problem

    def __call__(self, rows: Values, *more: Any) -> Any:
        return self.ask(self.problem, rows.astype(self.problem.dtype), *more)


def spread(
    ask: Callable[..., Any], problem: Problem, rows: Values, place: Workplace, *more: Values | None
) -> Iterator[tuple[slice, Any]]:
    """Yield (which rows, ask(problem, those rows, those of `more` ...)) as blocks finish.

    `ask` must be known by name on every machine. It is called with rows over all variables.
    """
    work = place.executor()
    with closing(work):
        size = min(EXECUTION.largest, -(-len(rows) // (EXECUTION.blocks * work.capacity))) or 1
        slices = [slice(i, min(i + size, len(rows))) for i in range(0, len(rows), size)]
        blocks = (
            (k, (small(rows[s]), *(None if each is None else each[s] for each in more)))
            for k, s in enumerate(slices)
        )
        for number, found in map_blocks(work, _BlockJob(ask, problem), blocks):
            yield slices[number], found
