"""Map independent work over local processes.

One worker runs in this process. More run in fresh interpreters (spawn), each of which receives
the job once and then only row numbers. Ctrl-C reaches the parent alone: it stops the workers,
and the caller keeps every result already yielded.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from cmpe.errors import BackendError

Result = TypeVar("Result")

_job: Callable[[int], Any] | None = None


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
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_install, initargs=(job,))
    waiting: dict[Future[Result], int] = {}
    rows = iter(range(count))
    try:
        for row in rows:
            with _without_interrupt():  # a worker inherits the mask while it starts
                waiting[pool.submit(_call, row)] = row
            if len(waiting) < 4 * workers:  # enough to keep every worker busy
                continue
            yield from _finished(waiting)
        while waiting:
            yield from _finished(waiting)
    except BrokenProcessPool:
        raise BackendError(
            "a worker process died: it may have run out of memory, or the script that started it "
            'lacks an `if __name__ == "__main__":` guard'
        ) from None
    finally:
        for process in list((pool._processes or {}).values()) if waiting else []:
            process.terminate()  # an unfinished row would otherwise hold up the exit
        pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _without_interrupt() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finished(waiting: dict[Future[Result], int]) -> Iterator[tuple[int, Result]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


def _install(job: Callable[[int], Any]) -> None:
    global _job
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _job = job


def _call(row: int) -> Any:
    assert _job is not None
    return _job(row)
