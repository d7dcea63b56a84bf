"""Data-parallel training: every process takes its share of each batch (torchrun).

All processes draw the same batches from the seed and take turns through each of them, so the
sum of their gradients is the gradient of the whole batch. What is kept per example is touched
by one process in an epoch and merged after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from cmpe.errors import MethodError
from cmpe.learning.losses.alpha import Examples


@dataclass(frozen=True)
class Ranks:
    """This process among `size`."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"  # where its tensors are
    grouped: bool = False  # whether there is a process group; torchrun makes one of one, too

    @property
    def leads(self) -> bool:
        """Whether this process writes files and progress."""
        return self.rank == 0

    def share_of(self, batch: int) -> slice:
        """The columns of a batch that this process takes."""
        if batch % self.size:
            raise MethodError(
                f"batch_size must be a multiple of the {self.size} processes, found {batch}"
            )
        part = batch // self.size
        return slice(self.rank * part, (self.rank + 1) * part)

    def add_up(self, numbers: Tensor) -> None:
        """The sum over all processes, in place."""
        if self.grouped:
            dist.all_reduce(numbers)

    def merge(self, examples: Examples) -> None:
        """Share what was learnt of each example: bounds fall, lambda rises."""
        if not self.grouped:
            return
        known = examples.p_upper.nan_to_num(nan=torch.inf)
        dist.all_reduce(known, op=dist.ReduceOp.MIN)
        examples.p_upper.copy_(known.masked_fill(known.isinf(), torch.nan))
        dist.all_reduce(examples.penalty, op=dist.ReduceOp.MAX)
        examples.refresh()

    def any(self, here: bool) -> bool:
        """Whether it is so in any process."""
        flag = torch.tensor(float(here), device=self.device)
        self.add_up(flag)
        return bool(flag > 0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.grouped:
            dist.barrier()


@contextmanager
def ranks_from_environment(device: str) -> Iterator[Ranks]:
    """The process group that is there, or that torchrun describes, or this process alone.

    On a GPU (nccl) there is one process for each of a machine's GPUs, which LOCAL_RANK counts.
    """
    on_gpu = device.startswith("cuda")
    if dist.is_available() and dist.is_initialized():
        yield _ranks(on_gpu)
        return
    if not {"WORLD_SIZE", "RANK", "MASTER_ADDR"} <= set(os.environ):
        yield Ranks()
        return
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield _ranks(on_gpu)
    finally:
        dist.destroy_process_group()


def _ranks(on_gpu: bool) -> Ranks:
    device = "cuda" if on_gpu else "cpu"
    return Ranks(dist.get_rank(), dist.get_world_size(), device, grouped=True)
