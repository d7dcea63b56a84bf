import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from operator import getitem

import pytest

from cmpe.errors import BackendError, MethodError
from cmpe.execution.blocks import map_rows
from cmpe.execution.processes import DIED
from cmpe.execution.threads import map_rows_in_threads
from tests.execution.work import die_at_three, square

# A job larger than a pipe holds, in a script without a guard: its workers die as they start.
LARGE_JOB = """
import multiprocessing.spawn, os, signal, sys, threading
from functools import partial
from operator import getitem
from cmpe.execution.blocks import map_rows
{before}
print(list(map_rows(partial(getitem, bytes(1_000_000)), 4, workers=2)))
"""
# Workers that never read what they are sent, and Ctrl-C half a second later.
DEAF = """
multiprocessing.spawn.set_executable({deaf!r})
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_every_row_comes_back_once(workers):
    assert dict(map_rows(square, 20, workers=workers)) == {r: r * r for r in range(20)}


def test_a_dead_worker_is_said():
    with pytest.raises(BackendError, match="worker process died"):
        list(map_rows(die_at_three, 20, workers=2))


def said_by(path, before=""):
    """What a script says, within seconds; a file, since a process left behind keeps a pipe."""
    path.write_text(LARGE_JOB.format(before=before))
    said = path.with_suffix(".log")
    with said.open("w") as log:
        subprocess.run([sys.executable, path], stderr=log, timeout=30, check=False)
    return said.read_text().splitlines()


def test_workers_that_die_while_they_start_are_said(tmp_path):
    assert f"cmpe.errors.BackendError: {DIED}" in said_by(tmp_path / "unguarded.py")


def test_ctrl_c_ends_a_call_whose_workers_do_not_answer(tmp_path):
    deaf = tmp_path / "deaf"
    deaf.write_text("#!/bin/sh\nexec sleep 9\n")
    deaf.chmod(0o755)
    assert "KeyboardInterrupt" in said_by(tmp_path / "script.py", DEAF.format(deaf=str(deaf)))


def test_a_large_job_travels():
    rows = dict(map_rows(partial(getitem, bytes(range(256)) * 1000), 3, workers=2))
    assert rows == {0: 0, 1: 1, 2: 2}


def test_a_job_that_cannot_be_sent_is_refused():
    with pytest.raises(MethodError, match=r"must be picklable: .*lambda"):
        list(map_rows(lambda row: row, 2, workers=2))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_comes_back_once_from_threads(threads):
    stop = threading.Event()
    found = dict(map_rows_in_threads(square, 20, stop, threads=threads))
    assert found == {r: r * r for r in range(20)}


def test_ctrl_c_waits_for_what_the_running_rows_return():
    stop, found = threading.Event(), {}

    def until_stopped(row):
        if row:
            stop.wait(30)
        return row

    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        found.update(map_rows_in_threads(until_stopped, 20, stop, threads=2))
    assert found == {0: 0, 1: 1, 2: 2}


def test_stopping_early_ends_the_workers():
    before = set(multiprocessing.active_children())
    rows = map_rows(square, 1000, workers=2)
    row, result = next(rows)
    assert result == square(row)
    assert set(multiprocessing.active_children()) > before
    rows.close()
    assert set(multiprocessing.active_children()) <= before
