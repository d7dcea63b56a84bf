"""Signatures are found once in a process, and references are counted as numba counts them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from cmpe.core.compiler.fast import context as contexts
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


@pytest.fixture(scope="module")
def pair():
    return Pair(np.arange(4, dtype=np.int16), np.ones(4, dtype=np.int16))


def test_the_type_of_an_operator_is_asked_for_once(pair, monkeypatch):
    twice(pair)
    asked = []
    resolve = contexts.Context._resolve_user_function_type

    def listening(self, func, args, kws, literals=None):
        asked.append(getattr(func, "typing_key", func))
        return resolve(self, func, args, kws, literals)

    monkeypatch.setattr(contexts.Context, "_resolve_user_function_type", listening)
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


def test_numbas_own_context_is_left_alone():
    context = cpu_target.typing_context
    assert type(context) is contexts.Context
    one = contexts.remembering(context)
    assert contexts.remembering(context) is one is not context
    assert one._functions is context._functions
