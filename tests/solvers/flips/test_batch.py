"""What every attack shares: checked images, blocks in any number of threads, judged answers."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.errors import EvidenceError
from cmpe.solvers.flips.attack import attack
from cmpe.solvers.flips.batch import ImageBatch, checked_images, judged
from cmpe.solvers.flips.settings import FLIPS
from tests.networks import random_image, random_network

NETWORK = random_network(2, (5, 6, 3))
IMAGES = np.array([random_image(i, 5) for i in range(7)])


def test_blocks_cover_every_image_once():
    images = np.tile(IMAGES, (FLIPS.rows, 1))[: 2 * FLIPS.rows + 3]
    for threads in (1, 2):
        seen = []
        batch = ImageBatch.of(NETWORK, images, None, threads)
        answer = batch.run(lambda block, part, seen=seen: seen.append(len(block.rows)), 1e-3)
        assert sorted(seen) == [3, FLIPS.rows, FLIPS.rows]
        np.testing.assert_array_equal(answer.images, images)
        np.testing.assert_array_equal(answer.classes, NETWORK.decide(images))


def test_answers_from_elsewhere_are_judged_by_the_network():
    best = attack(NETWORK, IMAGES)
    answers = np.where(best.found[:, None], best.images, IMAGES)
    answers[0] = IMAGES[0]
    batch = ImageBatch.of(NETWORK, IMAGES, best.classes, 1)
    found = judged(batch, answers, 1e-3)
    np.testing.assert_array_equal(found.images, answers)
    np.testing.assert_allclose(found.distance, np.abs(answers - IMAGES).sum(axis=1))
    np.testing.assert_array_equal(found.margin, NETWORK.margins(answers, best.classes))
    assert not found.found[0]
    np.testing.assert_array_equal(found.found[1:], best.found[1:])


def test_one_image_is_a_batch_of_one():
    assert checked_images(NETWORK, IMAGES[0]).shape == (1, 5)
    with pytest.raises(EvidenceError, match="one start per image is required: 2, found 7"):
        checked_images(NETWORK, IMAGES, 2)
