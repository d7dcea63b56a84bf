"""Parts over threads: all of them, in order; none begins after the caller stopped."""

import os
import signal
import threading

import pytest

from cmpe.execution import threads
from cmpe.execution.threads import Ending, interruptible, over_threads

PARTS = [slice(k, k + 1) for k in range(20)]


@pytest.mark.parametrize("threads", [1, 3])
def test_every_part_is_done_and_they_come_in_order(threads):
    done = []

    def work(part):
        done.append(part.start)
        return part

    assert list(over_threads(work, PARTS, threads)) == PARTS
    assert sorted(done) == list(range(20))


def test_parts_that_have_not_begun_are_dropped():
    done, gate = [], threading.Event()

    def work(part):
        if part.start:
            gate.wait(5)
        done.append(part.start)
        return part

    parts = over_threads(work, PARTS, 1)
    assert next(parts) == PARTS[0]
    threading.Timer(0.1, gate.set).start()
    parts.close()
    assert len(done) < len(PARTS)


def test_work_that_ends_or_fails_by_itself():
    done = []
    assert interruptible(lambda: done.append(1), done.clear) is Ending.DONE
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, done.clear)


def test_ctrl_c_cancels_the_work():
    stop = threading.Event()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert interruptible(lambda: stop.wait(30), stop.set) is Ending.CANCELLED


def test_work_that_does_not_hear_is_abandoned(monkeypatch):
    monkeypatch.setattr(threads, "EXECUTION", threads.EXECUTION._replace(thread_grace=0.1))
    stop = threading.Event()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert interruptible(lambda: stop.wait(30), lambda: None) is Ending.ABANDONED
    stop.set()


def test_other_threads_do_the_work_themselves():
    where = []
    other = threading.Thread(
        target=interruptible,
        args=(lambda: where.append(threading.current_thread()), where.clear),
    )
    other.start()
    other.join()
    assert where == [other]
