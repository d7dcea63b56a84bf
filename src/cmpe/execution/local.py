"""Tasks on this machine: in this process, or in several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from cmpe.errors import BackendError
from cmpe.execution.base import TaskOutcome, attempt
from cmpe.execution.processes import DIED, Parcels, pool, stop, unpacked, without_interrupt


class InProcess:
    """Each task runs here when its outcome is asked for."""

    capacity = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Callable[..., Any], tuple[Any, ...]]] = deque()

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Keep it for `next`."""
        self._waiting.append((name, work, arguments))

    def next(self) -> TaskOutcome:
        """Run the task that has waited longest."""
        name, work, arguments = self._waiting.popleft()
        return attempt(name, work, *arguments)

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class LocalProcesses:
    """Fresh interpreters on this machine; Ctrl-C reaches the parent alone."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._pool = pool(workers)
        self._parcels = Parcels()
        self._running: set[Future[TaskOutcome]] = set()

    def share(self, value: Any) -> Any:
        """The value itself: it is sent with every task."""
        return value

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Hand it to the pool."""
        path = self._parcels.put((name, work, *arguments))
        with without_interrupt():
            self._running.add(self._pool.submit(_attempt_parcel, path))

    def next(self) -> TaskOutcome:
        """The first that ends; a dead process ends everything that has not."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        future = done.pop()
        self._running.remove(future)
        try:
            return future.result()
        except BrokenProcessPool:
            raise BackendError(DIED) from None

    def close(self) -> None:
        """End the processes."""
        stop(self._pool, unfinished=bool(self._running))
        self._parcels.close()


def _attempt_parcel(path: Path) -> TaskOutcome:
    task = unpacked(path)
    path.unlink()
    return attempt(*task)
