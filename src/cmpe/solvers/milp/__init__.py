"""CMPE by mixed-integer linear programming, or by CP-SAT, one row at a time.

The program handed to the back-end is a hair looser than the problem: its limit is
q + tolerance + PADDING, and large rows are scaled and widened (`scaling`), so no back-end's own
tolerance can cut off an assignment that ties at q. Whatever comes back is rounded and tested by the
problem. An assignment that falls into that hair is cut off and the program solved again, so the
back-end's tolerances never decide. Where the hair is wide, because the numbers of t are large
against its tolerance, a program that is a hair tighter is asked for an answer, too: it is feasible,
and the looser program bounds it. A bound that an answer disproves is none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.bounds.linearization import LinearProgram, LocalPolytope
from cmpe.errors import MethodError, OutOfTime, TooLarge
from cmpe.problem import Instances
from cmpe.solution import OPTIMALITY_TOLERANCE, Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.milp.scaling import SLACK, scaled
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of
from cmpe.solvers.settings import PROGRAMS

BACKENDS = ("highs", "scip", "gurobi", "cpsat")
PADDING = 1e-8  # of max(1, |q|), added to the tolerance of a constraint
MARGIN = 1e-9  # of |bound|, plus 1e-7, added to a back-end's bound: its own tolerances
BYTES_PER_ENTRY = 3000  # of the tables, in the program and in what a back-end makes of it


class Hair(NamedTuple):
    """How far limits are from q + tolerance: shares of max(1, |q|) and of the tables' size."""

    of_limit: float
    of_tables: float


LOOSE = Hair(PADDING, 1e-14)  # more than adding tables up in another order can change
TIGHT = Hair(-PADDING, -10 * SLACK)


@dataclass(frozen=True)
class ProgramAnswer:
    """What a back-end says of one linear program."""

    columns: Floats | None
    bound: float = np.inf  # an upper bound on the maximum, offset included
    infeasible: bool = False
    nodes: int = 0  # of the search tree
    interrupted: bool = False  # by Ctrl-C


Backend = Callable[[LinearProgram, Limits, Floats | None], ProgramAnswer]


@dataclass(frozen=True)
class Milp:
    """Maximises over the local polytope with HiGHS, SCIP, Gurobi or CP-SAT."""

    backend: str = "highs"

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise MethodError(
                f"a MILP back-end is one of {', '.join(BACKENDS)}, found {self.backend!r}"
            )

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum of every row, or the incumbent and bound at the time limit (per row)."""
        backend(self.backend)  # fail now if it is not installed
        need = BYTES_PER_ENTRY * len(instances.conditioning.layout.values)
        if need > limits.bytes:
            raise TooLarge(
                f"a linear program of this size needs about {need >> 20} MiB; the limit is "
                f"{limits.bytes >> 20} MiB"
            )
        job = _ProgramRow(instances, self.backend, limits.of_a_row(), limits.start)
        name = self.backend if self.backend == "cpsat" else f"milp:{self.backend}"
        return solve_rows(instances, job, name, limits)


def backend(name: str) -> Backend:
    """The function that maximises a LinearProgram; raises MissingExtra if not installed."""
    return partial(_maximise_scaled, importlib.import_module(f"cmpe.solvers.milp.{name}").load())


def _maximise_scaled(
    maximise: Backend, program: LinearProgram, limits: Limits, start: Floats | None
) -> ProgramAnswer:
    part = scaled(program)
    answer = maximise(part.program, limits, start)
    return replace(answer, bound=part.unit * (answer.bound + part.error))


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

    laid_out: list[LocalPolytope] = field(default_factory=list)  # by the first row that has time

    @property
    def polytope(self) -> LocalPolytope:
        return self.laid_out[0]

    def __call__(self, row: int) -> RowAnswer:
        clock = Deadline(self.limits)
        objective = self.instances.tables(0, slice(row, row + 1))[0]
        try:
            if not self.laid_out:
                self.laid_out.append(LocalPolytope(self.instances.conditioning, check=clock.check))
        except OutOfTime:
            return RowAnswer(None)
        if np.isneginf(objective[0]) or self.polytope.columns == 0:
            return only_candidate(self.instances, row)
        search = _ProgramSearch(self, row, objective, clock)
        try:
            search.run()
        except KeyboardInterrupt:
            search.interrupted = True
        return search.answer()

    def program(self, row: int, objective: Floats, hair: Hair) -> LinearProgram:
        """The program of a row, with limits a hair above, or below, q + tolerance."""
        here, limits, tables = slice(row, row + 1), [], []
        for j, constraint in enumerate(self.instances.problem.constraints):
            tables.append(self.instances.tables(1 + j, here)[0])
            size = hair.of_tables * self.polytope.magnitude(tables[-1])
            limits.append(constraint.loosened(hair.of_limit) + size)
        return self.polytope.program(objective, tables, limits)

    def judged(self, row: int, values: Values) -> float:
        """The objective of a feasible assignment of the free variables, or -inf."""
        full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
        problem = self.instances.problem
        return float(problem.objective.value(full)[0]) if problem.is_feasible(full)[0] else -np.inf


class _ProgramSearch:
    """The best answer and the bound of one row."""

    def __init__(self, job: _ProgramRow, row: int, objective: Floats, clock: Deadline) -> None:
        self._job, self._row, self._objective = job, row, objective
        self._maximise, self._clock = backend(job.backend), clock
        self._best: Values | None = None
        self._last: Values | None = None
        self._value, self._bound = -np.inf, np.inf
        self._cut = -np.inf  # the best feasible answer that was cut off
        self._margin = 1e-7 + LOOSE.of_tables * job.polytope.magnitude(objective)
        self._start: Floats | None = None
        self.interrupted = False
        start = start_of(job.start, row, job.instances.conditioning.free)
        if start is not None:
            self._start = job.polytope.encode(start.tolist())
            self._offer(start)

    def run(self) -> None:
        """The loose program, again without each answer that only its hair lets through.

        Also without a feasible answer, where only tolerances keep its bound from proving it: what
        bounds all others is then low enough, if nothing is as good.
        """
        polytope = self._job.polytope
        program = self._job.program(self._row, self._objective, LOOSE)
        repeats = 0  # after a feasible answer
        for cuts in range(PROGRAMS.cuts):
            if self._clock.expired():
                return
            answer = self._maximise(program, self._clock.left(), self._start)
            least = answer.bound + self._margin + MARGIN * abs(answer.bound)
            others = -np.inf if answer.infeasible else least
            self._bound = min(self._bound, max(others, self._cut))
            self.interrupted = answer.interrupted
            if answer.columns is None:
                return
            values = polytope.decode(answer.columns)
            if self._offer(values):
                if self.interrupted or not self._is_nearly_proved() or repeats == PROGRAMS.repeats:
                    return
                self._cut, repeats = self._value, repeats + 1
            elif self.interrupted:
                return
            program = program.with_row(*polytope.no_good(values.tolist()))
            if cuts == PROGRAMS.tightened_after and not self._clock.expired():
                self._tighten()

    def _is_nearly_proved(self) -> bool:
        """Whether the gap is above what counts as closed, and no more than tolerances explain."""
        excess = self._bound - self._value - OPTIMALITY_TOLERANCE * max(1.0, abs(self._value))
        size = self._job.polytope.magnitude(self._objective)
        return 0.0 < excess < OPTIMALITY_TOLERANCE * max(1.0, size)

    def _tighten(self) -> None:
        """An answer of a program whose answers are all feasible."""
        program = self._job.program(self._row, self._objective, TIGHT)
        answer = self._maximise(program, self._clock.left(), None)
        if answer.columns is not None:
            self._offer(self._job.polytope.decode(answer.columns))

    def _offer(self, values: Values) -> bool:
        """Keep `values` if they are the best; whether they are feasible."""
        value = self._job.judged(self._row, values)
        if value > self._value:
            self._best, self._value = values, value
        self._last = values
        return value > -np.inf

    def answer(self) -> RowAnswer:
        """What is known now; a bound that the answer disproves is none."""
        allowed = OPTIMALITY_TOLERANCE * max(1.0, abs(self._value))
        disproved = self._best is not None and self._bound < self._value - allowed
        bound = np.inf if disproved else self._bound
        infeasible = bool(np.isneginf(bound))
        values = self._last if self._best is None else self._best
        return RowAnswer(
            None if infeasible else values, bound, infeasible, interrupted=self.interrupted
        )
