"""`cmpe.best`: the k best feasible assignments of every row, in order, proved.

Ties are broken by the assignment, the lexicographically first first. With `distance` = d each
answer differs from every better one in at least d variables: greedily, the best that is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cmpe.arguments import whole_number
from cmpe.arrays import Floats, Values
from cmpe.bounds.base import loosened_limits
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.display import html_table, number_text, shortened
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.problem.groups import by_observed
from cmpe.solution import Answer, Solutions, Status
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import solve
from cmpe.solvers.exact import too_wide
from cmpe.solvers.spread import spread_list
from cmpe.tradeoffs.forcing import with_distance
from cmpe.tradeoffs.narrow import MOST_SUMS, SPACES, SUMS_PER_SECOND
from cmpe.tradeoffs.points import NodePoints, h_tolerance

MOST_RANK = 1 << 14  # answers of equal h that are looked through for the first ones
WIDE_SECONDS = 10.0  # of a wide row without a limit


@dataclass(frozen=True, eq=False, repr=False)
class Ranked:
    """The best answers of one row, in order: `ranked[0]` is the best."""

    answers: Solutions
    complete: bool  # proved: these are the best, or all there are
    bound: float  # no feasible assignment that is missing has a higher h; -inf: none is missing

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, rank: int) -> Answer:
        return self.answers[rank]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def objective(self) -> Floats:
        """h of every answer, falling: (k,)."""
        return self.answers.objective

    @property
    def assignments(self) -> Values:
        """The answers: (k, n)."""
        return self.answers.assignments

    @property
    def infeasible(self) -> bool:
        """Proved: there is no feasible assignment."""
        return self.complete and not len(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame, the best answer first (extra `frames`)."""
        return self.answers.to_frame()

    @property
    def summary(self) -> str:
        """One line: how many answers, what is proved."""
        if self.infeasible:
            return "no feasible assignment: proved"
        count = f"{len(self)} {'answer' if len(self) == 1 else 'answers'}"
        if not self.complete:
            return f"{count}; a missing one has h <= {number_text(self.bound)}"
        return f"{count}, proved{' to be all there are' if self.bound == -np.inf else ''}"

    def __repr__(self) -> str:
        lines = [f"  {i}: {self[i]!r}" for i in range(min(10, len(self)))]
        more = ["  ..."] if len(self) > 10 else []
        return "\n".join([f"Ranked({self.summary})", *lines, *more])

    def _repr_html_(self) -> str:
        rows = [
            (
                str(i),
                number_text(a.objective),
                shortened([f"{k}={v}" for k, v in a.free.items()], 88),
            )
            for i, a in zip(range(20), self, strict=False)
        ]
        return html_table(self.summary, ("rank", "objective", "answer"), rows)


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
    if limits.running.is_spread:
        ask = partial(_block, count, apart, time_limit, limits.running.of_a_block())
        return spread_list(ask, problem, evidence, limits.running)
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
    return _RankedBatch(instances, k, limits).run()


def _of(problem: Problem, rows: Values, *, complete: bool, bound: float) -> Ranked:
    """Recompute, sort by falling h, then by the assignment."""
    h = problem.objective.value(rows) if len(rows) else np.zeros(0)
    order = np.lexsort((*rows.T[::-1], -h)) if len(rows) else np.zeros(0, dtype=np.intp)
    upper = max(bound, float(h.max(initial=-np.inf)))
    answers = Solutions.of(problem, rows[order].reshape(-1, problem.variables), bound=upper,
                           method="best")  # fmt: skip
    return Ranked(answers, complete, bound)


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
    whole = _of(problem, rows, complete=all(p.complete for p in parts), bound=missing)
    return _cut(problem, whole, k)


def _cut(problem: Problem, whole: Ranked, k: int) -> Ranked:
    """The first k; what is cut off is missing now."""
    if len(whole) <= k:
        return whole
    first_missing = max(whole.bound, float(whole.objective[k]))
    return Ranked(whole.answers[:k], whole.complete, first_missing)


class _RankedBatch:
    """Rows that elimination can reach."""

    def __init__(self, instances: Instances, k: int, limits: Limits) -> None:
        self._instances, self._k, self._limits_of = instances, k, limits
        self._problem = instances.problem
        self._plan = self._problem.compiled_plan
        self._offsets = instances.conditioning.layout.offsets
        self._variables = np.ascontiguousarray(self._plan.buckets[:, 0])
        self._begun = instances.complete(np.zeros((len(instances), len(self._problem.free))))
        self._limits = loosened_limits(instances)
        self._finite = all(c.function.is_finite for c in self._problem.constraints)
        self._size, self._guess = 0, 0.0

    def run(self) -> list[Ranked]:
        """All rows, one after the other."""
        running = self._limits_of.running
        dual = lagrangian_dual(self._instances, threads=running.cores)
        out = []
        for row in range(len(self._instances)):
            if dual.infeasible[row]:
                out.append(_of(self._problem, self._begun[:0], complete=True, bound=-np.inf))
            else:
                out.append(self._ranked(row, dual.multipliers[row]))
            running.report(row + 1, len(self._instances))
        return out

    def _ranked(self, row: int, mu: Floats) -> Ranked:
        rank = self._k + 1
        while True:
            rows, kind, bound = self._collected(row, mu, rank)
            good = rows[self._problem.is_feasible(rows)] if len(rows) else rows
            complete = kind in ("complete", "all")
            whole = _of(self._problem, good, complete=complete, bound=bound)
            enough = len(good) > self._k and not self._ties(whole)
            if enough or kind != "complete" or rank >= MOST_RANK + self._k:
                return _cut(self._problem, whole, self._k)
            rank = min(4 * rank, MOST_RANK + self._k)

    def _ties(self, whole: Ranked) -> bool:
        """Whether answers that were not collected may be as good as the last that is wanted."""
        h = whole.objective
        return bool(h[self._k - 1] - h[-1] <= 1e-3 * float(h_tolerance(h[self._k - 1])))

    def _collected(self, row: int, mu: Floats, rank: int) -> tuple[Values, str, float]:
        from cmpe.tradeoffs.kernels import ranks as kernels
        from cmpe.tradeoffs.kernels.trees import workspace

        rows, m = slice(row, row + 1), len(self._limits)
        seconds = self._limits_of.seconds
        for space in SPACES:
            if space > self._size:
                messages = self._plan.total - self._plan.entries
                self._work = workspace(space, messages, m, self._plan, 4)
                self._size = space
            tables = [self._instances.tables(j, rows)[0] for j in range(1 + m)]
            t = np.array(tables[1:]).reshape(m, len(tables[0]))
            sums = MOST_SUMS if seconds is None else int(SUMS_PER_SECOND * seconds) + 1000
            self._work[4][2:] = 0, sums
            kind, points, nodes, bound, guess = kernels.ranked_row(
                self._plan, self._offsets, tables[0], t, self._limits, self._finite, mu, rank,
                self._guess, self._work,
            )  # fmt: skip
            if kind != kernels.OVERFLOW or self._work[4][2] > sums:
                break
        if kind == kernels.COMPLETE:
            self._guess = 1.1 * guess if self._guess == 0.0 else 0.8 * self._guess + 0.22 * guess
        roots = points[:, 1].astype(np.int64)
        stored = NodePoints(self._begun[row], self._variables, nodes, roots)
        names = {kernels.COMPLETE: "complete", kernels.ALL: "all", kernels.IMPOSSIBLE: "all"}
        found = stored.assignments(np.arange(len(points)))
        return found, names.get(kind, "overflow"), float(bound)


def _searched(instance: Instances, k: int, limits: Limits) -> Ranked:
    """A wide row: the best answer found and its feasible neighbours, with a bound."""
    problem = instance.problem
    seconds = WIDE_SECONDS if limits.seconds is None else limits.seconds
    told = replace(limits.running, progress=None)
    answer = solve(problem, instance.evidence, method="auto", time_limit=seconds, running=told)
    if Status(int(answer.status[0])) is Status.INFEASIBLE:
        return _of(problem, answer.assignments[:0], complete=True, bound=-np.inf)
    if not answer.feasible[0]:
        return _of(problem, answer.assignments[:0], complete=False, bound=float(answer.bound[0]))
    rows = _neighbours(problem, answer.assignments[0])
    good = rows[problem.is_feasible(rows)]
    is_best = k == 1 and Status(int(answer.status[0])) is Status.OPTIMAL
    whole = _of(problem, good, complete=is_best, bound=float(answer.bound[0]))
    return _cut(problem, whole, k)


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
        out.append(_of(problem, rows, complete=bool(is_sure[row]), bound=float(cut)))
    return out
