"""`cmpe.best`: the k best feasible assignments of every row, in order, proved.

Ties are broken by the assignment, the lexicographically first first. With `distance` = d each
answer differs from every better one in at least d variables: greedily, the best that is left.

Rows that elimination can reach share one plan and are ranked in compiled code (the algorithm is in
`core.fronts.ranks`). One answer more than asked for is collected, which bounds what is missing, and
all that are tied with the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import FREE, Floats, Indices, Integers, Values
from cmpe.bounds.lagrangian import Batch
from cmpe.core.compiler.notices import asked_for
from cmpe.core.fronts import ranks as kernels
from cmpe.display import as_results, html_table, number_text, shortened
from cmpe.errors import MethodError, TooLarge
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.problem.expansion import expanded
from cmpe.problem.groups import by_observed, each_once
from cmpe.problem.problem import Form
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Answer, Solutions
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.solvers.exact import too_wide
from cmpe.solvers.spread import need_here, spread_list
from cmpe.tradeoffs.chosen import best_over
from cmpe.tradeoffs.forcing import with_distance
from cmpe.tradeoffs.narrow import sums_within
from cmpe.tradeoffs.points import EvaluatedTables, h_tolerance, need_short_values
from cmpe.tradeoffs.settings import TRADEOFFS
from cmpe.tradeoffs.summed import ScoredAnswers, Summed

KERNEL_BYTES = 64  # of an answer in the compiled code and while answers are put in order


@dataclass(frozen=True)
class PackedAnswers:
    """Answers that differ in a few variables: kept small, written out when they are asked for."""

    problem: Problem
    begun: Values  # (n,) what they share
    which: Integers  # (d,) the variables in which they differ
    stored: NDArray[np.uint16]  # (d, k) their values
    values: Floats  # (k, 1 + m) h and every t
    bound: float  # on the best objective

    def __len__(self) -> int:
        return len(self.values)

    @property
    def objective(self) -> Floats:
        """h of every answer: (k,)."""
        return self.values[:, 0]

    @cached_property
    def assignments(self) -> Values:
        """The answers (k, n) written out."""
        rows = np.tile(self.begun, (len(self), 1))
        rows[:, self.which] = self.stored.T
        return rows

    def solutions(self) -> Solutions:
        """The answers, judged."""
        rows = self.assignments
        h, t = self.values[:, 0].copy(), self.values[:, 1:].copy()
        whole = Solutions.evaluated(self.problem, rows, (h, t), bound=self.bound, method="best")
        seen = np.zeros(len(self.begun), dtype=bool)
        seen[list(self.problem.evidence_variables)] = True
        return replace(whole, observed=np.broadcast_to(seen, rows.shape))


@dataclass(frozen=True)
class ListedAnswers:
    """Answers as they are."""

    whole: Solutions

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def objective(self) -> Floats:
        """h of every answer: (k,)."""
        return self.whole.objective

    @property
    def assignments(self) -> Values:
        """The answers: (k, n)."""
        return self.whole.assignments

    def solutions(self) -> Solutions:
        """The answers."""
        return self.whole


@dataclass(frozen=True, eq=False, repr=False)
class Ranked:
    """The best answers of one row, in order: `ranked[0]` is the best."""

    kept: PackedAnswers | ListedAnswers
    complete: bool  # proved: these are the best, or all there are
    bound: float  # no feasible assignment that is missing has a higher h; -inf: none is missing

    @cached_property
    def answers(self) -> Solutions:
        """The answers, the best first."""
        return self.kept.solutions()

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, rank: int) -> Answer:
        return self.answers[rank]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def objective(self) -> Floats:
        """h of every answer, falling: (k,)."""
        return self.kept.objective

    @property
    def assignments(self) -> Values:
        """The answers: (k, n)."""
        return self.kept.assignments

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that there is no feasible assignment."""
        return self.complete and not len(self)

    @property
    def proved(self) -> NDArray[np.bool_]:
        """Of every answer (k,): whether its rank is proved, as no missing answer has a higher h."""
        return np.asarray(self.complete | (self.objective >= self.bound))

    def to_frame(self) -> Any:
        """A pandas DataFrame, the best answer first (extra `frames`)."""
        return self.answers.to_frame()

    @property
    def summary(self) -> str:
        """One line: the number of answers, and whether they are proved."""
        if self.infeasible:
            return "no feasible assignment: proved"
        count = f"{len(self)} {'answer' if len(self) == 1 else 'answers'}"
        if not self.complete:
            return f"{count}; a missing one has h <= {number_text(self.bound)}"
        return f"{count}, proved{' to be all there are' if self.bound == -np.inf else ''}"

    def __repr__(self) -> str:
        lines = [f"  {i}: {self._line(i)}" for i in range(min(10, len(self)))]
        more = ["  ..."] if len(self) > 10 else []
        return "\n".join([f"Ranked({self.summary})", *lines, *more])

    def _line(self, rank: int) -> str:
        """An answer; `feasible` says less than a rank that is proved."""
        text, is_next = repr(self[rank]), rank > 0 and bool(self.proved[rank])
        return text.replace("feasible,", "next best,", 1) if is_next else text

    def _repr_html_(self) -> str:
        proved = self.proved
        rows = [
            (
                f"{i}{'' if proved[i] else ' (not proved)'}",
                number_text(a.objective),
                shortened([f"{k}={v}" for k, v in a.free.items()], 88),
            )
            for i, a in zip(range(20), self, strict=False)
        ]
        return html_table(self.summary, ("rank", "objective", "answer"), rows)


def ranked_of(
    problem: Problem, rows: Values, k: int | None = None, *, complete: bool, bound: float
) -> Ranked:
    """The first k answers of `rows`, all if None; what is missing in `rows` has h <= `bound`."""
    found = rows.reshape(-1, problem.variables)
    whole = Solutions.of(problem, found, bound=bound, method="best")
    return in_order(whole, np.arange(len(found)), k or len(found), complete=complete, bound=bound)


def in_order(whole: Solutions, which: Indices, k: int, *, complete: bool, bound: float) -> Ranked:
    """Of the answers numbered `which` the first k, by falling h, then by the assignment."""
    h = whole.objective[which]
    order = falling(h, whole.assignments[which])
    missing = max(bound, float(h[order[k]])) if len(h) > k else bound
    answers = whole.take(which[order[:k]]).bounded(max(bound, float(h.max(initial=-np.inf))))
    return Ranked(ListedAnswers(answers), complete, missing)


def falling(h: Floats, rows: Values) -> Indices:
    """The numbers of answers by falling h, then by the assignment."""
    order = np.argsort(-h, kind="stable")
    starts = np.concatenate([[True], np.diff(h[order]) != 0.0])
    if not starts.all():
        for first, end in _runs(starts[: len(h)]):
            if end - first > 1:
                tied = order[first:end]
                order[first:end] = tied[_by_value(rows[tied])]
    return order


def _by_value(rows: Values) -> Indices:
    """The lexicographic order of rows of values, by their bytes."""
    keys = [row.tobytes() for row in rows.astype(">u8")]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def _runs(starts: Any) -> Iterator[tuple[int, int]]:
    """The runs (first, end) that begin where `starts` is True."""
    first = np.flatnonzero(starts)
    return zip(first.tolist(), [*first[1:].tolist(), len(starts)], strict=True)


@as_results
@asked_for("best")
def best(  # noqa: PLR0913
    problem: Problem,
    evidence: Evidence | None = None,
    k: int | None = None,
    *,
    distance: int | None = None,
    over: Sequence[int | str] | None = None,
    rest: Literal["max", "sum"] = "max",
    within: float | None = None,
    time_limit: float | None = None,
    running: Running | None = None,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
) -> list[Ranked]:
    """The k best feasible assignments of every row of `evidence`, fewer where fewer exist.

    k is 10, or with `within` as many as there are (10,000 at most): every assignment within so many
    nats of the best. With `distance` = d every answer differs from each better one in at least d
    variables: the best answer, then the best that is far enough, and so on (greedy).

    `over` names variables whose k best assignments are listed, each once. With `rest` = "max"
    each has the best completion of all others; with "sum" the others are summed out (marginal MAP):
    the objective is the log of the sum, and constraints may read `over` and the evidence only.

    `time_limit` is in seconds per row. Rows too wide for elimination are searched, and get a
    bound. `potentials` and `limits` are as in `solve`.
    """
    need_problem(problem, "best")
    problem.need_tables("best")
    most = None if within is None else real_number("within", within, MethodError, example="2.0")
    if most is not None and not most >= 0.0:
        raise MethodError(f"within must be at least 0 nats, found {within}")
    count = (
        (10 if most is None else TRADEOFFS.most_listed) if k is None else whole_number("k", k, 1)
    )
    apart = None if distance is None else whole_number("distance", distance, 1)
    if over is not None or most is not None:
        if apart is not None:
            raise MethodError("distance does not go with over or within")
        need_here(running)
    if rest not in ("max", "sum") or (rest == "sum" and over is None):
        raise MethodError(f'rest is "max", or with `over` "sum"; found {rest!r}')
    if over is not None:
        if problem.form is Form.LEAVES:
            raise MethodError("over needs log-linear models; found cutset networks")
        told = Limits.of(running, seconds=time_limit)
        return _over(Rows.of(problem, evidence, potentials, limits), over, rest, count, most, told)
    if most is not None:
        options = {"time_limit": time_limit, "running": running}
        rows = Rows.of(problem, evidence, potentials, limits)
        return _within(rows, count, most, **options)
    told = Limits.of(running, seconds=time_limit)
    own = Rows.own(problem, evidence, potentials, limits)
    # The variables that rules bring must not count as distance.
    lifts = own is not None and (own.has_numbers or not (told.is_spread or apart))
    if own is not None and len(own) and lifts:
        need_here(running)
        return _own_best(own, count, distance=apart, time_limit=time_limit, running=running)
    if told.is_spread:
        ask = partial(_block, count, apart, time_limit, told.of_a_block())
        return spread_list(ask, problem, evidence, told)
    batches = by_observed(problem, evidence)
    out: list[Ranked | None] = [None] * sum(len(numbers) for _, numbers in batches)
    for instances, numbers in batches:
        few, where = each_once(instances)
        found = ranked_rows(few, count, told) if apart is None else _greedy(few, count, apart, told)
        seen = np.zeros(problem.variables, dtype=bool)
        seen[list(instances.problem.evidence_variables)] = True
        shown = [_with_observed(ranked, seen) for ranked in found]
        for row, place in zip(numbers, where, strict=True):
            out[row] = shown[place]
    return [ranked for ranked in out if ranked is not None]


def _over(
    rows: Rows,
    over: Sequence[int | str],
    rest: str,
    k: int,
    within: float | None,
    limits: Limits,
) -> list[Ranked]:
    """The k best assignments of some variables, each row's list about the row's own problem."""
    chosen = _chosen(rows.problem, over)
    if not len(rows):
        return []
    few_numbers, where, _ = rows.distinct()
    few = rows.take(few_numbers)
    most, summed = np.inf if within is None else within, None
    if rest == "sum":
        summed = Summed.of(few, chosen)
        few, chosen = summed.rows, tuple(range(summed.rows.problem.variables))
    if limits.seconds is None and _is_wide(few):
        limits = replace(limits, seconds=TRADEOFFS.chosen_seconds)
    if summed is not None and not summed.exact:
        out = [
            _of_scores(summed, row, summed.best(row, k, most, limits)) for row in range(len(few))
        ]
        return [out[place] for place in where]
    found = best_over(few, chosen, k, most, limits)
    out = []
    for row, each in enumerate(found):
        problem = few.problem_of(row)
        ranked = ranked_of(problem, each.rows, complete=each.complete, bound=each.bound)
        seen = few.evidence[row] != FREE
        out.append(_with_observed(ranked, seen))
    return [out[place] for place in where]


def _of_scores(summed: Summed, row: int, found: ScoredAnswers) -> Ranked:
    """A list whose objectives are sums that its problem only bounds."""
    problem = summed.rows.problem_of(row)
    values = found.scores, problem.constraint_values(found.rows)
    upper = max(found.bound, float(found.scores.max(initial=-np.inf)))
    whole = Solutions.evaluated(problem, found.rows, values, bound=upper, method="best")
    ranked = Ranked(ListedAnswers(whole), found.complete, found.bound)
    return _with_observed(ranked, summed.rows.evidence[row] != FREE)


def _is_wide(rows: Rows) -> bool:
    """Whether elimination cannot reach rows that observe what all of them do."""
    seen = np.flatnonzero((rows.evidence != FREE).all(axis=0)).tolist()
    problem = rows.problem
    if problem.form is Form.RULES:
        problem = expanded(problem, seen).problem
    return too_wide(problem.observing(seen), Limits())


def _chosen(problem: Problem, over: Sequence[int | str]) -> tuple[int, ...]:
    """The numbers of the variables, in rising order."""
    if isinstance(over, str) or not len(over):
        raise MethodError(f"over lists variables, such as over=['A', 'B']; found {over!r}")
    return tuple(sorted({problem.domain.variable(name) for name in over}))


def _within(rows: Rows, k: int, within: float, **options: Any) -> list[Ranked]:
    """Every answer within so many nats of the best: longer lists until each row's is long enough.

    A list is complete where it is proved that no answer within the distance is missing, or that
    the k that are listed are the best.
    """
    out: list[Ranked | None] = [None] * len(rows)
    left, ask = np.arange(len(rows)), min(k, TRADEOFFS.first_listed)
    while len(left):
        few = rows.take(left)
        if few.has_numbers or rows.problem.form is Form.RULES:
            found = _own_best(few, ask, **options)
        else:
            found = best(rows.problem, few.evidence, ask, **options)
        more = []
        for row, ranked in zip(left.tolist(), found, strict=True):
            h = ranked.objective
            least = h[0] - within - float(h_tolerance(h[:1])[0]) if len(h) else -np.inf
            inside = int((h >= least).sum())
            if inside == ask < k and ranked.bound >= least:
                more.append(row)
                continue
            out[row] = _first(ranked, inside, proved=ranked.complete or ranked.bound < least)
        left, ask = np.array(more, dtype=np.intp), min(k, TRADEOFFS.longer * ask)
    return [ranked for ranked in out if ranked is not None]


def _first(ranked: Ranked, count: int, *, proved: bool) -> Ranked:
    """The first answers of a list."""
    if count == len(ranked):
        return replace(ranked, complete=proved)
    missing = max(ranked.bound, float(ranked.objective[count]))
    answers = ranked.answers.take(np.arange(count))
    return Ranked(ListedAnswers(answers), proved, missing)


def _own_best(rows: Rows, k: int, **options: Any) -> list[Ranked]:
    """The k best of rows that are lifted, each list about the row's own problem."""
    first, where, _ = rows.distinct()
    few = rows.take(first)
    found = best(few.lifted, few.numbered(few.evidence), k, **options)
    out = []
    for row, ranked in enumerate(found):
        problem = few.problem_of(row)
        answers = Solutions.of(
            problem,
            ranked.assignments[:, : problem.variables],
            bound=ranked.answers.bound,
            method="best",
        )
        seen = np.broadcast_to(few.evidence[row] != FREE, answers.assignments.shape)
        timed = replace(answers, observed=seen, seconds=ranked.answers.seconds)
        out.append(replace(ranked, kept=ListedAnswers(timed)))
    return [out[place] for place in where]


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
    deadline = Deadline(replace(limits, seconds=limits.seconds or TRADEOFFS.chosen_seconds))
    told = replace(limits, progress=None)
    found: list[Values] = []
    missing = np.inf
    while len(found) < k and (not found or not deadline.expired()):
        left = deadline.left().seconds or 0.0
        share = TRADEOFFS.first_share if not found else 1.0 / (k - len(found))
        wide = with_distance(problem, len(found), 1)
        earlier = np.array([row[list(problem.free)] for row in found], dtype=full.dtype)
        rows = wide.rows(full, earlier.reshape(1, -1))
        best = answer(
            wide.problem,
            rows,
            limits=replace(told, seconds=max(TRADEOFFS.least_slice, share * left)),
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


class RankedBatch:
    """Rows of one structure."""

    def __init__(self, instances: Instances, k: int, limits: Limits) -> None:
        need_short_values(instances.problem)
        self._problem = problem = instances.problem
        cards = problem.objective.cardinalities
        self._instances = instances
        self._k = min(k, math.prod(cards[v] for v in problem.free))
        self._running = limits
        self._batch = Batch(instances, limits.bytes)
        self._tables = EvaluatedTables.of(self._problem.models)
        self._order = np.argsort(self._batch.plan.buckets[:, 0])
        self._sums = sums_within(limits.seconds)
        self._guess = np.zeros((2, 4))
        self._space: Any = None
        self._room = (0, 0)  # states and rank of it

    def run(self) -> list[Ranked]:
        """All rows, some at a time."""
        rank = 1 + self._k + max(32, int(TRADEOFFS.spare * self._k))
        self._check_room(rank)
        rows, out = np.arange(len(self._instances)), list[Ranked]()
        for part in self._parts(rows, rank, TRADEOFFS.best_spaces[0], self._k + 1):
            out += part
            self._running.report(len(out), len(rows))
        return out

    def _check_room(self, rank: int) -> None:
        """Refuse lists that memory has no room for; one row is the least that is done at a time."""
        numbers, values = 1 + len(self._problem.constraints), len(self._problem.free)
        need = rank * (KERNEL_BYTES + 8 * numbers + 2 * values)
        if need > self._running.bytes:
            raise TooLarge(
                f"the {self._k} best of a row need about {need >> 20} MiB; the limit is "
                f"{self._running.bytes >> 20} MiB; ask for fewer"
            )

    def _parts(self, rows: Indices, rank: int, *further: int) -> Iterator[list[Ranked]]:
        """The best of each row, as many rows at a time as their answers' room allows."""
        entries = len(self._problem.free) + 4 * (1 + len(self._problem.constraints))  # of 2 bytes
        step, lanes = max(1, TRADEOFFS.chunk_entries // (rank * entries)), self._batch.lanes
        step -= step % lanes if step > lanes else 0  # whole blocks
        for first in range(0, len(rows), step):
            yield self._ranked(rows[first : first + step], rank, *further)

    def _ranked(self, rows: Indices, rank: int, space: int, wanted: int) -> list[Ranked]:
        """The best of some rows; those that need more room, or more answers, again with more."""
        found = self._collected(rows, rank, space, wanted)
        were = found.counts.copy()
        self._put_in_order(found)
        are_short = found.counts < were
        are_open = (found.kinds == kernels.COMPLETE) & ~self._are_enough(found)
        are_over = found.kinds == kernels.OVERFLOW
        are_sure = ~are_over & ~(are_open & (found.counts < self._k))
        out = [self._shown(found, row, bool(are_sure[row])) for row in range(len(rows))]
        more = min(4 * rank, TRADEOFFS.most_rank + self._k)
        are_open &= rank < more
        for which, further in (
            (
                are_over & (space < TRADEOFFS.best_spaces[-1]),
                (rank, TRADEOFFS.best_spaces[-1], wanted),
            ),
            (are_open & ~are_short, (more, space, wanted)),
            (are_open & are_short, (more, space, min(4 * wanted, more))),
        ):
            again = np.flatnonzero(which)
            ranked_again = chain.from_iterable(self._parts(rows[again], *further))
            for row, ranked in zip(again, ranked_again, strict=True):
                out[row] = ranked
        return out

    def _shown(self, found: kernels.RankedRows, row: int, sure: bool) -> Ranked:
        """A copy: what was collected of other rows is not kept with it."""
        count, missing = int(found.counts[row]), float(found.bounds[row])
        values = found.values[row]
        highest = max(missing, float(values[0, 0])) if count else missing
        if count > self._k:
            missing = max(missing, float(values[self._k, 0]))
        which, stored = _differing(found, row)
        kept = min(count, self._k)
        answers = PackedAnswers(
            self._problem, found.begun[row].copy(), which.copy(), stored[:, :kept].copy(),
            values[:kept].copy(), highest,
        )  # fmt: skip
        return Ranked(answers, sure, missing)

    def _put_in_order(self, found: kernels.RankedRows) -> None:
        """Only what is feasible, by falling h, then by the assignment; most rows are so already.

        What the kernel left out is no better than the last that it gave.
        """
        problem, (count, rank) = self._problem, found.values.shape[:2]
        h, t = found.values[:, :, 0], found.values[:, :, 1:]
        is_feasible = problem.are_feasible(h.ravel(), t.reshape(count * rank, -1))
        is_there = np.arange(rank) < found.counts[:, np.newaxis]
        is_good = is_feasible.reshape(count, rank) | ~is_there
        falls = (h[:, 1:] < h[:, :-1]) | ~is_there[:, 1:]
        for row in np.flatnonzero(~(is_good.all(axis=1) & falls.all(axis=1))).tolist():
            own = np.flatnonzero(is_good[row] & is_there[row])
            if len(own) < found.counts[row] and found.kinds[row] != kernels.ALL:
                last = h[row, : found.counts[row]].min()
                found.bounds[row] = max(found.bounds[row], last)
            _, stored = _differing(found, row)
            own = own[falling(h[row, own], stored[:, own].T)]
            found.values[row, : len(own)] = found.values[row, own]
            stored[:, : len(own)] = stored[:, own]
            found.counts[row] = len(own)

    def _are_enough(self, found: kernels.RankedRows) -> NDArray[np.bool_]:
        """Whether no answer that was not collected may be as good as the last that is wanted."""
        last = found.values[:, self._k - 1, 0]
        with np.errstate(invalid="ignore"):
            is_better = last - found.bounds > 1e-3 * h_tolerance(last)
        return is_better & (found.counts >= self._k)

    def _grow(self, space: int, rank: int) -> None:
        if space > self._room[0] or rank > self._room[1]:
            self._room = (max(space, self._room[0]), max(rank, self._room[1]))
            constraints = max(1, len(self._problem.constraints))
            self._space = kernels.make_rank_space(
                self._room[0], constraints, self._batch.plan, self._room[1]
            )

    def _collected(self, rows: Indices, rank: int, space: int, wanted: int) -> kernels.RankedRows:
        self._grow(space, rank)
        batch, count = self._batch, len(rows)
        begun = self._instances.take(rows).complete(np.zeros((count, len(self._problem.free))))
        found = _room_for(begun, rank, self._problem)
        kernels.rank_rows(
            batch.rows(rows), wanted, self._guess, self._tables, self._order,
            kernels.for_rank(self._space, rank, self._sums), found,
        )  # fmt: skip
        return found


def _room_for(begun: Values, rank: int, problem: Problem) -> kernels.RankedRows:
    """Room for the answers of some rows."""
    count, most = len(begun), len(problem.free)
    counts, kinds = np.zeros((2, count), dtype=np.int64)
    return kernels.RankedRows(
        begun,
        np.zeros((count, rank, 1 + len(problem.constraints))),
        counts,
        kinds,
        np.zeros(count),
        np.empty(count * most, dtype=np.int64),
        np.empty((count * most + 1) * (rank + 8), dtype=np.uint16),
        np.zeros((count + 1, 4), dtype=np.int64),
    )


def _differing(found: kernels.RankedRows, row: int) -> tuple[Integers, NDArray[np.uint16]]:
    """The variables in which a row's answers differ (d,), and their values (d, answers)."""
    first, differ, low, width = found.places[row].tolist()
    stored = found.stored[low : low + differ * width].reshape(differ, width)
    return found.which[first : first + differ], stored
