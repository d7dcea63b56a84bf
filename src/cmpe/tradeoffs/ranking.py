"""`cmpe.best`: the k best feasible assignments of every row, in order, proved.

Ties are broken by the assignment, the lexicographically first first. With `distance` = d each
answer differs from every better one in at least d variables: greedily, the best that is left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cmpe.arguments import whole_number
from cmpe.arrays import Values
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.problem.groups import by_observed
from cmpe.solution import Status
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import solve
from cmpe.solvers.exact import too_wide
from cmpe.tradeoffs.forcing import with_distance
from cmpe.tradeoffs.ranked import Ranked, cut, ranked_of
from cmpe.tradeoffs.ranks import RankedBatch

WIDE_SECONDS = 10.0  # of a wide row without a limit


def best(
    problem: Problem,
    evidence: Evidence | None = None,
    k: int = 10,
    *,
    distance: int | None = None,
    time_limit: float | None = None,
    running: Running | None = None,
) -> list[Ranked]:
    """The k best feasible assignments of every row of `evidence`, fewer where fewer exist.

    `distance` = d asks for answers that differ from each better one in at least d variables: the
    best answer, then the best of what is far enough, and so on (greedy). `time_limit` is in seconds
    per row. Rows too wide for elimination get what a search finds, and a bound.
    """
    need_problem(problem, "best")
    problem.need_tables("best")
    count = whole_number("k", k, 1)
    limits = Limits(time_limit, running=running or Running())
    apart = None if distance is None else whole_number("distance", distance, 1)
    batches = by_observed(problem, evidence)
    out: list[Ranked | None] = [None] * sum(len(numbers) for _, numbers in batches)
    for instances, numbers in batches:
        found = (
            ranked_rows(instances, count, limits)
            if apart is None
            else _greedy(instances, count, apart, limits)
        )
        seen = np.zeros(problem.variables, dtype=bool)
        seen[list(instances.problem.evidence_variables)] = True
        for row, ranked in zip(numbers, found, strict=True):
            observed = np.repeat(seen[np.newaxis], len(ranked), axis=0)
            out[row] = replace(ranked, answers=replace(ranked.answers, observed=observed))
    return [ranked for ranked in out if ranked is not None]


def ranked_rows(instances: Instances, k: int, limits: Limits) -> list[Ranked]:
    """The k best of every row of one structure."""
    if not len(instances):
        return []
    if not instances.problem.is_log_linear:
        return _by_branch(instances, k, limits)
    if too_wide(instances.problem, Limits()):
        return [
            _searched(instances.take(slice(row, row + 1)), k, limits)
            for row in range(len(instances))
        ]
    return RankedBatch(instances, k, limits).run()


def _by_branch(instances: Instances, k: int, limits: Limits) -> list[Ranked]:
    """Leaves share no assignment: the best of all are among the best of each."""
    rows, problem = instances.full(), instances.problem
    parts: list[list[Ranked]] = [[] for _ in range(len(instances))]
    for branch in problem.branches:
        numbers = np.flatnonzero(branch.agrees(rows))
        if len(numbers):
            found = ranked_rows(branch.instances(rows[numbers]), k, limits)
            for number, ranked in zip(numbers, found, strict=True):
                parts[number].append(ranked)
    return [_joined(problem, part, k) for part in parts]


def _joined(problem: Problem, parts: list[Ranked], k: int) -> Ranked:
    nothing = np.zeros((0, problem.variables), dtype=problem.dtype)
    rows = np.concatenate([nothing, *(p.assignments for p in parts)])
    missing = max((p.bound for p in parts), default=-np.inf)
    whole = ranked_of(problem, rows, complete=all(p.complete for p in parts), bound=missing)
    return cut(whole, k)


def _searched(instance: Instances, k: int, limits: Limits) -> Ranked:
    """A wide row: the best answer found and its feasible neighbours, with a bound."""
    problem = instance.problem
    seconds = WIDE_SECONDS if limits.seconds is None else limits.seconds
    told = replace(limits.running, progress=None)
    answer = solve(problem, instance.evidence, method="auto", time_limit=seconds, running=told)
    if Status(int(answer.status[0])) is Status.INFEASIBLE:
        return ranked_of(problem, answer.assignments[:0], complete=True, bound=-np.inf)
    if not answer.feasible[0]:
        return ranked_of(
            problem, answer.assignments[:0], complete=False, bound=float(answer.bound[0])
        )
    rows = _neighbours(problem, answer.assignments[0])
    good = rows[problem.is_feasible(rows)]
    is_best = k == 1 and Status(int(answer.status[0])) is Status.OPTIMAL
    whole = ranked_of(problem, good, complete=is_best, bound=float(answer.bound[0]))
    return cut(whole, k)


def _neighbours(problem: Problem, row: Values) -> Values:
    """An assignment and all that differ from it in one free variable."""
    out = [row]
    for v in problem.free:
        for value in range(problem.objective.cardinalities[v]):
            if value != row[v]:
                other = row.copy()
                other[v] = value
                out.append(other)
    return np.stack(out)


def _greedy(instances: Instances, k: int, distance: int, limits: Limits) -> list[Ranked]:
    """The best answer, then the best that is far enough from all before, row by row at once."""
    problem, full = instances.problem, instances.full()
    if distance > len(problem.free):
        k = 1
    free = list(problem.free)
    told = replace(limits.running, progress=None)
    count = len(instances)
    chosen: list[list[Values]] = [[] for _ in range(count)]
    is_sure = np.ones(count, dtype=bool)
    missing = np.full(count, -np.inf)
    live = np.arange(count)
    for number in range(k):
        wide = with_distance(problem, number, distance)
        earlier = [np.concatenate([r[free] for r in chosen[i]]) for i in live] if number else []
        further = np.array(earlier).reshape(len(live), number * len(free)).astype(full.dtype)
        found = solve(
            wide.problem, wide.rows(full[live], further), time_limit=limits.seconds, running=told
        )
        is_sure[live] &= np.isin(found.status, (Status.OPTIMAL, Status.INFEASIBLE))
        missing[live[~found.feasible]] = found.bound[~found.feasible]
        for place in np.flatnonzero(found.feasible):
            chosen[live[place]].append(found.assignments[place, : problem.variables])
        live = live[found.feasible]
        limits.running.report(int(count - len(live)), count)
        if not len(live):
            break
    out = []
    for row in range(count):
        rows = np.array(chosen[row], dtype=problem.dtype).reshape(-1, problem.variables)
        cut = float(problem.objective.value(rows[-1:])[0]) if row in live else missing[row]
        out.append(ranked_of(problem, rows, complete=bool(is_sure[row]), bound=float(cut)))
    return out
