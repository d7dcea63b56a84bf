from __future__ import annotations

from dataclasses import replace

import pytest

from study.reporting.names import OURS_IN_PAPER, SUPERVISED
from study.reporting.study import Study
from study.reporting.summary_tables import coverage_table, summary_tables
from tests.study.reporting import synthetic


def test_each_metric_by_itself(study):
    table = summary_tables(study)[0]
    row = next(r for r in table.rows if r.dataset == "dna" and r.block == 0)
    for first, lookup in (
        (2, lambda m: study.figure(("dna", 10.0, m), "gap")),
        (4, lambda m: study.paper("dna", 10.0, m, "gap")),
    ):
        mine = min(lookup(m).mean for m in OURS_IN_PAPER)
        others = min(lookup(m).mean for m in SUPERVISED)
        left, right = row.entries[first : first + 2]
        assert (left.value, right.value) == (mine, others)
        assert (left.best, right.best) in {(mine < others, others < mine), (True, True)}


def test_averages_use_data_sets_that_both_sides_have(study):
    table = summary_tables(study)[1]
    lines = [r for r in table.rows if r.dataset and r.block == 0]
    average = next(r for r in table.rows if not r.dataset and r.block == 0)
    mean = sum(r.entries[2].value for r in lines) / len(lines)
    assert average.entries[2].value == pytest.approx(mean)


def test_coverage_counts_and_explains(study, results):
    table = coverage_table(study)
    found = {r.entries[0].text: [e.text for e in r.entries[1:]] for r in table.rows}
    assert found["main_uai"][2] == "0"
    assert found["supplement_dna"][2:] == ["2", f"2 × {synthetic.REASON}"]
    assert found["main_mnist"][2] == "6"  # five of mse_pen, the training of the ILP
    for row in table.rows:
        total, covered, lost = (e.value for e in row.entries[1:4])
        assert total == covered + lost
        assert bool(lost) == bool(row.entries[4].text)
    none = Study(replace(results, paper=()))
    assert coverage_table(none).rows == ()
