from __future__ import annotations

from study.reporting.headline import cell_table, headline_tables
from tests.study.reporting import synthetic


def test_one_line_for_each_data_set_at_80(study):
    table = headline_tables(study)[0]
    assert [r.dataset for r in table.rows] == ["Grids_17", "Segmentation_12", "dna"]
    titles = [f"{c.over}: {c.title}" for c in table.columns]
    row = dict(zip(titles, table.rows[0].entries, strict=True))
    binding = row[": rows on which the constraint binds"]
    assert binding.value == study.binding("Grids_17", 80.0).mean
    assert row["exact: regret (nats)"].text == "0.00"
    assert row["exact: rows proved"].text == "100.0 %"
    constant = study.figure(("Grids_17", 80.0, "constant"), "regret").mean
    assert row["one constant answer: regret (nats)"].value == constant
    assert row["distinct answers: tuned + repair"].value == 300
    assert row[": rows also in training"].value == 0.25
    times = [e for t, e in row.items() if "time a row" in t]
    assert len(times) == 6
    assert min(e.value for e in times) in [e.value for e in times if e.best]


def test_wide_problems_have_every_method(study):
    table = headline_tables(study)[1]
    assert [r.method for r in table.rows] == study.methods("Grids_17_10")
    assert sum(r.entries[8].best for r in table.rows) >= 1


def test_every_cell_is_listed_once(study):
    table = cell_table(study)
    assert len(table.rows) == len(study.places()) == 7 * len(synthetic.METHODS)
    [missing] = [r for r in table.rows if any(e.note for e in r.entries)]
    assert (missing.dataset, missing.q, missing.method) == ("dna", "10", "pdl")
    assert {e.note for e in missing.entries} == {None, synthetic.REASON}
