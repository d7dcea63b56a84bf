"""Inner functions are compiled once, as parts of the functions that Python calls."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from cmpe.core.compiler import functions, notices

SOURCE = """
import numpy as np
from cmpe.core.compiler.functions import njit

@njit(cache=True, nogil=True)
def _total(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total

@njit(inner=True, nogil=True)
def mean(values):
    if len(values) == 0:
        raise ValueError("nothing to average")
    return _total(values) / len(values), np.zeros(len(values))

@njit(cache=True, nogil=True)
def centre(values):
    found, out = mean(values)
    for i in range(len(values)):
        out[i] = values[i] - found
    return out

@njit(cache=True, nogil=True)
def middle(values):
    return mean(values)[0]
"""


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(functions, "DISPATCHERS", [])
    (tmp_path / "kernels.py").write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("cmpe.inner.kernels", tmp_path / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    with notices.telling(lambda notice: None):
        yield load


def test_inner_functions_are_compiled_once_and_only_their_callers_are_kept(fresh, tmp_path):
    module, values = fresh(), np.array([1.0, 2.0, 6.0])
    assert module.centre(values).tolist() == [-2.0, -1.0, 3.0]
    assert module.middle(values) == 3.0
    assert len(module.mean.overloads) == len(module._total.overloads) == 1
    kept = sorted(f.name.split("-")[0] for f in tmp_path.rglob("*.nbi"))
    assert kept == ["kernels.centre", "kernels.middle"]
    assert [d.py_func.__name__ for d in functions.DISPATCHERS] == ["centre", "middle"]


def test_a_process_that_starts_loads_the_caller_alone(fresh):
    values = np.array([1.0, 2.0, 6.0])
    fresh().centre(values)
    again = fresh()
    assert again.centre(values).tolist() == [-2.0, -1.0, 3.0]
    assert not again.mean.overloads
    with pytest.raises(ValueError, match="nothing to average"):
        again.centre(np.zeros(0))


def test_python_is_refused_before_and_after(fresh):
    module = fresh()
    for _ in range(2):
        with pytest.raises(TypeError, match="mean is an inner function"):
            module.mean(np.ones(1))
        module.centre(np.ones(1))
