"""Dynamic networks: a model of two time slices, unrolled over any number of steps.

    h(z_0, ..., z_T) = prior(z_0) + sum over t = 1..T of transition(z_{t-1}, z_t)

Tables over the first slice alone are the prior; tables with a variable of the second slice are the
transition, which counts once for each later step. Variables of neither slice are shared by all.
"""

from __future__ import annotations

from typing import NamedTuple

from cmpe.arguments import whole_number
from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.loglinear import Factor, LogLinearModel

# How names end in the first and in the second slice; the last pair is pyAgrum's.
ENDINGS = (("[0]", "[1]"), ("_0", "_1"), ("0", "t"))


class _Place(NamedTuple):
    """Of a variable: its name without the slice, and the slice; None of what all steps share."""

    name: str
    slice: int | None


def unroll(net: LogLinearModel, steps: int) -> LogLinearModel:
    """The model of `steps` time steps, from one of two slices.

    Variables of the slices are called `Rain[0]` and `Rain[1]` (or `Rain_0` and `Rain_1`, or
    `Rain0` and `Raint` as in pyAgrum). In the result they are `Rain[0]`, `Rain[1]`, `Rain[2]`, ...,
    and wherever a variable is named, `("Rain", 2)` is `Rain[2]`:

        cmpe.count({("Rain", t): "yes" for t in range(steps)}) <= 2
    """
    count = whole_number("steps", steps, 1, ModelError)
    if not isinstance(net, LogLinearModel) or not net.names:
        raise ModelError("unroll needs a LogLinearModel whose variables have names")
    places = _places(net.domain)
    _check_slices(net, places)
    names: dict[str, int] = {}  # of the result: the variable of `net` that each is like
    for v, place in enumerate(places):
        if place.slice is None:
            names[place.name] = v
    for step in range(count):
        for v, place in enumerate(places):
            if place.slice == min(step, 1):
                names[f"{place.name}[{step}]"] = v
    numbers = {name: k for k, name in enumerate(names)}
    factors = []
    for factor in net.factors:
        parts = [places[v] for v in factor.scope]
        is_transition = any(part.slice == 1 for part in parts)
        for step in range(1, count) if is_transition else (0,):
            scope = tuple(numbers[_at(part, step - is_transition)] for part in parts)
            factors.append(Factor.unchecked(scope, factor.log_table))
    like = list(names.values())
    return LogLinearModel(
        tuple(net.cardinalities[v] for v in like),
        tuple(factors),
        tuple(names),
        tuple(net.states[v] for v in like) if net.states else (),
    )


def _at(place: _Place, first: int) -> str:
    """The name of a variable where the first slice is at step `first`."""
    return place.name if place.slice is None else f"{place.name}[{first + place.slice}]"


def _places(domain: Domain) -> list[_Place]:
    """The slice of every variable, by the endings that some name has in both slices."""
    for endings in ENDINGS:
        stems = [
            {name.removesuffix(end) for name in domain.names if name.endswith(end)}
            for end in endings
        ]
        if stems[0] & stems[1]:
            return [_place(name, endings) for name in domain.names]
    raise ModelError(
        "unroll needs variables of two slices, such as 'Rain[0]' and 'Rain[1]'; found "
        f"{', '.join(map(repr, domain.names[:4]))}"
    )


def _place(name: str, endings: tuple[str, str]) -> _Place:
    for number, end in enumerate(endings):
        if name.endswith(end) and name != end:
            return _Place(name.removesuffix(end), number)
    return _Place(name, None)


def _check_slices(net: LogLinearModel, places: list[_Place]) -> None:
    """A variable has the same states in both slices, and is in both if a transition reads it."""
    domain = net.domain
    second = {place.name: v for v, place in enumerate(places) if place.slice == 1}
    for v, place in enumerate(places):
        other = second.get(place.name)
        if place.slice == 0 and other is not None and domain.labels(v) != domain.labels(other):
            raise ModelError(
                f"{domain.called(other)} must have the states of {domain.name(v)!r}: found "
                f"{', '.join(domain.states_of(other))} and {', '.join(domain.states_of(v))}"
            )
    for factor in net.factors:
        parts = [places[v] for v in factor.scope]
        if not any(part.slice == 1 for part in parts):
            continue
        for v, part in zip(factor.scope, parts, strict=True):
            if part.slice == 0 and part.name not in second:
                raise ModelError(
                    f"{domain.called(v)} is read by the second slice and must be in it too"
                )
