"""Blocks of images: walks, shrinking and the memory that they share."""

from __future__ import annotations

import numpy as np

from cmpe.solvers.flips.layers import Layers
from cmpe.solvers.flips.rounds import Block, Room, joined
from cmpe.solvers.flips.settings import FLIPS
from tests.networks import random_image, random_network

MARGIN = 1e-3


def a_block(seed: int = 0, count: int = 12) -> Block:
    network = random_network(seed, (6, 7, 3))
    images = np.array([random_image(i, 6) for i in range(count)])
    return Block(Room(Layers.of(network)), images, None, np.empty_like(images), MARGIN)


def test_a_block_starts_at_its_images():
    block = a_block()
    np.testing.assert_array_equal(block.changed, block.images)
    assert np.isinf(block.lengths).all()
    assert not block.left.any()


def test_answers_of_a_walk_flip_and_later_rounds_never_lengthen():
    block = a_block()
    ways = block.start(block.rows, 2, 3.0)
    first = block.lengths.copy()
    found = np.isfinite(first)
    assert found.any()
    assert block.flipped(block.after[found], block.rows[found]).all()
    np.testing.assert_allclose(
        first, np.where(found, np.abs(block.changed - block.images).sum(1), np.inf)
    )
    block.again(ways, 0.5)
    assert (block.lengths <= first).all()


def test_joined_ways_are_all_of_them():
    block = a_block()
    one, two = block.start(block.rows, 1, 3.0), block.start(block.rows, 2, 1.0)
    both = joined([one, two])
    assert len(both.rows) == len(one.rows) + len(two.rows) == 3 * len(block.rows)
    some = both.chosen(both.rows == 4)
    assert set(some.rows) == {4}


def test_shrinking_keeps_the_flip():
    block = a_block()
    block.walk(block.rows, block.layers.rivals(block.sums, block.own),
               block.layers.guess(block.sums, 3.0), FLIPS.first_hopeful)  # fmt: skip
    rows = np.flatnonzero(np.isfinite(block.lengths))
    assert len(rows)
    further = np.clip(block.images + 1.5 * (block.changed - block.images), 0.0, 1.0)
    block.adopt(further[rows], rows)
    rows = rows[np.isfinite(block.lengths[rows])]
    before = block.lengths[rows].copy()
    block.shrink(rows)
    assert (block.lengths[rows] <= before + 1e-12).all()
    assert block.flipped(block.after[rows], rows).all()


def test_answers_that_miss_count_as_none():
    block = a_block()
    block.adopt(block.images, block.rows)
    assert np.isinf(block.lengths).all()


def test_room_grows_and_is_used_again():
    room = Room(a_block().layers)
    small = room.of(2)
    assert np.shares_memory(small, room.of(1))
    assert room.of(5).shape == (5, 6)
    assert np.shares_memory(room.of(5), room.of(3))
