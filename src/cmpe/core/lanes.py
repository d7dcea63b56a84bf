"""Vectors of LANES numbers as values of compiled code: one lane per row of a batch.

Numba cannot be told that arrays do not overlap, and so does not make vectors of loops that write
what they might read. Here `load(array, row)` is a vector, `plus`, `times`, ... take and give
vectors, and `store(array, row, x)` writes one. Arrays are float32 (., LANES) and contiguous; no
bounds are checked.

`soft`, `exp_down` and `tanh` are sums and products only, so that all lanes go at once. exp(-d) is
(1 / p(d / 32))^32, p the Taylor polynomial of exp of degree 4; log(1 + u) is 2 artanh(u / (2 + u))
by five terms; tanh is Lambert's continued fraction, cut after seven terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 16
FARTHEST = 30.0  # exp(-d) of a larger d is taken for that of this one
LARGEST = 4.97  # where the fraction of tanh reaches 1
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

    def _of(self, other: Any) -> Any:
        if isinstance(other, _Vector):
            return other.value
        return ir.Constant(_FLOATS, [float(other)] * LANES)

    def _made(self, name: str, one: Any, two: Any) -> _Vector:
        return _Vector(self.builder, getattr(self.builder, name)(one, two, flags=("contract",)))

    def __add__(self, other: Any) -> _Vector:
        return self._made("fadd", self.value, self._of(other))

    def __sub__(self, other: Any) -> _Vector:
        return self._made("fsub", self.value, self._of(other))

    def __mul__(self, other: Any) -> _Vector:
        return self._made("fmul", self.value, self._of(other))

    def __truediv__(self, other: Any) -> _Vector:
        return self._made("fdiv", self.value, self._of(other))

    def under(self, other: Any) -> _Vector:
        """1 / self * other."""
        return self._made("fdiv", self._of(other), self.value)

    def _pick(self, sign: str, other: Any) -> _Vector:
        two = self._of(other)
        wins = self.builder.fcmp_ordered(sign, self.value, two)
        return _Vector(self.builder, self.builder.select(wins, self.value, two))

    def most(self, other: Any) -> _Vector:
        """The larger one."""
        return self._pick(">", other)

    def least(self, other: Any) -> _Vector:
        """The smaller one."""
        return self._pick("<", other)


def _exp_of_minus(d: _Vector) -> _Vector:
    z = d.least(FARTHEST) * (1.0 / 32.0)
    r = ((((z * (1 / 24) + 1 / 6) * z + 0.5) * z + 1.0) * z + 1.0).under(1.0)
    for _ in range(5):
        r = r * r
    return r


def _soft(x: _Vector, y: _Vector, temperature: _Vector, inverse: _Vector) -> _Vector:
    top = x.most(y)
    u = _exp_of_minus((top - x.least(y)) * inverse)
    s = u / (u + 2.0)
    q = s * s
    series = (((q * (1 / 9) + 1 / 7) * q + 0.2) * q + 1 / 3) * q + 1.0
    return top + temperature * (s * series) * 2.0


def _tanh(x: _Vector) -> _Vector:
    x = x.least(LARGEST).most(-LARGEST)
    s = x * x
    above = x * (((s + 378.0) * s + 17325.0) * s + 135135.0)
    below = ((s * 28.0 + 3150.0) * s + 62370.0) * s + 135135.0
    return above / below


def _of_vectors(count: int, build: Callable[..., _Vector]) -> Any:
    """(signature, code) of an operation on `count` vectors."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return build(*(_Vector(builder, arg) for arg in args)).value

    return LANE_TYPE(*[LANE_TYPE] * count), code


@intrinsic
def plus(typing, x, y):  # type: ignore[no-untyped-def]
    """x + y."""
    return _of_vectors(2, lambda a, b: a + b)


@intrinsic
def minus(typing, x, y):  # type: ignore[no-untyped-def]
    """x - y."""
    return _of_vectors(2, lambda a, b: a - b)


@intrinsic
def times(typing, x, y):  # type: ignore[no-untyped-def]
    """x y."""
    return _of_vectors(2, lambda a, b: a * b)


@intrinsic
def over(typing, x, y):  # type: ignore[no-untyped-def]
    """x / y."""
    return _of_vectors(2, lambda a, b: a / b)


@intrinsic
def most(typing, x, y):  # type: ignore[no-untyped-def]
    """The larger one, lane by lane."""
    return _of_vectors(2, lambda a, b: a.most(b))


@intrinsic
def least(typing, x, y):  # type: ignore[no-untyped-def]
    """The smaller one, lane by lane."""
    return _of_vectors(2, lambda a, b: a.least(b))


@intrinsic
def soft(typing, x, y, temperature, inverse):  # type: ignore[no-untyped-def]
    """T log(exp(x / T) + exp(y / T)), 1 / T given as well."""
    return _of_vectors(4, _soft)


@intrinsic
def exp_down(typing, x):  # type: ignore[no-untyped-def]
    """exp(x) of x <= 0."""
    return _of_vectors(1, lambda a: _exp_of_minus(a * -1.0))


@intrinsic
def tanh(typing, x):  # type: ignore[no-untyped-def]
    """tanh(x), 1e-4 off."""
    return _of_vectors(1, _tanh)


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    start = builder.mul(row, ir.Constant(_LONG, LANES))
    return builder.bitcast(builder.gep(data, [start]), _FLOATS.as_pointer())


@intrinsic
def load(typing, array, row):  # type: ignore[no-untyped-def]
    """array[row]."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_place(context, builder, signature.args[0], *args))
        value.align = 4
        return value

    return LANE_TYPE(array, types.int64), code


@intrinsic
def store(typing, array, row, x):  # type: ignore[no-untyped-def]
    """array[row] = x."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, LANE_TYPE), code


@intrinsic
def spread(typing, number):  # type: ignore[no-untyped-def]
    """The same number in every lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(_FLOATS, ir.Undefined)
        one = builder.insert_element(nothing, args[0], ir.Constant(_INT, 0))
        return builder.shuffle_vector(one, nothing, _ZEROS)

    return LANE_TYPE(types.float32), code
