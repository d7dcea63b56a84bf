"""The tables of README.md, docs/headline.md and docs/paper.md are the kept results."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from benchmarks.paper.publish import POINTS, thinned
from benchmarks.paper.readme import KEPT, put, tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    page: (ROOT / page).read_text(encoding="utf-8")
    for page in ("README.md", "docs/headline.md", "docs/paper.md")
}
PLACES = {
    "landing": "README.md",
    **dict.fromkeys(("headline", "others", "wide", "wide others"), "docs/headline.md"),
    "losses": "docs/paper.md",
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


def share(cell):
    return cell["implied_regret_ratio"]


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


def test_what_the_texts_claim_of_repair(kept):
    repaired, moved = (
        [c for c in kept if c["method"] == f"tuned+{m}"] for m in ("repair", "moves")
    )
    assert len(repaired) == len(moved) == 10 * 5 * 5
    for cell in repaired + moved:
        assert cell["every"]["violation"] == 0.0
        assert cell["every"]["certified_gap"] >= cell["every"]["regret"] - 1e-6
    assert max(share(c) for c in repaired) < 0.008
    shares = over_seeds(kept, "tuned+moves", share)
    assert max(shares.values()) < 0.0195
    above = {p for p, s in shares.items() if s > 0.01}
    early = [(d, q) for d in ("c20ng", "cwebkb") for q in (10, 30, 60, 80)]
    bbc = [("bbc", q) for q in (10, 30, 60, 80, 90)]
    assert above == {*early, *bbc, ("Segmentation_14", 10)}


def test_what_the_texts_claim_of_other_methods(kept):
    missing = [c for c in kept if c["status"] != "measured"]
    assert {c["method"] for c in missing} == {"mae_pen"}
    assert len(missing) == 26 * 5
    exact = [c for c in kept if c["method"] == "exact"]
    assert len(exact) == 50
    assert all((regret(c), c["every"]["optimal"]) == (0.0, 1.0) for c in exact)
    free, repaired = (over_seeds(kept, m, regret) for m in ("lagrangian", "tuned+repair"))
    order = Counter((free[p] > r + 1e-9) - (free[p] < r - 1e-9) for p, r in repaired.items())
    assert order == {-1: 17, 0: 17, 1: 16}
    assert max(over_seeds(kept, "lagrangian", share).values()) <= 0.01
    times = over_seeds(kept, "exact", seconds)
    assert all(times[p] < s for p, s in over_seeds(kept, "tuned+repair", seconds).items())


def test_what_the_texts_claim_of_networks_alone(kept):
    measured = [c for c in kept if c["status"] == "measured"]
    broken = {m: over_seeds(measured, m, violation) for m in ("tuned", "ss_cmpe", "ss_cmpe_pen")}
    assert max(broken["tuned"].values()) <= 0.0042 + 1e-9
    assert max(over_seeds(measured, "tuned", share).values()) < 0.1735
    for method in ("ss_cmpe", "ss_cmpe_pen"):
        assert len(broken[method]) == 50
        assert round(fmean(broken[method].values()), 4) == 0.0011
        assert round(fmean(over_seeds(measured, method, regret).values()), 1) == 11.7


def test_kept_results_are_small_and_tell_nothing_of_a_machine():
    files = [path for path in KEPT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 7 * 2**20
    for path in files:
        if path.suffix in (".json", ".jsonl"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"/(work|home|tmp|root|Users)/", text), path.name


def test_a_thinned_curve_keeps_both_ends():
    named = {"dataset": "a", "q": 80, "method": "mse", "seed": 0}
    curve = [{**named, "epoch": i} for i in range(100)]
    kept = [p["epoch"] for p in thinned([*curve, {**named, "method": "mae", "epoch": 7}])]
    assert len(kept) == POINTS + 1
    assert (kept[0], kept[-2], kept[-1]) == (0, 99, 7)
    assert kept[:-1] == sorted(set(kept[:-1]))
