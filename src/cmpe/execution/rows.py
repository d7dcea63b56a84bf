"""Map a job over row numbers: in this process, or in local processes.

The job lies in a file, which every process reads once; then they receive only row numbers. On
Ctrl-C the caller keeps every result already yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cmpe.errors import BackendError
from cmpe.execution.processes import DIED, Parcels, pool, stop, unpacked, without_interrupt

Result = TypeVar("Result")


def map_rows(
    job: Callable[[int], Result], count: int, *, workers: int = 1
) -> Iterator[tuple[int, Result]]:
    """Yield (row, job(row)) for every row below `count`, as they finish."""
    if workers <= 1 or count <= 1:
        for row in range(count):
            yield row, job(row)
    else:
        yield from _over_processes(job, count, min(workers, count))


def _over_processes(
    job: Callable[[int], Result], count: int, workers: int
) -> Iterator[tuple[int, Result]]:
    parcels = Parcels()
    processes = pool(workers)
    waiting: dict[Future[Result], int] = {}
    try:
        path = parcels.put(job)
        for row in range(count):
            with without_interrupt():
                waiting[processes.submit(_call, path, row)] = row
            if len(waiting) < 4 * workers:  # enough to keep every worker busy
                continue
            yield from _finished(waiting)
        while waiting:
            yield from _finished(waiting)
    except BrokenProcessPool:
        raise BackendError(DIED) from None
    finally:
        stop(processes, unfinished=bool(waiting))
        parcels.close()


def _finished(waiting: dict[Future[Result], int]) -> Iterator[tuple[int, Result]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


_job = lru_cache(maxsize=1)(unpacked)  # a worker reads it once


def _call(path: Path, row: int) -> Any:
    return _job(path)(row)
