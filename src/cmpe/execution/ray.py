"""Tasks on the machines of a Ray cluster."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cmpe.errors import BackendError, MissingExtra
from cmpe.execution.base import TaskOutcome, attempt
from cmpe.execution.settings import EXECUTION


@dataclass(frozen=True)
class SharedObject:
    """A value in Ray's object store: once on every machine, and fetched once by every process.

    The reference lies in a tuple, since Ray would otherwise unpack the value anew for each task.
    """

    key: str
    reference: tuple[Any]

    def fetch(self) -> Any:
        """Read it."""
        import ray

        return ray.get(self.reference[0])


@contextmanager
def connected(address: str | None, cores: int) -> Iterator[Any]:
    """Ray, connected to the cluster at `address` or to one of so many cores, started here.

    What is connected already stays so; else it is left, or stopped if it was started here.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtra.named("ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    here: dict[str, Any] = {"num_cpus": cores, "include_dashboard": False}
    where = here if address is None else {"address": address}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **where)
    except ConnectionError as error:
        raise BackendError(f"no Ray cluster answers at {address}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


class RayExecutor:
    """Tasks of a Ray cluster, a core for each thread; where a machine dies, others go on."""

    def __init__(self, address: str | None, workers: int, threads: int = 1) -> None:
        self._connection = connected(address, workers * threads)
        self._ray = ray = self._connection.__enter__()
        retries = EXECUTION.ray_retries
        options = {"max_retries": retries, "num_cpus": threads, "scheduling_strategy": "SPREAD"}
        self._remote = ray.remote(**options)(attempt)
        self._threads = threads
        self._capacity, self._counted = 1, -EXECUTION.cores_fresh
        self._running: dict[Any, str] = {}

    @property
    def capacity(self) -> int:
        """What the cores of the machines that are there now can run."""
        if time.monotonic() - self._counted > EXECUTION.cores_fresh:
            cores = int(self._ray.cluster_resources().get("CPU", 1))
            self._capacity, self._counted = max(1, cores // self._threads), time.monotonic()
        return self._capacity

    def share(self, value: Any) -> Any:
        """A reference into Ray's object store."""
        return SharedObject(uuid.uuid4().hex, (self._ray.put(value),))

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Hand it to the cluster."""
        self._running[self._remote.remote(name, work, *arguments)] = name

    def next(self) -> TaskOutcome:
        """The first that ends."""
        (done, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        name = self._running.pop(done)
        try:
            outcome: TaskOutcome = self._ray.get(done)
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return TaskOutcome(name, error=f"Ray gave the task up: {lines[0]}", trace=str(error))
        return outcome

    def close(self) -> None:
        """Cancel what runs; leave the cluster, or stop it if it was started here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._connection.__exit__(None, None, None)
