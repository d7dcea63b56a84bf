"""Two processes that share every batch end where one process ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cmpe.errors import MethodError
from cmpe.learning.losses.alpha import Examples
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.distributed import Ranks, ranks_from_environment
from tests.learning.cases import small_grid
from tests.learning.two_processes import CONFIGS, fit_here, in_one_row, train_all

ROOT = Path(__file__).resolve().parents[3]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [str(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What rank 0 and rank 1 of two processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    first, second = free_ports(2)
    shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": first,
              "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
              "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}  # fmt: skip
    command = [sys.executable, "-m", "tests.learning.two_processes", str(folder), second]
    started = [
        subprocess.Popen(
            command, cwd=ROOT, env={**shared, "RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)
    found = []
    for rank in range(2):
        with np.load(folder / f"{rank}.npz") as arrays:
            found.append(dict(arrays))
    return folder, found


@pytest.fixture(scope="module")
def alone():
    return train_all(Ranks())


@pytest.mark.parametrize("name", CONFIGS)
def test_two_processes_end_where_one_does(name, both, alone):
    wanted = {key: value for key, value in alone.items() if key.startswith(f"{name}.")}
    assert len(wanted) == 9
    for rank in range(2):
        for key, value in wanted.items():
            np.testing.assert_allclose(
                both[1][rank][key], value, rtol=1e-3, atol=1e-4, err_msg=f"{key}, rank {rank}"
            )


def test_both_processes_have_the_same_weights(both):
    for name in CONFIGS:
        a, b = (found[f"{name}.weights"] for found in both[1])
        np.testing.assert_array_equal(a, b)


def test_the_processes_knew_of_each_other(both):
    assert [found["rank"].tolist() for found in both[1]] == [[0, 2], [1, 2]]


def test_a_batch_that_cannot_be_shared_is_refused(both):
    for found in both[1]:
        assert str(found["refusal"]) == "batch_size must be a multiple of the 2 processes, found 15"


def test_fit_under_torchrun_is_fit(both, tmp_path):
    folder, found = both
    wanted = fit_here(tmp_path / "run")
    for own in found:
        np.testing.assert_allclose(own["fitted"], wanted, atol=1e-4)
    loaded = NeuralSolver.load(folder / "run", small_grid().problem)
    np.testing.assert_array_equal(in_one_row(loaded), found[0]["fitted"])
    assert len((folder / "run" / "log.jsonl").read_text().splitlines()) == 3


def test_shares_cover_a_batch():
    parts = [Ranks(rank, 3).share_of(12) for rank in range(3)]
    assert [list(range(12))[part] for part in parts] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]
    ]  # fmt: skip
    with pytest.raises(MethodError, match="a multiple of the 3 processes, found 13"):
        Ranks(0, 3).share_of(13)


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with ranks_from_environment("cpu") as ranks:
        assert ranks == Ranks()
        assert ranks.leads
        numbers = torch.ones(2)
        ranks.add_up(numbers)
        ranks.wait()
        assert numbers.tolist() == [1.0, 1.0]
        nan = torch.tensor([[torch.nan]])
        examples = Examples(nan, torch.ones(1), torch.ones((1, 1, 1)), torch.zeros(1))
        ranks.merge(examples)
        assert examples.p_upper.isnan().all()
