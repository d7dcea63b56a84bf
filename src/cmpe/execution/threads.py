"""Threads of this process: for compiled code, which lets others run.

Ctrl-C is heard by the main thread alone, and not while that runs compiled code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum

from cmpe.execution.settings import EXECUTION


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
