"""Pools of fresh interpreters (spawn). Ctrl-C reaches the parent alone, which stops its workers.

What is large travels in files. A pipe holds 64 KiB: a parent that writes more to a worker which
died while it was starting would wait for ever, and with Ctrl-C held back.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from cmpe.errors import MethodError

DIED = (
    "a worker process died: it may have run out of memory, or the script that started it "
    'lacks an `if __name__ == "__main__":` guard'
)


class Parcels:
    """Values on their way to other processes, each in a file of one folder."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cmpe-")
        self._sent = 0

    def put(self, value: Any) -> Path:
        """Keep a value; refuse what another process could not read."""
        try:
            packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise MethodError(
                f"several workers need what can be sent to other processes: {error}"
            ) from None
        self._sent += 1
        path = Path(self._folder.name, str(self._sent))
        path.write_bytes(packed)
        return path

    def close(self) -> None:
        """Remove all of them."""
        self._folder.cleanup()


def unpacked(path: Path) -> Any:
    """The value that was put into a file."""
    return pickle.loads(path.read_bytes())


def pool(workers: int) -> ProcessPoolExecutor:
    """A pool whose workers ignore Ctrl-C."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def stop(workers: ProcessPoolExecutor, *, unfinished: bool) -> None:
    """End the workers; what they have not finished would otherwise hold up the exit."""
    for process in list((workers._processes or {}).values()) if unfinished else []:
        process.kill()
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
