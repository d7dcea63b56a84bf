"""Where independent work runs: this process, local processes, or a Ray cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from cmpe.errors import MethodError
from cmpe.execution.base import Executor
from cmpe.execution.local import InProcess, LocalProcesses
from cmpe.execution.ray import RayExecutor, connected

LOCAL, RAY = KINDS = ("local", "ray")


@dataclass(frozen=True)
class Workplace:
    """Where blocks of rows run: on so many workers, each with so many threads."""

    kind: str = LOCAL
    workers: int = 1
    threads: int = 1
    address: str | None = None  # of a Ray cluster

    def executor(self) -> Executor:
        """What runs them there."""
        return executor(
            self.kind, workers=self.workers, address=self.address, threads=self.threads
        )  # fmt: skip

    def kept(self) -> AbstractContextManager[Any]:
        """Stay connected to the cluster, or keep the one that is started here, between calls."""
        if self.kind != RAY:
            return nullcontext()
        return connected(self.address, self.workers * self.threads)


def executor(
    kind: str = LOCAL, *, workers: int = 1, address: str | None = None, threads: int = 1
) -> Executor:
    """`local` processes (one worker: this process), or a `ray` cluster at `address`.

    Ray starts a cluster of `workers` on this machine where no address is given. Every task may use
    so many threads.
    """
    check_kind(kind, address)
    if workers < 1:
        raise MethodError(f"workers must be at least 1, found {workers}")
    if kind == RAY:
        return RayExecutor(address, workers, threads)
    return InProcess() if workers == 1 else LocalProcesses(workers, threads)


def check_kind(kind: str, address: str | None) -> None:
    """Refuse an unknown executor, and an address of one that takes none."""
    if kind not in KINDS:
        raise MethodError(f"an executor is local or ray, found {kind!r}")
    if address is not None and kind != RAY:
        raise MethodError("only the executor ray takes an address")
