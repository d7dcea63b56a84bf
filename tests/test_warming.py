from __future__ import annotations

import pytest

from cmpe import warming


def test_parts_are_compiled_in_processes(monkeypatch):
    told = []
    found = warming.compile_parts(["sampling"], 1, lambda done, total: told.append((done, total)))
    assert told
    assert told[-1] == (min(found.functions, told[-1][1]), len(warming.kernels()))
    assert found.megabytes > 1.0


def test_a_part_that_fails_says_so():
    with pytest.raises(KeyError, match="nonsense"):
        warming.compile_parts(["nonsense"], 1)


RARE = {  # kernels that no part calls, or not all of
    "cmpe.core.dual",
    "cmpe.core.loss",
    "cmpe.core.trees",
}


def test_all_parts_together_compile_the_kernels_of_every_engine():
    for name in warming.PARTS:
        warming.compile_part(name)
    functions = [kernel.py_func for kernel in warming.kernels() if not kernel.overloads]
    assert not [
        f for f in functions if f.__module__.startswith("cmpe.") and f.__module__ not in RARE
    ]
