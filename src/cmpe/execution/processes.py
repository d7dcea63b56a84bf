"""Pools of fresh interpreters (spawn). Ctrl-C reaches the parent alone, which stops its workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

DIED = (
    "a worker process died: it may have run out of memory, or the script that started it "
    'lacks an `if __name__ == "__main__":` guard'
)


def pool(
    workers: int, begin: Callable[..., None] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """A pool whose workers ignore Ctrl-C and then run `begin(*arguments)` once."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(begin, *arguments)
    )


def _begin(begin: Callable[..., None] | None, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if begin is not None:
        begin(*arguments)


def stop(workers: ProcessPoolExecutor, *, unfinished: bool) -> None:
    """End the workers; what they have not finished would otherwise hold up the exit."""
    for process in list((workers._processes or {}).values()) if unfinished else []:
        process.terminate()
    workers.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back; a process that starts in the meantime inherits the mask."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
