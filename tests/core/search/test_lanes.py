"""Vector operations of `search` against the same operations of numpy, in random order."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES
from cmpe.core.search import lanes

ROWS = 12


class Arrays:
    """Arrays of every kind that the operations take."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self.values, self.tables, self.current = (
            random.normal(size=(ROWS, LANES)).astype(np.float32) for _ in range(3)
        )
        self.totals = random.normal(size=(ROWS, LANES))
        self.chosen = random.integers(0, 3, (ROWS, LANES)).astype(np.uint8)
        self.z = random.integers(0, 3, (ROWS, LANES)).astype(np.int32)
        self.index = random.integers(0, 4, LANES).astype(np.int32)
        self.moved = np.zeros(ROWS, dtype=np.uint8)
        self.offsets, self.steps = np.array([0, 3, 5]), np.array([1, 2, 3])

    def all(self):
        return [value for _, value in sorted(vars(self).items())]


best, challenge = lanes.best[2], lanes.challenge[2]


@njit(cache=False)
def play(a_values, a_chosen, a_tables, a_current, a_totals, a_z, a_index, a_moved, offsets, steps):
    best(a_values, a_chosen, 9, 4, offsets, steps)
    challenge(a_values, a_chosen, 9, 4, offsets, steps, 2)
    lanes.add_scaled(a_values, 10, a_tables, 2, a_current, 3)
    lanes.add_row(a_values, 11, 9)
    lanes.add_gathered(a_values, 8, a_tables, 5, a_index, a_current, 1)
    lanes.move_index(a_index, 2, a_z, 6)
    lanes.look_up(a_z, 7, a_chosen, 2, a_index, a_moved)
    lanes.replace(a_totals, 3, a_current, 2, a_tables, 1, a_index)
    lanes.set_index(a_index, 5)


def expected(a):
    lane = np.arange(LANES)
    sums = [sum(a.values[a.offsets[i] + v * a.steps[i]] for i in range(3)) for v in range(3)]
    a.values[9], a.chosen[4] = np.max(sums, axis=0), np.argmax(sums, axis=0)
    a.values[10] += a.tables[2] * a.current[3]
    a.values[11] += a.values[9]
    a.values[8] += a.tables[5 + a.index, lane] * a.current[1]
    a.index += 2 * a.z[6]
    new = a.chosen[2 + a.index, lane]
    a.moved[7], a.z[7] = (new != a.z[7]).any(), new
    new = a.tables[1 + a.index, lane]
    a.totals[3] += new.astype(float) - a.current[2]
    a.current[2], a.index[:] = new, 5


@pytest.mark.parametrize("seed", range(5))
def test_operations_are_those_of_numpy(seed):
    one, two = Arrays(seed), Arrays(seed)
    play(
        one.values, one.chosen, one.tables, one.current, one.totals, one.z, one.index, one.moved,
        one.offsets, one.steps,
    )  # fmt: skip
    expected(two)
    for found, wanted in zip(one.all(), two.all(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
