"""Threads of this process: for compiled code, which lets others run.

Ctrl-C is heard by the main thread alone, and not while that runs compiled code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from enum import Enum
from typing import TypeVar

from cmpe.execution.settings import EXECUTION

Result = TypeVar("Result")


class Ending(Enum):
    """How work that could be interrupted ended."""

    DONE = 0
    CANCELLED = 1  # by Ctrl-C
    ABANDONED = 2  # by Ctrl-C, and it does not hear: what it uses must be left alone


def over_threads(
    work: Callable[[slice], slice],
    parts: Sequence[slice],
    threads: int,
    stop: threading.Event | None = None,
) -> Iterator[slice]:
    """Yield each part, in their order, once `work` is done with it.

    When the caller stops (Ctrl-C, say), parts that have not begun are dropped, and `stop` is set to
    tell the others.
    """
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(work, parts)
        finally:
            if stop is not None:
                stop.set()
            pool.shutdown(cancel_futures=True)


def map_rows_in_threads(
    job: Callable[[int], Result], count: int, stop: threading.Event, *, threads: int
) -> Iterator[tuple[int, Result]]:
    """Yield (row, job(row)) for every row below `count`, as they finish, for jobs that wait for a
    process of their own. Ctrl-C sets `stop`, and goes on when the running rows have returned."""
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


def interruptible(work: Callable[[], object], cancel: Callable[[], object]) -> Ending:
    """Do `work` in a thread while this one waits for Ctrl-C, which calls `cancel`."""
    if threading.current_thread() is not threading.main_thread():
        work()
        return Ending.DONE
    done: Future[object] = Future()
    thread = threading.Thread(target=_settle, args=(done, work), daemon=True)
    thread.start()
    try:
        done.result()
    except KeyboardInterrupt:
        cancel()
        thread.join(EXECUTION.thread_grace)
        return Ending.ABANDONED if thread.is_alive() else Ending.CANCELLED
    return Ending.DONE


def _settle(done: Future[object], work: Callable[[], object]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # raised again where it is waited for
        done.set_exception(error)
