"""One row as a network of tables: soft consistency, and branch and bound on it.

`kernels.consistency` has the mathematics. The tables are h - sum_j mu_j (t_j - q_j) for given
multipliers mu >= 0, so every bound holds for the feasible assignments (docs/mathematics.md, the
Lagrangian relaxation), and a value that is taken away is in no better feasible assignment than the
incumbent.
"""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.core.compiler import timing
from cmpe.models.conditioning import Conditioning
from cmpe.models.flat import ranges
from cmpe.problem import Instances
from cmpe.solvers.local.graph import starts_of
from cmpe.solvers.wide.settings import SETTINGS

Messages = dict[tuple[int, ...], list[Floats]]


class NetworkShape:
    """The arrays of a structure that do not depend on the row."""

    def __init__(self, structure: Conditioning) -> None:
        self.structure = structure
        layout = structure.layout
        free = np.full(len(structure.cardinalities), -1, dtype=np.int64)
        free[list(structure.free)] = np.arange(len(structure.free))
        arity = np.diff(layout.starts)
        several = np.flatnonzero(arity > 1)
        self.constants = np.flatnonzero(arity == 0)
        self.singles = np.flatnonzero(arity == 1)
        cards = np.array([structure.cardinalities[v] for v in structure.free], dtype=np.int64)
        self.place = starts_of(cards)
        entries = np.diff(layout.offsets)[several]
        self.entries = ranges(layout.offsets[several], entries)
        slots = ranges(layout.starts[several], arity[several])
        variable = free[layout.variables[slots]]
        table = np.repeat(np.arange(len(several)), arity[several]).astype(np.int64)
        by_variable = np.argsort(variable, kind="stable").astype(np.int64)
        count = len(cards)
        first, last = np.full(len(several), count), np.full(len(several), -1)
        np.minimum.at(first, table, variable)
        np.maximum.at(last, table, variable)
        ahead = np.stack([variable < last[table], variable > first[table]])
        counts = np.stack([np.bincount(variable, weights=a, minlength=count) for a in ahead])
        self.arrays: dict[str, Any] = {
            "place": self.place,
            "offsets": starts_of(entries),
            "starts": starts_of(arity[several]),
            "variable": variable,
            "stride": layout.strides[slots],
            "sends": starts_of(cards[variable])[:-1],
            "table": table,
            "own": starts_of(np.bincount(variable, minlength=count)),
            "slots": by_variable,
            "order": np.arange(count),
            "ahead": ahead.astype(np.int64),
            "share": 1.0 / np.maximum(1.0, counts.max(axis=0)) if count else np.zeros(0),
        }
        self.messages = int(cards[variable].sum())
        self.most_values = int(cards.max(initial=1))
        self.most_axes = int(arity.max(initial=1))
        # Entry of `alone` that each entry of a table of one variable is added to.
        single = free[layout.variables[layout.starts[self.singles]]]
        self.single_from = ranges(layout.offsets[self.singles], cards[single])
        self.single_to = ranges(self.place[single], cards[single])

    def split(self, tables: Floats) -> tuple[float, Floats, Floats]:
        """The entries (E,) of a row: the constant, what is of one variable (V,), the rest."""
        layout = self.structure.layout
        alone = np.zeros(int(self.place[-1]))
        np.add.at(alone, self.single_to, tables[self.single_from])
        base = float(tables[layout.offsets[self.constants]].sum())
        return base, alone, np.ascontiguousarray(tables[self.entries])


class RowNetwork:
    """The tables of one row under some multipliers, and what consistency has made of them."""

    def __init__(
        self, shape: NetworkShape, instances: Instances, row: int, multipliers: Floats
    ) -> None:
        from cmpe.core import branching, consistency, dominance

        self._consistency, self._branching, self._dominance = consistency, branching, dominance
        self.shape = shape
        limits = loosened_limits(instances)
        given = row_tables(instances, slice(row, row + 1))[0]
        parts = [shape.split(table) for table in (given.h, *given.t)]
        base, alone, entries = (np.array(part) for part in zip(*parts, strict=True))
        self.possible = bool(base[0] > -np.inf)
        base[0] = base[0] if self.possible else 0.0
        self._is_forbidden = not self.possible
        self._judged = branching.Judged(alone, entries, base, limits)
        self.net = consistency.Net(**shape.arrays, alone=alone[0].copy(), values=entries[0].copy())
        self.least, self.units = given.least, given.units
        count = len(shape.arrays["order"])
        values, tables = int(shape.place[-1]), len(shape.arrays["offsets"]) - 1
        cards = np.diff(shape.place)
        self.state = consistency.NetworkState(
            size=cards.astype(np.int64),
            left=np.arange(values, dtype=np.int64) - np.repeat(shape.place[:-1], cards),
            belief=np.zeros(values),
            message=np.zeros(shape.messages),
            best=np.zeros(count + tables),
            dirty=np.zeros(count, dtype=np.int8),
            levels=np.array([np.inf, given.least, 0.0, 0.0]),  # no answer is below `least`
            scratch=np.zeros((2, shape.most_values)),
            axes=np.zeros((1, shape.most_axes), dtype=np.int64),
        )
        self._instead = np.full(values, -1, dtype=np.int64)  # which value stands in for one
        self._gain = np.zeros((2 * len(parts), shape.most_values))
        self.upper = np.inf
        self._tree: Any = None
        self.price(multipliers)

    def copied(self) -> RowNetwork:
        """The same network in a state of its own."""
        other = copy(self)
        other.state = self._consistency.NetworkState(*(array.copy() for array in self.state))
        if len(self.multipliers):
            alone, values = self.net.alone.copy(), self.net.values.copy()
            other.net = self.net._replace(alone=alone, values=values)
        return other

    def impose(self, claim: float) -> None:
        """Make -inf in h a number that takes any sum below the claim; all values are left."""
        parts = (self._judged.alone[0], self.net.place), (self._judged.values[0], self.net.offsets)
        highest = [np.maximum.reduceat(h, starts[:-1]) for h, starts in parts if len(h)]
        most = np.concatenate([self._judged.base[:1], *highest])
        low = min(0.0, claim) - np.abs(most[most > -np.inf]).sum() - 1.0
        for h, _ in parts:
            h[h == -np.inf] = low
        self._judged.base[0] += low * self._is_forbidden
        self.state.size[:] = np.diff(self.shape.place)
        self.least = self.state.levels[1] = -np.inf
        self.possible = True
        self.price(self.multipliers)

    def price(self, multipliers: Floats, messages: Floats | None = None) -> None:
        """Begin anew with other multipliers and messages; values that are out stay out."""
        self.multipliers = multipliers
        self._branching.price(self.net, self._judged, self.state, multipliers)
        self.state.message[:] = 0.0 if messages is None else messages
        self._begin()

    def _begin(self) -> None:
        self.possible = self.possible and bool(self._consistency.begin(self.net, self.state))
        self.possible = self.possible and self.now > self.state.levels[1]
        self._note()

    def _note(self) -> None:
        """Keep the bound, which only falls."""
        if not self.possible:
            self.upper = min(self.upper, self._refuted)
        else:
            self.upper = min(self.upper, max(self.now, self._refuted))

    @property
    def _refuted(self) -> float:
        """A bound on everything where nothing above ENOUGH is left; -inf: infeasible."""
        enough = float(self.state.levels[1])
        return enough if enough > self.least else -np.inf

    @property
    def now(self) -> float:
        """The bound under the present multipliers and messages."""
        levels = self.state.levels
        return float(levels[0] + levels[3] + 1e-10 * abs(levels[0]))

    def slopes(self) -> Floats:
        """By how much `now` changes with each multiplier, for fixed messages: (m,)."""
        from cmpe.core.slopes import sums_at_maxima

        alone, values = self._judged.alone[1:], self._judged.values[1:]
        out = np.zeros(len(alone))
        sums_at_maxima(self.net, self.state, alone, values, out)
        slopes: Floats = self._judged.limits - self._judged.base[1:] - out
        return slopes

    def require(self, enough: float) -> None:
        """Only assignments above `enough` are of interest from now on."""
        self.state.levels[1] = max(self.state.levels[1], enough)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each free variable has left."""
        return self.state.size

    def stand_ins(self) -> list[Integers]:
        """For each value of each free variable the one that dominates it, -1 where none does."""
        place = self.shape.place.tolist()
        return [self._instead[a:b] for a, b in pairwise(place)]

    def dominate(self, until: float) -> int:
        """Take values away that others of their variable can stand in for; how many.

        Whatever the other variables are, a stand-in is no worse in h and in every t_j.
        """
        if not self.possible:
            return 0
        count, first, pace = 0, 0, 1
        while first < len(self.state.size) and timing.now() < until:
            begin, last = timing.now(), min(len(self.state.size), first + pace)
            count += self._dominance.dominate(
                self.net, self._judged, self.state, first, last, self._gain, self._instead
            )
            first = last
            pace = 2 * pace if timing.now() - begin < SETTINGS.slice_seconds else max(1, pace // 2)
        if count:
            self._begin()
        return count

    def domains(self) -> list[Integers]:
        """The values left of each free variable, sorted."""
        state, place = self.state, self.shape.place
        return [np.sort(state.left[p : p + k]) for p, k in zip(place, state.size, strict=False)]

    def tighten(self, until: float, most: int = 1 << 30, least: float = 1e-4) -> bool:
        """Sweep until nothing comes of it, or time is over; whether anything is possible still.

        A round of sweeps that lowers the bound by less than `least` nats a sweep and drops less
        than a hundredth of the values is the last.
        """
        count, done = 1, 0
        while self.possible and done < most:
            begin, before, values = timing.now(), self.upper, int(self.state.size.sum())
            going = self._consistency.sweeps(self.net, self.state, count)
            if going:
                self._begin()
            else:
                self.possible = False
            self._note()
            done += count
            spent = timing.now() - begin
            if timing.now() >= until:
                break
            dropped = values - int(self.state.size.sum())
            if done > 4 and before - self.upper < least * count and dropped < 0.01 * values:
                break
            # Without a limit no clock decides.
            if spent < SETTINGS.slice_seconds or until == np.inf:
                count = min(2 * count, 64)
        return self.possible

    def decoded(self, way: int = 0) -> Integers:
        """A value for each variable: the favourite of its tables, given the variables before."""
        out, full = np.zeros((2, len(self.state.size)), dtype=np.int64)
        self._consistency.decode(self.net, self.state, way, out, full)
        return out

    def losses(self) -> Floats:
        """By how much each value left is worse than the best of its variable, in one more sweep."""
        out = np.full(len(self.state.left), np.inf)
        if self.possible:
            self.possible = bool(self._consistency.losses(self.net, self.state, out))
            self._note()
        return out

    def narrowed(self, most: float, losses: Floats) -> RowNetwork:
        """A copy without the values whose loss is greater: a bound on what is left, no more."""
        other, place = self.copied(), self.shape.place
        state = other.state
        for v, p in enumerate(place[:-1]):
            left = state.left[p : place[v + 1]]
            keep = losses[p + left[: state.size[v]]] <= most
            rest = np.concatenate([keep, np.zeros(len(left) - len(keep), dtype=bool)])
            left[:] = np.concatenate([left[rest], left[~rest]])
            state.size[v] = keep.sum()
        other.upper = np.inf
        other._begin()
        return other

    def messages(self) -> Messages:
        """The messages of each table of two and more variables, by its scope."""
        arrays, free = self.shape.arrays, self.shape.structure.free
        cards, out = np.diff(self.shape.place), {}
        starts, variable, sends = arrays["starts"], arrays["variable"], arrays["sends"]
        for low, high in pairwise(starts.tolist()):
            scope = tuple(free[v] for v in variable[low:high])
            ends = sends[low:high] + cards[variable[low:high]]
            out[scope] = [
                self.state.message[a:b] for a, b in zip(sends[low:high], ends, strict=True)
            ]
        return out

    def take_over(self, messages: Messages) -> None:
        """Begin with the messages of tables of the same scope in a larger network."""
        for scope, own in self.messages().items():
            for target, source in zip(own, messages.get(scope, own), strict=True):
                target[:] = source
        self._begin()

    # --- branch and bound ---

    def plant(self, memory: int = SETTINGS.tree_bytes) -> None:
        """Begin branch and bound at the present state, with open nodes of so many bytes at most."""
        state, n, m = self.state, len(self.state.size), len(self.multipliers)
        values, room = len(state.left), min(SETTINGS.tree_bytes, memory)
        width = (values + 7) // 8
        places = int(np.clip(room // (width + 8 * (m + 2)), 1, SETTINGS.open_nodes))
        row = 8 * (2 * values + len(state.message) + len(state.best) + n + 4)
        levels = int(np.clip(room // max(row, 1), 1, n)) if n else 1
        opened = self._branching.Opened(
            domains=np.zeros((places, width), dtype=np.uint8),
            bound=np.zeros(places),
            branched=np.zeros(places, dtype=np.int64),
            multipliers=np.zeros((places, m)),
        )
        dive = self._branching.Levels(
            size=np.zeros((levels, n), dtype=np.int64),
            left=np.zeros((levels, values), dtype=np.int64),
            belief=np.zeros((levels, values)),
            message=np.zeros((levels, len(state.message))),
            best=np.zeros((levels, len(state.best))),
            total=np.zeros(levels),
            bound=np.zeros(levels),
            variable=np.zeros(levels, dtype=np.int64),
            value=np.zeros(levels, dtype=np.int64),
        )
        counts = np.zeros(9, dtype=np.int64)
        counts[self._branching.STAGE] = self._branching.DOWN
        counts[[self._branching.CONFLICT, self._branching.LAST]] = -1
        self._tree = self._branching.Tree(
            opened=opened,
            dive=dive,
            counts=counts,
            levels=np.array([-np.inf, -np.inf, self.upper]),
            message=state.message.copy(),
            failures=np.zeros(n),
            multipliers=self.multipliers.copy(),
            steps=SETTINGS.branching_step * self.units,
            moved=np.zeros(m),
            leaf=np.zeros(n, dtype=np.int64),
            sizes=np.zeros(n, dtype=np.int64),
            answer=np.zeros(n, dtype=np.int64),
        )
        self._pace = 1

    def explore(self, until: float, nodes: int = 1 << 60) -> Integers | None:
        """Go on until the time is over or an assignment deserves a look: its free values."""
        tree = self._tree
        first = self.nodes
        while not self.explored:
            begin, before = timing.now(), self.nodes
            left = nodes - (before - first)
            if begin >= until or left <= 0:
                break
            pace = min(self._pace, left)
            found = self._branching.explore(self.net, self._judged, self.state, tree, pace)
            spent = timing.now() - begin
            if found:
                answer: Integers = tree.answer.copy()
                return answer
            if spent < SETTINGS.slice_seconds and pace == self._pace:
                self._pace = min(2 * self._pace, 1 << 20)
            elif spent > 2 * SETTINGS.slice_seconds:
                self._pace = max(1, self._pace // 2)
        return None

    def accept(self, objective: float, enough: float) -> None:
        """An incumbent of this objective is known: leaves must be better, bounds above `enough`."""
        if self._tree is not None:
            best = self._branching.BEST
            self._tree.levels[best] = max(self._tree.levels[best], objective)
        self.require(enough)

    @property
    def nodes(self) -> int:
        """How many nodes were explored."""
        return 0 if self._tree is None else int(self._tree.counts[self._branching.NODES])

    @property
    def explored(self) -> bool:
        """Whether nothing is left to explore."""
        return bool(self._tree.counts[self._branching.STAGE] == self._branching.DONE)

    @property
    def open_bound(self) -> float:
        """On what is not explored: the incumbent and this bound everything."""
        found = float(self._branching.open_bound(self._tree))
        if found > -np.inf:
            found += 1e-10 * abs(found)
        return min(self.upper, max(found, self._refuted))
