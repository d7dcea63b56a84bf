"""A row of a random problem as a network of tables."""

from __future__ import annotations

from cmpe.bounds.base import loosened_limits
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from tests.core.cases import Case, random_case
from tests.problems import Shape

SHAPE = Shape(variables=5, values=3, arity=3, factors=9)


class Networked(Case):
    """The first row of a random problem, under multipliers of which some are 0."""

    def __init__(self, seed: int, shape: Shape = SHAPE) -> None:
        super().__init__(*random_case(seed, shape, least=3))
        self.free = list(self.structure.free)
        self.limits = loosened_limits(self.instances)
        count = len(self.limits)
        self.mu = self.rng.exponential(size=count) * (self.rng.random(count) < 0.7)
        self.network = RowNetwork(NetworkShape(self.structure), self.instances, 0, self.mu)
