"""Tables end to end: where entries lie, what they add up to, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.errors import ModelError
from cmpe.models.flat import FlatTables, stacked, strides_of
from tests.problems import all_assignments

CARDS = (2, 3, 2)
TABLES = [
    ((), np.array(5.0)),
    ((2, 0), np.arange(4.0).reshape(2, 2)),
    ((1,), np.array([0.0, -np.inf, 1.0])),
]


def test_an_entry_lies_where_the_strides_say():
    flat = FlatTables.of(CARDS, TABLES)
    assert flat.count == 3
    assert strides_of((2, 0), CARDS) == {2: 2, 0: 1}
    for number, (scope, table) in enumerate(TABLES):
        own = slice(flat.starts[number], flat.starts[number + 1])
        assert tuple(flat.variables[own]) == scope
        for entry in np.ndindex(table.shape):
            at = flat.offsets[number] + flat.strides[own] @ np.array(entry, dtype=int)
            assert flat.values[at] == table[entry]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.float64])
def test_the_sum_of_all_tables(kind):
    rows = all_assignments(CARDS)
    expected = [sum(t[tuple(z[v] for v in s)] for s, t in TABLES) for z in rows]
    np.testing.assert_array_equal(
        FlatTables.of(CARDS, TABLES).evaluate(rows.astype(kind)), expected
    )


def test_functions_one_after_another():
    parts = [FlatTables.of(CARDS, TABLES), FlatTables.of(CARDS, []), FlatTables.of(CARDS, TABLES)]
    whole, begins = stacked(parts)
    assert begins.tolist() == [0, len(TABLES), len(TABLES), 2 * len(TABLES)]
    rows = all_assignments(CARDS)
    np.testing.assert_allclose(whole.evaluate(rows), 2 * parts[0].evaluate(rows))


def test_no_tables_are_zero():
    flat = FlatTables.of(CARDS, [])
    assert flat.count == 0
    assert flat.evaluate(np.zeros((2, 3), dtype=int)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 3, 0], "row 1, variable 1: a value must be from 0 to 2, found 3"),
        ([0, -1, 0], "row 1, variable 1: a value must be from 0 to 2, found -1"),
        ([0, 0.5, 0], "whole numbers, found fractions"),
    ],
)
def test_rows_that_do_not_fit(row, message):
    with pytest.raises(ModelError, match=message):
        FlatTables.of(CARDS, TABLES).evaluate(np.array([[0, 0, 0], row]))
