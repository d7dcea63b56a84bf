"""Where independent work runs: this process, local processes, or a Ray cluster."""

from __future__ import annotations

from cmpe.errors import MethodError
from cmpe.execution.base import Executor
from cmpe.execution.local import InProcess, LocalProcesses
from cmpe.execution.ray import RayExecutor


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
