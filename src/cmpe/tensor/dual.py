"""The Lagrangian dual of one constraint on tensors: all rows at once (SPEC §3.4).

    D(mu) = max over y of h(y) - mu t(y), plus mu q, for mu >= 0

The algorithm, with its kinds and stopping rule, is that of `bounds.dual_kernels`: evaluate D
where the best feasible and the best infeasible line cross until no new line appears. Rows that
are done keep their mu. One evaluation is a pass over the plan; the host waits once for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.bounds.base import PADDING
from cmpe.bounds.kernels.dual import BOUND, CLOSE, FREE, INFEASIBLE, MOST_STEPS, RUNNING, SLACK
from cmpe.errors import MethodError
from cmpe.problem import Evidence, Problem
from cmpe.tensor.layout import Bags, satisfied
from cmpe.tensor.plan import INF, TorchPlan, as_array, torch_plan


class DualResult(NamedTuple):
    """What `minimise_dual` finds for every row: (B,) each."""

    mu: Floats
    upper: Floats  # D(mu) >= the best feasible objective
    lower: Floats  # the objective of the best feasible assignment on the way, or -inf
    kind: NDArray[np.int64]  # of `bounds.dual_kernels`


class Dual:
    """`bounds.dual_kernels.minimise_dual` for a fixed number of rows, each tensor in its place."""

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        self._plan, self.rows, self._used = plan, rows, False
        (constraint,) = problem.constraints
        self._limit = constraint.loosened(PADDING)
        self._finite = constraint.function.is_finite
        self._close = max(CLOSE, 64 * torch.finfo(plan.like.dtype).eps)
        sizes = np.diff(problem.conditioning.layout.offsets)
        self._tables = Bags.of([np.arange(plan.entries)], sizes, plan.like.device)
        observed = (len(problem.evidence_variables), rows)
        self._evidence = torch.zeros(observed, device=plan.like.device, dtype=torch.float64)
        self._h, self._t = plan.like.new_zeros((2, plan.entries, rows))
        self._numbers = plan.like.new_zeros((plan.total, 2 * rows))
        self._values = self._numbers[: plan.entries, :rows]  # h - mu t
        self._carried = self._numbers[: plan.entries, rows:]
        self.mu, self.upper, self.lower = plan.like.new_zeros((3, rows))
        self._total, self._high_h, self._high_t, self._low_t = plan.like.new_zeros((4, rows))
        self.kind = torch.zeros(rows, device=plan.like.device, dtype=torch.int64)
        self._graphs: tuple[Callable[[], None], Callable[[], None]] | None = None

    def solve(self, evidence: Tensor, graph: bool) -> None:
        """Fill mu, upper, lower and kind; the second call on a GPU captures its passes."""
        graph = graph and self.mu.is_cuda
        if graph and self._used and self._graphs is None:
            self._graphs = (captured(self._begin), captured(self._step))
        self._used = True
        self._evidence.copy_(evidence)
        eager = (self._begin, self._step)
        begin, step = self._graphs if graph and self._graphs else eager
        begin()
        for _ in range(MOST_STEPS):
            if not bool((self.kind == RUNNING).any()):  # the one place that waits for the device
                break
            step()
        self._finish()

    def _begin(self) -> None:
        """The least t, then mu = 0: which rows are free, which infeasible, and two lines."""
        plan, h, t = self._plan, self._h, self._t
        h.copy_(plan.functions[0].given(self._evidence))
        t.copy_(self._satisfied(plan.functions[1].given(self._evidence)))
        torch.neg(t, out=self._values).masked_fill_(h == -INF, -INF)
        self._carried.copy_(h)
        least, at_least = plan.eliminate_carrying(self._numbers)
        self._values.copy_(h)
        self._carried.copy_(t)
        total, carry = plan.eliminate_carrying(self._numbers)
        free = carry <= self._limit
        infeasible = (total == -INF) | (~free & (-least > self._limit))
        self.mu.zero_()
        self.kind.fill_(RUNNING).masked_fill_(free, FREE).masked_fill_(infeasible, INFEASIBLE)
        self.upper.copy_(total).masked_fill_(infeasible, -INF)
        self.lower.copy_(torch.where(free, total, at_least)).masked_fill_(infeasible, -INF)
        self._total.copy_(total)
        self._high_h.copy_(total)
        self._high_t.copy_(carry)
        self._low_t.copy_(-least)

    def _satisfied(self, t: Tensor) -> Tensor:
        """-inf in t becomes a number that satisfies t <= limit whatever else is chosen."""
        if self._finite:
            return t
        return satisfied(self._tables, t, self._limit)

    def _step(self) -> None:
        """D where the two lines cross; a new line replaces one of them, or mu is the minimiser."""
        running = self.kind == RUNNING
        crossing = (self._high_h - self.lower) / (self._high_t - self._low_t)
        self.mu.copy_(torch.where(running, crossing.clamp(min=0.0), self.mu))
        torch.addcmul(self._h, self._t, self.mu, value=-1.0, out=self._values)
        total, carry = self._plan.eliminate_carrying(self._numbers)
        self._total.copy_(total)
        line, bound = self.lower - self.mu * self._low_t, total + self.mu * self._limit
        done = running & (total - line <= self._close * (1.0 + line.abs()))
        best = torch.where(done, bound, torch.minimum(self.upper, bound))
        self.upper.copy_(torch.where(running, best, self.upper))
        self.kind.masked_fill_(done, BOUND)
        objective, going = total + self.mu * carry, running & ~done
        falls, rises = going & (carry > self._limit), going & (carry <= self._limit)
        self._high_h.copy_(torch.where(falls, objective, self._high_h))
        self._high_t.copy_(torch.where(falls, carry, self._high_t))
        self.lower.copy_(torch.where(rises, objective, self.lower))
        self._low_t.copy_(torch.where(rises, carry, self._low_t))

    def _finish(self) -> None:
        """Rows that ran out of steps keep their last D(mu); rounding is added to every bound."""
        left = self.kind == RUNNING
        shift = self.mu * self._limit
        self.upper.copy_(torch.where(left, self._total + shift, self.upper))
        self.kind.masked_fill_(left, BOUND)
        sizes = self._numbers[:, : self.rows].abs()
        largest = sizes.masked_fill_(sizes == INF, 0.0).amax(0)
        buckets = len(self._plan.variables)
        self.upper.add_(SLACK * ((1.0 + buckets) * (1.0 + largest) + shift.abs()))


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """`work` as a CUDA graph: one launch for all of its kernels."""
    work()  # loads every kernel
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def minimise_dual(
    problem: Problem,
    evidence: Evidence | None = None,
    device: str = "cpu",
    dtype: str = "float64",
    graph: bool = True,
) -> DualResult:
    """min over mu >= 0 of D(mu) = max over y of h - mu (t - q), for all rows of one constraint.

    q includes the tolerance of feasibility, so that `upper` bounds every feasible objective; in
    float32 it is an estimate. On a GPU, calls with one number of rows share CUDA graphs from the
    second one on, unless `graph` is off.
    """
    if len(problem.constraints) != 1:
        raise MethodError(f"needs exactly one constraint, found {len(problem.constraints)}")
    rows = problem.given(evidence).evidence
    plan = torch_plan(problem, device, dtype)
    width = max(1, min(len(rows), plan.most_rows))
    dual = _dual(plan, problem, width)
    out = [np.zeros((4, 0))]
    for start in range(0, len(rows), width):
        block = rows[np.minimum(np.arange(start, start + width), len(rows) - 1)]
        with torch.cuda.device_of(plan.like):  # type: ignore[no-untyped-call]
            dual.solve(plan.evidence(block), graph)
        found = torch.stack([dual.mu, dual.upper, dual.lower, dual.kind.to(dual.mu.dtype)])
        out.append(as_array(found[:, : len(rows) - start]))
    mu, upper, lower, kind = np.concatenate(out, axis=1)
    return DualResult(mu, upper, lower, kind.astype(np.int64))


def _dual(plan: TorchPlan, problem: Problem, rows: int) -> Dual:
    """The last one, if it is for as many rows: its tensors and graphs serve again."""
    last = plan.kept.get("dual")
    if isinstance(last, Dual) and last.rows == rows:
        return last
    del last
    plan.kept.pop("dual", None)  # its memory first
    dual = Dual(plan, problem, rows)
    plan.kept["dual"] = dual
    return dual
