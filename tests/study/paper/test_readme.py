"""The tables of README.md, docs/headline.md and docs/paper.md are the kept results."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest

from study.paper.publish import publish
from study.paper.readme import KEPT, put, tables

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in ("README.md", "docs/headline.md", "docs/paper.md")
}
PLACES = {
    "landing": "README.md",
    **dict.fromkeys(("others", "wide others"), "docs/headline.md"),
    "binding": "docs/paper.md",
}


@pytest.fixture(scope="module")
def found():
    return tables(KEPT)


def read_cells(folder):
    lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    return [c for c in map(json.loads, lines) if c["group"] != "wide"]


@pytest.fixture(scope="module")
def kept():
    return read_cells(KEPT)


def over_seeds(cells, method, value):
    """Means by data set and q."""
    found = defaultdict(list)
    for cell in cells:
        if cell["method"] == method:
            found[cell["dataset"], cell["q"]].append(value(cell))
    return {place: fmean(values) for place, values in found.items()}


def regret(cell):
    return cell["every"]["regret"]


def violation(cell):
    return cell["every"]["violation"]


def seconds(cell):
    return cell["every"]["seconds"]


@pytest.mark.parametrize("name", PLACES)
def test_the_table_is_made_from_the_cells(found, name):
    page = PAGES[PLACES[name]]
    block = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert block is not None
    assert block[1] == found[name]
    assert put(page, found) == page


def test_tables_have_at_most_seven_columns_and_the_landing_page_five(found):
    widths = {name: table.splitlines()[0].count("|") - 1 for name, table in found.items()}
    assert max(widths.values()) <= 7
    assert widths["landing"] == 5


def test_what_the_texts_claim(kept):
    missing = [c for c in kept if c["status"] != "measured"]
    assert {c["method"] for c in missing} == {"mae_pen"}
    assert len(missing) == 26 * 5
    exact = [c for c in kept if c["method"] == "exact"]
    assert len(exact) == 50
    assert sum(c["every"]["rows"] for c in exact) == 50_000
    assert all((regret(c), c["every"]["optimal"]) == (0.0, 1.0) for c in exact)
    assert max(over_seeds(kept, "exact", seconds).values()) < 3.5e-3
    free, trained = (over_seeds(kept, m, regret) for m in ("lagrangian", "ss_cmpe"))
    assert max(over_seeds(kept, "lagrangian", violation).values()) == 0.0
    assert max(free.values()) < 0.32
    assert len(trained) == 50
    assert all(free[place] <= found for place, found in trained.items())


def test_kept_results_are_small_and_tell_nothing_of_a_machine():
    files = [path for path in KEPT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2**20
    for path in files:
        if path.suffix in (".json", ".jsonl"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"/(work|home|tmp|root|Users)/", text), path.name


def test_published_results_are_what_the_report_reads_of_the_methods_named(tmp_path):
    made = tmp_path / "results"
    made.mkdir()
    cell = {"dataset": "a", "q": 80, "seed": 0, "settings": {"beta": 1.0}, "budget": None}
    cell |= {"every": {"regret": 1.23456789, "gap": None}, "reason": None}
    lines = [json.dumps({**cell, "method": method}) for method in ("exact", "mse")]
    (made / "cells.jsonl").write_text("\n".join(lines))
    (made / "provenance.json").write_text("{}")
    publish(made, tmp_path / "kept", ["exact"])
    [kept] = (tmp_path / "kept" / "cells.jsonl").read_text().splitlines()
    assert json.loads(kept) == {
        "dataset": "a", "q": 80, "seed": 0, "method": "exact", "every": {"regret": 1.2346},
    }  # fmt: skip
