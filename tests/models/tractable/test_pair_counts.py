"""Counts of pairs of values, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.errors import InputError
from cmpe.models.tractable.pair_counts import (
    Indicators,
    check_data,
    check_weights,
    indicator_starts,
)
from tests.models.tractable.test_chow_liu import random_data
from tests.problems import seeds


@given(seeds)
@settings(max_examples=40)
def test_counts_of_any_kind_agree(seed):
    """Dense or sparse, weighted or repeated: counts are counts."""
    data, cards = random_data(seed)
    rng = np.random.default_rng(seed)
    repeats = rng.integers(1, 4, len(data))
    repeated = Indicators(np.repeat(data, repeats, axis=0), cards).counts()
    for threshold in (0.0, 2.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cmpe.models.tractable.pair_counts.SPARSE_BELOW", threshold)
            weighted = Indicators(data, cards, repeats.astype(float)).counts()
            plain = Indicators(np.repeat(data, repeats, axis=0), cards)
            np.testing.assert_allclose(weighted.joint, repeated.joint)
            np.testing.assert_array_equal(plain.counts().joint, repeated.joint)
            some = plain.counts(np.arange(0, repeats.sum(), 2))
            rest = plain.counts(np.arange(1, repeats.sum(), 2))
            np.testing.assert_array_equal(repeated.without([some]).joint, rest.joint)
            assert weighted.total == repeated.total == repeats.sum()


@given(seeds)
@settings(max_examples=40)
def test_every_entry_is_a_count(seed):
    data, cards = random_data(seed)
    counts, starts = Indicators(data, cards).counts(), indicator_starts(cards)
    for u, size in enumerate(cards):
        for i in range(1, size):
            at = starts[u] + i - 1
            assert counts.joint[at, at] == (data[:, u] == i).sum()
            for v in range(u):
                for j in range(1, cards[v]):
                    both = ((data[:, u] == i) & (data[:, v] == j)).sum()
                    assert counts.joint[at, starts[v] + j - 1] == both
        np.testing.assert_allclose(
            counts.shares(u), np.bincount(data[:, u], minlength=size) / len(data)
        )


def test_smoothing_adds_rows():
    counts = Indicators(np.array([[0, 2], [1, 1]]), (2, 3)).counts()
    even = counts.smoothed(6.0)
    assert even.total == 8.0
    np.testing.assert_allclose(even.shares(0), [0.5, 0.5])
    np.testing.assert_allclose(even.shares(1), [2 / 8, 3 / 8, 3 / 8])
    inherited = counts.smoothed(0.0, even, 4.0)
    assert inherited.total == 6.0
    np.testing.assert_allclose(inherited.joint, counts.joint + even.joint / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_data(np.zeros((0, 2))), "rows and columns"),
        (lambda: check_data([[0.5]]), "whole numbers, found dtype float64"),
        (lambda: check_data([[0, 1]], (2,)), "must have 1 columns, found 2"),
        (
            lambda: check_data([[0, 2]], (2, 2)),
            "row 0, column 1: data must be from 0 to 1",
        ),
        (lambda: check_weights([1.0], 2), "one per row"),
        (lambda: check_weights([0.0, 0.0], 2), "not all 0"),
        (lambda: check_weights([1.0, -1.0], 2), "at least 0"),
    ],
)
def test_what_cannot_be_counted(call, message):
    with pytest.raises(InputError, match=message):
        call()
