"""Moved copies of images."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.adversarial.attacked_sets import shifted


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
