"""Problems with cutset networks, leaf by leaf: any engine that reads tables answers them.

A problem is the union of its branches (`Problem.branches`), each of them log-linear, so

    best feasible h  =  max over branches of the best feasible h in the branch,
    bound            =  max over branches of the branch's bound,

and a row is infeasible if every branch is. The objective's best value in each leaf, one upward
pass, is an upper bound of a branch: a row's most promising branch is solved first, and branches
that cannot beat the answer found there are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats, Indices, Values
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Branch, Instances
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Engine, Limits
from cmpe.solvers.settings import SOLVERS

LEAVES = "leaves"  # the method of a row that no engine had to look at


def _unbounded(function: Function, rows: Assignments) -> Floats:
    return np.full((len(rows), 1), np.inf)


# Upper bounds (B, L) of the objective in each of its leaves, by the kind of function.
LEAF_BOUNDS: Mapping[type, Callable[[Any, Assignments], Floats]] = {
    CutsetNetwork: CutsetNetwork.leaf_values,
    LogLinearModel: _unbounded,
}


@dataclass(frozen=True)
class Branches:
    """Any engine that reads tables, for problems whose functions have leaves."""

    engine: Engine

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row; the time limit holds for all branches of a row together."""
        return _BranchSearch(self.engine, instances, limits).run()


class _BranchSearch:
    """A batch on its way through the branches."""

    def __init__(self, engine: Engine, instances: Instances, limits: Limits) -> None:
        self._engine = engine
        self._instances = instances
        self._limits = limits
        self._rows = instances.full()  # (B, n)
        self._branches = instances.problem.branches
        self._open = self._upper_bounds()  # (B, J): of what is not solved; -inf: nothing there
        count = len(instances)
        self._bound = np.full(count, -np.inf)  # of what is solved
        self._best = np.full(count, -np.inf)
        self._answers = np.full((count, instances.problem.variables), -1, dtype=np.int32)
        self._methods = np.full(count, LEAVES, dtype="<U32")
        self._seconds = np.zeros(count)

    def _upper_bounds(self) -> Floats:
        """Of the objective in each branch (B, J); +inf where it has no leaves of its own."""
        objective = self._instances.problem.objective
        bounds_of = LEAF_BOUNDS[type(objective)]
        bounds_of(objective, self._rows[:0])  # loads compiled code: no row's time
        begin = timing.now()
        out = np.full((len(self._instances), len(self._branches)), -np.inf)
        values = bounds_of(objective, self._rows)
        for number, branch in enumerate(self._branches):
            agree = branch.agrees(self._rows)
            out[agree, number] = values[agree, branch.leaf.leaves[0]]
        self._setup = (timing.now() - begin) / max(1, len(self._instances))
        return out

    def run(self) -> Solutions:
        """Each row's most promising branch, then all that may still hold a better answer."""
        first = self._open.argmax(axis=1)
        try:
            for wanted in (lambda number: first == number, lambda number: True):
                for number, branch in enumerate(self._branches):
                    rows = np.flatnonzero(self._is_open(number) & wanted(number))
                    self._solve(number, branch, rows)
        except KeyboardInterrupt:
            finished = ~self._pending() & (self._bound < np.inf)
            raise Interrupted(self._solutions(), int(finished.sum())) from None
        return self._solutions()

    def _is_open(self, number: int) -> NDArray[np.bool_]:
        """Which rows may find something better in a branch: (B,)."""
        upper = self._open[:, number]
        return np.asarray((upper > -np.inf) & (upper > self._best))

    def _pending(self) -> NDArray[np.bool_]:
        """Which rows have an open branch: (B,)."""
        return np.asarray((self._open > self._best[:, np.newaxis]).any(axis=1))

    def _solve(self, number: int, branch: Branch, rows: Indices) -> None:
        left = self._left(rows)
        rows = rows[left > 0]
        if not len(rows):
            return
        part = branch.instances(self._rows[rows])
        seconds = None if self._limits.seconds is None else float(left[left > 0].min())
        told = replace(
            self._limits, seconds=seconds, start=self._start(branch, rows), progress=None
        )
        try:
            found = self._engine.answer(part, told)
        except Interrupted as stop:
            self._take(number, rows, stop.solutions)
            raise
        self._take(number, rows, found)
        self._limits.report(int((~self._pending()).sum()), len(self._instances))

    def _left(self, rows: Indices) -> Floats:
        """Seconds that each row may still use."""
        if self._limits.seconds is None:
            return np.full(len(rows), np.inf)
        left = self._limits.seconds - self._seconds[rows]
        return np.where(left < SOLVERS.least_branch, 0.0, left)

    def _start(self, branch: Branch, rows: Indices) -> Values | None:
        """A start helps only where it lies in the branch."""
        if self._limits.start is None:
            return None
        start = self._limits.start[rows].copy()
        start[~branch.agrees(start)] = -1
        return start

    def _take(self, number: int, rows: Indices, found: Solutions) -> None:
        """Note what a branch says of `rows`."""
        self._seconds[rows] += found.seconds
        self._bound[rows] = np.maximum(self._bound[rows], found.bound)
        self._open[rows, number] = -np.inf
        value = np.where(found.feasible, found.objective, -np.inf)
        # Without a feasible answer, keep the first one that breaks a constraint.
        none = (self._answers[rows] < 0).any(axis=1)
        better = (value > self._best[rows]) | (none & (found.status == Status.VIOLATED))
        self._answers[rows[better]] = found.assignments[better]
        named = better | (self._methods[rows] == LEAVES)
        self._methods[rows[named]] = found.method[named]
        self._best[rows] = np.maximum(self._best[rows], value)

    def _solutions(self) -> Solutions:
        """Whatever was not looked into counts with its upper bound."""
        bound = np.maximum(self._bound, self._open.max(axis=1, initial=-np.inf))
        return Solutions.of(
            self._instances.problem,
            self._answers,
            bound=bound,
            infeasible=bound == -np.inf,
            method=self._methods.tolist(),
            seconds=self._seconds + self._setup,
        )
