"""The Lagrangian dual on tensors: all rows at once (docs/mathematics.md, "Bounds where ...").

    D(mu) = max over y of h(y) - sum_j mu_j t_j(y), plus sum_j mu_j q_j, for mu >= 0

The algorithms, with their stopping rules, are those of `core.dual`. One constraint:
evaluate D where the best feasible and the best infeasible line cross until no new line appears;
rows that are done keep their mu, and the host waits once for each evaluation. Several: a fixed
number of subgradient steps. One evaluation is a pass over the plan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cmpe.bounds.base import PADDING
from cmpe.bounds.lagrangian import Dual
from cmpe.core.dual import CLOSE, SLACK
from cmpe.core.multipliers import DUAL_RULE
from cmpe.core.settings import EXACT
from cmpe.problem import Instances, Problem
from cmpe.tensor.device import INF, as_array
from cmpe.tensor.layout import Bags, satisfied
from cmpe.tensor.plan import TorchPlan, torch_plan
from cmpe.tensor.steps import Aim


class PricedTables:
    """h - sum_j mu_j t_j of a fixed number of rows, its maximum and its maximiser."""

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        self.plan, self.rows, self._parts = plan, rows, 1 + len(problem.constraints)
        new, device = plan.like.new_zeros, plan.like.device
        constraints = problem.constraints
        self.limits = new((len(constraints), 1))
        self.limits[:, 0] = plan.like.new_tensor([c.loosened(PADDING) for c in constraints])
        self._limits = [c.loosened(PADDING) for c in constraints]
        self._finite = [c.function.is_finite for c in constraints]
        sizes = np.diff(problem.conditioning.layout.offsets)
        self._tables = Bags.of([np.arange(plan.entries)], sizes, device)
        self.evidence = new((len(problem.evidence_variables), rows))
        self._h, self._t = new((plan.entries, rows)), new((len(constraints), plan.entries, rows))
        self._numbers = new((plan.total, self._parts * rows))
        every = self._numbers[: plan.entries].view(plan.entries, self._parts, rows)
        self._values, self._carried = every[:, 0], every[:, 1:]
        self._alone = new((plan.total, rows))
        self._best = torch.zeros((plan.total, rows), device=device, dtype=torch.int64)

    def load(self) -> None:
        """The tables that `evidence` leaves; -inf in a t becomes a number that satisfies it."""
        h, *t = (function.given(self.evidence) for function in self.plan.functions)
        self._h.copy_(h)
        for j, raw in enumerate(t):
            finite = self._finite[j]
            self._t[j] = raw if finite else satisfied(self._tables, raw, self._limits[j])

    def least(self, j: int) -> tuple[Tensor, Tensor]:
        """The least t_j where h allows anything, inf if it does not, and h there: (B,) each."""
        self._values.copy_(self._negated(j))
        self._carried.copy_(self._h[:, None])
        total, h, *_ = self.plan.eliminate_carrying(self._numbers, self._parts)
        return -total, h

    def _negated(self, j: int) -> Tensor:
        return (-self._t[j]).masked_fill_(self._h == -INF, -INF)

    def maximum(self, mu: Tensor) -> tuple[Tensor, Tensor]:
        """The maximum at multipliers (m, B), and each t_j of the maximiser: (B,), (m, B)."""
        self._values.copy_(self._priced(mu))
        self._carried.copy_(self._t.transpose(0, 1))
        total = self.plan.eliminate_carrying(self._numbers, self._parts)
        return total[0], total[1:]

    def _priced(self, mu: Tensor) -> Tensor:
        values = self._h.clone()
        for price, table in zip(mu, self._t, strict=True):
            values.addcmul_(table, price, value=-1.0)
        return values

    def maximiser(self, mu: Tensor) -> Tensor:
        """What `plan.variables` take at multipliers (m, B); inf stands for the least t: (K, B)."""
        finite = mu.isfinite()
        values = self._priced(torch.where(finite, mu, 0.0))
        for j, finite_mu in enumerate(finite):
            values = torch.where(finite_mu, values, self._negated(j))
        self._alone[: len(values)] = values
        self.plan.eliminate_max(self._alone, self._best)
        return self.plan.decode(self._best)

    def rounding(self, mu: Tensor) -> Tensor:
        """What rounding can have taken off the last maximum and the prices' sum: (B,)."""
        sizes = self._numbers[:, : self.rows].abs()
        largest = sizes.masked_fill_(sizes == INF, 0.0).amax(0)
        price = (mu * self.limits).abs().sum(0)
        return SLACK * ((1.0 + len(self.plan.variables)) * (1.0 + largest) + price)


class Minimum:
    """The minimum of D so far, in fixed places, so that graphs can be replayed."""

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        self.tables, new = PricedTables(plan, problem, rows), plan.like.new_zeros
        count = len(problem.constraints)
        self.mu = new((count, rows))
        self.upper, self.lower = new((2, rows))
        self.feasible, self.violating = new((2, len(plan.variables), rows))
        self.low_at, self.high_at = new((2, count, rows))  # where those are the maximisers
        self.infeasible = torch.zeros(rows, device=plan.like.device, dtype=torch.bool)

    def certify(self) -> None:
        """Add rounding to the bound and decode both extreme answers."""
        self.upper.add_(self.tables.rounding(self.mu)).masked_fill_(self.infeasible, -INF)
        self.feasible.copy_(self.tables.maximiser(self.low_at))
        self.violating.copy_(self.tables.maximiser(self.high_at))


class CrossingLines:
    """One constraint, exactly: `core.dual.minimise_dual`."""

    steps = EXACT.bracket_steps

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        self.found = Minimum(plan, problem, rows)
        self._tables = self.found.tables
        new = plan.like.new_zeros
        self._total, self._high_h, self._high_t, self._low_t = new((4, rows))
        self._running = torch.zeros(rows, device=plan.like.device, dtype=torch.bool)

    def begin(self) -> None:
        """The least t, then mu = 0: which rows are decided already, and two lines."""
        minimum = self.found
        self._tables.load()
        limit = self._tables.limits[0]
        least, at_least = self._tables.least(0)
        minimum.mu.zero_()
        total, (carry,) = self._tables.maximum(minimum.mu)
        inactive = carry <= limit
        minimum.infeasible.copy_((total == -INF) | (~inactive & (least > limit)))
        self._running.copy_(~inactive & ~minimum.infeasible)
        minimum.upper.copy_(total)
        minimum.lower.copy_(torch.where(inactive, total, at_least))
        minimum.lower.masked_fill_(minimum.infeasible, -INF)
        minimum.low_at.copy_(torch.where(inactive, 0.0, INF))
        minimum.high_at.zero_()
        self._total.copy_(total)
        self._high_h.copy_(total)
        self._high_t.copy_(carry)
        self._low_t.copy_(least)

    def step(self) -> None:
        """D where the two lines cross; a new line replaces one of them, or mu is the minimiser."""
        minimum = self.found
        limit, running = self._tables.limits[0], self._running.clone()
        crossing = (self._high_h - minimum.lower) / (self._high_t - self._low_t)
        minimum.mu.copy_(torch.where(running, crossing.clamp(min=0.0), minimum.mu))
        total, (carry,) = self._tables.maximum(minimum.mu)
        mu = minimum.mu[0]
        line, bound = minimum.lower - mu * self._low_t, total + mu * limit
        done = running & (total - line <= CLOSE * (1.0 + line.abs()))
        best = torch.where(done, bound, torch.minimum(minimum.upper, bound))
        minimum.upper.copy_(torch.where(running, best, minimum.upper))
        self._total.copy_(total)
        self._running.copy_(running & ~done)
        falls = self._running & (carry > limit)
        rises = self._running & (carry <= limit)
        self._replace(
            falls, (self._high_h, self._high_t, minimum.high_at), total + mu * carry, carry
        )
        self._replace(
            rises, (minimum.lower, self._low_t, minimum.low_at), total + mu * carry, carry
        )

    def _replace(
        self, where: Tensor, line: tuple[Tensor, Tensor, Tensor], h: Tensor, t: Tensor
    ) -> None:
        minimum = self.found
        for old, new in zip(line, (h, t, minimum.mu), strict=True):
            old.copy_(torch.where(where, new, old))

    def is_done(self) -> bool:
        """Whether no row runs any more; waits for the device."""
        return not bool(self._running.any())

    def end(self) -> None:
        """Rows that ran out of steps keep their last D(mu)."""
        minimum = self.found
        last = self._total + minimum.mu[0] * self._tables.limits[0]
        minimum.upper.copy_(torch.where(self._running, last, minimum.upper))
        minimum.certify()


class Subgradients:
    """Several constraints, or none: `core.dual.descend_dual`."""

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        self.found = Minimum(plan, problem, rows)
        self._tables = self.found.tables
        self._current = torch.zeros_like(self.found.mu)
        self._aim = Aim(DUAL_RULE, plan.like.new_zeros(rows))
        self.steps = EXACT.subgradient_steps if problem.constraints else 1

    def begin(self) -> None:
        """All multipliers are 0; a row is infeasible if the least of one t exceeds its limit."""
        minimum = self.found
        self._tables.load()
        minimum.infeasible.zero_()
        for j, limit in enumerate(self._tables.limits):
            minimum.infeasible |= self._tables.least(j)[0] > limit
        for tensor in (minimum.mu, self._current, minimum.low_at):
            tensor.zero_()
        self._aim.reset()
        minimum.upper.fill_(INF)
        minimum.lower.fill_(-INF)

    def step(self) -> None:
        """Evaluate D, keep the best, step towards a share below the best bound."""
        minimum = self.found
        current, limits = self._current, self._tables.limits
        total, sums = self._tables.maximum(current)
        over = sums - limits
        bound = total + (current * limits).sum(0)
        objective = total + (current * sums).sum(0)
        norm = torch.where((over > 0.0) | (current > 0.0), over * over, 0.0).sum(0)
        fall = self._aim.fall(bound, minimum.upper)
        lower = bound < minimum.upper
        minimum.upper.copy_(torch.where(lower, bound, minimum.upper))
        minimum.mu.copy_(torch.where(lower, current, minimum.mu))
        better = (over <= 0.0).all(0) & (objective > minimum.lower)
        minimum.lower.copy_(torch.where(better, objective, minimum.lower))
        minimum.low_at.copy_(torch.where(better, current, minimum.low_at))
        length = fall / torch.where(norm > 0.0, norm, 1.0)
        length = torch.where(norm > 0.0, length, 0.0)
        current.copy_((current + length * over).clamp(min=0.0))

    def is_done(self) -> bool:
        """Never before the last step."""
        return False

    def end(self) -> None:
        """The maximiser at the best multipliers is the answer on the other side."""
        minimum = self.found
        minimum.infeasible |= minimum.upper == -INF
        self._tables.maximum(minimum.mu)
        minimum.high_at.copy_(minimum.mu)
        minimum.certify()


class Workspace:
    """Minimises D of as many rows as its tensors have; the second call on a GPU uses graphs."""

    def __init__(self, plan: TorchPlan, problem: Problem, rows: int) -> None:
        kind = CrossingLines if len(problem.constraints) == 1 else Subgradients
        self._work: CrossingLines | Subgradients = kind(plan, problem, rows)
        self.found = self._work.found
        self.rows, self._used = rows, False
        self._graphs: tuple[Callable[[], None], ...] = ()

    def solve(self, evidence: Tensor, graph: bool) -> None:
        """Fill what `found` holds."""
        work = self._work
        calls: tuple[Callable[[], None], ...] = (work.begin, work.step, work.end)
        if graph and evidence.is_cuda:
            if self._used and not self._graphs:
                self._graphs = tuple(captured(call) for call in calls)
            calls = self._graphs or calls
        self._used = True
        self.found.tables.evidence.copy_(evidence)
        begin, step, end = calls
        begin()
        for _ in range(work.steps):
            if work.is_done():  # the one place that waits for the device
                break
            step()
        end()


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """`work` as a CUDA graph: one launch for all of its kernels."""
    work()  # loads every kernel
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def minimised(instances: Instances, device: str, *, graph: bool = True) -> Dual:
    """`bounds.lagrangian.lagrangian_dual` of a log-linear problem, computed on `device`.

    On a GPU, calls with one number of rows share CUDA graphs from the second one on, unless
    `graph` is off.
    """
    problem, rows = instances.problem, instances.evidence
    plan = torch_plan(problem, device)
    width = max(1, min(len(rows), plan.most_rows))
    space = _workspace(plan, problem, width)
    feasible = instances.complete(0)
    out = Dual(
        np.zeros((len(rows), len(problem.constraints))),
        np.zeros(len(rows)),
        np.zeros(len(rows), dtype=bool),
        feasible,
        feasible.copy(),
    )
    for start in range(0, len(rows), width):
        block = rows[np.minimum(np.arange(start, start + width), len(rows) - 1)]
        with torch.cuda.device_of(plan.like):  # type: ignore[no-untyped-call]
            space.solve(plan.evidence(block), graph)
        _store(space.found, plan, slice(start, min(start + width, len(rows))), out)
    return out


def _store(found: Minimum, plan: TorchPlan, rows: slice, out: Dual) -> None:
    count = rows.stop - rows.start
    out.multipliers[rows] = as_array(found.mu.T)[:count]
    out.bound[rows] = as_array(found.upper)[:count]
    out.infeasible[rows] = found.infeasible.cpu().numpy()[:count]
    numbers = np.arange(rows.start, rows.stop)[:, np.newaxis]
    out.violating[numbers, plan.variables] = as_array(found.violating.T)[:count]
    out.feasible[numbers, plan.variables] = as_array(found.feasible.T)[:count]
    none = out.infeasible[rows] | (as_array(found.lower)[:count] == -INF)
    out.feasible[numbers[none, 0]] = -1


def _workspace(plan: TorchPlan, problem: Problem, rows: int) -> Workspace:
    """The last one, if it is for as many rows: its tensors and graphs serve again."""
    last = plan.workspace
    if isinstance(last, Workspace) and last.rows == rows:
        return last
    del last
    plan.workspace = None  # gives back its memory first
    space = Workspace(plan, problem, rows)
    plan.workspace = space
    return space
