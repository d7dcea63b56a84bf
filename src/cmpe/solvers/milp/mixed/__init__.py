"""`milp` where there are no tables: any mix of log-linear functions, distances and ReLU networks.

One row at a time. The first program is a hair looser than the problem, so its bound, and its
infeasibility, are proofs. What it answers is rounded on the discrete variables and judged by the
problem. An answer that falls into the hair, or is worth less than the program said (a class that
ties), is cut off where all variables are discrete; where some are not, the program is solved again
with limits a hair tighter, for an answer alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.bounds.linearization import LinearProgram
from cmpe.errors import OutOfTime
from cmpe.problem import Instances
from cmpe.solution import OPTIMALITY_TOLERANCE, Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.gradient import Gradient
from cmpe.solvers.milp import MARGIN, PADDING, backend, only_candidate
from cmpe.solvers.milp.mixed.columns import Columns
from cmpe.solvers.milp.mixed.kinds import readable_functions
from cmpe.solvers.milp.mixed.program import MixedProgram, Readable
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of
from cmpe.solvers.settings import PROGRAMS
from cmpe.solvers.stages import incumbents

TIGHTER = (-1e-9, -1e-8, -1e-7, -5e-7)  # paddings, tried in turn for an answer in [0, 1]
LEAST_WEIGHT = 1e-7  # of an entry of -inf that lifts a constraint, in an answer


@dataclass(frozen=True)
class Mixed:
    """Maximises with HiGHS, SCIP or Gurobi, from the answer of gradients and single moves."""

    backend: str = "highs"

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        backend(self.backend)  # fail now if it is not installed
        problem, start, told = instances.problem, limits.start, limits.of_a_row()
        functions = readable_functions(problem)
        if start is None and len(problem.free) > PROGRAMS.small:
            start = incumbents(
                Gradient(starts=4, steps=50).answer(instances, told.share(PROGRAMS.start_share))
            )
            told = told.share(1.0 - PROGRAMS.start_share)
        job = _MixedRow(instances, functions, self.backend, told, start)
        return solve_rows(instances, job, f"milp:{self.backend}", limits)


@dataclass(frozen=True)
class _MixedRow:
    """Solves one row; picklable, so that worker processes can hold it."""

    instances: Instances
    functions: tuple[Readable, ...]
    backend: str
    limits: Limits
    start: Values | None

    def __call__(self, row: int) -> RowAnswer:
        problem, clock = self.instances.problem, Deadline(self.limits)
        try:
            evidence = self.instances.evidence[row]
            mixed = MixedProgram(problem, self.functions, evidence, clock.check)
        except OutOfTime:
            values = start_of(self.start, row, problem.free)
            return RowAnswer(values)
        if mixed.is_forbidden or mixed.polytope.columns == 0:
            return only_candidate(self.instances, row)
        search = _MixedSearch(self, row, mixed, clock)
        values = start_of(self.start, row, problem.free)
        if values is not None:
            search.offer(values)
        try:
            search.prove()
        except KeyboardInterrupt:
            return replace(search.answer(), interrupted=True)
        return search.answer()


class _MixedSearch:
    """The best answer and the bound of one row."""

    def __init__(self, job: _MixedRow, row: int, mixed: MixedProgram, clock: Deadline) -> None:
        self._instances, self._row, self._mixed = job.instances, row, mixed
        self._maximise = backend(job.backend)
        self._clock = clock
        self._best: Values | None = None
        self._last: Values | None = None
        self._value = -np.inf
        self._bound = np.inf
        self._infeasible = False
        self._removed = 0  # feasible answers that were cut off

    def offer(self, values: Values) -> bool:
        """Keep `values` if they are the best; whether they are feasible."""
        here = slice(self._row, self._row + 1)
        full = self._instances.complete(values[np.newaxis], here)
        problem = self._instances.problem
        feasible = bool(problem.is_feasible(full)[0])
        value = float(problem.objective.value(full)[0]) if feasible else -np.inf
        if value > self._value:
            self._best, self._value = values, value
        self._last = values
        return feasible

    def prove(self) -> None:
        """The loose program, and what its answer needs to become one of the problem."""
        build, program = self._mixed.columns(PADDING)
        for _ in range(PROGRAMS.cuts):
            found = self._solved(build, program, proves=True)
            feasible = found is not None and self.offer(found)
            if found is None or program is None or (feasible and self._is_done()):
                return
            if self._mixed.has_continuous:
                self._tighten()
                return
            program = self._without(program, found)
            self._removed += feasible

    def _is_done(self) -> bool:
        """Whether the bound is reached, or nothing more is to be gained."""
        allowed = OPTIMALITY_TOLERANCE * max(1.0, abs(self._value))
        closed = self._bound - self._value <= allowed
        return closed or self._removed == PROGRAMS.less_cuts or self._clock.expired()

    def _tighten(self) -> None:
        """An answer within the tolerances, where the loose program's is just outside."""
        for weight, padding in itertools.product((LEAST_WEIGHT, 0.0), TIGHTER):
            build, program = self._mixed.columns(padding, weight)
            found = self._solved(build, program, proves=False)
            if (found is not None and self.offer(found)) or self._clock.expired():
                return

    def _solved(
        self, build: Columns, program: LinearProgram | None, *, proves: bool
    ) -> Values | None:
        """The values that the back-end answers; a program that `proves` sets the bound."""
        answer = None
        if program is not None:
            answer = self._maximise(program, self._clock.left(), self._start(build))
        if proves and (answer is None or answer.infeasible):
            self._infeasible = self._best is None
            if self._removed:  # and what was removed is the best of all
                self._bound = min(self._bound, self._value)
            return None
        if answer is None:
            return None
        if proves:
            least = answer.bound + 1e-7 + MARGIN * abs(answer.bound)
            self._bound = min(self._bound, least)
        found = None if answer.columns is None else self._mixed.decode(answer.columns)
        if answer.interrupted:
            if found is not None:
                self.offer(found)
            raise KeyboardInterrupt
        return found

    def _start(self, build: Columns) -> Floats | None:
        if self._best is None:
            return None
        return build.filled(self._mixed.polytope.encode(self._best.tolist()))

    def _without(self, program: LinearProgram, values: Values) -> LinearProgram:
        """The program without one assignment of discrete variables."""
        row, at_most = self._mixed.polytope.no_good(values.tolist())
        return program.with_row(np.pad(row, (0, len(program.cost) - len(row))), at_most)

    def answer(self) -> RowAnswer:
        """What is known now."""
        if self._infeasible:
            return RowAnswer(None, -np.inf, infeasible=True)
        return RowAnswer(self._last if self._best is None else self._best, self._bound)
