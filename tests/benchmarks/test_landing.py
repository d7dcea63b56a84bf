"""The tables of solvers in README.md and docs/speed.md are the kept measurements."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks.landing import TASKS, read_kept, tables

from study.paper.readme import put

ROOT = Path(__file__).resolve().parents[2]
PLACES = {"landing": "README.md", "landing others": "docs/speed.md"}


@pytest.mark.parametrize(("name", "page"), PLACES.items())
def test_the_table_is_made_from_what_was_measured(name, page):
    text, found = (ROOT / page).read_text(encoding="utf-8"), tables()
    assert re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)[1] == found[name]
    assert put(text, found) == text


def test_every_row_was_proved_and_the_limit_matters_on_each():
    kept = read_kept()
    assert list(kept) == [name for name in TASKS if name in kept]
    for record in kept.values():
        assert 0.0 < record["binding"] <= 1.0
        assert record["proved"] == record["solved"] > 0
        assert all(
            other["regret"] is None or other["regret"] > -1e-3
            for other in record["others"].values()
        )


def test_the_best_alternative_is_the_nearest_and_of_those_the_fastest(tmp_path):
    def other(seconds, regret, none=0):
        return {"seconds": seconds, "regret": regret, "none": none, "proved": 0}

    record = {"name": "a", "task": "t", "binding": 0.118, "solved": 80, "compared": 20}
    record |= {"seconds": 2e-4, "alone": 2e-3}
    others = {"milp:highs": other(0.5, 3.0), "milp:scip": other(5.0, 4e-4)}
    others |= {"toulbar2": other(0.1, 1e-9, none=1), "toulbar2:vac": other(1.0, -1e-9)}
    others |= {"toulbar2:vns": other(5.0, None, none=20)}
    kept = tmp_path / "landing.jsonl"
    kept.write_text(
        json.dumps({"benchmark": "landing"}) + "\n" + json.dumps(record | {"others": others})
    )
    found = tables(kept)
    assert found["landing"].splitlines()[0].count("|") - 1 == 5
    assert (
        found["landing"].splitlines()[-1]
        == "| t | 12 % | 200 µs / 2 ms | toulbar2 (VAC), 1 s | 5,000 / 500 |"
    )
    assert found["landing others"].splitlines()[0].count("|") - 1 == 7
    assert found["landing others"].splitlines()[-1] == (
        "| t | 80 / 20 | 200 µs | 2 ms | 500 ms, 3 nats off | 5 s | 1 s (vac) |"
    )
