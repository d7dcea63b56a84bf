"""Every printed figure stands beside ours, or beside a reason."""

from __future__ import annotations

from dataclasses import replace

from study.reporting.names import MAIN_METHODS, PAPER_METHODS, label_of
from study.reporting.paper_tables import alone, paper_tables, q_tables
from study.reporting.study import NOT_RUN, Study
from study.reporting.summary_tables import summary_tables
from tests.study.reporting import synthetic


def named(tables, name):
    [found] = [t for t in tables if t.name == name]
    return found


def line(table, first, second):
    [row] = [r for r in table.rows if [e.text for e in r.entries[:2]] == [first, second]]
    return row


def test_table_1_has_the_papers_lines_and_ours(study):
    table = named(paper_tables(study), "table-1")
    assert [c.over for c in table.columns[2:]] == ["Grids_17"] * 2 + ["Segmentation_12"] * 2
    assert [c.title for c in table.columns[2:]] == ["ours", "paper"] * 2
    methods = list(dict.fromkeys(r.method for r in table.rows))
    assert methods == [
        "ilp", *MAIN_METHODS, "constant", "tuned", "tuned+repair", "lagrangian", "exact"
    ]  # fmt: skip
    row = line(table, "PDL", "gap")
    assert row.entries[2].value == study.figure(("Grids_17", 80.0, "pdl"), "gap").mean
    printed = study.paper("Grids_17", 80.0, "pdl", "gap")
    assert (row.entries[3].value, printed.mean) == (printed.mean, printed.mean)
    assert line(table, "exact", "gap").entries[3].text == "–"


def test_the_best_is_marked_for_ours_and_for_the_paper(study):
    table = named(paper_tables(study), "table-1")
    for column in range(2, 6):
        competing = [r for r in table.rows if r.method in MAIN_METHODS]
        gaps = [r.entries[column] for r in competing if r.entries[1].text == "gap"]
        inside = [e.value for e in gaps if not e.flagged]
        assert min(inside) in [e.value for e in gaps if e.best]
    assert not any(e.best for r in table.rows if r.method == "exact" for e in r.entries)


def test_a_table_for_each_data_set_with_reasons(study):
    tables = q_tables(study)
    assert [t.dataset for t in tables] == ["Grids_17", "Segmentation_12", "dna"]
    dna = tables[2]
    assert [c.q for c in dna.columns[2::2]] == ["10", "80"]
    assert {r.method for r in dna.rows} >= set(PAPER_METHODS)
    entry = line(dna, "PDL", "gap").entries[2]
    assert (entry.text, entry.note) == ("–", synthetic.REASON)
    assert line(dna, "PDL", "gap").entries[3].value is not None
    assert dna.notes() == [synthetic.REASON]


def test_attacks_stand_beside_the_papers(study):
    table = named(paper_tables(study), "table-3")
    assert [r.method for r in table.rows] == ["ilp", "ss_cmpe", "residual", "mse_pen"]
    only_printed = table.rows[3]
    assert only_printed.entries[0].text == label_of("mse_pen")
    assert {e.note for e in only_printed.entries} == {None, NOT_RUN}
    residual = table.rows[2]
    attack = replace(study.results.attacks[2], label="residual")
    numbers = {**attack.values, "ratio_proved": 1.25, "proved_rows": 110.0}
    proved = Study(replace(study.results, attacks=(replace(attack, values=numbers),)))
    shown = named(paper_tables(proved), "table-3").rows[0]
    assert [e.text for e in shown.entries[2:4]] == ["1.250", "110"]
    assert [e.text for e in residual.entries[7:16:2]] == ["–"] * 5


def test_data_sets(study, results):
    table = named(paper_tables(study), "datasets")
    assert [r.dataset for r in table.rows] == study.datasets()
    printed = replace(results.paper[0], dataset="dna", q=None, method="model", metric="variables")
    more = Study(replace(results, paper=(*results.paper, replace(printed, mean=180.0))))
    assert more.qs("dna") == study.qs("dna")
    table = named(paper_tables(more), "datasets")
    [column] = [i for i, c in enumerate(table.columns) if c.title == "variables, paper"]
    assert [r.entries[column].text for r in table.rows] == ["–", "–", "180", "–"]


def test_cells_alone_make_tables_too(results):
    alone = Study(type(results)(cells=results.cells))
    assert {t.name for t in paper_tables(alone)} == {"table-1", "table-2"}
    assert all(t.rows for t in q_tables(alone))


def test_without_printed_figures_ours_stand_alone(study, results):
    none = Study(replace(results, paper=()))
    for table in (*paper_tables(none), *q_tables(none), *summary_tables(none)):
        shown = alone(table)
        assert not any("paper" in column.title for column in shown.columns)
        assert all(len(row.entries) == len(shown.columns) for row in shown.rows)
        assert [row.entries[0] for row in shown.rows] == [row.entries[0] for row in table.rows]
    both = named(paper_tables(study), "table-1")
    ours = [i for i, column in enumerate(both.columns) if column.title != "paper"]
    assert len(ours) == len(both.columns) - 2
    for row, left in zip(both.rows, alone(both).rows, strict=True):
        assert left == replace(row, entries=tuple(row.entries[i] for i in ours))
