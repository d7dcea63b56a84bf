"""TensorBoard gets every number of an epoch, and is not needed."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from cmpe.learning.training.fitting import Session, fit
from cmpe.learning.training.tensorboard import Board
from tests.learning.cases import quick, small_grid

RECORD = {"epoch": 3, "epochs": 9, "loss": 1.5, "alpha": None, "seconds": 0.25}


class Writer:
    """Stands for SummaryWriter: remembers what it is told."""

    made: list[Writer]

    def __init__(self, folder):
        self.folder, self.scalars, self.closed = folder, [], False
        self.made.append(self)

    def add_scalar(self, *scalar):
        assert not self.closed
        self.scalars.append(scalar)

    def close(self):
        self.closed = True


@pytest.fixture
def made(monkeypatch):
    """The writers that were made while TensorBoard seems to be installed."""
    module = ModuleType("torch.utils.tensorboard")
    monkeypatch.setattr(Writer, "made", [], raising=False)
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return Writer.made


def test_every_number_goes_to_its_epoch(made, tmp_path):
    board = Board(tmp_path)
    board.show(RECORD)
    board.close()
    [writer] = made
    assert writer.folder == str(tmp_path / "tensorboard")
    assert writer.scalars == [("loss", 1.5, 3), ("seconds", 0.25, 3)]
    assert writer.closed


def test_without_a_directory_nothing_is_written(made):
    board = Board(None)
    board.show(RECORD)
    board.close()
    assert made == []


def test_without_tensorboard_nothing_happens(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    board = Board(tmp_path)
    board.show(RECORD)
    board.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_shows_what_its_log_holds(made, tmp_path):
    one = small_grid()
    fit(one.problem, one.train, quick(epochs=2), Session(out=tmp_path))
    [writer] = made
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    wanted = [
        (name, value, record["epoch"])
        for record in logged
        for name, value in record.items()
        if value is not None and name not in ("epoch", "epochs")
    ]
    assert writer.scalars == wanted
    assert {"loss", "validation_regret", "gradient_norm"} <= {name for name, _, _ in wanted}
    assert writer.closed
