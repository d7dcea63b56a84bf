"""Problem + evidence -> Solutions, without training: one interface over every method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Assignments
from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Evidence, Instances, Problem, observed_groups
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Running, Solver
from cmpe.solvers.branches import BranchingSolver


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


def _auto(running: Running, gap: float = 0.0) -> Solver:
    from cmpe.solvers.auto import AutoSolver

    return AutoSolver(running, gap)


def _exact(running: Running) -> Solver:
    from cmpe.solvers.exact import ExactSolver

    return ExactSolver(running)


def _lagrangian(running: Running) -> Solver:
    from cmpe.solvers.lagrangian import LagrangianSolver

    return LagrangianSolver(running)


def _local(running: Running) -> Solver:
    from cmpe.solvers.local import LocalSolver

    return LocalSolver(running)


def _search(running: Running) -> Solver:
    from cmpe.solvers.search import SearchSolver

    return SearchSolver(running)


_BUILDERS: Mapping[str, Callable[[Running], Solver]] = {
    "auto": _auto,
    "exact": _exact,
    "exhaustive": _exhaustive,
    "lagrangian": _lagrangian,
    "local": _local,
    "search": _search,
    "milp": _milp("highs"),
    "milp:highs": _milp("highs"),
    "milp:scip": _milp("scip"),
    "milp:gurobi": _milp("gurobi"),
    "toulbar2": _toulbar2,
}
METHODS: tuple[str, ...] = tuple(_BUILDERS)


def _local_flips(running: Running) -> Solver:
    from cmpe.solvers.flips import LocalFlips

    return LocalFlips(running)


def _milp_flips(backend: str, *, proves: bool = True) -> Callable[[Running], Solver]:
    def build(running: Running) -> Solver:
        from cmpe.solvers.flips import MilpFlips

        return MilpFlips(backend, running, proves)

    return build


# Methods that also answer problems without tables: neural functions, continuous variables.
_ELSEWHERE: Mapping[str, Callable[[Running], Solver]] = {
    "auto": _milp_flips("highs", proves=False),
    "local": _local_flips,
    "milp": _milp_flips("highs"),
    "milp:highs": _milp_flips("highs"),
    "milp:scip": _milp_flips("scip"),
    "milp:gurobi": _milp_flips("gurobi"),
}


def solver(method: str, running: Running | None = None, *, gap: float = 0.0) -> Solver:
    """The solver called `method`; `gap` (nats) is what `auto` should certify."""
    if method not in _BUILDERS:
        raise MethodError(f"a method is one of {', '.join(METHODS)}; found {method!r}")
    how = running or Running()
    if gap:
        if method != "auto":
            raise MethodError(f"only method auto takes a gap, found {method!r} with gap {gap}")
        return BranchingSolver(partial(_auto, gap=gap), how, method, _ELSEWHERE[method])
    if method == "exhaustive":  # evaluates functions of any kind; it must not share code
        return _exhaustive(how)
    return BranchingSolver(_BUILDERS[method], how, method, _ELSEWHERE.get(method))


def solve(
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    method: str | Solver = "auto",
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    running: Running | None = None,
) -> Solutions:
    """Answer every row of `evidence` with `method`: a name, or a solver (a trained one, say).

    Evidence is what `Problem.given` takes, and more: a mapping may observe any variables, and
    full-width rows (B, n) with -1 where free may each observe different ones. Equal rows are
    solved once. `time_limit` is in seconds per row; `gap` (nats) is the certified gap with which
    `auto` may stop. `running` says how many workers and threads, where to start, and what to
    call with progress.
    """
    how = running or Running()

    def answer(part: Problem, rows: Evidence | None, as_told: Running) -> Solutions:
        chosen = solver(method, as_told, gap=gap) if isinstance(method, str) else method

        def solve_distinct(x: Assignments) -> Solutions:
            return chosen.solve(part, x, time_limit=time_limit, seed=seed)

        return _once(part.given(rows).evidence, as_told, solve_distinct)

    if isinstance(evidence, Mapping):
        problem = problem.observing(sorted(evidence))
    elif evidence is not None and _is_full_width(problem, evidence):
        return _grouped(by_observed(problem, evidence), answer, how)
    return answer(problem, evidence, how)


def by_observed(problem: Problem, evidence: ArrayLike) -> list[tuple[Instances, NDArray[np.intp]]]:
    """Instances by the set of variables that their rows observe, with their row numbers."""
    if not _is_full_width(problem, evidence):
        instances = problem.given(evidence)
        return [(instances, np.arange(len(instances)))]
    rows = problem.full_rows(evidence)
    return [
        (problem.observing(observed).given(rows[numbers][:, list(observed)]), numbers)
        for observed, numbers in observed_groups(rows)
    ]


def _once(rows: Assignments, how: Running, answer: Callable[[Assignments], Solutions]) -> Solutions:
    """Answer each distinct row once; equal rows share the answer and its time.

    Evidence sampled from a model repeats: nine in ten rows of some of the paper's test sets.
    """
    if how.start is not None or len(rows) < 2 or rows.shape[1] == 0:
        return answer(rows)
    distinct, where, counts = _distinct(rows)
    if len(distinct) == len(rows):
        return answer(rows)
    try:
        few = answer(distinct)
    except Interrupted as stop:
        whole = _shared(stop.solutions, where, counts)
        done = int(counts[stop.solutions.status != Status.UNKNOWN].sum())
        raise Interrupted(whole, done) from None
    return _shared(few, where, counts)


def _distinct(rows: Assignments) -> tuple[Assignments, NDArray[np.intp], NDArray[np.intp]]:
    """The distinct rows in the order of their first appearance, each row's place among them,
    and how often each appears. Rows are compared as bytes: sorting them as numbers is slow."""
    keys = (
        np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    )
    _, first, where, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rows[first[order]], rank[where.ravel()], counts[order]


def _shared(few: Solutions, where: NDArray[np.intp], counts: NDArray[np.intp]) -> Solutions:
    return replace(few, seconds=few.seconds / counts).take(where)


def _is_full_width(problem: Problem, evidence: ArrayLike) -> bool:
    width = np.shape(evidence)[-1] if np.ndim(evidence) else 0
    return width == problem.variables != len(problem.evidence_variables)


def _grouped(
    parts: Sequence[tuple[Instances, NDArray[np.intp]]],
    answer: Callable[[Problem, Evidence | None, Running], Solutions],
    how: Running,
) -> Solutions:
    """Answer each set of observed variables on its own; give the rows back in their order."""
    total = sum(len(numbers) for _, numbers in parts)
    problem = parts[0][0].problem
    if how.start is not None and len(how.start) != total:
        raise MethodError(f"a start must have {total} rows, found {len(how.start)}")
    nothing = np.full((total, problem.variables), -1)
    whole = Solutions.of(problem, nothing, method="unfinished")
    done = 0
    for instances, numbers in parts:
        here = replace(
            how,
            start=None if how.start is None else how.start[numbers],
            progress=_shifted(how, done, total),
        )
        try:
            part = answer(instances.problem, instances.evidence, here)
        except Interrupted as stop:
            whole = whole.replaced(numbers, stop.solutions)
            raise Interrupted(whole, done + stop.finished) from None
        whole = whole.replaced(numbers, part)
        done += len(numbers)
    return whole


def _shifted(how: Running, done: int, total: int) -> Callable[[int, int], None] | None:
    if how.progress is None:
        return None
    report = how.progress
    return lambda finished, _: report(done + finished, total)
