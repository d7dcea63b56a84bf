"""Inference on tensors: every pass of a plan as a few dozen large operations on the whole batch.

`inference_layout` says where the numbers lie. Shapes are static and nothing waits for the device
within a pass, so that it can be captured in a CUDA graph; there is no loop over rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Assignments, Floats
from cmpe.elimination.kernels import VARIABLE
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import MethodError, TooLarge
from cmpe.problem import Instances, Problem
from cmpe.tensor.layout import Bags, Layout, Tables

DTYPES = {"float64": torch.float64, "float32": torch.float32}
INF = float("inf")


def placed(device: str, dtype: str) -> Tensor:
    """A number on the device, for others to be made like it."""
    if dtype not in DTYPES:
        raise MethodError(f"dtype must be one of {', '.join(DTYPES)}, found {dtype!r}")
    try:
        return torch.zeros((), device=device, dtype=DTYPES[dtype])
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        raise MethodError(f"device {device!r} cannot be used: {error}") from None


def device_evidence(rows: NDArray[np.integer], device: torch.device) -> Tensor:
    """Evidence (B, |X|) on the device: (|X|, B), float64."""
    return torch.as_tensor(rows, device=device).T.to(torch.float64).contiguous()


class TorchPlan:
    """The plan and the tables of a problem on one device, in one precision."""

    def __init__(self, problem: Problem, device: str, dtype: str) -> None:
        self.most_rows = _most_rows(problem)
        self.like = placed(device, dtype)
        compiled = problem.compiled_plan
        self._layout = Layout(compiled)
        self.entries, self.total, self.pairs = compiled.entries, compiled.total, compiled.pairs
        self.offsets = problem.conditioning.layout.offsets
        self.groups = [self._layout.group(g, self.like.device) for g in self._layout.groups]
        self.functions = [Tables(g, self.entries, self.like) for g in problem.conditioning.gathers]
        variables = compiled.buckets[:, VARIABLE].tolist()
        self.variables = [variables[k] for k in self._layout.order]  # of each row of choices
        self._place = {v: k for k, v in enumerate(variables)}
        self._free = problem.conditioning.free
        self.kept: dict[str, object] = {}  # what can serve again, such as CUDA graphs

    @cached_property
    def agreeing(self) -> list[Bags]:
        """For each group: the pairs of the parents that agree with each row of its messages."""
        return [self._layout.agreeing(g, self.like.device) for g in self._layout.groups]

    @cached_property
    def marginals(self) -> Bags:
        """The pairs of each value of each free variable."""
        rows = [self._layout.pair_rows(self._place[v]) for v in self._free]
        lengths = [np.zeros(0, np.int64), *(np.full(len(r), r.shape[1]) for r in rows)]
        return Bags.of([r.ravel() for r in rows], np.concatenate(lengths), self.like.device)

    def evidence(self, rows: NDArray[np.integer]) -> Tensor:
        """Evidence (B, |X|) on the device: (|X|, B), float64."""
        return device_evidence(rows, self.like.device)

    def _sum_roots(self, numbers: Tensor) -> Tensor:
        return numbers[0] + numbers[self._layout.roots :].sum(0)

    def eliminate_log_sum(self, numbers: Tensor) -> Tensor:
        """log-sum-exp: fills the messages of `numbers` (total, B), returns the totals (B,)."""
        for group in self.groups:
            torch.logsumexp(group.sums(numbers), 0, out=numbers[group.rows])
        return self._sum_roots(numbers)

    def eliminate_max(self, numbers: Tensor, best: Tensor) -> Tensor:
        """Max-sum: fills the messages and, in the same rows of `best`, their maximisers."""
        for group in self.groups:
            torch.max(group.sums(numbers), 0, out=(numbers[group.rows], best[group.rows]))
        return self._sum_roots(numbers)

    def eliminate_carrying(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Max-sum over the left half of `numbers` (total, 2 B); the right half follows along."""
        half = numbers.shape[1] // 2
        for group in self.groups:
            sums, messages = group.sums(numbers), numbers[group.rows]
            # Copied, not written in place: CUDA wants both outputs of max to have equal strides.
            messages[:, :half], which = torch.max(sums[..., :half], 0)
            messages[:, half:] = torch.gather(sums[..., half:], 0, which[None])[0]
        total = self._sum_roots(numbers)
        return total[:half], total[half:]

    def decode(self, best: Tensor) -> Tensor:
        """Values of `variables` (K, B) from the maximisers of all messages, roots first."""
        shape = (len(self.variables), best.shape[1])
        choice = torch.zeros(shape, device=best.device, dtype=torch.float64)
        for group in reversed(self.groups):
            rows = group.parents.sum(choice).long() + group.first
            choice[group.choices] = best.gather(0, rows).to(choice.dtype)
        return choice

    def descend(self, numbers: Tensor) -> Tensor:
        """The greatest sum of gains (see `inference_kernels`) each value is part of: (S, B)."""
        reached = numbers.new_zeros((self.pairs, numbers.shape[1]))
        for group, agreeing in zip(reversed(self.groups), reversed(self.agreeing), strict=True):
            sums = group.sums(numbers)
            gain = (sums - numbers[group.rows]).masked_fill_(sums == -INF, -INF)
            if len(agreeing.indices):  # not a root, where nothing is lost yet
                gain += agreeing.max(reached)
            reached[group.pairs] = gain.view(-1, numbers.shape[1])
        return self.marginals.max(reached)


def _most_rows(problem: Problem) -> int:
    """How many rows fit into the memory limit beside the indices; refused if none does."""
    plan, structure = problem.plan, problem.conditioning
    inputs = max((len(b.inputs) for b in plan.buckets), default=0)
    gathered = max(len(g.targets) for g in structure.gathers)
    tables = 4 * (len(structure.layout.values) + gathered)
    fixed = 8 * plan.operations * (1 + inputs)
    per_row = 8 * (tables + 4 * plan.message_entries + 5 * plan.operations)
    if fixed + per_row > MEMORY_LIMIT:
        raise TooLarge(
            f"elimination of width {plan.width} needs {(fixed + per_row) / 2**30:.4g} GiB for "
            f"one row; the limit is {MEMORY_LIMIT / 2**30:.4g} GiB"
        )
    return (MEMORY_LIMIT - fixed) // per_row


_PLANS: dict[int, dict[tuple[str, str], TorchPlan]] = {}


def torch_plan(problem: Problem, device: str, dtype: str) -> TorchPlan:
    """The problem's plan on a device, made once; forgotten with the problem."""
    if id(problem) not in _PLANS:
        weakref.finalize(problem, _PLANS.pop, id(problem), None)
    plans = _PLANS.setdefault(id(problem), {})
    if (device, dtype) not in plans:
        plans[device, dtype] = TorchPlan(problem, device, dtype)
    return plans[device, dtype]


class TensorEngine:
    """`inference.Engine` on tensors: as many rows at once as fit into memory."""

    def __init__(self, instances: Instances, device: str, dtype: str) -> None:
        self._instances = instances
        self._plan = torch_plan(instances.problem, device, dtype)

    def _chunks(self, which: int, sign: float = 1.0) -> Iterator[tuple[slice, Tensor]]:
        plan, count = self._plan, len(self._instances)
        for start in range(0, count, plan.most_rows):
            rows = slice(start, min(start + plan.most_rows, count))
            tables = plan.functions[which].given(plan.evidence(self._instances.evidence[rows]))
            numbers = tables.new_zeros((plan.total, tables.shape[1]))
            torch.mul(tables, sign, out=numbers[: plan.entries])
            yield rows, numbers

    def extreme(self, which: int, sign: float) -> tuple[Floats, Assignments]:
        """The maximum of `sign` times the function, times `sign`, and where it is attained."""
        values = np.zeros(len(self._instances))
        assignments = self._instances.complete(0)
        for rows, numbers in self._chunks(which, sign):
            best = torch.zeros_like(numbers, dtype=torch.int64)
            values[rows] = as_array(sign * self._plan.eliminate_max(numbers, best))
            choice = self._plan.decode(best)
            assignments[rows, self._plan.variables] = choice.T.cpu().numpy()
        return values, assignments

    def log_partition(self, which: int) -> Floats:
        """log sum exp over the completions: (B,)."""
        out = np.zeros(len(self._instances))
        for rows, numbers in self._chunks(which):
            out[rows] = as_array(self._plan.eliminate_log_sum(numbers))
        return out

    def max_marginals(self, which: int) -> Floats:
        """(B, S), variables in the order of `conditioning.free`."""
        out = np.zeros((len(self._instances), len(self._plan.marginals.starts)))
        for rows, numbers in self._chunks(which):
            best = torch.zeros_like(numbers, dtype=torch.int64)
            total = self._plan.eliminate_max(numbers, best)
            out[rows] = as_array((total + self._plan.descend(numbers)).T)
        return out


def as_array(tensor: Tensor) -> Floats:
    """In float64, on this machine."""
    return tensor.to(torch.float64).cpu().numpy()
