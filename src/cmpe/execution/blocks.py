"""Rows and blocks of rows on any executor: one job, which every process fetches once.

Blocks are handed out as there is room, two for each core, so that what is not needed yet is not
read (back-pressure) and a free core takes the next block whatever the others do (work stealing).
Ray tasks, not Ray Data: docs/cluster.md has the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from cmpe.errors import BackendError, InputError
from cmpe.execution.base import Executor
from cmpe.execution.local import LocalProcesses
from cmpe.execution.settings import EXECUTION

Result = TypeVar("Result")


def map_rows(
    job: Callable[[int], Result], count: int, *, workers: int = 1
) -> Iterator[tuple[int, Result]]:
    """Yield (row, job(row)) for every row below `count`, as they finish, here or in processes."""
    if workers <= 1 or count <= 1:
        for row in range(count):
            yield row, job(row)
        return
    with closing(LocalProcesses(min(workers, count))) as work:
        yield from map_blocks(work, job, ((row, (row,)) for row in range(count)))


def map_blocks(
    work: Executor, job: Callable[..., Result], blocks: Iterable[tuple[int, tuple[Any, ...]]]
) -> Iterator[tuple[int, Result]]:
    """Yield (number, job(*arguments)) for all blocks (number, arguments), as they finish."""
    shared, waiting, running = work.share(job), iter(blocks), 0
    is_more = True
    while is_more or running:
        while is_more and running < EXECUTION.ahead * work.capacity:
            block = next(waiting, None)
            is_more = block is not None
            if block is not None:
                work.submit(str(block[0]), _called, shared, *block[1])
                running += 1
        if running:
            outcome = work.next()
            running -= 1
            if outcome.error is not None:
                raise InputError(outcome.error) if outcome.refused else BackendError(outcome.error)
            yield int(outcome.name), outcome.result


def _called(job: Callable[..., Result], *arguments: Any) -> Result:
    return job(*arguments)
