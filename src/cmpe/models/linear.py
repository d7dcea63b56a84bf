"""Counts and costs: sums over variables of the costs of their states, before a model is given.

    count({"A": "yes", "B": ("on", "high")})     how many of these variables have such a state
    linear({"A": {"yes": 2.5}, "B": {"on": 1}})  sum of the costs; other states cost 0

`Problem` looks the names up in the domain of its models, where each becomes a unary table. `<=`,
`>=`, `==` and `between` give limits, which bear the name of the count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, overload

import numpy as np

from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import Condition, Constraint, Limited, between, limit_of, name_of
from cmpe.models.loglinear import Factor, LogLinearModel

Variable = str | int
State = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Costs(Limited):
    """A constant plus, for each variable, the cost of its state; states not listed cost 0.

    `costs == 2` is a pair of limits; `same_as` compares two of these objects.
    """

    # By a state, or by a set of states that each cost as much.
    costs: Mapping[Variable, Mapping[State | frozenset[State], float]]
    constant: float = 0.0
    name: str = ""  # of the constraints that are made of it

    def __post_init__(self) -> None:
        name_of(self.name, "a count or cost")

    def over(self, domain: Domain) -> LogLinearModel:
        """The same as unary tables over the variables of a domain."""
        tables: dict[int, np.ndarray[Any, Any]] = {}
        for key, by_state in self.costs.items():
            v = domain.variable(key)
            table = tables.setdefault(v, np.zeros(domain.cardinalities[v]))
            for states, cost in by_state.items():
                several = states if isinstance(states, frozenset) else (states,)
                table[list({domain.state(v, state) for state in several})] += cost
        factors = [Factor((v,), table) for v, table in tables.items()]
        if self.constant:
            factors.append(Factor((), np.array(self.constant)))
        return LogLinearModel(domain.cardinalities, tuple(factors), domain.names, domain.states)

    def __le__(self, limit: float) -> LinearConstraint:
        return LinearConstraint(self, limit_of(limit, "at_most"), mirrored=False)

    def __ge__(self, limit: float) -> LinearConstraint:
        return LinearConstraint(self, limit_of(limit, "at_least"), mirrored=True)

    def __eq__(self, limit: object) -> tuple[Condition, Condition]:  # type: ignore[override]
        """Two limits, as `between(costs, limit, limit)`."""
        return self.between(limit, limit)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other: object) -> NoReturn:
        raise ModelError("a count or cost has limits <=, >= and ==, none with !=")

    def between(self, least: float, most: float) -> tuple[Condition, Condition]:
        """least <= costs <= most: two constraints, which `Problem` takes as one entry."""
        return between(self, least, most)

    def same_as(self, other: object) -> bool:
        """Whether another object is the same sum with the same name."""
        if not isinstance(other, Costs):
            return False
        mine, theirs = ((c.costs, c.constant, c.name) for c in (self, other))
        return mine == theirs

    def __mul__(self, weight: float) -> Costs:
        by = limit_of(weight, "a weight")
        scaled = {v: {s: by * c for s, c in costs.items()} for v, costs in self.costs.items()}
        return Costs(scaled, by * self.constant, self.name)

    __rmul__ = __mul__

    def __neg__(self) -> Costs:
        return self * -1.0

    @overload
    def __add__(self, other: Costs | float) -> Costs: ...
    @overload
    def __add__(self, other: LogLinearModel) -> LogLinearModel: ...
    def __add__(self, other: Costs | float | LogLinearModel) -> Costs | LogLinearModel:
        if isinstance(other, LogLinearModel):
            return self.over(other.domain) + other
        if not isinstance(other, Costs):
            return Costs(self.costs, self.constant + limit_of(other, "a constant"), self.name)
        total = {v: dict(costs) for v, costs in self.costs.items()}
        for variable, costs in other.costs.items():
            mine = total.setdefault(variable, {})
            for state, cost in costs.items():
                mine[state] = mine.get(state, 0.0) + cost
        return Costs(total, self.constant + other.constant, self.name or other.name)

    __radd__ = __add__

    @overload
    def __sub__(self, other: Costs | float) -> Costs: ...
    @overload
    def __sub__(self, other: LogLinearModel) -> LogLinearModel: ...
    def __sub__(self, other: Costs | float | LogLinearModel) -> Costs | LogLinearModel:
        return self + -other

    def __rsub__(self, other: LogLinearModel | float) -> LogLinearModel | Costs:
        return -self + other


@dataclass(frozen=True, eq=False)
class LinearConstraint(Condition):
    """A count or cost with a limit, which `over` makes a constraint of a model's variables."""

    terms: Costs
    limit: float
    mirrored: bool = field(kw_only=True)

    def over(self, domain: Domain) -> Constraint:
        """The constraint over the variables of a domain."""
        function = self.terms.over(domain)
        limited = function >= self.limit if self.mirrored else function <= self.limit
        return limited.named(self.terms.name)


def count(states: Mapping[Any, State | Collection[State]], *, name: str = "") -> Costs:
    """The number of variables that have the state, or one of the states, given for them.

    `name` is that of the constraints made of it, as in `count({...}, name="faults") <= 2`.
    """
    _need_mapping(states, 'count({"A": "yes", "B": "on"})')
    return Costs({v: {_several(chosen): 1.0} for v, chosen in states.items()}, name=name)


def linear(costs: Mapping[Any, Mapping[Any, float]], *, name: str = "") -> Costs:
    """The sum over variables of the cost of their state; states that are not listed cost 0.

    A state that is given by its name and by its number costs the sum of both. `name` is that of the
    constraints made of it.
    """
    _need_mapping(costs, 'linear({"A": {"yes": 2.5}})')
    for variable, by_state in costs.items():
        _need_mapping(by_state, f"linear({{{variable!r}: {{'yes': 2.5}}}})")
        for state, cost in by_state.items():
            limit_of(cost, f"the cost of {variable!r} in state {state!r}")
    return Costs({v: dict(by_state) for v, by_state in costs.items()}, name=name)


def _several(chosen: State | Collection[State]) -> State | frozenset[State]:
    """The state, or the set of them: two names of one state count once."""
    is_one = isinstance(chosen, str) or not isinstance(chosen, Collection)
    return chosen if is_one else frozenset(chosen)  # type: ignore[return-value, arg-type]


def _need_mapping(value: object, expected: str) -> None:
    if not isinstance(value, Mapping):
        raise ModelError(f"expected a dictionary, as in {expected}; found {type(value).__name__}")
