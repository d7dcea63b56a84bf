"""`local` where functions have gradients but no tables: projected gradient, then single moves.

From several starts at once, the relaxed problem is descended on by Adam, projected onto [0, 1]
(onto the distributions of a variable of several values), with the augmented Lagrangian

    -h + sum of mu_j g_j + (rho / 2) sum of max(0, g_j)^2,    mu_j <- max(0, mu_j + rho g_j),

g_j = t_j - q_j. Discrete variables are rounded; the best answer of a row is then improved by
single moves: another value of a discrete variable; an end of [0, 1], the partner of a distance, or
a step of shrinking size for a continuous one. Everything is batched over rows and starts, in
float64; the problem itself judges the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Floats, Indices
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.models.distance import Distance
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.settings import SOLVERS

if TYPE_CHECKING:
    from torch import Tensor

    from cmpe.tensor.functions import Functions

# By kind of objective: pairs of variables that it wants to be equal, where starts and moves lead.
PAIRS: Mapping[type, Callable[[Any], Sequence[tuple[int, int]]]] = {Distance: lambda d: d.pairs}
LEAST_GAIN = 1e-10


@dataclass(frozen=True)
class Gradient:
    """Feasible answers without a bound, for any problem whose functions torch can evaluate."""

    starts: int = 8
    steps: int = 150
    sweeps: int = 200  # single moves of a row, at most

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """The best feasible answer seen, else the least violated one; the limit is per row."""
        from cmpe.tensor.device import torch_threads

        problem = instances.problem
        answers = np.full((len(instances), problem.variables), FREE, dtype=problem.dtype)
        seconds = np.zeros(len(instances))
        size = max(1, SOLVERS.points // self.starts)
        done = 0
        try:
            for first in range(0, len(instances), size):
                rows = slice(first, first + size)
                begin = timing.now()
                part = instances.take(rows)
                with torch_threads(limits.cores):
                    answers[rows] = _Descent(self, part, limits, first).run()
                seconds[rows] = (timing.now() - begin) / len(part)
                done = first + len(part)
                limits.report(done, len(instances))
        except KeyboardInterrupt:
            found = Solutions.of(problem, answers, method="local", seconds=seconds)
            raise Interrupted(found, done) from None
        return Solutions.of(problem, answers, method="local", seconds=seconds)


class _Descent:
    """Some rows on their way: R rows, S starts each, n variables, D coordinates."""

    def __init__(self, how: Gradient, instances: Instances, limits: Limits, first: int) -> None:
        self.how, self.instances, self.problem = how, instances, instances.problem
        self._random = np.random.default_rng([limits.seed, first])
        allowed = np.inf if limits.seconds is None else limits.seconds * len(instances)
        self._deadline = timing.now() + allowed
        given = limits.start
        self._given = None if given is None else given[first : first + len(instances)]
        self._cards = np.asarray(self.problem.objective.cardinalities)
        self._free = np.array(self.problem.free, dtype=np.int64)
        self._discrete = np.setdiff1d(self._free, self.problem.continuous)

    @cached_property
    def functions(self) -> Functions:
        import torch

        from cmpe.tensor.functions import Functions

        return Functions(self.problem, dtype=torch.float64, floor=100.0)

    @property
    def _late(self) -> bool:
        return timing.now() > self._deadline

    def run(self) -> NDArray[np.generic]:
        """One assignment per row: (R, n)."""
        starts = self._starts()
        points = self._descend(starts) if len(self._free) else starts
        everything = np.concatenate([starts, points], axis=1)  # (R, 2 S, n)
        best = self._best(everything)
        return self._polish(best).astype(self.problem.dtype)

    def _starts(self) -> Floats:
        """(R, S, n): a given start, then the partners of distances, then random ones."""
        rows, count = len(self.instances), self.how.starts
        values = self._random.random((rows, count, self.problem.variables))
        values[..., self._discrete] = np.floor(
            values[..., self._discrete] * self._cards[self._discrete]
        )
        values[..., list(self.problem.evidence_variables)] = self.instances.evidence[:, None]
        single = np.flatnonzero(self._cards == 1)
        values[..., single] = 0.0
        for first, second in (self._pairs.T, self._pairs.T[::-1]):
            moved = np.isin(second, self._free) & ~np.isin(first, self._free)
            values[:, 0, second[moved]] = values[:, 0, first[moved]]
        if self._given is not None:
            known = (self._given >= 0).all(axis=1)
            values[known, 0] = np.where(
                np.isin(np.arange(self.problem.variables), self._free),
                self._given[known],
                values[known, 0],
            )
        return values

    def _descend(self, starts: Floats) -> Floats:
        """Projected Adam on the augmented Lagrangian from every start: (R, S, n)."""
        import torch

        slots, problem = self.functions.slots, self.problem
        z = torch.as_tensor(slots.of(starts.reshape(-1, starts.shape[-1])))
        moves = torch.as_tensor(np.isin(slots.owner, self._free))
        limits = torch.as_tensor(problem.limits)
        mu = torch.zeros((len(z), len(limits)), dtype=torch.float64)
        mean, square = torch.zeros_like(z), torch.zeros_like(z)
        for step in range(self.how.steps):
            if self._late:
                break
            values, slopes = self.functions.gradients(z)
            g = values[:, 1:] - limits
            price = (mu + SOLVERS.penalty * g).clamp(min=0.0)
            gradient = torch.einsum("rf,rfd->rd", price, slopes[:, 1:]) - slopes[:, 0]
            gradient = torch.where(moves, gradient, 0.0)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient.square()
            rate = 0.1 * (1.0 - step / self.how.steps)
            direction = mean / (1 - 0.9 ** (step + 1))
            scale = (square / (1 - 0.99 ** (step + 1))).sqrt() + 1e-9
            z = self._projected(z - torch.where(moves, rate * direction / scale, 0.0))
            if step % 10 == 9:
                mu = (mu + SOLVERS.penalty * g).clamp(min=0.0)
        return self._values_of(z.numpy()).reshape(starts.shape)

    def _projected(self, z: Tensor) -> Tensor:
        """Into [0, 1]; the coordinates of one variable do not exceed 1 together."""
        import torch

        z = z.clamp(0.0, 1.0)
        if (self._cards <= 2).all():
            return z
        owner = torch.as_tensor(self.functions.slots.owner).expand(z.shape)
        total = z.new_zeros((len(z), len(self._cards))).scatter_add(1, owner, z)
        return z / total.clamp(min=1.0).gather(1, owner)

    def _values_of(self, points: Floats) -> Floats:
        """Values of all variables (R, n) from coordinates (R, D): discrete ones rounded."""
        slots = self.functions.slots
        out = np.zeros((len(points), len(self._cards)))
        for v in range(len(self._cards)):
            part = points[:, slots.first[v] : slots.first[v + 1]]
            if v in self._continuous:
                out[:, v] = part[:, 0]
            elif part.shape[1]:
                whole = np.concatenate([1.0 - part.sum(1, keepdims=True), part], 1)
                out[:, v] = whole.argmax(1)
        return out

    @cached_property
    def _continuous(self) -> frozenset[int]:
        return frozenset(self.problem.continuous)

    def _scores(self, rows: Floats) -> tuple[Floats, Floats]:
        """h (..., n) -> (...,), and how far beyond their tolerance constraints are violated."""
        flat = rows.reshape(-1, rows.shape[-1])
        if not self.problem.continuous:
            flat = flat.astype(np.int32)
        h = self.problem.objective.value(flat)
        over = self.problem.constraint_values(flat) - self.problem.limits - self.problem.tolerances
        excess = np.where(np.isfinite(h), np.maximum(over, 0.0).sum(axis=1), np.inf)
        return h.reshape(rows.shape[:-1]), excess.reshape(rows.shape[:-1])

    def _best(self, candidates: Floats) -> Floats:
        """Of (R, C, n) the best of each row: the least violated, then the highest h."""
        h, excess = self._scores(candidates)
        order = np.lexsort((-np.nan_to_num(h, neginf=-1e300), excess), axis=1)
        return np.asarray(candidates[np.arange(len(candidates)), order[:, 0]])

    def _polish(self, rows: Floats) -> Floats:
        """Single moves while one helps; where none does, continuous steps shrink to a quarter."""
        if not len(self._free):
            return rows
        size = np.full(len(rows), 0.25)
        active = np.arange(len(rows))
        for _ in range(self.how.sweeps):
            better = np.zeros(len(active), dtype=bool)
            variables, values = self._moves(rows[active], size[active])
            step = max(1, SOLVERS.tried_numbers // (len(variables) * rows.shape[1]))
            for first in range(0, len(active), step):
                if self._late:
                    return rows
                part = slice(first, first + step)
                rows[active[part]], better[part] = self._best_move(
                    rows[active[part]], variables, values[part]
                )
            size[active[~better]] /= 4.0
            done = ~better & (
                (size[active] < SOLVERS.smallest_step) | (not self.problem.continuous)
            )
            active = active[~done]
            if not len(active):
                break
        return rows

    def _best_move(
        self, rows: Floats, variables: NDArray[np.int64], values: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """The rows after their best single move, and which of them gained by it."""
        moved = np.repeat(rows[:, np.newaxis], 1 + len(variables), axis=1)  # the first stays
        moved[:, 1 + np.arange(len(variables)), variables] = values
        h, excess = self._scores(moved)
        order = np.lexsort((-np.nan_to_num(h, neginf=-1e300), excess), axis=1)
        at = order[:, 0]
        here = np.arange(len(rows))
        with np.errstate(invalid="ignore"):
            mended = excess[:, 0] - excess[here, at]
            gained = h[here, at] - h[:, 0]
        better = (mended > LEAST_GAIN) | (
            (excess[here, at] <= excess[:, 0]) & (gained > LEAST_GAIN)
        )
        return np.where(better[:, np.newaxis], moved[here, at], rows), better

    def _moves(self, rows: Floats, size: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Every single move: its variable (M,), and the new value in each row (R, M)."""
        variables: list[int] = []
        values: list[Floats] = []
        for v in self._free.tolist():
            if v not in self._continuous:
                options = [np.full(len(rows), float(k)) for k in range(self._cards[v])]
            else:
                options = [np.zeros(len(rows)), np.ones(len(rows))]
                options += [np.clip(rows[:, v] + s * size, 0.0, 1.0) for s in (-1.0, 1.0)]
                options += [rows[:, u] for u in self._partners.get(v, ())]
            variables += [v] * len(options)
            values += options
        return np.array(variables, dtype=np.int64), np.stack(values, axis=1)

    @cached_property
    def _pairs(self) -> Indices:
        """The pairs of variables that the objective wants to be equal: (K, 2)."""
        pairs = PAIRS.get(type(self.problem.objective), lambda _: ())(self.problem.objective)
        return np.array(pairs, dtype=np.intp).reshape(-1, 2)

    @cached_property
    def _partners(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for i, j in self._pairs.tolist():
            found.setdefault(i, []).append(j)
            found.setdefault(j, []).append(i)
        return found
