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


def test_all_parts_together_compile_every_kernel():
    for name in warming.PARTS:
        warming.compile_part(name)
    assert not [
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
        for kernel in warming.kernels()
        if not kernel.overloads and kernel.targetoptions.get("inline") != "always"
    ]
