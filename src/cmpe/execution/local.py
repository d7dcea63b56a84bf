"""Tasks on this machine: in this process, or in several."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cmpe.errors import BackendError
from cmpe.execution.base import TaskOutcome, attempt
from cmpe.execution.processes import (
    DIED,
    Parcels,
    few_threads,
    pool,
    stop,
    unpacked,
    without_interrupt,
)
from cmpe.execution.settings import EXECUTION


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


@dataclass(frozen=True, eq=False)
class SharedFile:
    """A value in a file, which every process maps into its memory."""

    path: Path

    @property
    def key(self) -> str:
        """Its path."""
        return str(self.path)

    def fetch(self) -> Any:
        """Read it."""
        return unpacked(self.path)


@dataclass(frozen=True, eq=False)
class _SentTask:
    """A task on its way: what it is called, where it lies, what it reads, how often it was sent."""

    name: str
    path: Path
    arguments: tuple[Any, ...]  # held on to: a shared file goes when nobody knows it any more
    tries: int = 1


class LocalProcesses:
    """Fresh interpreters on this machine; Ctrl-C reaches the parent alone.

    When one dies, others take their place, and what had not ended is sent again.
    """

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.capacity = workers
        self._threads = threads
        self._pool = pool(workers)
        self._parcels = Parcels()
        self._running: dict[Future[TaskOutcome], _SentTask] = {}

    def share(self, value: Any) -> Any:
        """A file that all processes read; it is removed when nothing here refers to it."""
        shared = SharedFile(self._parcels.put(value))
        weakref.finalize(shared, _remove, shared.path)
        return shared

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Hand it to the pool."""
        self._send(_SentTask(name, self._parcels.put((name, work, *arguments)), arguments))

    def _send(self, task: _SentTask) -> None:
        try:
            with without_interrupt(), few_threads(self._threads):
                self._running[self._pool.submit(_attempt_parcel, task.path)] = task
        except BrokenProcessPool:  # one has died, and nobody has asked for outcomes since
            if task.tries > EXECUTION.retries:
                raise BackendError(DIED) from None
            self._begin_again()
            self._send(replace(task, tries=task.tries + 1))

    def next(self) -> TaskOutcome:
        """The first that ends."""
        while True:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            future = done.pop()
            try:
                outcome = future.result()
            except BrokenProcessPool:
                self._begin_again()
                continue
            _remove(self._running.pop(future).path)
            return outcome

    def _begin_again(self) -> None:
        """Other processes, and to them what had not ended."""
        ended = [future for future in self._running if _has_result(future)]
        lost = [task for future, task in self._running.items() if future not in ended]
        if any(task.tries > EXECUTION.retries for task in lost):
            raise BackendError(DIED)
        stop(self._pool, unfinished=True)
        self._pool = pool(self.capacity)
        self._running = {future: self._running[future] for future in ended}
        for task in lost:
            self._send(replace(task, tries=task.tries + 1))

    def close(self) -> None:
        """End the processes."""
        stop(self._pool, unfinished=bool(self._running))
        self._parcels.close()


def _remove(path: Path) -> None:
    """Remove a file; Windows refuses while a worker has it mapped, and the folder goes later."""
    with contextlib.suppress(OSError):
        path.unlink()


def _has_result(future: Future[TaskOutcome]) -> bool:
    return future.done() and future.exception() is None


def _attempt_parcel(path: Path) -> TaskOutcome:
    return attempt(*unpacked(path))
