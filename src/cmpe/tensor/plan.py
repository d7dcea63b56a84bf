"""Elimination on tensors: every pass of a plan as a few dozen large operations on the whole batch.

`tensor.layout` describes where the numbers lie. Shapes are static and nothing waits for the device
within a pass, so that it can be captured in a CUDA graph; there is no loop over rows.
"""

from __future__ import annotations

import weakref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.core.buckets import VARIABLE
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import TooLarge
from cmpe.problem import Problem
from cmpe.tensor.device import scalar_on
from cmpe.tensor.layout import EvidenceTables, Layout


def device_evidence(rows: NDArray[np.integer], device: torch.device) -> Tensor:
    """Evidence (B, |X|) on the device: (|X|, B), float64."""
    return torch.as_tensor(rows, device=device).T.to(torch.float64).contiguous()


class TorchPlan:
    """The plan and the tables of a problem on one device."""

    def __init__(self, problem: Problem, device: str) -> None:
        self.most_rows = _most_rows(problem)
        self.like = scalar_on(device)
        compiled = problem.compiled_plan
        self._layout = Layout(compiled)
        self.entries, self.total = compiled.entries, compiled.total
        self.groups = [self._layout.group(g, self.like.device) for g in self._layout.groups]
        gathers = problem.conditioning.gathers
        self.functions = [EvidenceTables(g, self.entries, self.like) for g in gathers]
        variables = compiled.buckets[:, VARIABLE].tolist()
        self.variables = [variables[k] for k in self._layout.order]  # of each row of choices
        self.workspace: object = None  # what can serve again, such as CUDA graphs

    def evidence(self, rows: NDArray[np.integer]) -> Tensor:
        """Evidence (B, |X|) on the device: (|X|, B), float64."""
        return device_evidence(rows, self.like.device)

    def _sum_roots(self, numbers: Tensor) -> Tensor:
        return numbers[0] + numbers[self._layout.roots :].sum(0)

    def eliminate_max(self, numbers: Tensor, best: Tensor) -> Tensor:
        """Max-sum: fills the messages of `numbers` (total, B), returns the totals (B,).

        The same rows of `best` receive the maximisers of the messages.
        """
        for group in self.groups:
            torch.max(group.sums(numbers), 0, out=(numbers[group.rows], best[group.rows]))
        return self._sum_roots(numbers)

    def eliminate_carrying(self, numbers: Tensor, parts: int) -> Tensor:
        """Max-sum of the first of `parts` functions; the others are summed at its maximiser.

        `numbers` (total, parts * B) holds them side by side. Returns the totals (parts, B).
        """
        for group in self.groups:
            sums = group.sums(numbers)
            sums = sums.view(*sums.shape[:2], parts, -1)  # (card, entries, parts, B)
            messages = numbers[group.rows].view(*sums.shape[1:])
            # Copied, not written in place: CUDA requires both outputs of max to have equal strides.
            messages[:, 0], which = torch.max(sums[:, :, 0], 0)
            others = which[None, :, None].expand(1, -1, parts - 1, -1)
            messages[:, 1:] = torch.gather(sums[:, :, 1:], 0, others)[0]
        return self._sum_roots(numbers).view(parts, -1)

    def decode(self, best: Tensor) -> Tensor:
        """Values of `variables` (K, B) from the maximisers of all messages, roots first."""
        shape = (len(self.variables), best.shape[1])
        choice = torch.zeros(shape, device=best.device, dtype=torch.float64)
        for group in reversed(self.groups):
            rows = group.parents.sum(choice).long() + group.first
            choice[group.choices] = best.gather(0, rows).to(choice.dtype)
        return choice


def _most_rows(problem: Problem) -> int:
    """How many rows fit into the memory limit beside the indices; refused if none does."""
    plan, structure = problem.plan, problem.conditioning
    inputs = max((len(b.inputs) for b in plan.buckets), default=0)
    gathered = max(len(g.targets) for g in structure.gathers)
    parts = 1 + max(1, len(problem.constraints))
    tables = 2 * parts * (len(structure.layout.values) + gathered)
    fixed = 8 * plan.operations * (1 + inputs)
    numbers = tables + 2 * parts * plan.message_entries + (1 + 2 * parts) * plan.operations
    if fixed + 8 * numbers > MEMORY_LIMIT:
        raise TooLarge(
            f"elimination of width {plan.width} needs {(fixed + 8 * numbers) / 2**30:.4g} GiB for "
            f"one row; the limit is {MEMORY_LIMIT / 2**30:.4g} GiB"
        )
    return (MEMORY_LIMIT - fixed) // (8 * numbers)


_PLANS: dict[int, dict[str, TorchPlan]] = {}


def torch_plan(problem: Problem, device: str) -> TorchPlan:
    """The problem's plan on a device, made once; forgotten with the problem."""
    if id(problem) not in _PLANS:
        weakref.finalize(problem, _PLANS.pop, id(problem), None)
    plans = _PLANS.setdefault(id(problem), {})
    if device not in plans:
        plans[device] = TorchPlan(problem, device)
    return plans[device]
