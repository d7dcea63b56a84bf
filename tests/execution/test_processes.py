import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from cmpe.execution import processes
from cmpe.execution.processes import (
    ALIGNED,
    Parcels,
    few_threads,
    pool,
    remove_abandoned,
    stop,
    unpacked,
    without_interrupt,
)
from tests.execution.work import ignores_interrupts, is_running


def test_workers_ignore_ctrl_c():
    workers = pool(1)
    assert workers.submit(ignores_interrupts, 0).result()
    stop(workers, unfinished=False)


def test_stopping_ends_the_workers():
    workers = pool(1)
    process = workers.submit(os.getpid).result()
    assert is_running(process)
    stop(workers, unfinished=True)
    assert not is_running(process)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no signal masks here")
def test_ctrl_c_arrives_after_the_block():
    reached = []
    with pytest.raises(KeyboardInterrupt), without_interrupt():  # noqa: PT012 - as the block ends
        signal.raise_signal(signal.SIGINT)
        reached.append(True)
    assert reached
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_without_signal_masks_nothing_is_held_back(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask", raising=False)
    with pytest.raises(KeyboardInterrupt), without_interrupt():
        signal.raise_signal(signal.SIGINT)


def test_arrays_of_a_parcel_are_its_file():
    parcels = Parcels()
    wanted = {"a": np.arange(5.0), "b": np.zeros((0, 3)), "c": np.arange(7, dtype=np.int8)}
    path = parcels.put(wanted)
    found, other = unpacked(path), unpacked(path)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
        assert not found[name].flags.owndata
        assert found[name].size == 0 or found[name].ctypes.data % ALIGNED == 0
    found["a"][0] = 9.0  # a page of its own from now on
    assert other["a"][0] == unpacked(path)["a"][0] == 0.0
    parcels.close()


def test_what_was_told_of_threads_is_kept(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with few_threads(2):
        assert (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]) == ("7", "2")
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_parcels_are_read_and_removed():
    parcels = Parcels()
    paths = [parcels.put({"number": k}) for k in range(2)]
    assert [unpacked(path)["number"] for path in paths] == [0, 1]
    parcels.close()
    assert not paths[0].parent.exists()


KILLED = """
import multiprocessing, threading, time
from cmpe.execution.blocks import map_rows
from tests.execution.work import sleeps

def tell():
    while len(workers := multiprocessing.active_children()) < 2:
        time.sleep(0.01)
    time.sleep(1.0)
    print(*(w.pid for w in workers), flush=True)

if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    list(map_rows(sleeps, 4, workers=2))
"""


@pytest.mark.skipif(not os.path.exists("/proc"), reason="the process is looked up in /proc")
def test_workers_end_with_a_parent_that_is_killed(tmp_path, monkeypatch):
    """They leave its stdout alone, and whoever sends parcels next removes its folder."""
    script, temporary = tmp_path / "script.py", tmp_path / "temporary"
    script.write_text(KILLED)
    temporary.mkdir()
    root = str(Path(__file__).parents[2])  # where `tests` is
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    told = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, str(script)], env=told, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(is_running, workers))
        left = list(temporary.glob("cmpe-*"))
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        remove_abandoned()
        assert len(left) == 1
        assert left[0].exists()
        parent.kill()
        assert parent.stdout.read() == b""  # at once: nobody else holds it
    end = time.monotonic() + 60
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
    Parcels().close()
    assert not list(temporary.glob("cmpe-*"))


def test_folders_of_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "cmpe-results").mkdir()
    (tmp_path / "cmpe-results" / "answers.json").write_text("mine")
    parcels = Parcels()
    other = Parcels()
    path = parcels.put(1)
    other.close()
    assert unpacked(path) == 1
    parcels.close()
    assert [folder.name for folder in tmp_path.iterdir()] == ["cmpe-results"]


def test_a_folder_that_another_process_took_is_made_again(tmp_path, monkeypatch):
    """It was locked, or removed, between being made and being locked."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    happens = iter([BlockingIOError(), "removed", OSError(37, "No locks available")])

    def contested(descriptor):
        event = next(happens)
        if isinstance(event, OSError):
            raise event
        for folder in tmp_path.iterdir():
            shutil.rmtree(folder)

    monkeypatch.setattr(processes, "lock", contested)
    monkeypatch.setattr(processes, "remove_abandoned", lambda: None)
    parcels = Parcels()
    assert unpacked(parcels.put(1)) == 1
    parcels.close()
    assert next(happens, None) is None
    assert not list(tmp_path.iterdir())
