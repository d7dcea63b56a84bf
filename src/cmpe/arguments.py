"""Checks of arguments: numbers, lists and paths, with one-sentence errors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import Floats
from cmpe.errors import InputError, MethodError

Refusal = type[InputError]
Kind = TypeVar("Kind")


def real_number(
    name: str, value: object, error: Refusal = MethodError, *, example: str = "1.5"
) -> float:
    """A number of any kind as a float; text and truth values are not numbers."""
    if type(value) is float:
        return value
    scalar = _scalar(value)
    if isinstance(scalar, bool) or not isinstance(scalar, Real):
        raise error(f"{name} must be a number, as in {name}={example}; found {_shown(value)}")
    try:
        return float(scalar)
    except OverflowError:  # a whole number beyond float64
        return -math.inf if scalar < 0 else math.inf


def whole_number(name: str, value: object, least: int, error: Refusal = MethodError) -> int:
    """A whole number of at least `least` as an int; 2.0 is one, "2" and True are not."""
    if type(value) is int and value >= least:
        return value
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


def float_array(what: str, values: ArrayLike, error: Refusal) -> Floats:
    """A copy of numbers as float64, in C order."""
    try:
        return np.array(values, dtype=np.float64, order="C", copy=True)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what} must hold numbers, found {_shown(values)}") from None


def whole_numbers(what: str, values: object, error: Refusal) -> tuple[int, ...]:
    """The whole numbers in a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise error(f"{what} must be a list of whole numbers, found {_shown(values)}")
    return tuple(int(v) if type(v) is int else _whole(what, v, error) for v in values)


def _whole(what: str, value: object, error: Refusal) -> int:
    if not isinstance(scalar := _scalar(value), Integral):
        raise error(f"{what} must list whole numbers, found {_shown(value)}")
    return int(scalar)


def listed(what: str, values: object, kind: type[Kind], error: Refusal) -> tuple[Kind, ...]:
    """The items of a list, all of one kind."""
    items = tuple(values) if isinstance(values, Iterable) else (values,)
    odd = [item for item in items if not isinstance(item, kind)]
    if odd or not isinstance(values, Iterable):
        found = _shown((odd or [values])[0])
        raise error(f"{what} must be a list of {kind.__name__} objects, found {found}")
    return items


def file_path(value: object, call: str, kind: str = "file") -> Path:
    """Where a file is; `call` says what takes a path."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{call} takes the path of a {kind}, found {_shown(value)}")
    return Path(value)


def _scalar(value: object) -> object:
    """The number inside a NumPy number, or inside an array or a tensor without axes."""
    return value.item() if getattr(value, "ndim", None) == 0 else value  # type: ignore[attr-defined]


def _shown(value: object) -> str:
    """A value in few words, on one line."""
    return " ".join(repr(value).split())[:60]
