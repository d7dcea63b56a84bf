"""How a kernel is optimised: loops are vectorised, but not unrolled once functions are joined."""

from __future__ import annotations

import numba
import numpy as np

from cmpe.core.compiler import notices
from cmpe.core.compiler.fast.library import Library, Unfinished
from cmpe.core.compiler.functions import njit


def walk(table, starts):
    """A loop that cannot be vectorised, and that LLVM would unroll."""
    found = 0
    for i in range(len(starts)):
        at = starts[i]
        for _ in range(starts[i] + 7):
            at = table[at]
        found ^= at
    return found


def code(kernel, *given):
    """The value of a call, the kind of library, and how many instructions are left."""
    with notices.telling(lambda notice: None):
        value = kernel(*given)
    (compiled,) = kernel.overloads.values()
    functions = compiled.library._final_module.functions
    count = sum(1 for f in functions for b in f.blocks for _ in b.instructions)
    return value, type(compiled.library), count


def test_loops_are_not_unrolled():
    table = np.random.default_rng(0).permutation(50)
    starts = np.arange(20)
    value, kind, count = code(njit(cache=False, inner=False)(walk), table, starts)
    other, theirs, more = code(numba.njit(no_cfunc_wrapper=True)(walk), table, starts)
    assert value == other == walk(table, starts)
    assert kind is Library
    assert theirs is not Library
    assert count < 0.9 * more


@njit(inner=True)
def deep(values):
    return values[0] + 1.0


@njit(inner=True)
def left(values):
    return deep(values) * 2.0


@njit(inner=True)
def right(values):
    return deep(values) * 3.0


def both(values):
    return left(values) + right(values)


def test_inner_code_is_linked_once_and_left_to_its_callers():
    value, kind, _ = code(njit(cache=False, inner=False)(both), np.array([4.0]))
    assert value == 25.0
    assert kind is Library
    (compiled,) = left.overloads.values()
    library = compiled.library
    assert isinstance(library, Unfinished)
    assert len(list(library.get_defined_functions())) == 1  # without `deep`
