"""The verdict says what the cells say."""

from __future__ import annotations

import json

import pytest

from study.reporting.headline import cell_table
from study.reporting.results import read_results
from study.reporting.study import Study
from study.reporting.tables import Column, Entry, Row, Table, words
from study.reporting.verdict import NEGATIVE, has_negative_regret, verdict


def cell(dataset, method, group="uai", **figures):
    every = {"rows": 10, "violation": 0.0, "seconds": 1e-5, "regret": 0.0, **figures}
    return {
        **{"dataset": dataset, "q": 80, "method": method, "group": group, "seed": 0},
        **{"every": every, "status": "measured"},
    }


@pytest.fixture
def study(tmp_path):
    def made(*cells):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "cells.jsonl").write_text("".join(json.dumps(c) + "\n" for c in cells))
        return Study(read_results(folder))

    return made


def test_three_sentences(study):
    found = verdict(
        study(
            cell("a", "exact", optimal=1.0),
            cell("a", "milp:highs", seconds=0.02),
            cell("a", "tuned+repair", seconds=6e-5),
            cell("w", "exact", "wide", seconds=1.1, proved=1.0),
            cell("w", "milp:highs", "wide", seconds=10.0, regret=53.3),
            cell("v", "exact", "wide", seconds=60.0, proved=0.5),
        )
    )
    assert found == [
        "At q = 80, exact proves the optimum of every row on 1 data set in 10 µs a row; the "
        "fastest other solver takes 20 ms.",
        "The trained network with repair breaks no constraint, and is slower than exact on 1 of 1 "
        "data set.",
        "Of 2 wide problems, exact proves every row of 1 in 1.1 s a row, where the best of the "
        "other solvers is up to 53.3 nats off.",
    ]


def test_only_what_was_measured_is_said(study):
    assert verdict(study(cell("a", "mse"))) == []
    [proof] = verdict(study(cell("a", "exact", optimal=0.5), cell("b", "exact", seconds=1.0)))
    assert proof == (
        "At q = 80, exact proves the optimum of 50.0 % of the rows on 2 data sets in 10 µs to 1 s "
        "a row."
    )
    [network] = verdict(study(cell("a", "tuned+repair", violation=0.25)))
    assert network == (
        "The trained network with repair breaks its constraint in at most 25 % of the rows."
    )
    [wide] = verdict(study(cell("w", "exact", "wide", proved=0.9)))
    assert wide == "Of 1 wide problem none was proved in every row."


def test_a_negative_regret_is_noticed_and_a_negative_objective_is_not(study):
    def noticed(*cells):
        return has_negative_regret(cell_table(study(*cells)))

    assert not noticed(cell("a", "exact"), cell("a", "mse") | {"mean_objective": -12.0})
    assert noticed(cell("a", "mse", regret=-0.5, violation=0.4))
    rows = [Row((words("a"), words(m), Entry("-0.1", -0.1))) for m in ("gap", "objective")]
    columns = tuple(map(Column, ("data set", "metric", "ours")))
    tables = [Table("a", "a", "", columns, (row,), "a") for row in rows]
    assert [has_negative_regret(table) for table in tables] == [True, False]
    assert "break a constraint" in NEGATIVE
