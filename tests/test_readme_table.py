"""The tables of README.md are the kept results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.paper.publish import POINTS, thinned
from benchmarks.paper.readme import KEPT, put, tables

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found():
    return tables(KEPT)


def cells(method):
    lines = (KEPT / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [c for c in map(json.loads, lines) if (c["method"], c["q"]) == (method, 80)]
    return [c for c in kept if c["group"] != "wide"]


@pytest.mark.parametrize("name", ["headline", "wide"])
def test_the_table_is_made_from_the_cells(found, name):
    block = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", README, re.DOTALL)
    assert block is not None
    assert block[1] == found[name]
    assert put(README, found) == README


def test_what_the_text_claims_of_the_table():
    repaired, moved, exact = (cells(m) for m in ("tuned+repair", "tuned+moves", "exact"))
    assert len(repaired) == len(moved) == len(exact) == 10
    for cell in repaired + moved:
        assert cell["every"]["violation"] == 0.0
        assert cell["every"]["certified_gap"] >= cell["every"]["regret"] - 1e-6
    above = {c["dataset"] for c in moved if c["implied_regret_ratio"] > 0.02}
    assert above == {"bbc", "cwebkb", "c20ng"}
    assert all(c["implied_regret_ratio"] <= 0.02 for c in repaired)
    assert all((c["every"]["regret"], c["every"]["optimal"]) == (0.0, 1.0) for c in exact)
    times = {c["dataset"]: c["every"]["seconds"] for c in exact}
    assert all(times[c["dataset"]] < c["every"]["seconds"] for c in repaired)


def test_kept_results_are_small_and_tell_nothing_of_a_machine():
    files = [path for path in KEPT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4 * 2**20
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
