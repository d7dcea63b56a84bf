"""Questions to train on: masks, evidence, q, and the bounds of alpha_x, all drawn on the device.

Evidence is part of a sample of the objective. Two assignments that agree with it tell the range of
q: `low` makes every t small, `high` makes h large; both come from annealed mean-field steps,

    logits <- (logits + slopes(y) / T_k) / 2,     T_k falling,

and are rounded. q lies between t(low) and t(high), so that `low` is feasible. For alpha_x
(docs/learning.md) every number is valid for any mask and q:

    B_js     the ceiling of h - s (t_j - q_j) given x: the sum of the largest allowed entries after
             some rounds of max-sum diffusion. For shares s from 0 to u_j, a unit of violation,
             nothing feasible has h above it, and nothing that breaks t_j has h - u_j (t_j - q_j)
             above it: max over j of the min over s of B_js bounds both
    C_x      1 + c + that bound, so that f = C_x - h >= 1 + c where feasible and f + v >= 1 + c
             where not: q_lower = 1 + c
    p_upper  the least f of `low`, `high` and mixtures of both that are feasible
    c        p_upper - 2 at c = 0, or 0: no other c makes the step of the loss at a limit, about
             p_upper^2 / q_lower, smaller
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.learning.amortised.config import AmortisedConfig, Intervals, QuestionRange
from cmpe.learning.amortised.tables import ModelTables
from cmpe.problem import Problem
from cmpe.sampling import sample

DRAWING = 5  # generators of samples, apart from those of other training
SETTLING = (2.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.05)  # temperatures, in mean slopes
MIXTURES = 6  # of low and high: shares of the variables that are high
SHARES = (0.0, 0.25, 0.5, 1.0)  # of u_j
DIFFUSION = 10  # rounds
MOST_NUMBERS = 1 << 27  # of one tensor: more questions are drawn in pieces
ROOTS = 256  # balls of the graph begin at so many variables at most
SLACK = 1e-5  # float32 moves a sum by at most this times 1 + its size


class Questions(NamedTuple):
    """B questions about one model."""

    given: Tensor  # (B, n): values, -1 where free
    limits: Tensor  # (B, m): q
    shift: Tensor  # (B,): C_x
    p_upper: Tensor  # (B,)
    q_lower: Tensor  # (B,)
    answers: Tensor  # (B, n): what is taught; -1 where nothing is

    def alpha(self, contrast: float, p_upper: Tensor) -> Tensor:
        """alpha_x = contrast * max(1, p_upper / q_lower): (B,)."""
        ratio = (1.0 + SLACK) * torch.minimum(p_upper, self.p_upper) / self.q_lower
        return contrast * ratio.clamp(min=1.0)


class QuestionMaker:
    """Draws questions about one model from samples of its objective."""

    def __init__(self, tables: ModelTables, asked: QuestionRange) -> None:
        self.tables, self.asked = tables, asked
        self.ranks = torch.as_tensor(_balls(tables), device=tables.device)  # (R, n)

    def draw(self, samples: Tensor, random: torch.Generator) -> Questions:
        """One question for each sample (B, n)."""
        free = ~self.masks(len(samples), random)
        given = self._noisy(samples, random).masked_fill(free, -1)
        entries = max((g.tables.shape[1] for g in self.tables.groups), default=1)
        most = max(1, MOST_NUMBERS // max(entries, given.shape[1]))
        starts = range(0, max(1, len(given)), most)
        found = [self.asked_of(given[begin : begin + most], random) for begin in starts]
        return Questions(*(torch.cat(every) for every in zip(*found, strict=True)))

    def _noisy(self, samples: Tensor, random: torch.Generator) -> Tensor:
        """Samples of which a share, drawn for each row, has values drawn anew."""
        if not self.asked.noise:
            return samples
        chance = torch.rand((3, *samples.shape), generator=random, device=random.device)
        chance = chance.to(samples.device)
        values = (chance[0] * self.tables.exists.sum(1)).long()
        return torch.where(chance[1] < self.asked.noise * chance[2, :, :1], values, samples)

    def asked_of(self, given: Tensor, random: torch.Generator) -> Questions:
        """Questions about evidence (B, n) with -1 where free."""
        places = _drawn(self.asked.positions, (len(given), self.tables.functions - 1), random)
        return self.at_positions(given, places.to(given.device))

    @torch.no_grad()
    def at_positions(self, given: Tensor, places: Tensor) -> Questions:
        """The questions with q at positions (B, m) between t(low) and t(high)."""
        ends = self.ends(self.tables.allowed(given))
        return self._bounded(given, self._limits(ends, places), ends)

    @torch.no_grad()
    def limits_of(self, given: Tensor, random: torch.Generator) -> Tensor:
        """q alone (B, m), at positions that are drawn."""
        places = _drawn(self.asked.positions, (len(given), self.tables.functions - 1), random)
        return self._limits(self.ends(self.tables.allowed(given)), places.to(given.device))

    def _limits(self, ends: tuple[Tensor, Tensor], places: Tensor) -> Tensor:
        low, high = (self.tables.values(self.tables.certain(end))[:, 1:] for end in ends)
        limits = low + places * (high - low).clamp(min=0.0)
        limits = limits + SLACK * (1.0 + limits.abs())
        if self.asked.limits is None:
            return limits
        fixed = torch.tensor(self.asked.limits, device=limits.device, dtype=limits.dtype)
        return fixed.expand_as(limits)

    def masks(self, count: int, random: torch.Generator) -> Tensor:
        """Which variables each of `count` rows observes: (count, n)."""
        n, device = self.tables.variables, self.tables.device
        if self.asked.observed is not None:
            mask = torch.zeros(n, dtype=torch.bool, device=device)
            mask[list(self.asked.observed)] = True
            return mask.expand(count, n)
        rates = _drawn(self.asked.rates, (count, 1), random).to(device)
        anyhow = torch.rand((count, n), generator=random, device=random.device)
        ranks = anyhow.to(device).argsort(1).argsort(1)
        chances = torch.rand((3, count, 1), generator=random, device=random.device)
        root, kind, side = chances.to(device)
        balls = self.ranks[(root[:, 0] * len(self.ranks)).long().clamp(max=len(self.ranks) - 1)]
        balls = torch.where(side < 0.5, balls, n - 1 - balls)
        return torch.where(kind < self.asked.blocked, balls, ranks) < (rates * n).round()

    def ends(self, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """Assignments with small t and with large h: (B, n) each."""
        tables = self.tables
        weights = torch.zeros((2, tables.functions), device=tables.device)
        weights[0, 1:], weights[1, 0] = -1.0, 1.0
        if tables.functions == 1:
            weights[0, 0] = -1.0
        return self.settled(weights[0], allowed), self.settled(weights[1], allowed)

    def settled(self, weights: Tensor, allowed: Tensor) -> Tensor:
        """Where annealed mean-field steps on weights (F,) times the functions lead: (B, n)."""
        tables = self.tables
        potentials = tables.weighted(weights.unsqueeze(0))
        logits = torch.zeros_like(allowed, dtype=torch.float32)
        for temperature in SETTLING:
            slopes = tables.fields(potentials, tables.points(logits, allowed))
            logits = 0.5 * (logits + slopes / (temperature * tables.scale))
        return tables.rounded(tables.points(logits, allowed))

    def _bounded(self, given: Tensor, limits: Tensor, ends: tuple[Tensor, Tensor]) -> Questions:
        tables = self.tables
        allowed = tables.allowed(given)
        first = torch.eye(tables.functions, device=tables.device)[:1]
        bound = self._bound(allowed, limits, first)
        shift = 1.0 + bound + SLACK * (1.0 + bound.abs())
        p_upper = self._greatest(allowed, shift)
        for share in torch.linspace(0.0, 1.0, MIXTURES).tolist():
            count = round(share * tables.variables)
            mixed = torch.where(self.ranks[0] < count, ends[1], ends[0])
            p_upper = torch.minimum(p_upper, self.loss_if_feasible(mixed, shift, limits))
        more = (p_upper - 2.0).clamp(min=0.0)
        nothing = torch.full_like(given, -1)
        return Questions(given, limits, shift + more, p_upper + more, 1.0 + more, nothing)

    def _greatest(self, allowed: Tensor, shift: Tensor) -> Tensor:
        """No f is greater than this."""
        first = -torch.eye(self.tables.functions, device=self.tables.device)[:1]
        return shift + self.tables.ceilings(allowed, first)[:, 0]

    def loss_if_feasible(self, values: Tensor, shift: Tensor, limits: Tensor) -> Tensor:
        """f of assignments (B, n), infinite where they break a limit: (B,)."""
        found = self.tables.values(self.tables.certain(values))
        fits = (found[:, 1:] <= limits).all(1)
        f = shift - found[:, 0]
        return torch.where(fits, f + SLACK * (1.0 + f.abs()), torch.inf)

    def _bound(self, allowed: Tensor, limits: Tensor, first: Tensor) -> Tensor:
        """Of h over what is feasible, and of h - v over what is not: (B,)."""
        tables, found = self.tables, []
        for j in range(tables.functions - 1):
            every = []
            for share in SHARES:
                weights = first.clone()
                weights[0, 1 + j] = -share * tables.units[j]
                messages = tables.diffused(allowed, weights, DIFFUSION)
                most = tables.ceilings(allowed, weights, messages)[:, 0]
                every.append(most - weights[0, 1 + j] * limits[:, j])
            found.append(torch.stack(every).amin(0))
        if not found:
            return tables.ceilings(allowed, first, tables.diffused(allowed, first, DIFFUSION))[:, 0]
        return torch.stack(found).amax(0)


@dataclass
class Subject:
    """A model that questions are drawn about."""

    tables: ModelTables
    maker: QuestionMaker
    samples: Tensor  # (N, n); the last tenth is only looked at
    drawn: int = 0  # how often the samples were drawn anew

    @property
    def trained(self) -> int:
        """How many of the samples are trained on, the first ones."""
        return max(1, len(self.samples) - len(self.samples) // 10)

    @classmethod
    def of(
        cls, problem: Problem, config: AmortisedConfig, device: str, samples: Assignments | None
    ) -> Subject:
        """With samples of the objective, drawn where none are given."""
        tables = ModelTables(problem, floor=config.floor, device=device)
        found = drawn(problem, config, 0) if samples is None else samples
        rows = torch.as_tensor(np.asarray(found, dtype=np.int64), device=tables.device)
        return cls(tables, QuestionMaker(tables, config.questions), rows)


def drawn(problem: Problem, config: AmortisedConfig, number: int) -> Assignments:
    """Samples of the objective (rows, n), by the seed and a number."""
    seed = np.random.SeedSequence((config.seed, DRAWING, number))
    return sample(problem.objective, config.rows, seed).assignments


def depths(tables: ModelTables, given: Tensor, limits: Tensor) -> Tensor:
    """Where q lies between the floor of t given evidence and its ceiling, 0 to 1: (B, m).

    Cheaper than positions, and told of every question that is asked.
    """
    if tables.functions == 1:
        return torch.zeros((len(given), 0), device=given.device)
    wanted = torch.eye(tables.functions, device=tables.device)[1:]
    allowed = tables.allowed(given)
    high, low = tables.ceilings(allowed, wanted), -tables.ceilings(allowed, -wanted)
    return torch.div(limits - low, (high - low).clamp(min=1e-6))


def _drawn(intervals: Intervals, shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    """Numbers spread evenly over intervals; of intervals without length each is as likely."""
    low, high = torch.tensor(intervals, dtype=torch.float32, device=random.device).T
    lengths = (high - low) + 1e-6
    number, inside = torch.rand((2, *shape), generator=random, device=random.device)
    which = torch.bucketize(number * lengths.sum(), lengths.cumsum(0)).clamp(max=len(low) - 1)
    return torch.lerp(low[which], high[which], inside)


def _balls(tables: ModelTables) -> NDArray[np.int64]:
    """For each root the rank of every variable by distance in the interaction graph: (R, n)."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import dijkstra

    n, random = tables.variables, np.random.default_rng(0)
    pairs = [(a, b) for scope in tables.scopes for a in scope for b in scope if a < b]
    i, j = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    graph = coo_matrix((np.ones(len(i)), (i, j)), (n, n))
    roots = random.permutation(n)[:ROOTS]
    far = dijkstra(graph, directed=False, indices=roots, unweighted=True)
    noisy = np.where(np.isinf(far), n, far) + random.random(far.shape)
    return np.asarray(noisy.argsort(1).argsort(1), dtype=np.int64)
