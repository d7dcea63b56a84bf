"""Numbers of variables handed to the axes of their tables, and summed back.

An *axis* is one variable of one table. Handing out is a gather, summing is a ragged gather-and-add
(`tensor.layout.Bags`), and each is the other's derivative. Nothing is scattered, so that results do
not depend on the order of a GPU's threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Integers
from cmpe.tensor.layout import Bags

Map = Callable[[Tensor], Tensor]


class Incidence:
    """Which variable each of R axes belongs to."""

    def __init__(self, owner: Integers, variables: int, device: torch.device) -> None:
        self.owner = torch.as_tensor(owner, dtype=torch.int64, device=device)
        degrees = np.bincount(owner, minlength=variables)
        self.degrees = torch.as_tensor(degrees, device=device)  # (n,)
        self._bags = Bags.of([np.argsort(owner, kind="stable")], degrees, device)

    def spread(self, numbers: Tensor) -> Tensor:
        """Numbers of every variable (n, K, B) at its axes: (R, K, B)."""
        return cast(Tensor, _Transposed.apply(numbers, self.gathered, self.summed))  # type: ignore[no-untyped-call]

    def collect(self, numbers: Tensor) -> Tensor:
        """The sums over each variable's axes of numbers (R, K, B): (n, K, B)."""
        return cast(Tensor, _Transposed.apply(numbers, self.summed, self.gathered))  # type: ignore[no-untyped-call]

    def gathered(self, numbers: Tensor) -> Tensor:
        """`spread` without a derivative."""
        return numbers.index_select(0, self.owner)

    def summed(self, numbers: Tensor) -> Tensor:
        """`collect` without a derivative."""
        shape = numbers.shape[1:]
        return self._bags.sum(numbers.reshape(len(numbers), -1)).view(len(self.degrees), *shape)


class _Transposed(torch.autograd.Function):
    """A linear map whose derivative is another one: its transpose."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, there: Map, back: Map) -> Tensor:
        ctx.back = back
        return there(numbers)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(slopes.contiguous()), None, None
