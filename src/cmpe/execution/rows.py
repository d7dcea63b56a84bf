"""Map a job over row numbers: in this process, in local processes, or in threads.

The job lies in a file, which every process reads once; then they receive only row numbers. On
Ctrl-C the caller keeps every result already yielded. Jobs that wait for a process of their own run
in threads, and are told to stop by an event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cmpe.errors import BackendError
from cmpe.execution.processes import (
    DIED,
    Parcels,
    few_threads,
    pool,
    stop,
    unpacked,
    without_interrupt,
)

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
            with without_interrupt(), few_threads(1):
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


def map_rows_in_threads(
    job: Callable[[int], Result], count: int, stop: threading.Event, *, threads: int
) -> Iterator[tuple[int, Result]]:
    """The same in threads. Ctrl-C sets `stop`, and goes on when the running rows have returned."""
    interrupt: KeyboardInterrupt | None = None
    with ThreadPoolExecutor(threads) as pool:
        rows = {pool.submit(job, row): row for row in range(count)}
        try:
            for future in as_completed(list(rows)):
                yield rows.pop(future), future.result()
        except KeyboardInterrupt as caught:
            interrupt = caught
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    if interrupt is not None:
        yield from ((row, f.result()) for f, row in rows.items() if not f.cancelled())
        raise interrupt


def _finished(waiting: dict[Future[Result], int]) -> Iterator[tuple[int, Result]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


_job = lru_cache(maxsize=1)(unpacked)  # a worker reads it once


def _call(path: Path, row: int) -> Any:
    return _job(path)(row)
