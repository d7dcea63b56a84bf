"""`cmpe front`: json, csv and pictures, rows, refusals."""

import json

from typer.testing import CliRunner

import cmpe
from cmpe.tradeoffs.settings import TRADEOFFS
from tests.cli.commands import MODEL, app, output, rows_of
from tests.refusals import refused


def test_json_has_every_point_by_rising_value(models):
    rows = rows_of(output("front", *models, "--evidence", "e.evid"))
    assert [row["index"] for row in rows] == [0, 1]
    problem = cmpe.Problem(cmpe.read_uai("h.uai"), [cmpe.read_uai("t.uai") <= 8.0])
    for row, value in zip(rows, (1, 0), strict=True):
        front = cmpe.front(problem, {0: value})[0]
        assert row["complete"] is True
        assert row["bound"] is None
        assert [p["value"] for p in row["points"]] == front.values.tolist()
        assert [p["objective"] for p in row["points"]] == front.objective.tolist()
        assert all(p["assignment"][0] == value for p in row["points"])


def test_files_by_suffix(models, tmp_path):
    output("front", *models, "--output", "front.csv")
    head, *lines = (tmp_path / "front.csv").read_text().splitlines()
    assert head.startswith("index,complete,value,objective,supported,0,1")
    output("front", *models, "--output", "front.json")
    assert len(lines) == len(json.loads((tmp_path / "front.json").read_text())["points"])
    for suffix in ("svg", "png"):
        output("front", *models, "--evidence", "e.evid", "--output", f"front.{suffix}")
        assert (tmp_path / f"front.{suffix}").stat().st_size > 1000


def test_one_row_and_a_window(models):
    both = ("--evidence", "e.evid", "--row", 1, "--between", 5, 8)
    [row] = rows_of(output("front", *models, *both))
    assert row["index"] == 1
    assert row["points"][0]["value"] <= 5.0 < row["points"][1]["value"]


def test_a_time_limit_gives_a_bound(models, monkeypatch):
    changed = TRADEOFFS._replace(sums_per_second=0.0, front_spaces=(64,))
    monkeypatch.setattr("cmpe.tradeoffs.narrow.TRADEOFFS", changed)
    [row] = rows_of(output("front", *models, "--time-limit", 0.001))
    assert row["complete"] is False
    assert row["bound"][-1]["value"] is None


def test_names_and_infeasible_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.uai").write_text(MODEL)
    common = ["--constraint", "m.uai", "--at-most", "9", "--constraint", "m.uai", "--at-most", "-9"]
    done = CliRunner().invoke(app, ["front", "--objective", "m.uai", *common])
    [row] = rows_of(done.stdout)
    assert row["points"] == []
    assert row["complete"] is True


def test_refusals(models):
    def call(*words):
        return lambda: CliRunner().invoke(app, ["front", *words], catch_exceptions=False)

    refused(call(*models, "--output", "x.pdb"), "expected a suffix")
    refused(call(*models, "--evidence", "e.evid", "--row", "5"), "--row must be below 2")
    refused(call("--objective", "h.uai"), "a front needs a --count, or --constraint MODEL")
