"""How a kernel is optimised: loops are vectorised, but not unrolled once functions are joined."""

from __future__ import annotations

import numba
import numpy as np

from cmpe.compiling import notices
from cmpe.compiling.functions import njit
from cmpe.compiling.inner import _Unfinished
from cmpe.compiling.library import Library


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


def test_what_python_calls_is_not_optimised():
    kernel = njit(cache=False, inner=False)(walk)
    code(kernel, np.arange(5), np.arange(3))
    (compiled,) = kernel.overloads.values()
    name = compiled.fndesc.llvm_cpython_wrapper_name
    wrapper = compiled.library._final_module.get_function(name)
    assert any(b"optnone" in attributes for attributes in wrapper.attributes)


def test_inner_code_is_left_to_its_callers():
    assert issubclass(_Unfinished, Library)
