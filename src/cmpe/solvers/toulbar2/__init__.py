"""toulbar2: the objective as a cost function network, the constraint as a second one.

It runs in a process of its own, one for each thread and configuration, which serves all rows: it
crashes on some small problems. Where it does, constraints are posted in another form, as
knapsacks; where that crashes too, the row stays unknown. A time limit and Ctrl-C make it stop and
give what it has.

What `formats.cfn` rounds is tested by the problem: an assignment that only rounding lets
through is forbidden and toulbar2 runs again, as for `milp`. Nothing is claimed that does not add
up: the cost of an answer is computed again from the tables that were posted.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Values
from cmpe.errors import BackendError, MethodError, MissingExtra
from cmpe.execution.isolated import IsolatedProcess, isolated_process
from cmpe.formats.cfn import CostNetwork
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of
from cmpe.solvers.settings import PROGRAMS
from cmpe.solvers.toulbar2.posting import CONFIGURATIONS, Found, Posting, run


@dataclass(frozen=True)
class Toulbar2:
    """Branch and bound with soft local consistency (extra `toulbar2`), or VNS."""

    configuration: str = "default"

    def __post_init__(self) -> None:
        if self.configuration not in CONFIGURATIONS:
            raise MethodError(
                f"toulbar2 is run as one of {', '.join(CONFIGURATIONS)}; "
                f"found {self.configuration!r}"
            )

    @property
    def name(self) -> str:
        """As the registry calls it."""
        return "toulbar2" + ("" if self.configuration == "default" else f":{self.configuration}")

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        if find_spec("pytoulbar2") is None:
            raise MissingExtra.named("toulbar2 (pytoulbar2)", "toulbar2")
        stop = threading.Event()
        job = CostRow(instances, limits.of_a_row(), limits.start, self.configuration, stop)
        if limits.cores == 1:
            job.process().start()  # which no row should be charged with
        return solve_rows(instances, job, self.name, limits, one_core=True, stop=stop)


@dataclass(frozen=True)
class CostRow:
    """Answers one row."""

    instances: Instances
    limits: Limits
    start: Values | None
    configuration: str
    stop: threading.Event

    def process(self) -> IsolatedProcess:
        """toulbar2 keeps options from run to run: each configuration has a process of its own."""
        return isolated_process(f"toulbar2 {self.configuration}")

    def __call__(self, row: int) -> RowAnswer:
        """Proved optimum of the row, or the incumbent and bound at the time limit."""
        if self.stop.is_set():
            return RowAnswer(None, interrupted=True)
        network, clock = CostNetwork(self.instances, row), Deadline(self.limits)
        if network.is_hopeless:
            return RowAnswer(None, -np.inf, infeasible=True)
        if not network.variables:
            values = np.zeros(0, dtype=np.int32)
            feasible = self._is_feasible(row, values)
            bound = float(self.instances.tables(0, slice(row, row + 1)).sum())
            return RowAnswer(values if feasible else None, bound, infeasible=not feasible)
        try:
            return _CostSearch(self, row, network, clock).answer()
        except BackendError:
            if network.linear or not network.limits:
                raise
        network = CostNetwork(self.instances, row, linear=True)
        return _CostSearch(self, row, network, clock).answer()

    def _is_feasible(self, row: int, values: NDArray[np.int32]) -> bool:
        return self.judged(row, values) > -np.inf

    def judged(self, row: int, values: Values) -> float:
        """The objective of a feasible assignment of the free variables, or -inf."""
        full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
        problem = self.instances.problem
        return float(problem.objective.value(full)[0]) if problem.is_feasible(full)[0] else -np.inf


class _CostSearch:
    """Runs toulbar2 on one row until its answer is feasible."""

    def __init__(self, job: CostRow, row: int, network: CostNetwork, clock: Deadline) -> None:
        self._job, self._row, self._network, self._clock = job, row, network, clock
        self._values: NDArray[np.int32] | None = None
        self._bound = np.inf
        self._start = start_of(job.start, row, job.instances.conditioning.free)
        self._known = -np.inf if self._start is None else job.judged(row, self._start)

    def answer(self) -> RowAnswer:
        """The best answer and the bound, and whether nothing is feasible."""
        told = self._job.limits
        posting = Posting.of(self._network, self._job.configuration, told.seed, told.bytes)
        if self._known > -np.inf:
            worth = math.ceil(-self._known * self._network.scale) + self._network.rounding
            posting = replace(posting, below=worth + 1)
        cuts: list[list[int]] = []
        while len(cuts) < PROGRAMS.network_cuts:
            found, interrupted = self._run(replace(posting, cuts=[*cuts]))
            self._bound = min(self._bound, self._proved(found))
            if found.values is None:
                break
            self._values = np.array(found.values, np.int32)
            if interrupted or self._job.judged(self._row, self._values) > -np.inf:
                break
            cuts.append(found.values)
        infeasible = bool(np.isneginf(self._bound))
        values = self._start if self._values is None and self._known > -np.inf else self._values
        return RowAnswer(
            None if infeasible else values, self._bound, infeasible, interrupted=interrupted
        )

    def _run(self, posting: Posting) -> tuple[Found, bool]:
        """What one run says, and whether Ctrl-C ended it."""
        seconds = self._clock.left().seconds
        reply = self._job.process().call(run, posting, seconds=seconds, stop=self._job.stop)
        if reply.error is not None:
            raise BackendError(f"toulbar2 failed: {reply.error}")
        found = reply.value if reply.value is not None else Found(None)
        if found.values is not None and not self._adds_up(found):
            if not self._network.linear:
                raise BackendError(
                    "toulbar2 failed: its answer does not have the cost that it reports"
                )
            found = Found(None)
        return found, reply.interrupted

    def _adds_up(self, found: Found) -> bool:
        """Whether the answer has values of its variables, and the cost that toulbar2 says."""
        structure, values = self._network.structure, found.values or []
        sizes = [structure.cardinalities[v] for v in structure.free]
        if not all(0 <= value < size for value, size in zip(values, sizes, strict=True)):
            return False
        return abs(self._network.cost(values) - found.cost) <= self._network.rounding

    def _proved(self, found: Found) -> float:
        """An upper bound on the objective of what was not forbidden; -inf: there is nothing."""
        if found.complete and found.values is None:
            # With a feasible start there is something: then toulbar2 is wrong, and proves nothing.
            return -np.inf if np.isneginf(self._known) else np.inf
        cost = found.cost if found.complete else found.bound
        return (self._network.rounding - cost) / self._network.scale
