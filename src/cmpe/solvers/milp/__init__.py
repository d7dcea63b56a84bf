"""CMPE by mixed-integer linear programming, one row at a time.

The program handed to the back-end is a hair looser than the problem: its limit is
q + tolerance + PADDING, so no back-end's own tolerance can cut off an assignment that ties at
q. Whatever comes back is rounded and tested by the problem. An assignment that falls into that
hair is cut off and the program solved again, so the back-end's tolerances never decide.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.bounds.linearization import LinearProgram, LocalPolytope
from cmpe.errors import MethodError
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of

BACKENDS = ("highs", "scip", "gurobi")
PADDING = 1e-8  # of max(1, |q|), added to the tolerance of a constraint
MARGIN = 1e-9  # of |bound|, plus 1e-7, added to a back-end's bound: its own tolerances
MOST_CUTS = 50


@dataclass(frozen=True)
class ProgramAnswer:
    """What a back-end says of one linear program."""

    columns: Floats | None
    bound: float = np.inf  # an upper bound on the maximum, offset included
    infeasible: bool = False
    nodes: int = 0  # of the search tree


Backend = Callable[[LinearProgram, Limits, Floats | None], ProgramAnswer]


@dataclass(frozen=True)
class Milp:
    """Maximises over the local polytope with HiGHS, SCIP or Gurobi."""

    backend: str = "highs"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise MethodError(
                f"a MILP back-end is one of {', '.join(BACKENDS)}, found {self.backend!r}"
            )

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        backend(self.backend)  # fail now if it is not installed
        job = _ProgramRow(instances, self.backend, limits.of_a_row(), limits.start)
        return solve_rows(instances, job, f"milp:{self.backend}", limits.running)


def backend(name: str) -> Backend:
    """The function that maximises a LinearProgram; raises MissingExtra if not installed."""
    maximise: Backend = importlib.import_module(f"cmpe.solvers.milp.{name}").load()
    return maximise


def only_candidate(instances: Instances, row: int) -> RowAnswer:
    """Nothing to decide, or the evidence itself has h = -inf."""
    problem = instances.problem
    values = np.zeros(len(problem.free), dtype=problem.dtype)
    full = instances.complete(values[np.newaxis], slice(row, row + 1))
    if not problem.is_feasible(full)[0]:
        return RowAnswer(None, -np.inf, infeasible=True)
    return RowAnswer(values, float(problem.objective.value(full)[0]))


@dataclass(frozen=True)
class _ProgramRow:
    """Solves one row; picklable, so that worker processes can hold it."""

    instances: Instances
    backend: str
    limits: Limits
    start: Values | None

    @cached_property
    def _polytope(self) -> LocalPolytope:
        return LocalPolytope(self.instances.conditioning)

    def __call__(self, row: int) -> RowAnswer:
        problem = self.instances.problem
        here = slice(row, row + 1)
        objective = self.instances.tables(0, here)[0]
        if np.isneginf(objective[0]) or self._polytope.columns == 0:
            return only_candidate(self.instances, row)
        tables = [self.instances.tables(1 + j, here)[0] for j in range(len(problem.constraints))]
        limits = [c.loosened(PADDING) for c in problem.constraints]
        program = self._polytope.program(objective, tables, limits)
        return self._cut_and_solve(row, program)

    def _cut_and_solve(self, row: int, program: LinearProgram) -> RowAnswer:
        maximise = backend(self.backend)
        start = self._start_columns(row)
        bound, values = np.inf, None
        clock = Deadline(self.limits)
        for _ in range(MOST_CUTS):
            answer = maximise(program, clock.left(), start)
            if answer.infeasible:
                return RowAnswer(None, -np.inf, infeasible=True)
            bound = min(bound, answer.bound + 1e-7 + MARGIN * abs(answer.bound))
            if answer.columns is None:
                break
            values = self._polytope.decode(answer.columns)
            full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
            if self.instances.problem.is_feasible(full)[0]:
                break
            program = program.with_row(*self._polytope.no_good(values.tolist()))
        return RowAnswer(values, bound)

    def _start_columns(self, row: int) -> Floats | None:
        values = start_of(self.start, row, self.instances.conditioning.free)
        return None if values is None else self._polytope.encode(values.tolist())
