"""One answer: states by variable, its value, its constraints, its proof."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cmpe.arrays import Values
from cmpe.display import html_table, number_text, shortened
from cmpe.solution.status import Status

if TYPE_CHECKING:
    from cmpe.solution.solutions import Solutions

WIDTH = 88  # characters of a line


class ConstraintValue(NamedTuple):
    """What one constraint is at an answer: `value relation limit`, broken by `violation`.

    The multiplier is mu* of the dual: how much h a unit of the limit is worth.
    """

    value: float
    relation: str  # "<=" or ">="
    limit: float
    violation: float  # above 0 where it is broken
    name: str = ""
    multiplier: float | None = None  # None where it is not known


class Answer(Mapping[Any, Any]):
    """The answer to one row of evidence: a mapping from variable to state.

    Variables and states are names where the model has them, and numbers elsewhere. Without an
    assignment the mapping is empty.
    """

    def __init__(self, solutions: Solutions, number: int) -> None:
        self._all = solutions
        self._number = number

    @property
    def assignment(self) -> Values:
        """The values of all variables as numbers, -1 without an answer: (n,)."""
        return np.asarray(self._all.assignments[self._number])

    def _keys(self) -> tuple[Any, ...]:
        if not (self.assignment >= 0).all():
            return ()
        return self._all.asked.domain.names or tuple(range(len(self.assignment)))

    def __getitem__(self, key: Any) -> Any:
        if not self._keys():
            raise KeyError(f"{key!r}: {self.proof}")
        domain = self._all.asked.domain
        variable = domain.variable(key)
        return domain.label(variable, self.assignment[variable].item())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def __contains__(self, key: object) -> bool:
        return key in self._keys()

    @property
    def states(self) -> dict[Any, Any]:
        """The mapping as a dictionary, made at once."""
        domain = self._all.asked.domain
        values = self.assignment.tolist()
        return {key: domain.label(v, values[v]) for v, key in enumerate(self._keys())}

    @property
    def free(self) -> dict[Any, Any]:
        """The states of the variables that evidence leaves free."""
        observed = self._all.observed
        keys = self._keys()
        if observed is None or not keys:
            return self.states
        domain, values = self._all.asked.domain, self.assignment.tolist()
        free = np.flatnonzero(~observed[self._number]).tolist()
        return {keys[v]: domain.label(v, values[v]) for v in free}

    @property
    def objective(self) -> float:
        """h, NaN without an answer."""
        return float(self._all.objective[self._number])

    @property
    def bound(self) -> float:
        """No feasible assignment has a higher h than this."""
        return float(self._all.bound[self._number])

    @property
    def gap(self) -> float:
        """bound - objective, NaN without a feasible answer."""
        return float(self._all.gap[self._number])

    @property
    def status(self) -> Status:
        """The status of the answer."""
        return Status.of(self._all.status[self._number])

    @property
    def constraints(self) -> list[ConstraintValue]:
        """Each constraint's value, relation, limit and violation, name and multiplier."""
        values = self._all.constraint_values[self._number].tolist()
        broken = self._all.violations[self._number].tolist()
        stated = self._all.asked.limits
        own = self._all.limits
        limits = [q for *_, q in stated] if own is None else own[self._number].tolist()
        prices = [None if math.isnan(mu) else mu for mu in self.multipliers.tolist()]
        return [
            ConstraintValue(value, relation, limit, violation, name, mu)
            for value, (name, relation, _), limit, violation, mu in zip(
                values, stated, limits, broken, prices, strict=True
            )
        ]

    def constraint(self, name: str) -> ConstraintValue:
        """The constraint of that name; if it has two limits, the nearer one."""
        found = [c for c in self.constraints if c.name == name]
        if not found:
            known = ", ".join(repr(c.name) for c in self.constraints if c.name) or "none by name"
            raise KeyError(f"there is no constraint {name!r}; there is {known}")
        return max(found, key=lambda c: c.violation)

    @property
    def multipliers(self) -> Values:
        """mu* of each constraint, the gain of h per unit of its limit; NaN where unknown."""
        return np.asarray(self._all.multipliers[self._number])

    def label(self, key: Any, value: int) -> Any:
        """The name of value number `value` of a variable."""
        domain = self._all.asked.domain
        return domain.label(domain.variable(key), value)

    @property
    def method(self) -> str:
        """The method that answered."""
        return str(self._all.method[self._number])

    @property
    def seconds(self) -> float:
        """The time of the row in seconds."""
        return float(self._all.seconds[self._number])

    @property
    def proof(self) -> str:
        """The status as a sentence."""
        if self.status is Status.FEASIBLE and np.isfinite(self.bound):
            return (
                "satisfies every constraint; proved: no feasible assignment exceeds "
                f"{self.bound:.6g}, which is {self.gap:.3g} more"
            )
        return self.status.sentence

    def __repr__(self) -> str:
        words = [f"{key}={state}" for key, state in self.free.items()]
        answer = shortened(words, WIDTH - 30) or "no assignment"
        return f"{self.status.label}, objective {number_text(self.objective)}: {answer}"

    def _repr_html_(self) -> str:
        free = self.free
        cells = [
            (str(key), str(state), "" if key in free else "observed") for key, state in self.items()
        ]
        values = (
            f"; {c.name} {number_text(c.value)} {c.relation} {number_text(c.limit)}"
            for c in self.constraints
            if c.name
        )
        title = f"{self.proof}; objective {number_text(self.objective)}{''.join(values)}"
        return html_table(title, ("variable", "state", ""), cells)
