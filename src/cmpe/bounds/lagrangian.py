"""The Lagrangian dual of whole batches (paper, supplement A).

    D(mu) = max over y of h(x, y) - sum over j of mu_j (t_j(x, y) - q_j)  >=  best feasible h

for every mu >= 0. One constraint: the exact minimiser (`core.dual`). Several:
subgradients. The inner maximum is exact elimination. A problem with cutset networks is bounded leaf
by leaf: what bounds every branch bounds the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats, Indices
from cmpe.bounds.base import Bounds, Work, loosened_limits
from cmpe.bounds.settings import SETTINGS
from cmpe.core.buckets import BatchRows
from cmpe.core.compiler import timing
from cmpe.errors import MethodError, TooLarge
from cmpe.problem import Instances, Problem

# but a block has up to so many lanes at least, because index arithmetic is paid once a block: the
# dual of 16 x 16 grids with 5-15 % evidence takes 0.4-0.5 of the time that it takes with 4 lanes.
MOST_BYTES = 1 << 31  # A problem whose lanes need more is too wide to eliminate.


@dataclass(frozen=True)
class Dual:
    """The minimum of the dual of every row."""

    multipliers: Floats  # (B, m); of several branches, the one that sets the bound
    bound: Floats  # (B,) on the best feasible objective; -inf where infeasible
    infeasible: NDArray[np.bool_]  # (B,) proved
    feasible: Assignments  # (B, n) the extreme answer that satisfies the constraints, or -1
    violating: Assignments  # (B, n) the extreme answer on the other side

    def as_bounds(self, seconds: float) -> Bounds:
        """As the result of a bounder; `seconds` are those of all rows."""
        each = np.full(len(self.bound), seconds / max(1, len(self.bound)))
        steps = np.zeros(len(self.bound), dtype=np.int64)
        return Bounds(self.bound, self.infeasible, self.multipliers, steps, each)


def lane_bytes(problem: Problem) -> int:
    """Memory that compiled elimination takes for one row at a time."""
    tables = 2 + len(problem.constraints)
    entries = len(problem.conditioning.layout.values)
    messages, pairs = problem.plan.message_entries, problem.plan.operations
    return 8 * (2 * tables * entries + tables * messages + pairs)


def _most_lanes(per_lane: int) -> int:
    least = min(SETTINGS.least_lanes, SETTINGS.chunk_bytes // per_lane)
    return min(max(SETTINGS.working_set // per_lane, least, 4), 64)


def chunk_rows(problem: Problem) -> int:
    """How many rows one compiled call takes."""
    per_lane = max(1, lane_bytes(problem))
    rows = min(SETTINGS.compiled_chunk, SETTINGS.chunk_bytes // per_lane)
    return max(_most_lanes(per_lane), rows)


class Batch:
    """The arrays that compiled calls over a batch of rows share."""

    def __init__(self, instances: Instances, memory: int = MOST_BYTES) -> None:
        problem, structure = instances.problem, instances.conditioning
        per_lane, most = max(1, lane_bytes(problem)), min(MOST_BYTES, memory)
        if per_lane > most:
            raise TooLarge(
                f"elimination of width {problem.plan.width} needs {per_lane >> 20} MiB a row; "
                f"the limit is {most >> 20} MiB"
            )
        self.lanes = min(_most_lanes(per_lane), max(1, len(instances)), max(1, memory // per_lane))
        self._chunk = chunk_rows(problem)
        self.plan = problem.compiled_plan
        self.tables = BatchRows(
            self.plan,
            structure.layout.offsets,
            structure.every,
            np.ascontiguousarray(instances.evidence.T, dtype=np.int64),
            loosened_limits(instances),
            all(c.function.is_finite for c in problem.constraints),
            self.lanes,
        )

    def chunks(self) -> list[slice]:
        """Rows by compiled call: fixed, so that results do not depend on threads."""
        count = self.tables.evidence.shape[1]
        return [slice(a, min(a + self._chunk, count)) for a in range(0, count, self._chunk)]

    def rows(self, chunk: slice | Indices) -> BatchRows:
        """Some of the rows, for a compiled call."""
        evidence = np.ascontiguousarray(self.tables.evidence[:, chunk])
        return self.tables._replace(evidence=evidence, lanes=min(self.lanes, evidence.shape[1]))

    def run(self, work: Callable[[slice], Any], threads: int) -> None:
        """Do `work` on every chunk; compiled code runs in parallel."""
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, self.chunks()))


def lagrangian_dual(instances: Instances, *, threads: int = 1, memory: int = MOST_BYTES) -> Dual:
    """Minimise the dual of every row, each thread with so many bytes."""
    if not instances.problem.is_log_linear:
        return dual_by_branch(
            instances, lambda part: lagrangian_dual(part, threads=threads, memory=memory)
        )
    from cmpe.core import dual as kernels

    batch = Batch(instances, memory)
    count, problem = len(instances), instances.problem
    feasible = instances.complete(np.zeros((count, len(instances.conditioning.free))))
    violating = feasible.copy()
    bound, kind = np.zeros(count), np.zeros(count, dtype=np.int64)
    mu = np.zeros((count, len(problem.constraints)))
    results = kernels.DualResults(feasible, violating, bound, kind, mu)

    def work(rows: slice) -> None:
        part = kernels.DualResults._make(array[rows] for array in results)
        kernels.dual_batch(batch.rows(rows), part)

    batch.run(work, threads)
    infeasible = kind == kernels.INFEASIBLE
    feasible[infeasible | (feasible < 0).any(axis=1)] = -1
    bound[infeasible] = -np.inf
    return Dual(mu, bound, infeasible, feasible, violating)


def dual_by_branch(instances: Instances, solve: Callable[[Instances], Dual]) -> Dual:
    """The largest bound of any branch; infeasible where all are; the best feasible answer.

    `solve` finds the dual of the rows that one branch agrees with.
    """
    problem, rows = instances.problem, instances.full()
    count = len(instances)
    mu = np.zeros((count, len(problem.constraints)))
    bound, infeasible = np.full(count, -np.inf), np.ones(count, dtype=bool)
    best = np.full(count, -np.inf)
    feasible, violating = np.full_like(rows, -1), np.full_like(rows, -1)
    for branch in problem.branches:
        numbers = np.flatnonzero(branch.agrees(rows))
        if not len(numbers):
            continue
        part = solve(branch.instances(rows[numbers]))
        infeasible[numbers] &= part.infeasible
        higher = (part.bound > bound[numbers]) | (violating[numbers] < 0).any(axis=1)
        mu[numbers[higher]] = part.multipliers[higher]
        violating[numbers[higher]] = part.violating[higher]
        bound[numbers] = np.maximum(bound[numbers], part.bound)
        value = problem.shift - feasible_losses(problem, part.feasible)
        better = value > best[numbers]
        feasible[numbers[better]] = part.feasible[better]
        best[numbers] = np.fmax(best[numbers], value)
    return Dual(mu, bound, infeasible, feasible, violating)


def _dual_bound_by_branch(instances: Instances, mu: Floats, threads: int) -> Floats:
    rows, out = instances.full(), np.full(len(instances), -np.inf)
    for branch in instances.problem.branches:
        numbers = np.flatnonzero(branch.agrees(rows))
        if len(numbers):
            part = dual_bound(branch.instances(rows[numbers]), mu[numbers], threads=threads)
            out[numbers] = np.maximum(out[numbers], part)
    return out


def dual_bound(instances: Instances, multipliers: Floats, *, threads: int = 1) -> Floats:
    """D(mu) at given multipliers (B, m) >= 0: one elimination a row, a valid bound (B,)."""
    from cmpe.core import loss as kernels

    mu = np.ascontiguousarray(multipliers, dtype=np.float64)
    shape = (len(instances), len(instances.problem.constraints))
    if mu.shape != shape or not (np.isfinite(mu) & (mu >= 0)).all():
        raise MethodError(f"multipliers must be finite, at least 0, and {shape}")
    if not instances.problem.is_log_linear:
        return _dual_bound_by_branch(instances, mu, threads)
    batch = Batch(instances)
    out = np.zeros(len(instances))

    def work(rows: slice) -> None:
        kernels.priced_batch(batch.rows(rows), mu[rows], out[rows])

    batch.run(work, threads)
    return out


@dataclass(frozen=True)
class Lagrangian:
    """The dual as a bounder: exact elimination inside, so there is no amount of work to choose."""

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row; refuses what is too wide to eliminate."""
        begin = timing.now()
        each = work.bytes // work.threads
        dual = lagrangian_dual(instances, threads=work.threads, memory=each)
        return dual.as_bounds(timing.now() - begin)


def feasible_losses(problem: Problem, assignments: Assignments) -> Floats:
    """f of the feasible rows, NaN elsewhere."""
    out = np.full(len(assignments), np.nan)
    feasible = (assignments >= 0).all(axis=1)
    if feasible.any():
        rows = assignments[feasible]
        f, _ = problem.minimisation(rows)
        out[feasible] = np.where(problem.is_feasible(rows), f, np.nan)
    return out
