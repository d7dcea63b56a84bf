"""What README.md and docs/paper.md say of learning is what the kept cells say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from study.paper.readme import KEPT, put, read_kept, tables

ROOT = Path(__file__).resolve().parents[3]
PAPER, README = (
    (ROOT / page).read_text(encoding="utf-8") for page in ("docs/paper.md", "README.md")
)
GRIDS = ("Grids_17", "Grids_18")


@pytest.fixture(scope="module")
def cells():
    return read_kept()


def test_the_table_is_made_from_the_cells(cells):
    found = tables(cells)
    assert (
        re.search(r"<!-- learned -->\n(.*?)\n<!-- end -->", PAPER, re.DOTALL)[1] == found["learned"]
    )
    assert put(PAPER, found) == PAPER


def test_every_learned_figure_has_a_constant_beside_it(cells):
    assert len(cells) == 50
    head, _, *rows = tables(cells)["learned"].splitlines()
    assert head.count("|") - 1 == 7
    assert head.index("constant") < head.index("ss_cmpe")
    assert len(rows) == 20
    assert "–" not in "".join(rows)
    for page in (PAPER, README):
        assert "contrast" in page
        assert re.search(r"temperature|entropy\s+bonus", page)


def test_what_the_pages_say_of_the_printed_figures(cells):
    met = {m: sum(c[m]["meets_printed"] for c in cells) for m in ("constant", "ss_cmpe")}
    assert {c["dataset"] for c in cells if not c["constant"]["meets_printed"]} == set(GRIDS)
    assert met == {"constant": 40, "ss_cmpe": 50}
    assert re.search(r"in\s+40\s+of\s+its\s+50\s+cells", README)
    assert re.search(r"all\s+50\s+cells", PAPER)
    assert re.search(r"does\s+so\s+in\s+40\s+of\s+them", PAPER)


def test_what_the_pages_say_of_methods_without_a_network(cells):
    assert all(cell["exact"]["proved"] == 1.0 for cell in cells)
    assert all(cell["lagrangian"]["violation"] == 0.0 for cell in cells)
    assert all(cell["lagrangian"]["regret"] <= cell["ss_cmpe"]["regret"] for cell in cells)


def test_what_does_not_follow(cells):
    def share(name, *data):
        return [c[name] for c in cells if c["dataset"] in data]

    better = {
        (c["dataset"], c["q"])
        for c in cells
        if c["constant"]["regret"] < c["ss_cmpe"]["regret"] - 1e-3
        and c["constant"]["violation"] <= c["ss_cmpe"]["violation"]
    }
    assert better == {
        *((name, q) for name in ("Segmentation_12", "Segmentation_15") for q in (30, 60)),
        ("Segmentation_15", 10),
    }
    slack = [c["binding"] for c in cells if c["q"] >= 80 and c["dataset"].endswith(("_12", "_15"))]
    assert slack == [0.0] * 4
    assert max(share("binding", "Grids_17")) < 0.12
    assert max(share("binding", "Grids_18")) < 0.012
    assert min(share("overlap", "Segmentation_12", "Segmentation_15", *GRIDS)) > 0.5
    few = [c for c in cells if c["dataset"] in ("Segmentation_12", "Segmentation_15")]
    assert max(c["ss_cmpe"]["answers"] for c in few) <= 3
    assert max(c["optima"] for c in few) == 19


def test_kept_results_tell_nothing_of_a_machine():
    assert not re.search(r"/(work|home|tmp|root|Users)/", KEPT.read_text(encoding="utf-8"))
