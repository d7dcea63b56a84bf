import os
import sys

import pytest

from cmpe.errors import BackendError, EvidenceError, MethodError, MissingExtra
from cmpe.execution.executors import executor, map_rows


def square(row):
    return row * row


def die(row):
    if row == 3:
        os._exit(1)
    return row


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_comes_back_once(workers):
    assert dict(map_rows(square, 20, workers=workers)) == {r: r * r for r in range(20)}


def test_a_dead_worker_is_said():
    with pytest.raises(BackendError, match="worker process died"):
        list(map_rows(die, 20, workers=2))


def test_stopping_early_ends_the_workers():
    rows = map_rows(square, 1000, workers=2)
    next(rows)
    rows.close()


def refuse(number):
    raise EvidenceError(f"odd: {number}")


def finish(work, count):
    outcomes = [work.next() for _ in range(count)]
    work.close()
    return {outcome.name: outcome for outcome in outcomes}


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_ends_and_an_error_is_an_outcome(workers):
    work = executor(workers=workers)
    assert work.capacity == workers
    for number in range(6):
        work.submit(str(number), square, work.share(number))
    work.submit("refused", refuse, 1)
    work.submit("broken", square, "text")
    found = finish(work, 8)
    assert [found[str(n)].result for n in range(6)] == [n * n for n in range(6)]
    assert found["refused"].error == "odd: 1"
    assert found["broken"].error.startswith("TypeError: ")
    assert "square" in found["broken"].trace


def test_a_dead_process_ends_the_executor():
    work = executor(workers=2)
    work.submit("dead", die, 3)
    with pytest.raises(BackendError, match="worker process died"):
        work.next()
    work.close()


def test_closing_drops_what_has_not_ended():
    work = executor(workers=2)
    for number in range(100):
        work.submit(str(number), square, number)
    work.close()


@pytest.mark.parametrize(
    "told", [{"kind": "cloud"}, {"workers": 0}, {"address": "auto"}], ids=lambda told: str(told)
)
def test_wrong_executors_are_refused(told):
    with pytest.raises(MethodError, match=r"executor|workers"):
        executor(**told)


def test_a_cluster_needs_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"cmpe\[ray\]"):
        executor("ray")
