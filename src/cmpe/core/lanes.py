"""Vectors of LANES numbers as values of compiled code: one lane per row of a batch.

Numba cannot be told that arrays do not overlap, so it makes no vectors of loops that write
what they might read. Here `load(array, row)` is a vector, `plus`, `times`, ... take and return
vectors, and `store(array, row, x)` writes one. Arrays are float32 (., LANES) and contiguous; no
bounds are checked.

Every operation is written once. Compiled, it appends LLVM's instructions; where nothing is compiled
(`NUMBA_DISABLE_JIT=1`), vectors are numpy arrays and it computes with them.

`soft` and `exp_down` are sums and products only, so that all lanes are computed at once. exp(-d) is
(1 / p(d / 32))^32, p the Taylor polynomial of exp of degree 4; log(1 + u) is 2 artanh(u / (2 + u))
by five terms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from cmpe.core.compiler.fence import IS_COMPILED

LANES = 16
FARTHEST = 30.0  # exp(-d) of a larger d is taken for that of this one
_LONG, _INT = ir.IntType(64), ir.IntType(32)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_ZEROS = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)


class Lanes(types.Type):  # type: ignore[misc]
    """The type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANE_TYPE = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector is one of the compiler's own."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


class _Vector:
    """A vector while code is built: operators append instructions."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _as_value(self, other: Any) -> Any:
        if isinstance(other, _Vector):
            return other.value
        return ir.Constant(_FLOATS, [float(other)] * LANES)

    def _append(self, name: str, one: Any, two: Any) -> _Vector:
        return _Vector(self.builder, getattr(self.builder, name)(one, two, flags=("contract",)))

    def __add__(self, other: Any) -> _Vector:
        return self._append("fadd", self.value, self._as_value(other))

    def __sub__(self, other: Any) -> _Vector:
        return self._append("fsub", self.value, self._as_value(other))

    def __mul__(self, other: Any) -> _Vector:
        return self._append("fmul", self.value, self._as_value(other))

    def __truediv__(self, other: Any) -> _Vector:
        return self._append("fdiv", self.value, self._as_value(other))

    def __rtruediv__(self, other: float) -> _Vector:
        return self._append("fdiv", self._as_value(other), self.value)

    def larger(self, other: Any) -> _Vector:
        """The larger number of each lane."""
        return self._pick(">", other)

    def smaller(self, other: Any) -> _Vector:
        """The smaller number of each lane."""
        return self._pick("<", other)

    def _pick(self, sign: str, other: Any) -> _Vector:
        two = self._as_value(other)
        wins = self.builder.fcmp_ordered(sign, self.value, two)
        return _Vector(self.builder, self.builder.select(wins, self.value, two))


def _larger(x: Any, y: Any) -> Any:
    return x.larger(y) if isinstance(x, _Vector) else np.where(x > y, x, np.float32(y))


def _smaller(x: Any, y: Any) -> Any:
    return x.smaller(y) if isinstance(x, _Vector) else np.where(x < y, x, np.float32(y))


def _operation(compute: Callable[..., Any]) -> Any:
    """An operation on vectors, from a function of them that returns one."""
    if not IS_COMPILED:
        return compute

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return compute(*(_Vector(builder, argument) for argument in arguments)).value

    def typed(typing: Any, *vectors: Any) -> Any:
        return LANE_TYPE(*vectors), code

    parameters = inspect.signature(compute).parameters.values()
    context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    typed.__name__, typed.__doc__ = compute.__name__, compute.__doc__
    return intrinsic(typed)


def plain_or(plain: Callable[..., Any]) -> Callable[[Any], Any]:
    """The intrinsic that a function declares, or `plain` where nothing is compiled."""

    def decorate(typed: Any) -> Any:
        return intrinsic(typed) if IS_COMPILED else plain

    return decorate


def _exp_of_minus(d: Any) -> Any:
    z = _smaller(d, FARTHEST) * (1.0 / 32.0)
    r = 1.0 / ((((z * (1 / 24) + 1 / 6) * z + 0.5) * z + 1.0) * z + 1.0)
    for _ in range(5):
        r = r * r
    return r


@_operation
def plus(x: Any, y: Any) -> Any:
    """x + y."""
    return x + y


@_operation
def minus(x: Any, y: Any) -> Any:
    """x - y."""
    return x - y


@_operation
def times(x: Any, y: Any) -> Any:
    """x y."""
    return x * y


@_operation
def over(x: Any, y: Any) -> Any:
    """x / y."""
    return x / y


@_operation
def most(x: Any, y: Any) -> Any:
    """The larger number of each lane."""
    return _larger(x, y)


@_operation
def least(x: Any, y: Any) -> Any:
    """The smaller number of each lane."""
    return _smaller(x, y)


@_operation
def soft(x: Any, y: Any, temperature: Any, inverse: Any) -> Any:
    """T log(exp(x / T) + exp(y / T)), where `inverse` is 1 / T."""
    top = _larger(x, y)
    u = _exp_of_minus((top - _smaller(x, y)) * inverse)
    s = u / (u + 2.0)
    q = s * s
    series = (((q * (1 / 9) + 1 / 7) * q + 0.2) * q + 1 / 3) * q + 1.0
    return top + temperature * (s * series) * 2.0


@_operation
def exp_down(x: Any) -> Any:
    """exp(x) of x <= 0."""
    return _exp_of_minus(x * -1.0)


def rows_of(array: Any) -> Any:
    """A contiguous array as rows of LANES numbers, where nothing is compiled."""
    return array.reshape(-1, LANES)


def _plain_load(array: Any, row: int) -> Any:
    return rows_of(array)[row].copy()


def _plain_store(array: Any, row: int, x: Any) -> None:
    rows_of(array)[row] = x


def _plain_spread(number: float) -> Any:
    return np.full(LANES, number, dtype=np.float32)


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    start = builder.mul(row, ir.Constant(_LONG, LANES))
    return builder.bitcast(builder.gep(data, [start]), _FLOATS.as_pointer())


@plain_or(_plain_load)
def load(typing, array, row):  # type: ignore[no-untyped-def]
    """array[row]."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_place(context, builder, signature.args[0], *args))
        value.align = 4
        return value

    return LANE_TYPE(array, types.int64), code


@plain_or(_plain_store)
def store(typing, array, row, x):  # type: ignore[no-untyped-def]
    """array[row] = x."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, LANE_TYPE), code


@plain_or(_plain_spread)
def spread(typing, number):  # type: ignore[no-untyped-def]
    """The same number in every lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(_FLOATS, ir.Undefined)
        one = builder.insert_element(nothing, args[0], ir.Constant(_INT, 0))
        return builder.shuffle_vector(one, nothing, _ZEROS)

    return LANE_TYPE(types.float32), code
