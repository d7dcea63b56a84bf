"""toulbar2: the objective as a cost function network, the constraint as a second one.

What `formats.cfn` rounds is tested by the problem: an assignment that only rounding lets
through is forbidden and toulbar2 runs again, as for `milp`.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Values
from cmpe.errors import MissingExtra
from cmpe.formats.cfn import CostLimit, CostNetwork, knapsack
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of

MOST_CUTS = 50


@dataclass(frozen=True)
class Toulbar2:
    """Branch and bound with soft local consistency (extra `toulbar2`)."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row; time limits count whole CPU seconds, rounded up."""
        _package()
        job = _CostRow(instances, limits.of_a_row(), limits.start)
        return solve_rows(instances, job, "toulbar2", limits.running, one_core=True)


def _package() -> Any:
    try:
        import pytoulbar2
    except ImportError:
        raise MissingExtra.named("toulbar2 (pytoulbar2)", "toulbar2") from None
    return pytoulbar2


@dataclass(frozen=True)
class _CostRow:
    instances: Instances
    limits: Limits
    start: Values | None

    def __call__(self, row: int) -> RowAnswer:
        network = CostNetwork(self.instances, row)
        if network.is_hopeless:
            return RowAnswer(None, -np.inf, infeasible=True)
        if not network.variables:
            values = np.zeros(0, dtype=np.int32)
            feasible = self._is_feasible(row, values)
            bound = float(self.instances.tables(0, slice(row, row + 1)).sum())
            return RowAnswer(values if feasible else None, bound, infeasible=not feasible)
        return self._cut_and_solve(row, network)

    def _cut_and_solve(self, row: int, network: CostNetwork) -> RowAnswer:
        cuts: list[list[int]] = []
        clock, start = Deadline(self.limits), self._start(row)
        bound, values = np.inf, None
        while len(cuts) < MOST_CUTS:
            answer = _run(network, clock.left(), cuts, start)
            bound = min(bound, answer.bound)
            if answer.free_values is None:
                return RowAnswer(values, bound, infeasible=answer.infeasible)
            values = answer.free_values
            if self._is_feasible(row, values):
                break
            cuts.append(values.tolist())
        return RowAnswer(values, bound)

    def _is_feasible(self, row: int, values: NDArray[np.int32]) -> bool:
        full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
        return bool(self.instances.problem.is_feasible(full)[0])

    def _start(self, row: int) -> float:
        """The objective of a feasible start, or -inf."""
        values = start_of(self.start, row, self.instances.conditioning.free)
        if values is None:
            return -np.inf
        full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
        if not self._is_feasible(row, values):
            return -np.inf
        return float(self.instances.problem.objective.value(full)[0])


def _run(network: CostNetwork, limits: Limits, cuts: list[list[int]], start: float) -> RowAnswer:
    """One run of toulbar2 without the assignments in `cuts`, from an incumbent's objective."""
    package = _package()
    target = package.CFN(None, 0, seed=max(1, limits.seed % 2**31), verbose=-1)
    try:
        _declare(target, network)
        for constraint in network.limits:
            _constrain(target, package, network, constraint)
        for names, costs in network.objective + network.channels():
            _post(target, names, costs)
        free = [f"z{v}" for v in network.structure.free]
        for cut in cuts:
            target.AddCompactFunction(free, 0, [cut], [target.Top])
        if np.isfinite(start):
            target.UpdateUB(math.ceil(-start * network.scale) + network.rounding + 1)
    except target.Contradiction:
        return RowAnswer(None, -np.inf, infeasible=True)
    return _answer(target, network, limits)


def _answer(target: Any, network: CostNetwork, limits: Limits) -> RowAnswer:
    seconds = 0 if limits.seconds is None else math.ceil(limits.seconds)
    before = time.process_time()
    try:
        with _silent():
            result = target.Solve(timeLimit=seconds)
    except (target.Contradiction, target.SolverOut):
        result = None
    # toulbar2 does not say whether its limit came first. In doubt, only its dual bound is taken.
    finished = seconds == 0 or time.process_time() - before < 0.5 * seconds
    if result is None and finished:
        return RowAnswer(None, -np.inf, infeasible=True)
    cost = result[1] if finished else target.GetDDualBound()
    bound = (network.rounding - cost) / network.scale
    if result is None:
        return RowAnswer(None, bound)
    return RowAnswer(np.array(result[0][: len(network.structure.free)], np.int32), bound)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep toulbar2's own messages ("Time limit expired...") out of stdout, where answers go, and
    take Ctrl-C back, which it captures for good when it runs with a time limit."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        with contextlib.suppress(ValueError, TypeError):  # another thread, a foreign handler
            signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))


def _declare(target: Any, network: CostNetwork) -> None:
    for name, size in network.variables.items():
        target.AddVariable(name, range(size))


def _post(target: Any, names: tuple[str, ...], costs: list[float]) -> None:
    whole = [cost if math.isinf(cost) else int(cost) for cost in costs]
    target.AddFunction(list(names), whole if names else whole[0])


def _constrain(target: Any, package: Any, network: CostNetwork, constraint: CostLimit) -> None:
    if network.linear:
        weights, constant = knapsack(constraint)
        target.AddGeneralizedLinearConstraint(weights, "<=", constraint.limit - constant)
        return
    second = package.CFN(None, 0, verbose=-1, init=False)
    _declare(second, network)
    for names, costs in constraint.functions:
        _post(second, names, costs)
    target.AddWeightedCSPConstraint(second, constraint.lowest - 1, constraint.limit + 1)
