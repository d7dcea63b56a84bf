"""A constraint t(x, y) <= q, its tolerance, and `t <= q` in Python.

    t >= q   is   -t <= -q, and t > -inf

Engines know `<=` only. A constraint `t >= q` is therefore kept as the function -t with the limit
-q, marked as mirrored, so that people are shown t and q. Where t is -inf it never reaches q: the
problem adds `support`, which is -inf there and 0 elsewhere, to its objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from cmpe.arguments import real_number
from cmpe.arrays import Floats
from cmpe.domain import Named
from cmpe.errors import ModelError

if TYPE_CHECKING:
    from cmpe.models.function import Function

FEASIBILITY_TOLERANCE = 1e-6


class Condition:
    """What a problem takes as a constraint: a function or a count with a limit."""

    def __bool__(self) -> NoReturn:
        raise ModelError(
            "a constraint is neither true nor false; 1 <= t <= 3 is written cmpe.between(t, 1, 3)"
        )


def tolerance_of(limits: Floats) -> Floats:
    """How far above each limit still counts as satisfied: 1e-6 * max(1, |q|)."""
    return FEASIBILITY_TOLERANCE * np.maximum(1.0, np.abs(limits))


class Limited:
    """What has limits: strict ones are refused, because real numbers have no next one."""

    def __lt__(self, limit: object) -> NoReturn:
        raise ModelError(_strict("<=", limit))

    def __gt__(self, limit: object) -> NoReturn:
        raise ModelError(_strict(">=", limit))


def _strict(relation: str, limit: object) -> str:
    """How a strict limit is written instead."""
    example = ""
    if isinstance(limit, int | float | np.number) and float(limit).is_integer():
        nearest = int(limit) + (1 if relation == ">=" else -1)
        example = f"; of a count, t {relation[0]} {limit:g} is t {relation} {nearest}"
    return f"a limit is <= or >=: write t {relation} q{example}"


class Limitable(Protocol):
    """What can be given a limit from above and from below."""

    def __le__(self, limit: float) -> Condition: ...
    def __ge__(self, limit: float) -> Condition: ...


@dataclass(frozen=True, repr=False)
class Constraint(Condition):
    """function(x, y) <= at_most. A function value of -inf always satisfies it.

    `mirrored`: the constraint was given as -function >= -at_most.
    """

    function: Function
    at_most: float
    mirrored: bool = False
    support: Function | None = None  # -inf where a mirrored function must not be, 0 elsewhere
    name: str = ""

    def __post_init__(self) -> None:
        need_function(self.function, "a constraint", "Constraint(t, at_most=q)")
        object.__setattr__(self, "at_most", limit_of(self.at_most, "at_most"))
        name_of(self.name, "a constraint")

    def named(self, name: str) -> Constraint:
        """The same constraint with a name, which answers, tables and errors show."""
        return replace(self, name=name)

    @property
    def tolerance(self) -> float:
        """The tolerance above `at_most` within which it is satisfied: 1e-6 * max(1, |q|)."""
        return FEASIBILITY_TOLERANCE * max(1.0, abs(self.at_most))

    def loosened(self, padding: float) -> float:
        """q + tolerance + `padding` * max(1, |q|): for solvers that round otherwise."""
        return self.at_most + self.tolerance + padding * max(1.0, abs(self.at_most))

    @property
    def sign(self) -> float:
        """The factor on values of `function` when they are shown: -1 for `>=`."""
        return -1.0 if self.mirrored else 1.0

    @property
    def limit(self) -> float:
        """q as it was given."""
        return self.sign * self.at_most

    @property
    def relation(self) -> str:
        """`<=` or `>=`, as it was given."""
        return ">=" if self.mirrored else "<="

    def stated(self, call: str = "t") -> str:
        """`faults <= 2`, or `t <= 2` where it has no name."""
        return f"{self.name or call} {self.relation} {self.limit:g}"

    def __repr__(self) -> str:
        what = self.name or _short(self.function)
        return f"Constraint({what} {self.relation} {self.limit:g})"


class Bounded(Named, Limited):
    """`t <= q` and `t >= q` for every kind of function; -t where it has one."""

    __array_ufunc__ = None  # np.float64(3) >= t is t <= 3, not an array

    def __le__(self, limit: float) -> Constraint:
        return Constraint(self, limit_of(limit, "at_most"))  # type: ignore[arg-type]

    def __ge__(self, limit: float) -> Constraint:
        minus, support = self.negated()
        return Constraint(minus, -limit_of(limit, "at_least"), mirrored=True, support=support)

    def negated(self) -> tuple[Function, Function | None]:
        """(-t where t is finite and 0 elsewhere, what is -inf where t is and 0 elsewhere)."""
        raise ModelError(
            f"t >= q needs -t, which a function of kind {type(self).__name__} does not have; "
            "write t <= q, or use a log-linear model"
        )


def between(function: Limitable, least: float, most: float) -> tuple[Condition, Condition]:
    """least <= function <= most: two constraints, which `Problem` takes as one entry."""
    if not limit_of(least, "least") <= limit_of(most, "most"):
        raise ModelError(f"between needs least <= most, found {least} and {most}")
    return function >= least, function <= most


def limit_of(value: float, what: str) -> float:
    """A limit as a float; anything but a finite number is refused."""
    limit = real_number(what, value, ModelError, example="12.5")
    if not math.isfinite(limit):
        raise ModelError(f"{what} must be a finite number, found {limit}")
    return limit


def name_of(name: object, whose: str) -> str:
    """A name that people give; "" is none."""
    if not isinstance(name, str):
        raise ModelError(f"the name of {whose} must be a text, found {name!r:.60}")
    return name


def need_function(value: object, where: str, example: str) -> None:
    """Refuse what is no function, and say how the call is written."""
    if not (hasattr(value, "cardinalities") and callable(getattr(value, "value", None))):
        raise ModelError(
            f"{where} needs a function such as a LogLinearModel, found {type(value).__name__}; "
            f"write {example}"
        )


def _short(function: Function) -> str:
    return f"{type(function).__name__} of {function.variables} variables"
