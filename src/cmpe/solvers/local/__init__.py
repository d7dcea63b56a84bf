"""`local`: repair any assignment at the least loss, then improve it move by move.

No proof and no training, microseconds a row. It is what learned answers have to beat, and the
last step of the methods that make starts (Lagrangian relaxation, networks). From a start:

1. Repair: the move that loses least h per unit of violation, until feasible; out of dead ends
   by moving pairs and by tabu search.
2. Polish, keeping feasibility: single moves that raise h; chains, where one move makes its
   neighbours want to follow (pairs among them); exchanges, where a move that raises h breaks a
   constraint and a cheaper one anywhere mends it.
3. Kicks: a few moves that raise h against the constraints, in turns with a few neighbouring
   variables at random; then repair and climb; kept if h did not fall.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Assignments, Floats, Integers
from cmpe.errors import Interrupted, MethodError
from cmpe.models.conditioning import Conditioning, Gather
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running

CHUNK = 512  # rows of one compiled call
PADDING = 1e-9  # of max(1, |q|): the search adds up tables in another order than the problem
LEAST_GAIN = 1e-12  # of h's largest entry, or of 1000: what rounding could feign

Unsigned = NDArray[np.uint64]


class Effort(NamedTuple):
    """How long to search one row."""

    steps: int = 50  # of repair, per free variable
    sweeps: int = 3  # of chains and exchanges; 0 is single moves only
    kicks: int = 0


THOROUGH = Effort(kicks=50)


@dataclass(frozen=True)
class LocalSolver:
    """Feasible answers without a bound, from `running.start` or from a seeded start of its own.

    Work is bounded by `effort`, so the time limit is not needed. The answer of a row depends on
    its evidence, its start, its number and the seed only.
    """

    running: Running = Running()
    effort: Effort = THOROUGH

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """The best feasible assignment seen, else the least violated one."""
        Limits(time_limit)
        instances = problem.given(evidence)
        start = checked(instances, FREE if self.running.start is None else self.running.start)
        state = np.random.SeedSequence(seed).generate_state(len(start), np.uint64)
        work = _Search(instances, start.copy(), state | np.uint64(1))
        try:
            for done in work.run(self.effort, self.running.threads):
                if self.running.progress is not None:
                    self.running.progress(done, len(start))
        except KeyboardInterrupt:
            work.rows[work.finished :] = FREE
            raise Interrupted(work.answers(), work.finished) from None
        if self.running.start is None:
            return work.answers()
        # A feasible start whose t lies between the search's padded limit and q is not lost.
        return work.answers().or_better(Solutions.of(problem, start, method="local"))


def improve(
    instances: Instances,
    assignments: ArrayLike,
    *,
    sweeps: int = 3,
    pair_moves: bool = True,
    kicks: int = 0,
    threads: int = 1,
) -> Assignments:
    """Repair and polish one assignment per row (B, n); evidence is put in, -1 is no start.

    A row's answer depends on its own evidence and assignment only. With cutset networks it stays
    in the leaf where it starts.
    """
    rows = checked(instances, assignments)
    effort = Effort(sweeps=sweeps if pair_moves else 0, kicks=kicks)
    if not instances.problem.is_log_linear:
        _improve_by_branch(instances, rows, effort, threads)
        return rows
    _improve(instances, rows, effort, threads)
    return rows


def _improve_by_branch(
    instances: Instances, rows: Assignments, effort: Effort, threads: int
) -> None:
    """A row without a start takes the first leaf that its evidence allows."""
    evidence = instances.full()
    open_rows = np.ones(len(rows), dtype=bool)
    for branch in instances.problem.branches:
        numbers = np.flatnonzero(open_rows & branch.agrees(rows) & branch.agrees(evidence))
        open_rows[numbers] = False
        if len(numbers):
            part = branch.instances(evidence[numbers])
            inside = checked(part, rows[numbers])
            _improve(part, inside, effort, threads)
            rows[numbers] = inside


def _improve(instances: Instances, rows: Assignments, effort: Effort, threads: int) -> None:
    work = _Search(instances, rows, _fingerprints(rows))
    for _ in work.run(effort, threads):
        pass


def checked(instances: Instances, assignments: ArrayLike) -> Assignments:
    """A copy of full assignments (B, n) with the evidence in; -1 in a row means no start."""
    problem, free = instances.problem, list(instances.problem.free)
    given = np.asarray(assignments, dtype=np.int32)
    shape = (len(instances), problem.variables)
    if given.ndim and given.shape != shape:
        raise MethodError(f"a start must have shape {shape}, found {given.shape}")
    cards = np.asarray(problem.objective.cardinalities)
    rows = np.zeros(shape, dtype=np.int32)  # a variable of one value is never free
    rows[:, free] = np.broadcast_to(given, shape)[:, free]
    if (rows >= cards).any() or (rows < FREE).any():
        raise MethodError("a start must hold values of its variables, or -1 where there is none")
    rows[:, list(problem.evidence_variables)] = instances.evidence
    return rows


def _fingerprints(rows: Assignments) -> Unsigned:
    """A seed for each row that depends on nothing but the row."""
    keys = np.random.SeedSequence(rows.shape[1]).generate_state(rows.shape[1], np.uint64)
    return (rows.astype(np.uint64) @ keys) | np.uint64(1)


class _Search:
    """One batch on its way through the compiled calls; `rows` (B, n) are improved in place."""

    def __init__(self, instances: Instances, rows: Assignments, seeds: Unsigned) -> None:
        structure = instances.conditioning
        if structure not in _COMPILED:
            _COMPILED[structure] = Graph.of(structure), joined(structure)
        rules = Rules.of(instances.problem)
        self._fixed = (*_COMPILED[structure], rules, rules.unlimited())
        self._instances, self._seeds = instances, seeds
        self._seconds = np.zeros(len(rows))
        self.rows, self.finished = rows, 0

    def answers(self) -> Solutions:
        """What `rows` are worth."""
        problem = self._instances.problem
        return Solutions.of(problem, self.rows, method="local", seconds=self._seconds)

    def run(self, effort: Effort, threads: int) -> Iterator[int]:
        """How many rows are finished, chunk after chunk."""
        count = len(self.rows)
        chunks = [slice(a, min(a + CHUNK, count)) for a in range(0, count, CHUNK)]
        with ThreadPoolExecutor(threads) as pool:
            try:
                for rows in pool.map(lambda rows: self._chunk(rows, effort), chunks):
                    self.finished = rows.stop
                    yield rows.stop
            finally:
                pool.shutdown(cancel_futures=True)

    def _chunk(self, rows: slice, effort: Effort) -> slice:
        from cmpe.solvers.local.kernels import repair as kernels

        begin = time.perf_counter()
        evidence = self._instances.evidence[rows]
        kernels.search(evidence, *self._fixed, effort, self._seeds[rows], self.rows[rows])
        self._seconds[rows] = (time.perf_counter() - begin) / (rows.stop - rows.start)
        return rows


class Rules(NamedTuple):
    """What feasible means to compiled code, and how constraints are weighed in repair."""

    limits: Floats  # (m,)
    weights: Floats  # (m,): 1 / the mean spread of the constraint's tables
    zeros: Integers  # (m + 1,): the channel that counts a function's -inf entries, or -1
    gain: float  # the least rise of h that counts as one

    @classmethod
    def of(cls, problem: Problem) -> Rules:
        """The rules of a problem; limits a hair inside the tolerance, so that sums may differ."""
        padding = PADDING * np.maximum(1.0, np.abs(problem.limits))
        counted = np.array([not f.is_finite for f in problem.functions])
        channel = len(counted) - 1 + np.cumsum(counted)
        values = problem.models[0].flat.values
        largest = np.abs(values[np.isfinite(values)]).max(initial=1000.0)
        return cls(
            problem.limits + problem.tolerances - padding,
            np.array([1.0 / mean_spread(model) for model in problem.models[1:]]),
            np.where(counted, channel, -1).astype(np.int64),
            float(LEAST_GAIN * largest),
        )

    def unlimited(self) -> Rules:
        """The same without constraints: h alone."""
        return self._replace(limits=np.full(len(self.limits), np.inf))


def mean_spread(function: LogLinearModel) -> float:
    """How far apart a table's largest and smallest finite entries are, on average."""
    flat = function.flat
    if not flat.count:
        return 1.0
    zero = np.isneginf(flat.values)
    high = np.maximum.reduceat(np.where(zero, -np.inf, flat.values), flat.offsets[:-1])
    low = np.minimum.reduceat(np.where(zero, np.inf, flat.values), flat.offsets[:-1])
    spread = float(np.where(high >= low, high - low, 0.0).mean())
    return spread if spread > 0.0 else 1.0


class Graph(NamedTuple):
    """Which moves there are and which tables they touch, as arrays for compiled code.

    Variables are numbered as in `Conditioning.free`, tables as its scopes; a slot is one value
    of one variable. Two variables of one table are neighbours, joined by an arc each way.
    """

    offsets: Unsigned  # (T + 1,): where each table starts
    free: Unsigned  # (F,): the variables' numbers in the problem
    owner: Unsigned  # (S,): the variable of each slot
    variables: Unsigned  # (F, 7): first and end of slots, arcs, places; where others share
    places: Unsigned  # (., 2): table and stride, by variable, its own tables first
    arcs: Unsigned  # (., 6): table, own stride; the other's stride, number, first slot, end
    is_simple: bool  # no two variables share two tables

    @classmethod
    def of(cls, structure: Conditioning) -> Graph:
        """Index the tables that evidence leaves by variable."""
        free = structure.free
        slots = starts_of([structure.cardinalities[v] for v in free])
        places, arcs = _incidences(structure, slots)
        alone = [sum(len(structure.scopes[f]) == 1 for f, _ in own) for own in places]
        arc, place = starts_of([len(own) for own in arcs]), starts_of([len(own) for own in places])
        columns = (slots[:-1], slots[1:], arc[:-1], arc[1:], place[:-1], place[:-1] + alone)
        return cls(
            structure.layout.offsets.astype(np.uint64),
            np.asarray(free, dtype=np.uint64),
            np.repeat(np.arange(len(free)), np.diff(slots)).astype(np.uint64),
            np.stack([*columns, place[1:]], axis=1).astype(np.uint64),
            np.array([p for own in places for p in own], dtype=np.uint64).reshape(-1, 2),
            np.array([a for own in arcs for a in own], dtype=np.uint64).reshape(-1, 6),
            all(len({a[3] for a in own}) == len(own) for own in arcs),
        )


_COMPILED: WeakKeyDictionary[Conditioning, tuple[Graph, Gather]] = WeakKeyDictionary()
_Rows = list[list[tuple[int, ...]]]


def _incidences(structure: Conditioning, slots: Integers) -> tuple[_Rows, _Rows]:
    """Per free variable its places and its arcs; scopes come by size, so single ones first."""
    number = {v: i for i, v in enumerate(structure.free)}
    places: _Rows = [[] for _ in number]
    arcs: _Rows = [[] for _ in number]
    for f, scope in enumerate(structure.scopes):
        start, end = structure.layout.starts[f : f + 2]
        axes = [
            (number[v], int(s))
            for v, s in zip(scope, structure.layout.strides[start:end], strict=True)
        ]
        for v, stride in axes:
            places[v].append((f, stride))
            arcs[v].extend(
                (f, stride, other, u, int(slots[u]), int(slots[u + 1]))
                for u, other in axes
                if u != v
            )
    return places, arcs


def joined(structure: Conditioning) -> Gather:
    """One gather for all functions, whose entries follow one another."""
    parts, size = structure.gathers, len(structure.layout.values)
    return Gather(
        np.concatenate([g.values for g in parts]),
        _chained([g.offsets for g in parts]),
        _chained([g.starts for g in parts]),
        np.concatenate([g.columns for g in parts]),
        np.concatenate([g.strides for g in parts]),
        _chained([g.entries for g in parts]),
        np.concatenate([g.steps for g in parts]),
        np.concatenate([g.targets + k * size for k, g in enumerate(parts)]),
    )


def _chained(starts: Sequence[Integers]) -> Integers:
    """The start positions of lists laid end to end."""
    return starts_of(np.concatenate([np.diff(own) for own in starts]))


def starts_of(sizes: Sequence[int] | Integers) -> Integers:
    """Where each of several lists begins when they are laid end to end, and the end."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
