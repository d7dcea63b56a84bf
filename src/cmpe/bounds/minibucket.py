"""Mini-buckets: elimination in which large buckets are split.

Eliminating v collects all tables and messages that mention v. If together they mention more than
i + 1 variables, they are dealt out to mini-buckets of at most i + 1, and each is maximised over v
on its own: v has become one copy per mini-bucket (Dechter and Rish 2003). Cost shifting moves
numbers between the copies, which only tightens the bound (Ihler, Flerova, Dechter and Otten 2012);
here by subgradients, after steps that move the constraints' multipliers alone. Where i reaches the
induced width nothing is split, and the bound is that of elimination.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.bounds.base import Bounds, Work
from cmpe.bounds.descent import Schedule, minimise
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.settings import SETTINGS
from cmpe.elimination.orders import Scope
from cmpe.models.conditioning import Conditioning
from cmpe.problem import Instances


@dataclass(frozen=True)
class Occurrences:
    """Which copy each scope mentions: `origin[r]` is the variable that r is a copy of."""

    origin: tuple[int, ...]
    scopes: tuple[Scope, ...]  # in the structure's order; those of one variable are not renamed
    variables: tuple[int, ...]  # the copies in use
    ties: tuple[Scope, ...] = ()  # see Relaxation

    @classmethod
    def of(cls, structure: Conditioning) -> Occurrences:
        """Nothing is split."""
        names = tuple(range(len(structure.cardinalities)))
        return cls(names, structure.scopes, structure.free)


class _MiniBuckets:
    """Dynamic elimination: parts are tables, then messages, with the tables they came from."""

    def __init__(
        self, start: Occurrences, fits: Callable[[Iterable[int]], bool], noise: Sequence[float]
    ) -> None:
        self.origin = list(start.origin)
        self.renamed = [list(scope) for scope in (*start.scopes, *start.ties)]
        self.order: list[int] = []
        self._fits, self._noise = fits, noise
        self._parts: list[tuple[set[int], list[int]]] = []  # variables, tables
        self._mention: dict[int, set[int]] = {v: set() for v in start.variables}
        for table, scope in enumerate((*start.scopes, *start.ties)):
            if len(scope) > 1:
                self._add(set(scope), [table])

    def _add(self, variables: set[int], members: list[int]) -> None:
        for v in variables:
            self._mention[v].add(len(self._parts))
        self._parts.append((variables, members))

    def _degree(self, variable: int) -> int:
        return len(set().union(*(self._parts[p][0] for p in self._mention[variable])))

    def run(self, work: Work) -> None:
        """Eliminate the variable with the fewest neighbours again and again."""
        degree = {v: self._degree(v) for v in self._mention}
        heap = [(degree[v], self._noise[v], v) for v in self._mention]
        heapq.heapify(heap)
        while heap:
            queued, _, variable = heapq.heappop(heap)
            if degree.get(variable) != queued:
                continue  # gone, or an older entry
            del degree[variable]
            work.check_time()
            for u in self._eliminate(variable):
                now = self._degree(u)
                if now != degree[u]:
                    degree[u] = now
                    heapq.heappush(heap, (now, self._noise[u], u))

    def _eliminate(self, variable: int) -> set[int]:
        groups = self._grouped(variable)
        if not groups:
            self.order.append(variable)
        touched: set[int] = set()
        for number, (variables, parts) in enumerate(groups):
            copy = variable
            if number:
                copy = len(self.origin)
                self.origin.append(self.origin[variable])
            self.order.append(copy)
            members = [table for part in parts for table in self._parts[part][1]]
            for table in members:
                self.renamed[table] = [copy if v == variable else v for v in self.renamed[table]]
            for part in parts:
                for v in self._parts[part][0]:
                    self._mention[v].discard(part)
            variables.discard(variable)
            touched |= variables
            if variables:
                self._add(variables, members)
        return touched

    def _grouped(self, variable: int) -> list[tuple[set[int], list[int]]]:
        """Largest parts first, each into the first mini-bucket that has room for it."""
        parts = sorted(self._mention[variable], key=lambda p: (-len(self._parts[p][0]), p))
        groups: list[tuple[set[int], list[int]]] = []
        for part in parts:
            variables = self._parts[part][0]
            for group, members in groups:
                if self._fits(group | variables):
                    group |= variables
                    members.append(part)
                    break
            else:
                groups.append((set(variables), [part]))
        return groups


def mini_buckets(
    structure: Conditioning,
    fits: Callable[[Iterable[int]], bool],
    generator: np.random.Generator,
    start: Occurrences | None = None,
    work: Work | None = None,
) -> Relaxation:
    """A relaxation whose buckets satisfy `fits`, by min-degree with random ties."""
    work = work or Work()
    given = start or Occurrences.of(structure)
    buckets = _MiniBuckets(given, fits, generator.random(len(given.origin)).tolist())
    buckets.run(work)
    renamed = [tuple(scope) for scope in buckets.renamed]
    scopes, ties = renamed[: len(given.scopes)], renamed[len(given.scopes) :]
    return Relaxation(structure, buckets.origin, scopes, buckets.order, ties, work)


def at_most_variables(i_bound: int) -> Callable[[Iterable[int]], bool]:
    """The textbook's test: a mini-bucket mentions at most i + 1 variables."""
    return lambda variables: len(set(variables)) <= i_bound + 1


def at_most_entries(
    structure: Conditioning, origin: Sequence[int], bits: int
) -> Callable[[Iterable[int]], bool]:
    """A test of size, for variables of many values: at most 2^(bits + 1) entries.

    Copies made on the way are not tested: they are eliminated as soon as they are made.
    """
    logs = [math.log2(structure.cardinalities[v]) for v in origin]
    return lambda variables: sum(logs[v] for v in variables) <= bits + 1 + 1e-9


@dataclass(frozen=True)
class MiniBucket:
    """Mini-buckets with an i-bound; `shift` tightens them by cost shifting."""

    i_bound: int = 8
    shift: bool = True

    def relaxation(self, structure: Conditioning, work: Work | None = None) -> Relaxation:
        """The mini-buckets of a structure."""
        work = work or Work()
        generator = np.random.default_rng(work.seed)
        return mini_buckets(structure, at_most_variables(self.i_bound), generator, work=work)

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Plain mini-buckets first, then cost shifting from there: never worse."""
        small = len(instances.conditioning.free) <= SETTINGS.planned
        if small and instances.problem.plan.width <= self.i_bound:
            return Lagrangian().upper_bound(instances, work)
        relaxation = self.relaxation(instances.conditioning, work)
        held = SETTINGS.plain_steps if self.shift else 1 << 40
        return minimise(instances, relaxation, work, Schedule(even=False, held=held))
