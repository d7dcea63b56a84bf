"""What `core.compiler.fast.shared` asks of numba: a new numba that gives less fails here."""

from __future__ import annotations

import itertools
import operator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import event, types
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from cmpe.core.compiler.fast import shared
from cmpe.core.compiler.functions import njit


class Pair(NamedTuple):
    first: Any
    second: Any


@njit(inner=True, nogil=True)
def total(pair):
    room = np.zeros(len(pair.first), dtype=np.int16)  # no kernel has these
    for i in range(len(room)):
        room[i] = pair.first[i] + pair.second[i]
    return room


@njit(cache=False, nogil=True)
def twice(pair):
    return Pair(total(pair), np.zeros(len(pair.first), dtype=np.int16))


@njit(cache=False, nogil=True)
def thrice(pair):
    return total(Pair(total(pair), pair.second))


class Compiled(event.Listener):
    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass


@pytest.fixture(scope="module")
def pair():
    return Pair(np.arange(4, dtype=np.int16), np.ones(4, dtype=np.int16))


def test_functions_of_numba_are_compiled_once_for_inner_and_outer_functions(pair):
    listener = Compiled()
    with event.install_listener("numba:compile", listener):
        assert twice(pair).first.tolist() == [1, 2, 3, 4]
    of_numba = [name for name in listener.names if name.startswith("ol_np_zeros")]
    assert len(of_numba) == 1


def test_the_type_of_an_operator_is_asked_for_once(pair, monkeypatch):
    twice(pair)
    asked = []
    resolve = shared.Context._resolve_user_function_type

    def listening(self, func, args, kws, literals=None):
        asked.append(getattr(func, "typing_key", func))
        return resolve(self, func, args, kws, literals)

    monkeypatch.setattr(shared.Context, "_resolve_user_function_type", listening)
    assert thrice(pair).tolist() == [2, 3, 4, 5]
    assert "getitem" not in [getattr(f, "__name__", "") for f in asked]


def test_references_are_counted_as_numba_counts_them(pair):
    twice(pair), thrice(pair)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for _ in range(3):
        twice(pair), thrice(pair)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0


def test_options_are_keys_as_those_of_numba(pair):
    flags = shared.Flags()
    flags.nrt = True
    quick = shared._QuickFlags(flags)
    assert quick == flags
    assert hash(quick) == hash(flags)
    assert quick != shared.Flags()
    assert quick.copy() == quick
    assert quick != "nrt"


def test_numbas_own_context_is_left_alone():
    context = cpu_target.typing_context
    assert type(context) is shared.Context
    one = shared._remembering(context)
    assert shared._remembering(context) is one is not context
    assert one._functions is context._functions


def test_operators_on_numbers_have_the_types_that_numba_gives_them():
    """The short way to a signature, against numba's own."""
    context = cpu_target.typing_context
    quick = shared._remembering(context)
    kinds = (types.int64, types.uint64, types.int32, types.float64, types.float32)
    count = 0
    for name in ("add", "mul", "truediv", "floordiv", "mod", "lt", "eq", "and_", "isub", "rshift"):
        operation = getattr(operator, name)
        for pair in itertools.product(kinds, kinds):
            found = quick._of_numbers(operation, pair)
            if found is not None:
                assert found == context.resolve_function_type(operation, pair, {})
                count += 1
    assert count > 200
    assert quick._of_numbers(operator.add, (types.unicode_type, types.unicode_type)) is None
    assert quick._of_numbers(len, (types.int64,)) is None
