"""Parts over threads: all of them, in order; none begins after the caller stopped."""

import threading

import pytest

from cmpe.execution.threads import over_threads

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
