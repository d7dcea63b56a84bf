"""The stages after the pass: what they may be, and how answers name them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cmpe.errors import MethodError
from cmpe.learning.pipeline import Pipeline, parse_stages
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
    with pytest.raises(MethodError, match=r"margins must be finite, found \(nan,\)"):
        Pipeline(margins=(float("nan"),))


def test_margins_become_numbers():
    assert Pipeline(margins=[0, 2]).margins == (0.0, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["search_passes", "sweeps"])
def test_counts_are_not_negative(name):
    with pytest.raises(MethodError, match="search_passes and sweeps must be at least 0"):
        Pipeline(**{name: -1})


def test_stages_as_text():
    assert parse_stages("repair=no") == {"repair": False}
    assert parse_stages(" sweeps=2 , certificate=none") == {"sweeps": 2, "certificate": "none"}
    assert parse_stages("margins=0:1.2,search_passes=3") == {
        "margins": (0.0, 1.2), "search_passes": 3
    }  # fmt: skip


def test_every_stage_has_a_text():
    texts = {"margins": "1", "certificate": "none", "repair": "no"}
    for stage in fields(Pipeline):
        assert set(parse_stages(f"{stage.name}={texts.get(stage.name, '1')}")) == {stage.name}


NAMES = "NAME once of margins, repair, certificate, search_passes, sweeps; found"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"{NAMES} ''"),
        ("magic=1", f"{NAMES} 'magic=1'"),
        ("repair", f"{NAMES} 'repair'"),
        ("sweeps=1,sweeps=2", f"{NAMES} 'sweeps=2'"),
        ("repair=maybe", "stage repair is yes or no; found 'maybe'"),
        ("sweeps=1.5", "stage sweeps is a whole number; found '1.5'"),
        ("margins=a:b", "stage margins is as in 0:1.2; found 'a:b'"),
        ("margins=inf", "margins must be finite"),
        ("sweeps=-1", "must be at least 0"),
        ("certificate=perfect", "a certificate is one of"),
    ],
)
def test_stages_that_are_none(text, message):
    with pytest.raises(MethodError) as caught:
        parse_stages(text)
    assert message in str(caught.value)
