"""What is attacked: its problem is kept once."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.formats.directory import read_directory
from cmpe.formats.labels import problem_digest
from cmpe.models.relu import ReluNetwork
from study.adversarial.attacked_sets import Part


def test_a_problem_is_kept_once_and_whole(tmp_path, monkeypatch):
    network = ReluNetwork((np.eye(3),), (np.zeros(3),))
    images = np.random.default_rng(0).random((5, 3))
    part = Part("all", network, images, images[:2], np.arange(2))

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cmpe.formats.directory.write_array", interrupted)
        with pytest.raises(KeyboardInterrupt):
            part.keep(tmp_path / "problem")
    assert not (tmp_path / "problem").exists()
    part.keep(tmp_path / "problem")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "problem").iterdir()}
    part.keep(tmp_path / "problem")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "problem").iterdir()} == before
    back = read_directory(tmp_path / "problem")
    assert problem_digest(back.problem) == problem_digest(part.problem)
    assert back.test.tobytes() == images[:2].tobytes()
    assert len(back.train) == 0
