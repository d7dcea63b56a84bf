"""Enumeration of every assignment: the oracle of the tests, and the cheapest for tiny problems.

Rows with few completions are answered in blocks. Sums of tables are made for all completions of all
rows of a block at once, variable by variable: a table is added as soon as its last variable is
there. Functions of other kinds, and rows with many completions, are evaluated as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted, MethodError, TooLarge
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.solvers.exact import seconds_of_elimination
from cmpe.solvers.rows import RowAnswer, solve_rows
from cmpe.solvers.settings import SOLVERS

ROUNDING = 1e-13  # of a sum, relative to the sum of the sizes of what is added up


@dataclass(frozen=True)
class Exhaustive:
    """Evaluates the problem's own functions on every completion of the evidence.

    It shares no code with conditioning or elimination, so it can judge them.
    """

    most_states: int = 1 << 22

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved optimum, or proved infeasibility, of every row; without a bound at the limit."""
        problem = instances.problem
        if not set(problem.continuous) <= set(problem.evidence_variables):
            raise MethodError(
                "exhaustive enumerates values; found continuous variables that are not observed"
            )
        states = _completions(problem)
        if states > self.most_states:
            raise TooLarge(
                f"exhaustive enumerates at most {self.most_states} assignments a row; "
                f"this problem has {states:.3g}; try another method"
            )
        if states <= SOLVERS.chunk and problem.is_log_linear:
            return enumerate_rows(instances, limits)
        job = Enumerate(instances, states, limits.of_a_row())
        return solve_rows(instances, job, "exhaustive", limits, one_core=True)


def _completions(problem: Problem) -> int:
    """How many assignments of the free variables there are."""
    return math.prod(problem.domain.cardinalities[v] for v in problem.free)


def is_cheap(problem: Problem) -> bool:
    """Whether enumerating a row's completions takes less than elimination under constraints.

    Under one constraint elimination is quick, and also gives its multiplier.
    """
    if len(problem.constraints) < 2 or not 1 << len(problem.free) <= SOLVERS.chunk:
        return False
    if _completions(problem) > SOLVERS.chunk:
        return False
    additions = sum(_additions(problem, model) for model in problem.models)
    slow_rows = SOLVERS.slow_rows if len(problem.constraints) > 2 else 1.0
    return (
        SOLVERS.row_seconds + SOLVERS.addition_seconds * additions
        <= slow_rows * seconds_of_elimination(problem)
    )


def _additions(problem: Problem, model: LogLinearModel) -> int:
    """How many numbers `_sums` adds for one row."""
    place, sizes = {v: i for i, v in enumerate(problem.free)}, [1]
    for v in problem.free:
        sizes.append(sizes[-1] * problem.domain.cardinalities[v])
    return sum(
        sizes[max((1 + place[v] for v in factor.scope if v in place), default=0)]
        for factor in model.factors
    )


def enumerate_rows(instances: Instances, running: Running) -> Solutions:
    """Answer rows with few completions each, in blocks of rows."""
    problem, count = instances.problem, len(instances)
    states, most = _completions(problem), _loose_limits(problem)
    each = max(1, SOLVERS.block // states)
    blocks = [slice(a, min(a + each, count)) for a in range(0, count, each)]
    winners = np.full(count, -1)
    seconds = np.zeros(count)
    done = 0

    def known() -> Solutions:
        assignments = instances.complete(_digits(problem, np.maximum(winners, 0)))
        assignments[winners < 0] = -1
        seen = np.arange(count) < done
        return Solutions.of(
            problem,
            assignments,
            bound=np.where(seen, -np.inf, np.inf),
            infeasible=seen & (winners < 0),
            method="exhaustive",
            seconds=seconds,
        )

    try:
        with ExitStack() as stack:
            best = partial(_best_of_block, instances, most)
            mapped: Iterable[tuple[NDArray[np.intp], float]] = map(best, blocks)
            if len(blocks) > 1 and running.cores > 1:
                mapped = stack.enter_context(ThreadPoolExecutor(running.cores)).map(best, blocks)
            for block, (at, spent) in zip(blocks, mapped, strict=True):
                winners[block], seconds[block] = at, spent / len(at)
                done = block.stop
                running.report(done, count)
    except KeyboardInterrupt:
        raise Interrupted(known(), done) from None
    return known()


def _best_of_block(
    instances: Instances, most: Sequence[float], rows: slice
) -> tuple[NDArray[np.intp], float]:
    """The number of each row's best feasible completion, -1 where there is none; seconds."""
    begin = timing.now()
    problem, part = instances.problem, instances.take(rows)
    if len(part) < SOLVERS.few_rows:
        every = _digits(problem, np.arange(_completions(problem)))
        at = np.array([_best_of_row(part, row, every) for row in range(len(part))])
        return at, timing.now() - begin
    objective = _sums(part, problem.models[0])
    for model, limit in zip(problem.models[1:], most, strict=True):
        objective = np.where(_sums(part, model) <= limit, objective, -np.inf)
    objective = np.broadcast_to(objective, (len(objective), len(part)))
    at = objective.argmax(axis=0)
    at[np.isneginf(objective[at, np.arange(len(part))])] = -1
    has = np.flatnonzero(at >= 0)
    full = part.take(has).complete(_digits(problem, at[has]))
    for row in has[~problem.is_feasible(full)].tolist():
        at[row] = _best_of_row(part, row, _digits(problem, np.arange(len(objective))))
    return at, timing.now() - begin


def _best_of_row(part: Instances, row: int, values: NDArray[np.int32]) -> int:
    """The number of the best of these completions, -1 where none is feasible."""
    objective = judged(part, row, values)
    at = int(objective.argmax())
    return at if np.isfinite(objective[at]) else -1


def judged(instances: Instances, row: int, values: NDArray[np.int32]) -> Floats:
    """h of each completion of a row, -inf where it is not feasible."""
    problem = instances.problem
    evidence = np.repeat(instances.evidence[row : row + 1], len(values), axis=0)
    full = Instances(problem, evidence).complete(values)
    h, t = problem.objective.value(full), problem.constraint_values(full)
    return np.where(problem.are_feasible(h, t), h, -np.inf)


def _loose_limits(problem: Problem) -> list[float]:
    """Limits that let through what rounding may decide, for the problem itself to judge."""
    out = []
    for constraint, model in zip(problem.constraints, problem.models[1:], strict=True):
        tables = [factor.log_table for factor in model.factors]
        size = sum(float(np.abs(t[np.isfinite(t)]).max(initial=0.0)) for t in tables)
        out.append(constraint.at_most + constraint.tolerance + ROUNDING * size)
    return out


def _sums(part: Instances, model: LogLinearModel) -> Floats:
    """The model's value at all completions (states, B), or (states, 1) where all rows share them.

    Completions are numbered with the last free variable first to change.
    """
    problem, rows = part.problem, part.evidence
    column = {v: i for i, v in enumerate(problem.evidence_variables)}
    place = {v: i for i, v in enumerate(problem.free)}
    sizes = [problem.domain.cardinalities[v] for v in problem.free]
    ready: list[list[tuple[list[int], Floats]]] = [[] for _ in range(1 + len(sizes))]
    for factor in model.factors:
        axes = [v for v in factor.scope if v in place]
        table = _read(factor.scope, factor.log_table, axes, column, rows)
        ready[max((1 + place[v] for v in axes), default=0)].append(
            ([place[v] for v in axes], table)
        )
    total = np.zeros((1, 1))
    for depth, tables in enumerate(ready):
        here = sizes[:depth]
        if depth:
            total = np.repeat(total, here[-1], axis=0)
        for axes_of, table in tables:
            lanes = max(total.shape[-1], table.shape[-1])
            if total.shape[-1] < lanes:
                total = np.repeat(total, lanes, axis=1)
            shape = [1] * depth
            for axis in axes_of:
                shape[axis] = here[axis]
            view = total.reshape(*here, lanes)
            view += table.reshape(*shape, table.shape[-1])
    return total


def _read(
    scope: Sequence[int],
    table: Floats,
    axes: Sequence[int],
    column: dict[int, int],
    rows: NDArray[np.generic],
) -> Floats:
    """A table at the observed values, its other axes sorted, the rows' axis last."""
    observed = [v for v in scope if v in column]
    fixed = [v for v in scope if v not in column and v not in axes]  # of a single value
    order = [scope.index(v) for v in (*observed, *fixed, *sorted(axes))]
    turned = table.transpose(order)
    # The rows' axis is first, of length 1 where nothing is observed.
    turned = turned[tuple(rows[:, column[v]] for v in observed) if observed else np.newaxis]
    turned = turned.reshape(len(turned), *(table.shape[scope.index(v)] for v in sorted(axes)))
    return np.ascontiguousarray(np.moveaxis(turned, 0, -1))


def _digits(problem: Problem, numbers: NDArray[np.intp]) -> NDArray[np.int32]:
    """The values of the free variables (N, |free|) in completions of these numbers."""
    sizes = [problem.domain.cardinalities[v] for v in problem.free]
    if not sizes:
        return np.zeros((len(numbers), 0), dtype=np.int32)
    return np.stack(np.unravel_index(numbers, sizes), axis=1).astype(np.int32)


@dataclass(frozen=True)
class Enumerate:
    """Answers one row."""

    instances: Instances
    states: int
    limits: Limits

    def __call__(self, row: int) -> RowAnswer:
        """The best of its completions."""
        best, winner = -np.inf, None
        deadline = Deadline(self.limits)
        for first in range(0, self.states, SOLVERS.chunk):
            try:
                numbers = np.arange(first, min(first + SOLVERS.chunk, self.states))
                values = _digits(self.instances.problem, numbers)
                objective = judged(self.instances, row, values)
            except KeyboardInterrupt:
                return RowAnswer(winner, interrupted=True)
            at = int(np.argmax(objective))
            if objective[at] > best:
                best, winner = float(objective[at]), values[at]
            if deadline.expired() and first + SOLVERS.chunk < self.states:
                return RowAnswer(winner)
        return RowAnswer(winner, best, infeasible=winner is None)
