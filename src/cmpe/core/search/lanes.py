"""Vector operations on rows of LANES numbers: one lane per problem row, or per replica of one.

Numba cannot be told that arrays do not overlap, so its loops over lanes are slow (about 20 ns for
two sums and their maximum). These operations are vectors in the compiler's own terms (3 ns).
Arrays are (., LANES) and contiguous; a row is named by its number. No bounds are checked.

Where nothing is compiled (`NUMBA_DISABLE_JIT=1`), the functions `_plain_...` compute the same with
numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from cmpe.core.lanes import LANES, plain_or, rows_of

_LONG, _INT = ir.IntType(64), ir.IntType(32)
_BYTES = ir.VectorType(ir.IntType(8), LANES)
_INTS = ir.VectorType(_INT, LANES)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


class _Call:
    """One call under construction: its arrays and numbers, as vectors."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder, self.args = builder, args
        self._data = [
            context.make_array(kind)(context, builder, arg).data
            if isinstance(kind, types.Array)
            else None
            for kind, arg in zip(signature.args, args, strict=True)
        ]

    def _pointer(self, array: int, row: Any, kind: Any) -> Any:
        start = self.builder.mul(row, ir.Constant(_LONG, LANES))
        place = self.builder.gep(self._data[array], [start])
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, array: int, row: Any, kind: Any) -> Any:
        value = self.builder.load(self._pointer(array, row, kind))
        value.align = 1
        return value

    def store(self, value: Any, array: int, row: Any, kind: Any) -> None:
        self.builder.store(value, self._pointer(array, row, kind)).align = 1

    def element(self, array: int, at: int) -> Any:
        """Element `at` of an array of row numbers."""
        place = self.builder.gep(self._data[array], [ir.Constant(_LONG, at)])
        return self.builder.load(place)

    def store_element(self, value: Any, array: int, at: Any) -> None:
        self.builder.store(value, self.builder.gep(self._data[array], [at]))

    def gather(self, array: int, base: Any, index: Any, kind: Any) -> Any:
        """Element `lane` of row base + index[lane], for every lane."""
        builder = self.builder
        value = ir.Constant(kind, ir.Undefined)
        for lane in range(LANES):
            here = ir.Constant(_INT, lane)
            row = builder.zext(builder.extract_element(index, here), _LONG)
            at = builder.mul(builder.add(base, row), ir.Constant(_LONG, LANES))
            at = builder.add(at, ir.Constant(_LONG, lane))
            one = builder.load(builder.gep(self._data[array], [at]))
            value = builder.insert_element(value, one, here)
        return value

    def spread(self, number: Any, kind: Any) -> Any:
        """The same whole number in every lane."""
        narrow = self.builder.trunc(number, kind.element)
        nothing = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(nothing, narrow, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(_INTS, [0] * LANES))

    def sum_of(self, count: int, value: Any) -> Any:
        """values[offsets[0] + value steps[0]] + ..., `count` rows; value None is 0."""
        total = None
        for i in range(count):
            row = self.element(4, i)
            if value is not None:
                row = self.builder.add(row, self.builder.mul(value, self.element(5, i)))
            here = self.load(0, row, _FLOATS)
            total = here if total is None else self.builder.fadd(total, here)
        return total


def _plain_sum(values: Any, offsets: Any, steps: Any, value: int, count: int) -> Any:
    rows = rows_of(values)
    total = rows[offsets[0] + value * steps[0]]
    for i in range(1, count):
        total = total + rows[offsets[i] + value * steps[i]]
    return total.copy()


def _plain_gather(array: Any, base: int, index: Any) -> Any:
    """Element `lane` of row base + index[lane], for every lane."""
    return rows_of(array)[base + rows_of(index)[0], np.arange(LANES)]


def _operation(kinds: str, build: Any) -> Any:
    """An operation whose arguments are arrays ("a") and whole numbers ("n")."""

    def signed(given: Any) -> Any:
        return types.void(
            *(g if k == "a" else types.int64 for k, g in zip(kinds, given, strict=True))
        )

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        build(_Call(context, builder, signature, args))
        return context.get_dummy_value()

    return signed, code


def _best_of_two(count: int) -> Any:
    def build(call: _Call) -> None:
        builder, (_, _, target, place, *_) = call.builder, call.args
        one, two = call.sum_of(count, None), call.sum_of(count, ir.Constant(_LONG, 1))
        wins = builder.fcmp_ordered(">", two, one)
        call.store(builder.select(wins, two, one), 0, target, _FLOATS)
        call.store(builder.zext(wins, _BYTES), 1, place, _BYTES)

    def plain(values: Any, chosen: Any, target: int, place: int, offsets: Any, steps: Any) -> None:
        one, two = (_plain_sum(values, offsets, steps, value, count) for value in (0, 1))
        rows_of(values)[target] = np.where(two > one, two, one)
        rows_of(chosen)[place] = two > one

    signed, code = _operation("aannaa", build)

    @plain_or(plain)
    def best(typing, values, chosen, target, place, offsets, steps):  # type: ignore[no-untyped-def]
        """values[target] = the larger of two sums of rows, chosen[place] = which."""
        return signed((values, chosen, target, place, offsets, steps)), code

    return best


def _challenge(count: int) -> Any:
    def build(call: _Call) -> None:
        builder, (_, _, target, place, _, _, value) = call.builder, call.args
        old, new = call.load(0, target, _FLOATS), call.sum_of(count, value)
        wins = builder.fcmp_ordered(">", new, old)
        call.store(builder.select(wins, new, old), 0, target, _FLOATS)
        which = builder.select(wins, call.spread(value, _BYTES), call.load(1, place, _BYTES))
        call.store(which, 1, place, _BYTES)

    def plain(
        values: Any, chosen: Any, target: int, place: int, offsets: Any, steps: Any, value: int
    ) -> None:
        old, new = rows_of(values)[target], _plain_sum(values, offsets, steps, value, count)
        rows_of(chosen)[place][new > old] = value
        rows_of(values)[target] = np.where(new > old, new, old)

    signed, code = _operation("aannaan", build)

    @plain_or(plain)
    def challenge(typing, values, chosen, target, place, offsets, steps, value):  # type: ignore[no-untyped-def]
        """Let the sum of rows for `value` replace values[target] where it is larger."""
        return signed((values, chosen, target, place, offsets, steps, value)), code

    return challenge


MOST_INPUTS = 8
best = tuple(_best_of_two(count) for count in range(1, MOST_INPUTS + 1))
challenge = tuple(_challenge(count) for count in range(1, MOST_INPUTS + 1))


def _build_add_scaled(call: _Call) -> None:
    builder, (_, target, _, source, _, row) = call.builder, call.args
    more = builder.fmul(call.load(2, source, _FLOATS), call.load(4, row, _FLOATS))
    call.store(builder.fadd(call.load(0, target, _FLOATS), more), 0, target, _FLOATS)


def _plain_add_scaled(
    values: Any, target: int, tables: Any, source: int, weights: Any, row: int
) -> None:
    rows_of(values)[target] += rows_of(tables)[source] * rows_of(weights)[row]


@plain_or(_plain_add_scaled)
def add_scaled(typing, values, target, tables, source, weights, row):  # type: ignore[no-untyped-def]
    """values[target] += tables[source] * weights[row]."""
    signed, code = _operation("ananan", _build_add_scaled)
    return signed((values, target, tables, source, weights, row)), code


def _build_add_row(call: _Call) -> None:
    builder, (_, target, source) = call.builder, call.args
    total = builder.fadd(call.load(0, target, _FLOATS), call.load(0, source, _FLOATS))
    call.store(total, 0, target, _FLOATS)


def _plain_add_row(values: Any, target: int, source: int) -> None:
    rows_of(values)[target] += rows_of(values)[source]


@plain_or(_plain_add_row)
def add_row(typing, values, target, source):  # type: ignore[no-untyped-def]
    """values[target] += values[source]."""
    signed, code = _operation("ann", _build_add_row)
    return signed((values, target, source)), code


def _build_add_gathered(call: _Call) -> None:
    builder, (_, target, _, base, _, _, row) = call.builder, call.args
    index = call.load(4, ir.Constant(_LONG, 0), _INTS)
    more = builder.fmul(call.gather(2, base, index, _FLOATS), call.load(5, row, _FLOATS))
    call.store(builder.fadd(call.load(0, target, _FLOATS), more), 0, target, _FLOATS)


def _plain_add_gathered(
    values: Any, target: int, tables: Any, base: int, index: Any, weights: Any, row: int
) -> None:
    rows_of(values)[target] += _plain_gather(tables, base, index) * rows_of(weights)[row]


@plain_or(_plain_add_gathered)
def add_gathered(typing, values, target, tables, base, index, weights, row):  # type: ignore[no-untyped-def]
    """values[target] += tables[base + index] * weights[row], with an index per lane."""
    signed, code = _operation("ananaan", _build_add_gathered)
    return signed((values, target, tables, base, index, weights, row)), code


def _build_set_index(call: _Call) -> None:
    call.store(call.spread(call.args[1], _INTS), 0, ir.Constant(_LONG, 0), _INTS)


def _plain_set_index(index: Any, number: int) -> None:
    rows_of(index)[0] = number


@plain_or(_plain_set_index)
def set_index(typing, index, number):  # type: ignore[no-untyped-def]
    """index = number in every lane."""
    signed, code = _operation("an", _build_set_index)
    return signed((index, number)), code


def _build_move_index(call: _Call) -> None:
    builder, (_, stride, _, row) = call.builder, call.args
    step = builder.mul(call.spread(stride, _INTS), call.load(2, row, _INTS))
    here = ir.Constant(_LONG, 0)
    call.store(builder.add(call.load(0, here, _INTS), step), 0, here, _INTS)


def _plain_move_index(index: Any, stride: int, z: Any, row: int) -> None:
    rows_of(index)[0] += stride * rows_of(z)[row]


@plain_or(_plain_move_index)
def move_index(typing, index, stride, z, row):  # type: ignore[no-untyped-def]
    """index += stride * z[row]."""
    signed, code = _operation("anan", _build_move_index)
    return signed((index, stride, z, row)), code


def _build_look_up(call: _Call) -> None:
    builder, (_, row, _, base, _, _) = call.builder, call.args
    index = call.load(4, ir.Constant(_LONG, 0), _INTS)
    new, old = builder.zext(call.gather(2, base, index, _BYTES), _INTS), call.load(0, row, _INTS)
    call.store(new, 0, row, _INTS)
    mask = builder.bitcast(builder.icmp_unsigned("!=", new, old), ir.IntType(LANES))
    differs = builder.icmp_unsigned("!=", mask, ir.Constant(ir.IntType(LANES), 0))
    call.store_element(builder.zext(differs, ir.IntType(8)), 5, row)


def _plain_look_up(z: Any, row: int, chosen: Any, base: int, index: Any, moved: Any) -> None:
    new = _plain_gather(chosen, base, index)
    moved[row] = (new != rows_of(z)[row]).any()
    rows_of(z)[row] = new


@plain_or(_plain_look_up)
def look_up(typing, z, row, chosen, base, index, moved):  # type: ignore[no-untyped-def]
    """z[row] = chosen[base + index], with an index per lane; moved[row] = whether any changed."""
    signed, code = _operation("ananaa", _build_look_up)
    return signed((z, row, chosen, base, index, moved)), code


def _build_replace(call: _Call) -> None:
    builder, (_, row, _, place, _, base, _) = call.builder, call.args
    index = call.load(6, ir.Constant(_LONG, 0), _INTS)
    new, old = call.gather(4, base, index, _FLOATS), call.load(2, place, _FLOATS)
    change = builder.fsub(builder.fpext(new, _DOUBLES), builder.fpext(old, _DOUBLES))
    call.store(new, 2, place, _FLOATS)
    call.store(builder.fadd(call.load(0, row, _DOUBLES), change), 0, row, _DOUBLES)


def _plain_replace(
    totals: Any, row: int, current: Any, place: int, tables: Any, base: int, index: Any
) -> None:
    new = _plain_gather(tables, base, index)
    rows_of(totals)[row] += new.astype(float) - rows_of(current)[place]
    rows_of(current)[place] = new


@plain_or(_plain_replace)
def replace(typing, totals, row, current, place, tables, base, index):  # type: ignore[no-untyped-def]
    """current[place] = tables[base + index], and totals[row] follows."""
    signed, code = _operation("ananana", _build_replace)
    return signed((totals, row, current, place, tables, base, index)), code
