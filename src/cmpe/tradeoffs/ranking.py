"""`cmpe.best`: the k best feasible assignments of every row, in order, proved.

Ties are broken by the assignment, the lexicographically first first. With `distance` = d each
answer differs from every better one in at least d variables: greedily, the best that is left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import whole_number
from cmpe.arrays import Values
from cmpe.core.compiler.notices import asked_for
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.problem.groups import by_observed, each_once
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.solvers.exact import too_wide
from cmpe.solvers.spread import spread_list
from cmpe.tradeoffs.forcing import with_distance
from cmpe.tradeoffs.points import h_tolerance
from cmpe.tradeoffs.ranked import ListedAnswers, Ranked, ranked_of
from cmpe.tradeoffs.ranks import RankedBatch

WIDE_SECONDS = 10.0  # of a wide row without a limit
FIRST_SHARE = 0.4  # of a wide row's time: for its first answer
LEAST_SLICE = 0.05  # seconds


@asked_for("best")
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
    limits = Limits.of(running, seconds=time_limit)
    apart = None if distance is None else whole_number("distance", distance, 1)
    if limits.is_spread:
        ask = partial(_block, count, apart, time_limit, limits.of_a_block())
        return spread_list(ask, problem, evidence, limits)
    batches = by_observed(problem, evidence)
    out: list[Ranked | None] = [None] * sum(len(numbers) for _, numbers in batches)
    for instances, numbers in batches:
        few, where = each_once(instances)
        found = (
            ranked_rows(few, count, limits) if apart is None else _greedy(few, count, apart, limits)
        )
        seen = np.zeros(problem.variables, dtype=bool)
        seen[list(instances.problem.evidence_variables)] = True
        shown = [_with_observed(ranked, seen) for ranked in found]
        for row, place in zip(numbers, where, strict=True):
            out[row] = shown[place]
    return [ranked for ranked in out if ranked is not None]


def _block(
    k: int,
    distance: int | None,
    time_limit: float | None,
    running: Running,
    problem: Problem,
    rows: Values,
) -> list[Ranked]:
    """The best answers of a block of rows, on a machine of a cluster."""
    return best(problem, rows, k, distance=distance, time_limit=time_limit, running=running)


def _with_observed(ranked: Ranked, seen: NDArray[np.bool_]) -> Ranked:
    if not isinstance(ranked.kept, ListedAnswers) or ranked.answers.observed is not None:
        return ranked
    observed = np.broadcast_to(seen, (len(ranked), len(seen)))
    return replace(ranked, kept=ListedAnswers(replace(ranked.answers, observed=observed)))


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
    return ranked_of(problem, rows, k, complete=all(p.complete for p in parts), bound=missing)


def _searched(instance: Instances, k: int, limits: Limits) -> Ranked:
    """A wide row: search, exclude what was found, search again; then the neighbours of them all.

    A bound of a search that excluded some answers bounds all others. The list is proved where the
    lowest such bound is no higher than its last h.
    """
    problem, full = instance.problem, instance.full()
    deadline = Deadline(replace(limits, seconds=limits.seconds or WIDE_SECONDS))
    told = replace(limits, progress=None)
    found: list[Values] = []
    missing = np.inf
    while len(found) < k and (not found or not deadline.expired()):
        left = deadline.left().seconds or 0.0
        share = FIRST_SHARE if not found else 1.0 / (k - len(found))
        wide = with_distance(problem, len(found), 1)
        earlier = np.array([row[list(problem.free)] for row in found], dtype=full.dtype)
        rows = wide.rows(full, earlier.reshape(1, -1))
        best = answer(
            wide.problem, rows, limits=replace(told, seconds=max(LEAST_SLICE, share * left))
        )
        missing = min(missing, float(best.bound[0]))
        if not best.feasible[0]:
            break
        found.append(best.assignments[0, : problem.variables])
    rows = np.array(found, dtype=problem.dtype).reshape(-1, problem.variables)
    if len(found) < k and missing > -np.inf:
        rows = np.unique(np.concatenate([rows, *(_neighbours(problem, r) for r in found)]), axis=0)
    ranked = ranked_of(problem, rows[problem.is_feasible(rows)], k, complete=False, bound=missing)
    h = ranked.objective
    last = float(h[-1]) if len(h) == k else -np.inf
    is_sure = missing <= last + float(h_tolerance(np.array(abs(last)))) or missing == -np.inf
    return replace(ranked, complete=is_sure)


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
    told = replace(limits, progress=None)
    count = len(instances)
    chosen: list[list[Values]] = [[] for _ in range(count)]
    is_sure = np.ones(count, dtype=bool)
    missing = np.full(count, -np.inf)
    live = np.arange(count)
    for number in range(k):
        wide = with_distance(problem, number, distance)
        earlier = [np.concatenate([r[free] for r in chosen[i]]) for i in live] if number else []
        further = np.array(earlier).reshape(len(live), number * len(free)).astype(full.dtype)
        found = answer(wide.problem, wide.rows(full[live], further), limits=told)
        is_sure[live] &= found.proved
        missing[live[~found.feasible]] = found.bound[~found.feasible]
        for place in np.flatnonzero(found.feasible):
            chosen[live[place]].append(found.assignments[place, : problem.variables])
        live = live[found.feasible]
        limits.report(int(count - len(live)), count)
        if not len(live):
            break
    out = []
    for row in range(count):
        rows = np.array(chosen[row], dtype=problem.dtype).reshape(-1, problem.variables)
        cut = float(problem.objective.value(rows[-1:])[0]) if row in live else missing[row]
        out.append(ranked_of(problem, rows, complete=bool(is_sure[row]), bound=float(cut)))
    return out
