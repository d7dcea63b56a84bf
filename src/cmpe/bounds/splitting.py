"""Vertex splitting: cut the graph into pieces of small width; multipliers make copies agree.

Two ways to cut, both followed by mini-buckets, so that no bucket exceeds the width:

- layers: number the vertices in levels across the graph and cut at every w-th level. A vertex of
  a cut has one copy on either side, and strips of w levels are about w wide. On a grid this needs
  far fewer copies than anything that splits vertex by vertex. Neighbours along a cut are tied:
  they have multipliers over their joint values, which costs little width and takes away most of
  what splitting loses.
- leaves: eliminate by smallest degree; where it exceeds the width, freeze a neighbour of large
  degree. A frozen vertex has one copy per table, a leaf that is eliminated at once.

Which split is best varies by several nats and does not follow from the graph: `Splitting.fitted`
measures the bounds of candidates on training rows. Without those the fewest copies win among the
splits that leave time for enough steps.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmpe.bounds.base import Bounds, Work
from cmpe.bounds.descent import minimise
from cmpe.bounds.minibucket import Occurrences, at_most_entries, mini_buckets
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.settings import SETTINGS
from cmpe.elimination.orders import Scope
from cmpe.elimination.plan import Graph, interaction_graph, make_plan
from cmpe.errors import TooLarge
from cmpe.models.conditioning import Conditioning
from cmpe.problem import Instances


@dataclass(frozen=True)
class Cut:
    """One way to split: `kind` is "layers" or "leaves", `size` the levels or the width.

    `tied` neighbours along a cut have joint multipliers.
    """

    kind: str
    size: int
    seed: int
    tied: int = 2

    def relaxation(self, structure: Conditioning, work: Work | None = None) -> Relaxation:
        """The split of a structure; `work` limits the time for making it."""
        work = work or Work()
        generator = np.random.default_rng((self.seed, self.size))
        if self.kind == "layers":
            tries = int(np.clip(SETTINGS.large // max(1, len(structure.free)), 1, SETTINGS.tries))
            tried = []
            for _ in range(tries):
                work.check_time()
                tried.append(_layers(structure, self.size, self.tied, generator))
            start = min(tried, key=lambda o: len(o.variables))
            width = self.size + self.tied + SETTINGS.extra
        else:
            start, width = _leaves(structure, self.size, generator), self.size
        fits = at_most_entries(structure, start.origin, width)
        cards = [structure.cardinalities[v] for v in start.origin]
        scopes = [scope if len(scope) > 1 else () for scope in (*start.scopes, *start.ties)]
        plan = make_plan(
            cards,
            scopes,
            variables=start.variables,
            seed=self.seed,
            restarts=1,
            until=work.until,
        )
        if not plan.hopeless and all(fits((*b.scope, b.variable)) for b in plan.buckets):
            return Relaxation(structure, start.origin, start.scopes, plan.order, start.ties, work)
        return mini_buckets(structure, fits, generator, start, work)


@dataclass(frozen=True)
class Splitting:
    """The bound of one split; which one is decided by `fitted` or by size."""

    relaxation: Relaxation | None = None
    attempts: int = 3  # seeds of every cut

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row by the split."""
        return minimise(instances, self.split_of(instances.conditioning, work), work)

    def split_of(self, structure: Conditioning, work: Work) -> Relaxation:
        """The split that was fitted, if it fits this structure, else one by size."""
        if self.relaxation is not None and self.relaxation.fits(structure):
            return self.relaxation
        return by_size(structure, work)

    def fitted(self, training: Sequence[Instances], work: Work) -> Splitting:
        """The split with the lowest mean bound on the training rows, for this much work."""
        if not training:
            return self
        best, lowest = self.relaxation, np.inf
        for candidate in self._candidates(training[0].conditioning, work):
            found = [minimise(part, candidate, work) for part in training]
            upper = np.concatenate([bounds.upper for bounds in found])
            mean = float(upper[np.isfinite(upper)].mean()) if np.isfinite(upper).any() else 0.0
            if mean < lowest:
                best, lowest = candidate, mean
        return replace(self, relaxation=best)

    def _candidates(self, structure: Conditioning, work: Work) -> Iterator[Relaxation]:
        """Splits that leave time for enough steps, and at least one."""
        cuts = [
            Cut(kind, size, work.seed + attempt)
            for attempt in range(self.attempts)
            for kind, sizes in (("layers", SETTINGS.distances), ("leaves", SETTINGS.widths))
            for size in sizes
        ]
        any_fits = False
        for candidate in _made(cuts, structure, work):
            if not any_fits or _affordable(candidate, work):
                any_fits = True
                yield candidate
            if candidate.copies == 0:
                return  # nothing is split: no other candidate is tighter


def by_size(structure: Conditioning, work: Work, tied: int = 2) -> Relaxation:
    """The longest strips that leave time for enough steps, else the shortest.

    Short strips are quick to make. Longer ones are tried as long as the number of entries that they
    read does not grow too fast.
    """
    chosen: Relaxation | None = None
    places, growth = 0.0, 1.0
    for made in _made(
        [Cut("layers", size, work.seed, tied) for size in SETTINGS.distances], structure, work
    ):
        if chosen is not None and not _affordable(made, work):
            break
        chosen = made
        read = float(len(made.compiled.places))
        growth = read / places if places else growth
        places = read
        if made.copies == 0 or _seconds(places * growth) > 2.0 * _allowed(work):
            break
    assert chosen is not None
    return chosen


def _made(cuts: Sequence[Cut], structure: Conditioning, work: Work) -> Iterator[Relaxation]:
    """The splits that are not too large and made in time; if none is, an error."""
    none, error = True, TooLarge("there is nothing to try")
    for cut in cuts:
        try:
            made = cut.relaxation(structure, work)
        except TooLarge as refused:
            error = refused
            continue
        none = False
        yield made
    if none:
        raise error


def _affordable(relaxation: Relaxation, work: Work) -> bool:
    return _seconds(len(relaxation.compiled.places)) <= _allowed(work)


def _seconds(places: float) -> float:
    return SETTINGS.enough_steps * SETTINGS.seconds_per_place * places


def _allowed(work: Work) -> float:
    return 1.0 if work.time_limit is None else work.time_limit


def _layers(
    structure: Conditioning, distance: int, tied: int, generator: np.random.Generator
) -> Occurrences:
    """Copies on both sides of every `distance`-th level, the first cut at a random one."""
    graph = interaction_graph(len(structure.cardinalities), structure.scopes)
    level: dict[int, int] = {}
    for root in generator.permutation(np.array(structure.free, dtype=np.int64)).tolist():
        if root not in level:
            first = int(generator.integers(distance))
            level.update((v, at + first) for v, at in _levels(graph, root, generator).items())
    origin = list(range(len(structure.cardinalities)))
    twins: dict[int, int] = {}  # of vertices of a cut: the copy on the far side
    scopes: list[Scope] = []
    for scope in structure.scopes:
        farthest = max((level[v] for v in scope), default=0)
        renamed = []
        for v in scope:
            if level[v] % distance == 0 and farthest > level[v]:
                if v not in twins:
                    twins[v] = len(origin)
                    origin.append(v)
                renamed.append(twins[v])
            else:
                renamed.append(v)
        scopes.append(tuple(renamed))
    cut = _in_use(structure, origin, scopes)
    used = set(cut.variables)
    both = {v: twin for v, twin in twins.items() if v in used}
    return replace(cut, ties=_windows(graph, level, both, tied))


def _windows(
    graph: Graph, level: dict[int, int], twins: dict[int, int], tied: int
) -> tuple[Scope, ...]:
    """Runs of `tied` vertices along every cut, on both sides of it."""
    sides: dict[int, set[int]] = {}
    for v in twins:
        sides.setdefault(level[v], set()).add(v)
    ties: list[Scope] = []
    for at in sorted(sides):
        for run in _runs(graph, sides[at]):
            size = min(tied, len(run))
            for first in range(len(run) - size + 1):
                window = tuple(run[first : first + size])
                if size > 1:
                    ties += [window, tuple(twins[v] for v in window)]
    return tuple(ties)


def _runs(graph: Graph, members: set[int]) -> list[list[int]]:
    """A cut's vertices in order, by piece: steps go to vertices at distance one or two."""
    near = {
        v: ((graph[v] | {w for u in graph[v] for w in graph[u]}) & members) - {v} for v in members
    }
    runs: list[list[int]] = []
    left = set(members)
    while left:
        start = min(left)
        for _ in range(2):  # from one end to the other
            start = _breadth_first(near, start)[-1]
        run = _breadth_first(near, start)
        left -= set(run)
        runs.append(run)
    return runs


def _breadth_first(near: dict[int, set[int]], root: int) -> list[int]:
    seen, run = {root}, [root]
    for v in run:  # grows while it is read
        new = sorted(near[v] - seen)
        seen.update(new)
        run += new
    return run


def _in_use(structure: Conditioning, origin: Sequence[int], scopes: Sequence[Scope]) -> Occurrences:
    """Keep the copies that scopes mention; a variable in no scope of two keeps its own name."""
    used = {v for scope in scopes if len(scope) > 1 for v in scope}
    covered = {origin[v] for v in used}
    lonely = [v for v in structure.free if v not in covered]
    return Occurrences(tuple(origin), tuple(scopes), tuple(sorted([*used, *lonely])))


def _levels(graph: Graph, root: int, generator: np.random.Generator) -> dict[int, int]:
    """Levels across the component of `root`: neighbours are at most one apart.

    From one far end, its distance; between two far ends a and b, half of d(a, .) - d(b, .),
    which on a grid with corners a and b of one side counts columns.
    """
    ends = [_far_end(_distances(graph, root), generator)]
    ends.append(_far_end(_distances(graph, ends[0]), generator))
    if generator.random() < 0.7:
        middle = _distances(graph, int(generator.choice(list(_distances(graph, root)))))
        ends[1] = _far_end(middle, generator)
    near, far = (_distances(graph, end) for end in ends)
    if ends[0] == ends[1] or generator.random() < 0.2:
        return near
    half = {v: (near[v] - far[v]) // 2 for v in near}
    least = min(half.values())
    return {v: at - least for v, at in half.items()}


def _far_end(distance: dict[int, int], generator: np.random.Generator) -> int:
    most = max(distance.values())
    return int(generator.choice([v for v in distance if distance[v] >= 0.9 * most]))


def _distances(graph: Graph, root: int) -> dict[int, int]:
    distance, queue = {root: 0}, deque([root])
    while queue:
        v = queue.popleft()
        for u in graph[v]:
            if u not in distance:
                distance[u] = distance[v] + 1
                queue.append(u)
    return distance


def _leaves(structure: Conditioning, width: int, generator: np.random.Generator) -> Occurrences:
    """One copy per table of every frozen vertex."""
    frozen = _frozen(structure, width, generator)
    origin = list(range(len(structure.cardinalities)))
    scopes: list[Scope] = []
    for scope in structure.scopes:
        renamed = list(scope)
        for axis, v in enumerate(scope if len(scope) > 1 else ()):
            if v in frozen:
                renamed[axis] = len(origin)
                origin.append(v)
        scopes.append(tuple(renamed))
    return _in_use(structure, origin, scopes)


def _frozen(structure: Conditioning, width: int, generator: np.random.Generator) -> set[int]:
    """What min-degree elimination freezes so that no degree exceeds `width`."""
    graph = interaction_graph(len(structure.cardinalities), structure.scopes)
    noise = generator.random(len(graph))
    heap = [(len(graph[v]), noise[v], v) for v in structure.free]
    heapq.heapify(heap)
    gone: set[int] = set()
    frozen: set[int] = set()
    while heap:
        degree, _, v = heapq.heappop(heap)
        if v in gone or degree != len(graph[v]):
            continue
        neighbours = set(graph[v])
        if degree > width:
            v = max(neighbours, key=lambda u: (len(graph[u]), noise[u]))
            neighbours = graph[v]
            frozen.add(v)
        gone.add(v)
        for u in neighbours:
            graph[u].discard(v)
            if v not in frozen:
                graph[u] |= neighbours - {u}
        graph[v] = set()
        for u in neighbours:
            heapq.heappush(heap, (len(graph[u]), noise[u], u))
    return frozen
