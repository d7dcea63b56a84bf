"""The stages after the pass: what they may be, and how answers name them."""

from __future__ import annotations

import pytest

from cmpe.errors import MethodError
from cmpe.learning.pipeline import Pipeline
from tests.learning.cases import GRID


def test_the_method_names_the_stages(grid_solver):
    names = {
        "network + repair + optimal bound": {},
        "network + repair": {"certificate": "none"},
        "network": {"repair": False, "certificate": "none"},
        "network x 3 + predicted bound": {
            "margins": (0, 1, 2), "repair": False, "certificate": "predicted"
        },
    }  # fmt: skip
    for name, stages in names.items():
        solver = grid_solver.with_stages(**stages)
        assert solver.method == name
        assert set(solver.solve(GRID.problem, GRID.test).method) == {name}


def test_stages_are_checked():
    with pytest.raises(MethodError, match="a certificate is one of none, predicted, optimal"):
        Pipeline(certificate="perfect")
    with pytest.raises(MethodError, match="margins must be None or at least one number"):
        Pipeline(margins=())


def test_margins_become_numbers():
    assert Pipeline(margins=[0, 2]).margins == (0.0, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["search_passes", "sweeps"])
def test_counts_are_not_negative(name):
    with pytest.raises(MethodError, match="search_passes and sweeps must be at least 0"):
        Pipeline(**{name: -1})
