"""A cost function network: costs in whole units, whose sum must stay below a bound.

    minimise  cost(z) = sum of functions  subject to  cost(z) < top

As a model, h = -cost. Costs are multiples of a unit, 10^-digits, so `cost < top` is `cost <= top -
unit`. An entry that no solution can have (its cost and the least costs of all other functions reach
the top) is -inf in the model; where no sum of the others reaches the top, nothing else is needed.
Elsewhere the bound is a constraint of the problem: h >= unit - top. Linear constraints and second
networks are constraints of the problem, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError
from cmpe.formats.costs.rules import CostTable, Encoded, FileRule, Surroundings, WholeSum
from cmpe.models.constraint import FEASIBILITY_TOLERANCE, Constraint
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem

_EXACT = 4 * float(np.finfo(np.float64).eps)  # of sums of numbers beyond 2^53


@dataclass(frozen=True)
class Nested:
    """A second network over variables of the first: low <= its cost < high, in its units."""

    network: CostFunctions
    scope: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True)
class CostFunctions:
    """A cost function network to be minimised."""

    source: str  # the file
    domain: Domain
    tables: Sequence[CostTable]
    rules: Sequence[FileRule] = ()
    nested: Sequence[Nested] = ()
    top: float = math.inf  # in units
    digits: int = 0  # A unit is 10^-digits.

    @property
    def _scale(self) -> float:
        return 10.0**self.digits

    def _room(self, tables: Sequence[CostTable], least: float = 0.0) -> tuple[list[float], float]:
        """The least cost of each table, and how much more than all of them is forbidden."""
        lowest = [float(t.costs.min()) for t in tables]
        total = least + sum(cost for cost in lowest if cost < math.inf)
        slack = max(0.5, _EXACT * abs(self.top)) if self.top < math.inf else 0.0
        return lowest, self.top - total - slack

    @cached_property
    def _encoded(self) -> Encoded:
        """Rules as tables and linear constraints; what forbids each value is found first."""
        lowest, room = self._room(self.tables, sum(rule.least for rule in self.rules))
        into = Encoded()
        if not self.rules:
            return into
        allowed = [np.ones(k, dtype=bool) for k in self.domain.cardinalities]
        for table, low in zip(self.tables, lowest, strict=True):
            if len(table.scope) == 1 and low < math.inf:
                allowed[table.scope[0]] &= table.costs < room + low
        single = {v: int(np.argmax(a)) for v, a in enumerate(allowed) if a.sum() == 1}
        around = Surroundings(self.domain.cardinalities, single, room)
        for rule in self.rules:
            rule.encode(around, into)
        return into

    @property
    def needs_constraints(self) -> bool:
        """Whether tables alone do not say it all, but for the bound."""
        return bool(self._encoded.sums or self.nested)

    def model(self) -> LogLinearModel:
        """h = -cost, and -inf for entries that no solution has."""
        if self.needs_constraints:
            raise InputError(
                f"{self.source}: expected a model without constraints, found linear constraints or "
                "a second network; read it with cmpe.read_problem"
            )
        return self._model()

    def _model(self) -> LogLinearModel:
        tables = [*self.tables, *self._encoded.tables]
        lowest, room = self._room(tables)
        factors = []
        for table, low in zip(tables, lowest, strict=True):
            least = low if low < math.inf else 0.0
            costs = np.where(table.costs >= room + least, math.inf, table.costs / self._scale)
            factors.append(Factor(table.scope, -costs + 0.0))
        return self._over(factors)

    def _over(self, factors: Sequence[Factor]) -> LogLinearModel:
        domain = self.domain
        return LogLinearModel(domain.cardinalities, tuple(factors), domain.names, domain.states)

    def problem(self, name: str = "") -> Problem:
        """The model, its constraints, and the bound where a sum of its entries can reach it."""
        model = self._model()
        constraints: list[Constraint] = []
        for limited in self._encoded.sums:
            constraints += self._limits(limited)
        for inner in self.nested:
            forbidden, limits = self._inside(inner)
            model = model + forbidden
            constraints += limits
        finite = [f.log_table[np.isfinite(f.log_table)] for f in model.factors]
        highest = -sum(float(entries.min()) for entries in finite if entries.size)
        if highest > (self.top - 0.5) / self._scale:
            constraints.append(model >= -limit_of_units(self.top - 1.0, self._scale))
        return Problem(model, constraints, name=name)

    def _limits(self, limited: WholeSum) -> list[Constraint]:
        """A linear constraint's limits that some assignment breaks."""
        sizes = self.domain.cardinalities
        factors = [
            Factor((v,), weights)
            for v, weights in limited.weights.items()
            if sizes[v] > 1 or weights.any()
        ]
        lowest = sum(float(f.log_table.min()) for f in factors)
        highest = sum(float(f.log_table.max()) for f in factors)
        total, limits = self._over(factors), []
        if lowest < limited.low:
            limits.append(total >= -limit_of_units(-limited.low))
        if highest > limited.high:
            limits.append(total <= limit_of_units(limited.high))
        return limits

    def _inside(self, inner: Nested) -> tuple[LogLinearModel, list[Constraint]]:
        """What a second network forbids, and the limits of its cost."""
        network = inner.network
        factors = [
            Factor(tuple(inner.scope[v] for v in f.scope), f.log_table)
            for f in network.model().factors
        ]
        costs, forbidden = self._over(factors).negated()
        high = min(inner.high, network.top) - 1.0
        entries = [factor.log_table for factor in costs.factors]
        limits = []
        if sum(float(t.min()) for t in entries) * network._scale < inner.low:
            limits.append(costs >= -limit_of_units(-inner.low, network._scale))
        if sum(float(t.max()) for t in entries) * network._scale > high:
            limits.append(costs <= limit_of_units(high, network._scale))
        return forbidden, limits


def nested(
    where: str,
    network: CostFunctions,
    scope: tuple[int, ...],
    cardinalities: Sequence[int],
    bounds: tuple[float, float],
) -> Nested:
    """A second network over a scope; it must have as many values, and tables alone."""
    sizes = tuple(cardinalities[v] for v in scope)
    if network.domain.cardinalities != sizes:
        expected, found = str(list(sizes))[:60], str(list(network.domain.cardinalities))[:60]
        raise FormatError(f"{where}: expected variables of {expected} values, found {found}")
    if network.needs_constraints:
        raise FormatError(f"{where}: expected tables, found linear constraints")
    return Nested(network, scope, *bounds)


def limit_of_units(most: float, scale: float = 1.0) -> float:
    """The limit that `most` units keep and one more breaks, given the tolerance of limits."""
    limit, middle = most / scale, (most + 0.5) / scale
    if limit + FEASIBILITY_TOLERANCE * max(1.0, abs(limit)) < middle:
        return limit
    if abs(middle) <= 1.0:
        return middle - FEASIBILITY_TOLERANCE
    return middle / (1.0 + math.copysign(FEASIBILITY_TOLERANCE, middle))
