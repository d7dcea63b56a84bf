"""`study report`: a page and files, or one line and nothing."""

from __future__ import annotations

import pytest

from tests.study.reporting.synthetic import cell, write_rows

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture
def results(tmp_path):
    rows = [cell("dna", "tractable", 80, method, 0) for method in ("exact", "ss_cmpe")]
    rows.append({**rows[0], "method": "toulbar2", "status": "missing", "reason": "not installed"})
    folder = tmp_path / "results"
    folder.mkdir()
    write_rows(folder / "cells.jsonl", rows)
    return folder


def test_a_page(call, results, tmp_path):
    out = tmp_path / "page.html"
    code, printed, complaint = call("report", results, "--out", out)
    assert (code, complaint) == (0, "")
    assert printed.startswith(f"{out}: ")
    assert "figures of 3 cells, 1 without figures" in printed
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {f.name for f in tmp_path.iterdir()} == {"page.html", "results"}


def test_files_beside_it(call, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, printed, _ = call("report", results, "--assets", "assets")
    assert code == 0
    assert "assets: the same as files" in printed
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "assets" / "tables" / "cells.csv").exists()
    assert (tmp_path / "assets" / "figures" / "times.png").read_bytes().startswith(b"\x89PNG")


def test_bad_results_leave_no_page(call, results, tmp_path):
    with (results / "cells.jsonl").open("a") as stream:
        stream.write('{"dataset": "dna", "q"')
    code, printed, complaint = call("report", results, "--out", tmp_path / "page.html")
    assert (code, printed) == (2, "")
    assert complaint.startswith(f"error: {results / 'cells.jsonl'}: line 4, column")
    assert complaint.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_no_results(call, tmp_path):
    code, _, complaint = call("report", tmp_path / "none", "--out", tmp_path / "page.html")
    assert code == 2
    assert complaint.startswith("error: ")
    assert call("report")[0] == 2
