"""The evolution strategy finds the minimum of a narrow, turned bowl, and the same one by a seed."""

from __future__ import annotations

import numpy as np

from cmpe.learning.amortised.evolution import Evolution


def _run(seed: int, generations: int = 200) -> Evolution:
    random = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    found = Evolution.around(np.zeros(5), 0.5)
    for _ in range(generations):
        drawn = found.draw(random)
        found = found.after(drawn, (((drawn - 1.0) @ turn) ** 2 @ 10.0 ** np.arange(5)))
    return found


def test_a_narrow_bowl_that_lies_askew_is_descended():
    found = _run(1)
    np.testing.assert_allclose(found.mean, 1.0, atol=1e-3)
    assert found.generation == 200
    assert found.size < 0.5


def test_the_shape_becomes_that_of_the_bowl():
    """Along its flat side draws lie farther apart."""
    values = np.linalg.eigvalsh(_run(2).shape)
    assert values[-1] > 100.0 * values[0] > 0.0


def test_one_seed_one_result():
    np.testing.assert_array_equal(_run(3, 10).mean, _run(3, 10).mean)
    assert (_run(3, 10).mean != _run(4, 10).mean).any()
