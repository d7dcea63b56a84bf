"""What several commands share: models as tables, problems of files, progress, devices."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe import CutsetNetwork, LogLinearModel, write_model
from cmpe.cli import options
from cmpe.cli.options import check_device, progress_bar, read_problem, read_tables
from cmpe.errors import InputError
from tests.models.tractable.test_branching import deep_network


def test_small_networks_become_tables(tmp_path, monkeypatch):
    network = deep_network()
    write_model(network, tmp_path / "n.json")
    assert type(read_tables(tmp_path / "n.json")) is LogLinearModel
    monkeypatch.setattr(options, "SMALL_EXPANSION", 0)
    assert type(read_tables(tmp_path / "n.json")) is CutsetNetwork
    assert type(read_tables(tmp_path / "n")) is CutsetNetwork


def test_a_problem_of_files(tmp_path):
    model = LogLinearModel.from_tables((2, 2), [((0, 1), np.eye(2))])
    write_model(model, tmp_path / "h.uai")
    problem, content = read_problem(None, tmp_path / "h.uai", [tmp_path / "h.uai"], [0.5])
    assert content is None
    assert problem.name == "h"
    assert problem.limits.tolist() == [0.5]


def test_a_problem_is_a_directory_or_files():
    with pytest.raises(InputError, match="give either a problem directory or --objective"):
        read_problem(None, None, [], [])


def test_progress_is_for_terminals():
    with progress_bar("working") as progress:
        assert progress is None


def test_unknown_devices():
    check_device("cpu")
    with pytest.raises(InputError, match="--device must be cpu or cuda, found 'tpu'"):
        check_device("tpu")
