from __future__ import annotations

import time
from threading import Thread

import pytest

from cmpe.core.compiler import timing


@pytest.fixture
def moments(monkeypatch):
    """A wall clock and a thread's clock that tests set."""
    found = {"perf_counter": 100.0, "thread_time": 10.0}
    for name in found:
        monkeypatch.setattr(time, name, lambda name=name: found[name])
    monkeypatch.setattr(timing, "_held", timing._Held())
    monkeypatch.setattr(timing, "_of_thread", timing._OfThread())
    return found


def test_both_clocks_stand_still_while_something_is_compiled(moments):
    assert (timing.now(), timing.thread_seconds()) == (100.0, 10.0)
    timing.stop()
    moments.update(perf_counter=130.0, thread_time=35.0)
    assert (timing.now(), timing.thread_seconds()) == (100.0, 10.0)
    assert timing.compiled_seconds() == 30.0
    timing.go_on()
    moments.update(perf_counter=131.0, thread_time=35.5)
    assert (timing.now(), timing.thread_seconds()) == (101.0, 10.5)
    assert (timing.wall(), timing.compiled_seconds()) == (131.0, 30.0)


def test_a_function_that_needs_another_is_held_once(moments):
    timing.stop()
    moments["perf_counter"] += 5.0
    timing.stop()
    moments["perf_counter"] += 5.0
    timing.go_on()
    moments["perf_counter"] += 5.0
    assert timing.now() == 100.0
    timing.go_on()
    assert timing.now() == 100.0
    moments["perf_counter"] += 1.0
    assert timing.now() == 101.0


def test_what_another_thread_compiles_is_not_this_threads_work(moments):
    timing.stop()
    moments.update(perf_counter=110.0, thread_time=12.0)
    seen = []

    def look():
        seen.append((timing.now(), timing.thread_seconds()))
        timing.stop()
        timing.go_on()

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(100.0, 12.0)]
    timing.go_on()
    assert (timing.now(), timing.thread_seconds()) == (100.0, 10.0)
