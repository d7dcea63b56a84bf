from __future__ import annotations

import importlib.util
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest

from cmpe.core.compiler import fence, functions, notices, timing

SOURCE = """
from cmpe.core.compiler.functions import njit

@njit(cache=True)
def inner(x):
    return x + 1

@njit(cache=True, nogil=True)
def outer(x):
    return 2 * inner(x)
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Import a module of two functions as a process that starts would."""
    monkeypatch.setattr(functions, "DISPATCHERS", [])
    (tmp_path / "kernels.py").write_text(SOURCE)

    def load(name="cmpe.fresh.kernels"):
        spec = importlib.util.spec_from_file_location(name, tmp_path / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def told_of(call):
    told = []
    with notices.telling(told.append):
        call()
    return [(n.function.rpartition(".")[2], n.is_over) for n in told]


def test_people_are_told_of_what_is_compiled_and_not_of_what_is_loaded(fresh):
    module = fresh()
    assert told_of(lambda: module.outer(1)) == [("outer", False), ("inner", False), ("outer", True)]
    assert told_of(lambda: module.outer(2)) == []
    again = fresh()
    assert told_of(lambda: again.outer(3)) == []
    assert [d.py_func.__name__ for d in functions.DISPATCHERS] == ["inner", "outer"] * 2


def test_functions_of_others_are_their_own_business(fresh):
    module = fresh("theirs.kernels")
    assert told_of(lambda: module.outer(1)) == []


def test_no_clock_counts_compiling(fresh):
    module = fresh()
    wall, mine, compiled = time.perf_counter(), timing.now(), timing.compiled_seconds()
    thread, mine_of_thread = time.thread_time(), timing.thread_seconds()
    assert module.outer(1) == 4
    counted, counted_of_thread = timing.now() - mine, timing.thread_seconds() - mine_of_thread
    assert timing.compiled_seconds() > compiled
    assert counted < time.perf_counter() - wall
    assert counted_of_thread < time.thread_time() - thread


class Arrays(NamedTuple):
    values: np.ndarray
    others: np.ndarray


def _add(arrays, i):
    return arrays.values[i] + arrays.others[i]


@pytest.mark.skipif(not fence.IS_FAST, reason="numba alone counts them")
def test_references_to_arguments_are_not_counted():
    """Counting them made sweeps over small tables ten times as slow (`solvers.wide`)."""
    arrays = Arrays(np.arange(5.0), np.ones(5))
    counts, before = {}, sys.getrefcount(arrays.values)
    for counted in (True, False):
        add = functions.njit(cache=False, inner=False, counted=counted)(_add)

        def total(arrays, add=add):
            found = 0.0
            for i in range(len(arrays.values)):
                found += add(arrays, i)
            return found

        compiled = functions.njit(cache=False, counted=counted)(total)
        assert compiled(arrays) == 15.0
        (code,) = compiled.inspect_llvm().values()
        counts[counted] = code.count("@NRT_incref(")
        after = sys.getrefcount(arrays.values)  # in an assert, pytest holds one more
        assert after == before
    assert counts == {True: 0, False: 0}


def test_the_python_function_is_found_compiled_or_not():
    def one() -> int:
        return 1

    assert functions.uncompiled(one) is one
    assert functions.uncompiled(functions.njit(nogil=True)(one)) is one
