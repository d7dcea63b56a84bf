"""What is attacked: its problem is kept once; moved copies of images."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.formats.directory import read_directory
from cmpe.formats.labels import problem_digest
from cmpe.models.relu import ReluNetwork
from study.adversarial.attacked_sets import Part, shifted


@pytest.mark.parametrize(("side", "most"), [(8, 1), (28, 2), (3, 1)])
def test_copies_are_moved_by_a_pixel_or_two(side, most):
    rng = np.random.default_rng(0)
    images = rng.random((200, side * side))
    moved = shifted(images, seed=1).reshape(-1, side, side)
    steps = range(-most, most + 1)
    seen = set()
    for image, copy in zip(images.reshape(-1, side, side), moved, strict=True):
        padded = np.pad(image, most)
        ways = [
            (i, j)
            for i in steps
            for j in steps
            if (padded[most + i : most + i + side, most + j : most + j + side] == copy).all()
        ]
        assert ways
        seen.update(ways)
    assert len(seen) == len(steps) ** 2
    np.testing.assert_array_equal(shifted(images, seed=1).reshape(moved.shape), moved)


def test_rows_that_are_no_squares_have_no_copies():
    assert shifted(np.zeros((4, 6)), seed=0).shape == (0, 6)


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
