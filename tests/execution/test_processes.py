import os
import signal

import numpy as np
import pytest

from cmpe.execution.processes import (
    ALIGNED,
    Parcels,
    few_threads,
    pool,
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
