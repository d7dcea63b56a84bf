"""`cmpe probability`: the library's numbers as JSON, CSV and a table."""

import csv
import io

import pytest
from typer.testing import CliRunner

import cmpe
from tests.cli.commands import app, output, rows_of
from tests.refusals import refused


@pytest.fixture
def alarm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("BP,CVP,HRBP\nLOW,HIGH,HIGH\nHIGH,LOW,HIGH\n")
    return "--objective", cmpe.example("alarm"), "--evidence", "e.csv"


def test_json_has_the_numbers_of_the_library(alarm):
    rows = rows_of(output("probability", *alarm, "-k", 3))
    net = cmpe.read_model(cmpe.example("alarm"))
    found = cmpe.probability(net, {"BP": ["LOW", "HIGH"], "CVP": ["HIGH", "LOW"], "HRBP": "HIGH"})
    assert [row["log_evidence"] for row in rows] == found.log_evidence.tolist()
    assert not rows[0]["estimated"]
    states = rows[1]["marginals"]["LVFAILURE"]
    assert list(states.values()) == found.marginals["LVFAILURE"][1].tolist()
    shares = [e["probability"] for e in rows[0]["explanations"]]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    assert rows[0]["explanations"][0]["states"]["BP"] == "LOW"


def test_counts_and_one_row_of_evidence(alarm):
    words = ["--evidence-values", "BP=LOW", "--count", "LVFAILURE=TRUE HYPOVOLEMIA=TRUE <= 0"]
    (row,) = rows_of(output("probability", *alarm[:2], *words))
    assert row["marginals"]["HYPOVOLEMIA"]["TRUE"] == 0.0
    assert row["marginals"]["BP"]["LOW"] == 1.0


def test_csv_has_a_line_for_each_state(alarm, tmp_path):
    output("probability", *alarm, "--output", "p.csv")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text())))
    assert lines[0].keys() == {"index", "variable", "state", "probability"}
    assert len(lines) == 2 * 105


def test_a_table_shows_the_explanation_and_its_rival(alarm):
    text = output("probability", *alarm, "--format", "table")
    assert "row 1: log P(evidence)" in text
    assert "explanation 2: " in text
    assert " %" in text


def test_estimates_come_with_intervals(models):
    rows = rows_of(output("probability", *models, "--samples", 50))
    assert rows[0]["estimated"]
    low, high = rows[0]["log_evidence_interval"]
    assert low <= rows[0]["log_evidence"] <= high
    assert "interval" in rows[0]["explanations"][0]
    text = output("probability", *models, "--samples", 50, "--format", "table")
    assert " to " in text
    assert "low,high" in output("probability", *models, "--samples", 50, "--format", "csv")
    alone = rows_of(output("probability", *models, "--given", "evidence"))
    assert not alone[0]["estimated"]


def test_refusals(models):
    def call(*words):
        return lambda: CliRunner().invoke(app, ["probability", *words], catch_exceptions=False)

    refused(call(*models, "--output", "x.svg"), "expected a suffix")
