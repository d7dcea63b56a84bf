"""Numbers as people give them, checked: one sentence for what is not one."""

from __future__ import annotations

import math
from numbers import Integral, Real

from cmpe.errors import InputError, MethodError

Refusal = type[InputError]


def real_number(
    name: str, value: object, error: Refusal = MethodError, *, example: str = "1.5"
) -> float:
    """A number of any kind as a float; text and truth values are not numbers."""
    scalar = _scalar(value)
    if isinstance(scalar, bool) or not isinstance(scalar, Real):
        raise error(f"{name} must be a number, as in {name}={example}; found {_shown(value)}")
    try:
        return float(scalar)
    except OverflowError:  # a whole number beyond float64
        return -math.inf if scalar < 0 else math.inf


def whole_number(name: str, value: object, least: int, error: Refusal = MethodError) -> int:
    """A whole number of at least `least` as an int; 2.0 is one, "2" and True are not."""
    scalar = _scalar(value)
    if isinstance(scalar, float) and scalar.is_integer():
        scalar = int(scalar)
    if isinstance(scalar, bool) or not isinstance(scalar, Integral):
        raise error(f"{name} must be a whole number, found {_shown(value)}")
    if scalar < least:
        raise error(f"{name} must be at least {least}, found {scalar}")
    return int(scalar)


def seconds_of(time_limit: object) -> float:
    """A time limit as seconds above 0."""
    seconds = real_number("time_limit", time_limit, example="10 (seconds)")
    if not 0 < seconds < math.inf:
        raise MethodError(f"a time limit must be above 0 seconds, found {seconds}")
    return seconds


def _scalar(value: object) -> object:
    """The number inside a NumPy number, or inside an array or a tensor without axes."""
    return value.item() if getattr(value, "ndim", None) == 0 else value  # type: ignore[attr-defined]


def _shown(value: object) -> str:
    """A value in few words, on one line."""
    return " ".join(repr(value).split())[:60]
