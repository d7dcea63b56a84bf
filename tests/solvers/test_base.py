"""How to run, limits, deadlines, and starts."""

import pickle
import time

import numpy as np
import pytest

from cmpe import Limits, Running
from cmpe.errors import MethodError
from cmpe.solvers.base import Deadline, Engine, Solver
from cmpe.solvers.exact.complete import Exact


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Running(workers=0), "workers must be at least 1, found 0"),
        (lambda: Running(threads=0), "threads must be at least 1"),
        (lambda: Limits(seconds=0.0), "above 0 seconds, found 0"),
        (lambda: Limits(seconds=float("inf")), "above 0 seconds, found inf"),
        (lambda: Limits(gap=-1.0), "a gap must be at least 0, found -1"),
        (lambda: Limits(gap=float("nan")), "a gap must be at least 0, found nan"),
    ],
)
def test_wrong_numbers_are_said(call, message):
    with pytest.raises(MethodError, match=message):
        call()


def test_a_start_is_copied_and_read_only():
    given = np.array([[0, 1]])
    running = Running(start=given)
    given[0, 0] = 1
    assert running.start.tolist() == [[0, 1]]
    assert running.start.dtype == np.int32
    assert Running(start=[[0.5, 1.0]]).start.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        running.start[0, 0] = 1


def test_cores_and_progress():
    seen = []
    running = Running(workers=2, threads=3, progress=lambda *now: seen.append(now))
    assert running.cores == 6
    running.report(1, 4)
    Running().report(1, 4)  # nobody listens
    assert seen == [(1, 4)]


def test_limits_of_a_row_travel_to_worker_processes():
    limits = Limits(
        seconds=2.0, seed=5, gap=0.5, workers=2, threads=3, start=[[0]], progress=lambda *_: None
    )
    row = pickle.loads(pickle.dumps(limits.of_a_row()))
    assert (row.seconds, row.seed, row.gap, row.threads) == (2.0, 5, 0.5, 3)
    assert row.start is None
    assert limits.share(0.25).seconds == 0.5
    assert Limits().share(0.25).seconds is None
    assert limits.running.workers == 2


def test_limits_hold_how_to_run():
    running = Running(workers=2, memory=8.0, start=[[0, 1]])
    limits = Limits.of(running, seconds=1.0, workers=3)
    assert (limits.seconds, limits.workers, limits.memory) == (1.0, 3, 8.0)
    assert limits.start is running.start  # checked once
    assert Limits.of(None, gap=0.5) == Limits(gap=0.5)
    with pytest.raises(MethodError, match="found int"):
        Limits.of(2)


def test_a_deadline_leaves_less_and_less():
    deadline = Deadline(Limits(seconds=0.02, seed=3))
    assert not deadline.expired()
    assert deadline.left().seed == 3
    time.sleep(0.03)
    assert deadline.expired()
    assert deadline.left().seconds == 1e-3
    endless = Deadline(Limits())
    assert not endless.expired()
    assert endless.left().seconds is None


def test_engines_and_solvers_are_told_apart():
    assert isinstance(Exact(), Engine)
    assert not isinstance(Exact(), Solver)
    assert not isinstance("exact", Engine)
