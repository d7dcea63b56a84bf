"""What a cost function network says: costs in whole units, whose sum must stay below a bound.

    minimise  cost(z) = sum of functions  subject to  cost(z) < top

As a model, h = -cost. Costs are multiples of a unit, 10^-digits, so `cost < top` is `cost <= top -
unit`. An entry that no solution can have (its cost and the least costs of all other functions reach
the top) is -inf in the model; where no sum of the others reaches the top, nothing else is needed.
Elsewhere the bound is a constraint of the problem: h >= unit - top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.models.constraint import FEASIBILITY_TOLERANCE
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem


@dataclass(frozen=True)
class CostTable:
    """Costs of the states of a scope in units, inf where they are forbidden."""

    scope: tuple[int, ...]
    costs: Floats


@dataclass(frozen=True)
class CostFunctions:
    """A cost function network to be minimised."""

    domain: Domain
    tables: Sequence[CostTable]
    top: float = math.inf  # in units
    digits: int = 0  # A unit is 10^-digits.

    def model(self) -> LogLinearModel:
        """h = -cost, and -inf for entries that no solution has."""
        least = [float(t.costs.min()) for t in self.tables]
        total = sum(cost for cost in least if cost < math.inf)
        factors = []
        for table, low in zip(self.tables, least, strict=True):
            room = self.top - total + (low if low < math.inf else 0.0)
            costs = np.where(table.costs >= room, math.inf, table.costs / 10.0**self.digits)
            factors.append(Factor(table.scope, -costs + 0.0))
        domain = self.domain
        return LogLinearModel(domain.cardinalities, tuple(factors), domain.names, domain.states)

    def problem(self, name: str = "") -> Problem:
        """The model, and the bound where a sum of its entries can reach it."""
        model = self.model()
        finite = [f.log_table[np.isfinite(f.log_table)] for f in model.factors]
        highest = -sum(float(entries.min()) for entries in finite if entries.size)
        if highest <= self._middle:
            return Problem(model, name=name)
        return Problem(model, [model >= -self._most], name=name)

    @property
    def _middle(self) -> float:
        """Between the most that a solution costs and the top."""
        return (self.top - 0.5) / 10.0**self.digits

    @property
    def _most(self) -> float:
        """The limit that costs below the top keep and no others, given the limit's tolerance."""
        most, middle = (self.top - 1.0) / 10.0**self.digits, self._middle
        if most + FEASIBILITY_TOLERANCE * max(1.0, abs(most)) < middle:
            return most
        if abs(middle) <= 1.0:
            return middle - FEASIBILITY_TOLERANCE
        return middle / (1.0 + math.copysign(FEASIBILITY_TOLERANCE, middle))
