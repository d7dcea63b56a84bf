"""Every statement that is lowered here, against what Python does."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from llvmlite.ir import instructions

from cmpe.core.compiler import notices
from cmpe.core.compiler.functions import njit

ARRAY = np.arange(24.0).reshape(4, 6)


@njit(cache=False, inner=False)
def elements(array, i, j, small):
    out = np.zeros(8)
    line = array[i]
    out[0], out[1], out[2] = array[i, j], line[j], array[-1, 0]
    out[-1] = array[i, small] + line[np.uint64(2)]
    out[3] = int(array[i, j]) // 2 + (array[i, j] > 3.0) + array[i, j] ** 2
    flags = np.zeros(3, dtype=np.bool_)
    flags[1] = array[i, j] > 0.0
    out[4] = 1.0 if flags[1] and not flags[2] else 0.0
    array[i, j] = small
    column = array[:, j]
    out[5], column[0] = column[1], -7.0
    cube = array.reshape((2, 2, 6))
    out[6] = cube[1, -1, j]
    return out


@pytest.fixture(autouse=True)
def quiet():
    with notices.telling(lambda notice: None):
        yield


@pytest.mark.parametrize(("i", "j"), [(0, 0), (2, 5), (-1, -2), (-4, 3)])
def test_elements_lie_where_python_has_them(i, j):
    given, own = ARRAY.copy(), ARRAY.copy()
    small = np.int32(1)
    expected = elements.py_func(own, i, j, small)
    assert elements(given, i, j, small).tolist() == expected.tolist()
    assert given.tolist() == own.tolist()


def test_other_layouts_are_indexed_by_strides():
    @njit(cache=False, inner=False)
    def total(array):
        found = 0.0
        for i in range(array.shape[0]):
            for j in range(array.shape[1]):
                found += (i + 1) * array[i, j]
        return found

    for array in (np.asfortranarray(ARRAY), ARRAY[::2, ::-1]):
        assert total(array) == total.py_func(array)


def test_fewer_instructions_are_written_than_by_numba(monkeypatch):
    def total(array):
        found = 0.0
        for i in range(len(array)):
            found += array[i, 0] + array[0, i] + array[i, i]
        return found

    made, own = [], instructions.Instruction.__init__

    def counted(self, parent, typ, opname, *rest, **named):
        made.append(opname)
        return own(self, parent, typ, opname, *rest, **named)

    monkeypatch.setattr(instructions.Instruction, "__init__", counted)
    assert njit(cache=False, inner=False)(total)(np.ones((3, 3))) == 9.0
    few = len(made)
    assert numba.njit(no_cfunc_wrapper=True, nogil=False)(total)(np.ones((3, 3))) == 9.0
    assert few < 0.8 * (len(made) - few)
