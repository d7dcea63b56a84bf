"""Results kept in the repository hold what a report reads, and no more."""

from __future__ import annotations

import json

from study.paper.publish import publish


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
