"""The tables of README.md and docs/headline.md are the kept results."""

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
    page: (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/headline.md")
}
PLACES = {
    "landing": "README.md",
    **dict.fromkeys(("headline", "others", "wide", "wide others"), "docs/headline.md"),
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
    assert len(repaired) == len(moved) == 10 * 5 * 3
    for cell in repaired + moved:
        assert cell["every"]["violation"] == 0.0
        assert cell["every"]["certified_gap"] >= cell["every"]["regret"] - 1e-6
    assert max(share(c) for c in repaired if c["q"] == 80) < 0.0147
    assert sum(share(c) <= 0.02 for c in repaired) == 138
    above = {
        p: f"{100 * s:.1f}" for p, s in over_seeds(kept, "tuned+repair", share).items() if s > 0.02
    }
    bbc = {("bbc", 10): "3.6", ("bbc", 30): "2.8", ("bbc", 60): "2.1"}
    assert above == {**bbc, ("Segmentation_15", 30): "4.8"}
    above_moved = [p for p, s in over_seeds(kept, "tuned+moves", share).items() if s > 0.02]
    assert len(above_moved) == 50 - 36
    assert {d for d, q in above_moved if q == 80} == {"bbc", "cwebkb"}


def test_what_the_texts_claim_of_other_methods(kept):
    assert all(c["status"] == "measured" for c in kept)
    exact = [c for c in kept if c["method"] == "exact"]
    assert len(exact) == 50
    assert all((regret(c), c["every"]["optimal"]) == (0.0, 1.0) for c in exact)
    free, repaired = (over_seeds(kept, m, regret) for m in ("lagrangian", "tuned+repair"))
    assert all(free[p] < r or abs(free[p]) == r == 0.0 for p, r in repaired.items())
    assert max(over_seeds(kept, "lagrangian", share).values()) <= 0.02
    times = over_seeds(kept, "exact", seconds)
    for method in ("tuned+repair", "tuned+moves"):
        assert all(times[p] < s for p, s in over_seeds(kept, method, seconds).items())


def test_what_the_texts_claim_of_the_whole_grid(kept):
    brief = {(c["dataset"], c["q"], c["method"]): c for c in kept if c["seed"] == 0}
    found = Counter()
    for cell in read_cells(KEPT.parent / "grid"):
        ours, theirs = cell["every"], brief[cell["dataset"], cell["q"], cell["method"]]["every"]
        same = all(ours[n] == theirs[n] for n in ours if not n.startswith("seconds"))
        less, kinder = (ours[n] - theirs[n] for n in ("regret", "violation"))
        found["same" if same else (less < 0, kinder <= 0)] += 1
    assert found == {"same": 36, (True, True): 4, (True, False): 7, (False, True): 3}


def test_kept_results_are_small_and_tell_nothing_of_a_machine():
    files = [path for path in KEPT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5 * 2**20
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
