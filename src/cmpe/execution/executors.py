"""Map independent work over local processes, or over a Ray cluster.

`map_rows`: one worker runs in this process. More run in fresh interpreters (spawn), each of which
receives the job once and then only row numbers. Ctrl-C reaches the parent alone: it stops the
workers, and the caller keeps every result already yielded.

`Executor`: named tasks that become ready one by one, in this process, in local processes or on
the machines of a Ray cluster. Arguments and results travel as values, so machines need not share
a file system. A task must be a pure function: a cluster runs it again when its machine dies.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cmpe.errors import BackendError, CmpeError, MethodError, MissingExtra

Result = TypeVar("Result")

DIED = (
    "a worker process died: it may have run out of memory, or the script that started it "
    'lacks an `if __name__ == "__main__":` guard'
)
RETRIES = 8  # of a task whose worker or machine died

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
        raise BackendError(DIED) from None
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
    _ignore_interrupt()
    _job = job


def _call(row: int) -> Any:
    assert _job is not None
    return _job(row)


@dataclass(frozen=True)
class Outcome:
    """How a task ended: its result, or one line of what went wrong and the trace of it."""

    name: str
    result: Any = None
    error: str | None = None
    trace: str = ""


class Executor(Protocol):
    """Runs named tasks, several at a time."""

    @property
    def capacity(self) -> int:
        """How many tasks keep it busy."""
        ...

    def share(self, value: Any) -> Any:
        """An argument that many tasks read: it reaches every machine once."""
        ...

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Run `work(*arguments)` when there is room."""
        ...

    def next(self) -> Outcome:
        """Wait for the next task to end, in any order."""
        ...

    def close(self) -> None:
        """Stop; what has not ended is dropped."""
        ...


def executor(kind: str = "local", *, workers: int = 1, address: str | None = None) -> Executor:
    """`local` processes (one worker: this process), or a `ray` cluster at `address`.

    Ray starts a cluster of `workers` on this machine where no address is given.
    """
    if kind not in ("local", "ray"):
        raise MethodError(f"an executor is local or ray, found {kind!r}")
    if workers < 1:
        raise MethodError(f"workers must be at least 1, found {workers}")
    if kind == "ray":
        return RayExecutor(address, workers)
    if address is not None:
        raise MethodError("only the executor ray takes an address")
    return InProcess() if workers == 1 else LocalProcesses(workers)


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

    def next(self) -> Outcome:
        """Run the task that has waited longest."""
        name, work, arguments = self._waiting.popleft()
        return _attempt(name, work, *arguments)

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class LocalProcesses:
    """Fresh interpreters on this machine; Ctrl-C reaches the parent alone."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupt)
        self._running: dict[Future[Outcome], int] = {}

    def share(self, value: Any) -> Any:
        """The value itself: it is sent with every task."""
        return value

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Hand it to the pool."""
        with _without_interrupt():
            self._running[self._pool.submit(_attempt, name, work, *arguments)] = 0

    def next(self) -> Outcome:
        """The first that ends; a dead process ends everything that has not."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        future = done.pop()
        del self._running[future]
        try:
            return future.result()
        except BrokenProcessPool:
            raise BackendError(DIED) from None

    def close(self) -> None:
        """End the processes."""
        for process in list((self._pool._processes or {}).values()) if self._running else []:
            process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


class RayExecutor:
    """Tasks of a Ray cluster, one core each; a task whose machine dies runs on another one."""

    def __init__(self, address: str | None, workers: int) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra.named("ray", "ray") from None
        self._ray = ray
        self._mine = not ray.is_initialized()
        if self._mine:
            here: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False}
            where = here if address is None else {"address": address}
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            try:
                ray.init(log_to_driver=False, logging_level="ERROR", **where)
            except ConnectionError as error:
                raise BackendError(f"no Ray cluster answers at {address}: {error}") from None
        options = {"max_retries": RETRIES, "num_cpus": 1, "scheduling_strategy": "SPREAD"}
        self._remote = ray.remote(**options)(_attempt)
        self._running: dict[Any, str] = {}

    @property
    def capacity(self) -> int:
        """The cores of the machines that are there now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def share(self, value: Any) -> Any:
        """A reference into Ray's object store."""
        return self._ray.put(value)

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Hand it to the cluster."""
        self._running[self._remote.remote(name, work, *arguments)] = name

    def next(self) -> Outcome:
        """The first that ends."""
        (done, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        name = self._running.pop(done)
        try:
            outcome: Outcome = self._ray.get(done)
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome(name, error=f"Ray gave the task up: {lines[0]}", trace=str(error))
        return outcome

    def close(self) -> None:
        """Cancel what runs; leave the cluster, or stop it if it was started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._mine:
            self._ray.shutdown()


def _attempt(name: str, work: Callable[..., Any], *arguments: Any) -> Outcome:
    """An error of one task is its outcome: the others go on."""
    try:
        return Outcome(name, work(*arguments))
    except Exception as error:
        line = str(error) if isinstance(error, CmpeError) else f"{type(error).__name__}: {error}"
        return Outcome(name, error=" ".join(line.split()), trace=traceback.format_exc())


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
