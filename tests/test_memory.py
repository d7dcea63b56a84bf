"""How much memory is allowed, and that every stage keeps to it."""

import ctypes
import os
import types

import numpy as np
import pytest

import cmpe
from cmpe import memory
from cmpe.bounds.base import Work
from cmpe.bounds.splitting import by_size
from cmpe.errors import MethodError, TooLarge
from cmpe.generation import grid
from cmpe.solvers import exact
from cmpe.solvers.base import Limits, Running
from tests.solvers.wide.test_race import race_of


@pytest.mark.parametrize("wrong", [0, -1, 0.05, float("inf"), float("nan"), "8", True])
def test_nonsense_is_refused_in_one_sentence(wrong):
    for make in (lambda: Running(memory=wrong), lambda: Work(memory=wrong)):
        with pytest.raises(MethodError, match="memory must be"):
            make()


def test_the_default_is_a_share_of_what_is_free(monkeypatch, tmp_path):
    known = tmp_path / "meminfo"
    known.write_text("MemTotal: 8000 kB\nMemAvailable: 4000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", known)
    assert memory.allowed_bytes(None) == 3000 * 1024
    assert Limits(workers=3).bytes == 1000 * 1024
    assert memory.allowed_bytes(2.0) == 2 * 10**9
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "absent")
    assert memory.free_bytes() > 1 << 20


def test_windows_says_what_is_free(monkeypatch, tmp_path):
    """Neither /proc nor os.sysconf is there."""

    def tell(status):
        length, total = status._obj[0] & 0xFFFFFFFF, 8 << 30
        assert length == ctypes.sizeof(status._obj) == 64
        status._obj[1:3] = total, total // 4

    kernel = types.SimpleNamespace(GlobalMemoryStatusEx=tell)
    monkeypatch.setattr(ctypes, "windll", types.SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "absent")
    assert memory.free_bytes() == 2 << 30
    answers = cmpe.solve(cmpe.Problem(grid(3, 3, seed=1)), method="milp")
    assert answers.labels == ["optimal"]


def test_workers_share_it():
    limits = Limits(workers=4, threads=2, memory=8.0)
    assert limits.bytes == 10**9
    assert limits.of_a_row().memory == 2.0
    assert limits.of_a_row().bytes == 10**9


def allowing(monkeypatch, count):
    """Every default allowance is so many bytes."""
    monkeypatch.setattr(memory, "free_bytes", lambda: int(count / memory.SHARE) + 1)


def test_what_does_not_fit_is_not_eliminated(monkeypatch):
    problem = cmpe.Problem(grid(9, 9, seed=1))
    assert not exact.too_wide(problem, Limits())
    allowing(monkeypatch, 20_000)
    assert exact.too_wide(problem, Limits())
    with pytest.raises(TooLarge, match="the limit is 0 MiB"):
        cmpe.solve(problem, method="lagrangian")
    with pytest.raises(TooLarge, match="the limit is 0 MiB"):
        cmpe.bound(problem, method="lagrangian")


@pytest.mark.parametrize("method", ["search", "milp"])
def test_methods_refuse_before_they_take_it(monkeypatch, method):
    allowing(monkeypatch, 1000)
    with pytest.raises(TooLarge, match="the limit is 0 MiB"):
        cmpe.solve(cmpe.Problem(grid(4, 4, seed=1)), method=method)


def test_splits_are_smaller_with_less(monkeypatch):
    problem = cmpe.Problem(grid(10, 10, seed=1))
    wide = by_size(problem.conditioning, Work(1.0))
    allowing(monkeypatch, 12 * len(wide.compiled.places) // 2)
    assert len(by_size(problem.conditioning, Work(1.0)).compiled.places) < len(wide.compiled.places)


def test_a_race_goes_on_with_what_fits(monkeypatch):
    race, known = race_of(cmpe.Problem(grid(60, 60, coupling=3.0, seed=1)), 60.0)
    allowing(monkeypatch, 100_000)  # neither search nor HiGHS nor splits
    steps = race.run()
    with pytest.warns(RuntimeWarning, match="search failed: search needs"):
        next(step for step in steps if "search" in race.left_out)
    assert known.best.assignment is not None
    assert np.isfinite(known.upper)
