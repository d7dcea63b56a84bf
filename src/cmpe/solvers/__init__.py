"""Problem + evidence -> Solutions, without training: one interface over every method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Assignments, Evidence, Problem, observed_groups
from cmpe.solution import Solutions
from cmpe.solvers.rows import Running


class Solver(Protocol):
    """Anything that answers a batch of evidence rows."""

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """One answer per row, in the order of the rows."""
        ...


def _exhaustive(running: Running) -> Solver:
    from cmpe.solvers.exhaustive import ExhaustiveSolver

    return ExhaustiveSolver(running)


def _milp(backend: str) -> Callable[[Running], Solver]:
    def build(running: Running) -> Solver:
        from cmpe.solvers.milp import MilpSolver

        return MilpSolver(backend, running)

    return build


def _toulbar2(running: Running) -> Solver:
    from cmpe.solvers.toulbar2 import Toulbar2Solver

    return Toulbar2Solver(running)


def _exact(running: Running) -> Solver:
    from cmpe.solvers.exact import ExactSolver

    return ExactSolver(running)


_BUILDERS: Mapping[str, Callable[[Running], Solver]] = {
    "exact": _exact,
    "exhaustive": _exhaustive,
    "milp": _milp("highs"),
    "milp:highs": _milp("highs"),
    "milp:scip": _milp("scip"),
    "milp:gurobi": _milp("gurobi"),
    "toulbar2": _toulbar2,
}
METHODS: tuple[str, ...] = tuple(_BUILDERS)


def solver(method: str, running: Running | None = None) -> Solver:
    """The solver called `method`."""
    if method not in _BUILDERS:
        raise MethodError(f"a method is one of {', '.join(METHODS)}; found {method!r}")
    return _BUILDERS[method](running or Running())


def solve(
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    method: str = "milp",
    time_limit: float | None = None,
    seed: int = 0,
    running: Running | None = None,
) -> Solutions:
    """Answer every row of `evidence` with `method`.

    Evidence is what `Problem.given` takes, and more: a mapping may observe any variables, and
    full-width rows (B, n) with -1 where free may each observe different ones. `time_limit` is
    in seconds per row. `running` says how many workers and threads, where to start, and what
    to call with progress.
    """
    how = running or Running()
    if isinstance(evidence, Mapping):
        problem = problem.observing(sorted(evidence))
    elif evidence is not None and _is_full_width(problem, evidence):
        rows = problem.full_rows(evidence)
        groups = observed_groups(rows)
        if len(groups) == 1:
            problem, evidence = problem.observing(groups[0][0]), rows[:, list(groups[0][0])]
        else:
            return _grouped(problem, rows, lambda p, e, r: solver(method, r).solve(
                p, e, time_limit=time_limit, seed=seed), how)  # fmt: skip
    return solver(method, how).solve(problem, evidence, time_limit=time_limit, seed=seed)


def _is_full_width(problem: Problem, evidence: ArrayLike) -> bool:
    width = np.shape(evidence)[-1] if np.ndim(evidence) else 0
    return width == problem.variables != len(problem.evidence_variables)


def _grouped(
    problem: Problem,
    rows: Assignments,
    answer: Callable[[Problem, Assignments, Running], Solutions],
    how: Running,
) -> Solutions:
    """Answer each set of observed variables on its own; give the rows back in their order."""
    parts: list[Solutions] = []
    order: list[np.ndarray] = []
    done = 0
    for observed, numbers in observed_groups(rows):
        part = replace(
            how,
            start=None if how.start is None else how.start[numbers],
            progress=_shifted(how, done, len(rows)),
        )
        try:
            parts.append(
                answer(problem.observing(observed), rows[numbers][:, list(observed)], part)
            )
        except Interrupted as stop:
            parts.append(stop.solutions)
            order.append(numbers)
            missing = np.setdiff1d(np.arange(len(rows)), np.concatenate(order))
            nothing = np.full((len(missing), problem.variables), -1)
            if len(missing):
                parts.append(Solutions.of(problem, nothing, method=str(stop.solutions.method[0])))
            whole = Solutions.concatenate(parts).take(np.argsort(np.concatenate([*order, missing])))
            raise Interrupted(whole, done + stop.finished) from None
        order.append(numbers)
        done += len(numbers)
    return Solutions.concatenate(parts).take(np.argsort(np.concatenate(order)))


def _shifted(how: Running, done: int, total: int) -> Callable[[int, int], None] | None:
    if how.progress is None:
        return None
    report = how.progress
    return lambda finished, _: report(done + finished, total)
