"""The parts of a proof: clusters of variables, messages between them, cubes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats
from cmpe.elimination.plan import Plan

Values = tuple[int, ...]
Where = tuple[tuple[int, Values], ...]


class Clustering(NamedTuple):
    """Clusters of variables, and what moves: (from, to, variables)."""

    clusters: tuple[Values, ...]
    moves: tuple[tuple[int, int, Values], ...]

    @classmethod
    def of(cls, plan: Plan) -> Clustering:
        """The buckets of an elimination, each of which sends its message to its parent."""
        clusters = tuple(tuple(sorted((b.variable, *b.scope))) for b in plan.buckets)
        position = {b.variable: k for k, b in enumerate(plan.buckets)}
        moves = [
            (k, position[b.scope[0]], tuple(sorted(b.scope)))
            for k, b in enumerate(plan.buckets)
            if b.scope
        ]
        return cls(clusters or ((),), tuple(moves))


class Message(NamedTuple):
    """What a move adds: a number for each assignment of its variables to these values."""

    values: tuple[Values, ...]
    numbers: Floats  # an axis for each variable

    def covers(self, other: Message) -> bool:
        """Whether this one says what the other says."""
        places = []
        for all_of, some in zip(self.values, other.values, strict=True):
            at = {value: i for i, value in enumerate(all_of)}
            if not at.keys() >= set(some):
                return False
            places.append([at[value] for value in some])
        return bool(np.array_equal(self.numbers[np.ix_(*places)], other.numbers))


class Cube(NamedTuple):
    """Some values of some variables, and why no assignment there is above the claim."""

    where: Where
    multipliers: Floats  # (m,)
    moved: list[Message]
    infeasible: bool  # No assignment in it satisfies the constraints.
    bound: float


@dataclass
class Proof:
    """The cubes of a row, or why there are none."""

    structure: Clustering | None = None
    cubes: list[Cube] = field(default_factory=list)
    failure: str = ""

    @property
    def bound(self) -> float:
        """What the cubes prove."""
        return max((cube.bound for cube in self.cubes), default=-math.inf)

    def ordered(self) -> list[Cube]:
        """The cubes split by split, so that neighbours share splits and messages."""
        return sorted(self.cubes, key=lambda cube: cube.where)
