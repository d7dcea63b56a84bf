import gc
import multiprocessing
import os
import time

import numpy as np
import pytest

from cmpe.errors import BackendError
from cmpe.execution.local import InProcess, LocalProcesses
from tests.execution.work import die_at_three, die_once, end_of, refuse, square


@pytest.mark.parametrize("make", [InProcess, lambda: LocalProcesses(2)], ids=["here", "two"])
def test_every_task_ends_and_an_error_is_an_outcome(make):
    work = make()
    for number in range(6):
        work.submit(str(number), square, work.share(number))
    work.submit("refused", refuse, 1)
    work.submit("broken", square, "text")
    found = end_of(work, 8)
    assert [found[str(n)].result for n in range(6)] == [n * n for n in range(6)]
    assert found["refused"].error == "odd: 1"
    assert found["broken"].error.startswith("TypeError: ")


def test_others_go_on_when_a_process_dies(tmp_path):
    work = LocalProcesses(2)
    numbers = work.share(list(range(10)))
    for name in range(6):
        work.submit(str(name), die_once, numbers, name, str(tmp_path / "died"))
    found = end_of(work, 6)
    assert (tmp_path / "died").exists()
    assert {name: outcome.result for name, outcome in found.items()} == {
        str(n): n for n in range(6)
    }


def test_a_process_may_die_before_anybody_asks(tmp_path):
    work = LocalProcesses(1)
    flag = tmp_path / "died"
    numbers = list(range(10))
    work.submit("3", die_once, numbers, 3, str(flag))
    end = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)  # until the pool has noticed
    work.submit("4", die_once, numbers, 4, str(flag))
    assert {name: o.result for name, o in end_of(work, 2).items()} == {"3": 3, "4": 4}


def test_a_shared_file_goes_when_nobody_knows_it():
    work = LocalProcesses(2)
    shared = work.share(np.arange(3))
    path = shared.path
    assert shared.fetch().tolist() == [0, 1, 2]
    del shared
    gc.collect()
    assert not path.exists()
    work.close()


def test_workers_have_the_threads_they_were_promised(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    work = LocalProcesses(2, threads=3)
    work.submit("threads", os.getenv, "OMP_NUM_THREADS")
    assert end_of(work, 1)["threads"].result == "3"
    assert "OMP_NUM_THREADS" not in os.environ


def test_a_process_that_dies_every_time_ends_the_executor():
    work = LocalProcesses(2)
    work.submit("dead", die_at_three, 3)
    with pytest.raises(BackendError, match="worker process died"):
        work.next()
    work.close()


def test_closing_drops_what_has_not_ended():
    before = set(multiprocessing.active_children())
    work = LocalProcesses(2)
    for number in range(100):
        work.submit(str(number), square, number)
    assert work.next().error is None
    work.close()
    assert set(multiprocessing.active_children()) <= before


def test_closing_forgets_what_waits_here():
    done, work = [], InProcess()
    work.submit("never", done.append, 1)
    work.close()
    with pytest.raises(IndexError):
        work.next()
    assert not done
