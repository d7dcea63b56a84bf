"""Questions to tune on: masks, evidence that samples of h have, and q.

Messages on h alone, and on minus the sum of all t, lead to two assignments that agree with the
evidence: one makes h large, the other makes every t small. q lies between their t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.learning.amortised.config import AmortisedConfig, Intervals, QuestionRange
from cmpe.learning.amortised.messages import NUMBERS, MessagePass, schedule_of
from cmpe.learning.settings import AMORTISED
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.sampling import sample

DRAWING = 5  # generators of samples, apart from those of other training
SLACK = 1e-5  # of q, times 1 + its size: messages see t in float32


class QuestionMaker:
    """Draws questions about one model."""

    def __init__(self, problem: Problem, passes: MessagePass, asked: QuestionRange) -> None:
        weights = np.zeros((2, len(problem.functions)))
        weights[0, 0], weights[1, 1:] = 1.0, -1.0
        self._ends = [passes.weighted(row) for row in weights]
        self._problem, self._asked = problem, asked
        self._constraints = passes.functions[1:]
        self._adjacency = _adjacency(problem)

    def mask(self, random: np.random.Generator) -> NDArray[np.bool_]:
        """Which variables are observed (n,): a ball of the interaction graph, what such a ball
        leaves, or variables at random."""
        from scipy.sparse.csgraph import dijkstra

        n = self._problem.variables
        if self._asked.observed is not None:
            return np.isin(np.arange(n), self._asked.observed)
        count = round(float(_drawn(self._asked.rates, (), random)) * n)
        order = random.permutation(n)
        if random.random() < AMORTISED.blocked:
            root = int(random.integers(n))
            far = dijkstra(self._adjacency, directed=False, indices=root, unweighted=True)
            order = order[np.argsort(far[order], kind="stable")]
            order = order if random.random() < 0.5 else order[::-1]
        return np.isin(np.arange(n), order[:count])

    def limits(self, given: Assignments, random: np.random.Generator) -> Floats:
        """q (B, m) of evidence (B, n), -1 where free, at positions that are drawn."""
        shape = len(given), len(self._problem.constraints)
        return self.limits_at(given, _drawn(self._asked.positions, shape, random))

    def limits_at(self, given: Assignments, places: Floats) -> Floats:
        """q (B, m) at positions (B, m): 0 is t of the assignment that makes all t small, 1 that of
        the one that makes h large."""
        if self._asked.limits is not None:
            return np.broadcast_to(np.array(self._asked.limits), places.shape)
        plain, none = schedule_of(np.zeros(NUMBERS), AMORTISED.rounds), np.zeros(0)
        both = [end.answers(plain, given, none).values for end in self._ends]
        high, low = (self._constraint_values(rows) for rows in both)
        limits = low + places * np.maximum(high - low, 0.0)
        return limits + SLACK * (1.0 + np.abs(limits))

    def _constraint_values(self, rows: Assignments) -> Floats:
        found = [t.value(rows) for t in self._constraints]
        return np.stack(found, axis=1) if found else np.zeros((len(rows), 0))


@dataclass
class Subject:
    """A model that questions are drawn about."""

    problem: Problem
    passes: MessagePass
    maker: QuestionMaker
    samples: Assignments  # (N, n); the last tenth is only looked at

    @property
    def trained(self) -> int:
        """How many of the samples are tuned on, the first ones."""
        return max(1, len(self.samples) - len(self.samples) // 10)

    @classmethod
    def of(cls, problem: Problem, config: AmortisedConfig, samples: Assignments | None) -> Subject:
        """With samples of the objective, drawn where none are given."""
        passes = MessagePass.of(problem, config.floor)
        if samples is None:
            seed = np.random.SeedSequence((config.seed, DRAWING, 0))
            samples = sample(problem.objective, config.rows, seed).assignments
        rows = np.asarray(samples, dtype=np.int32)
        return cls(problem, passes, QuestionMaker(problem, passes, config.questions), rows)


def selecting(problem: Problem, limits: Floats) -> Problem:
    """The problem with one more variable, which selects a row of limits (R, m): its entries of t_j
    are -q_j, and all limits are 0. So rows with limits of their own are rows of one problem."""
    cards, selector = (*problem.objective.cardinalities, len(limits)), problem.variables
    h, *rest = problem.models
    constraints = [
        Constraint(LogLinearModel(cards, (*t.factors, Factor((selector,), -column))), 0.0)
        for t, column in zip(rest, limits.T, strict=True)
    ]
    return Problem(LogLinearModel(cards, h.factors), constraints)


def _drawn(intervals: Intervals, shape: tuple[int, ...], random: np.random.Generator) -> Floats:
    """Numbers spread evenly over intervals; of intervals without length each is as likely."""
    low, high = np.array(intervals).T
    lengths = high - low + 1e-6
    which = random.choice(len(low), shape, p=lengths / lengths.sum())
    drawn: Floats = low[which] + random.random(shape) * (high - low)[which]
    return drawn


def _adjacency(problem: Problem) -> object:
    """The interaction graph of all functions, as scipy reads it."""
    from scipy.sparse import coo_matrix

    pairs = {pair for model in problem.models for f in model.factors for pair in _pairs(f.scope)}
    i, j = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    return coo_matrix((np.ones(len(i)), (i, j)), (problem.variables, problem.variables)).tocsr()


def _pairs(scope: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(a, b) for a in scope for b in scope if a < b]
