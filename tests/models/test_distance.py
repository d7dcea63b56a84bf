"""The separable distance."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.errors import ModelError
from cmpe.models.distance import Distance


def test_distance():
    h = Distance((2, 2, 2, 2), ((0, 2), (1, 3)), (1.0, 2.0))
    np.testing.assert_allclose(h.value([[0.1, 0.2, 0.4, 1.0]]), [-(0.3 + 1.6)])
    assert (h.ceiling(), h.is_finite) == (0.0, True)
    with pytest.raises(ModelError, match="two values"):
        Distance((3, 2), ((0, 1),))
    with pytest.raises(ModelError, match="from 0 to 1"):
        Distance((2, 2), ((0, 2),))
    with pytest.raises(ModelError, match="finite weight"):
        Distance((2, 2), ((0, 1),), (-1.0,))
    with pytest.raises(ModelError, match="cannot be paired"):
        Distance.between((0,), (1, 2), 3)


def test_pairs_in_turn():
    h = Distance.between((0, 1), (2, 3), 5)
    assert h.variables == 5
    assert h.weights == (1.0, 1.0)
    assert [part.tolist() for part in h.columns] == [[0, 1], [2, 3]]
    np.testing.assert_allclose(h.value([[0, 1, 1, 1, 0], [0, 0, 0, 0, 1]]), [-1.0, 0.0])


def test_no_pairs_are_no_distance():
    assert Distance((2, 3), ()).value([[1, 2]]).tolist() == [0.0]
