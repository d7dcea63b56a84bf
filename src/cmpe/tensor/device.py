"""Devices by name, the way back to numpy, and when a batch stops.

Without torch, importing this module raises MissingExtra; the rest of the room builds on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cmpe.arrays import Floats
from cmpe.bounds.base import Work
from cmpe.bounds.settings import SETTINGS
from cmpe.core.compiler import timing
from cmpe.errors import MethodError, MissingExtra

try:
    import torch
    from torch import Tensor
except ImportError:
    raise MissingExtra.named("torch", "learn") from None

INF = float("inf")


def device_named(device: str) -> torch.device:
    """The device, if torch has it on this machine."""
    return scalar_on(device, torch.float32).device


def scalar_on(device: str, dtype: torch.dtype = torch.float64) -> Tensor:
    """A zero on the device, for other tensors to be made like it; refuses what torch lacks."""
    try:
        return torch.zeros((), device=device, dtype=dtype)
    except (AssertionError, RuntimeError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise MethodError(f"device {device!r} cannot be used: {reason}") from None


def as_array(tensor: Tensor) -> Floats:
    """The numbers in float64, on this machine."""
    return tensor.to(torch.float64).cpu().numpy()


def batch_steps(work: Work, rows: int, going: Callable[[], bool]) -> Iterator[int]:
    """The steps 1, 2, ... of rows that move together, until the work is done.

    `going` waits for the device and returns whether more steps can help. A time limit of so many
    seconds a row is that many times `rows` for all of them, on the wall clock.
    """
    until = INF if work.time_limit is None else timing.now() + rows * work.time_limit
    for number in range(1, work.most_steps + 1):
        if number % SETTINGS.clock_checked == 1 and (not going() or timing.now() >= until):
            return
        yield number


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Small products gain little from threads and lose a lot when cores are busy. Moments of
    saturated outputs fade into denormal numbers, which are slow: they count as 0."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
