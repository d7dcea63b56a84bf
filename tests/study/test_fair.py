"""The fair study: disjoint rows, choices by validation rows, tables from kept figures."""

import numpy as np

from study.fair import page
from study.fair.arms import ARMS, choose
from study.fair.cells import CELLS, LONG_CELLS, MARGINS, distinct_rows


def test_rows_of_a_cell_do_not_overlap():
    rows = np.random.default_rng(0).integers(0, 2, (500, 6)).astype(np.int32)
    parts = distinct_rows(rows, CELLS[0])
    seen = [row.tobytes() for part in parts for row in part]
    assert len(seen) == len(set(seen)) == len(np.unique(rows, axis=0))


def test_the_choice_is_the_least_regret_among_safe_members():
    members = [(0.0, 0.1), (0.0, 1.0), (2.0, 0.1)]
    regret = np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0], [3.0, 5.0, 7.0]])
    violation = np.array([[0.5, 0.01, 0.2], [0.5, 0.0, 0.1], [0.5, 0.0, 0.05]])
    cold, warm = choose(members, regret, violation)
    assert (cold.value, cold.margin) == (1.0, 0.0)
    assert (warm.value, warm.margin) == (0.1, MARGINS[2])


def test_every_arm_has_as_many_settings():
    assert {len(arm.values) for arm in ARMS} == {4}


def test_the_tables_of_the_page_are_those_of_the_kept_cells():
    records = page.kept()
    known = {cell.name for cell in (*CELLS, *LONG_CELLS)}
    assert {record["cell"] for record in records} <= known
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, records) == text
