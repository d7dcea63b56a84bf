from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy, count_up, maximum, replace_highest, sort


@njit(cache=False)
def call(source, target):
    copy(source, target)
    found = count_up(len(source))
    sort(source)
    return maximum(target), found


def test_numbers_are_copied_and_the_rest_stays():
    source, target = np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0])
    assert call(source, target[:2])[0] == 2.0
    assert target.tolist() == [1.0, 2.0, 9.0]


def test_numbers_are_sorted_and_counted():
    rng = np.random.default_rng(0)
    for count in (1, 2, 5, 40, 300):
        values = rng.integers(0, 50, count).astype(float)
        expected = np.sort(values)
        _, found = call(values, np.zeros(1))
        assert np.array_equal(values, expected)
        assert np.array_equal(found, np.arange(count))


@njit(cache=False)
def replaced(heap, values):
    for value in values:
        if value < heap[0]:
            replace_highest(heap, len(heap), value)


def test_heaps_hold_the_lowest_numbers():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 8):
        values = rng.integers(0, 50, 40).astype(float)
        heap = np.sort(values[:size])[::-1].copy()
        replaced(heap, values[size:])
        assert np.array_equal(np.sort(heap), np.sort(values)[:size])
        assert heap[0] == heap.max()
