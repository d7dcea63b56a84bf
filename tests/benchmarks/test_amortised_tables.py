"""The tables of docs/learning.md are the kept results; what a start reaches by its curve."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import amortised_tables as tables

PAGE = Path(__file__).parents[2] / "docs" / "learning.md"


@pytest.mark.parametrize(
    "name",
    ["compared", "repaired", "answered", "searched", "proved", "paid", "on_device", "transferred"],
)
def test_the_page_shows_what_was_kept(name):
    shown = "\n".join(getattr(tables, name)(tables.kept()))
    assert shown.count("\n") > 2
    assert shown in PAGE.read_text(encoding="utf-8")


def test_a_regret_is_reached_between_two_budgets():
    curve = [(1.0, 8.0), (4.0, 2.0)]
    assert tables.reached(curve, 9.0) == 1.0
    assert math.isclose(tables.reached(curve, 4.0), 2.0)
    assert math.isclose(tables.reached(curve, 2.0), 4.0)
    assert tables.reached(curve, 1.0) == math.inf
