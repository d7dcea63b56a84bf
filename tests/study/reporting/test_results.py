"""A results directory is read whole, or refused in one line that says where and why."""

from __future__ import annotations

import json

import pytest

from cmpe.errors import InputError
from study.reporting.results import read_results
from tests.study.reporting import synthetic
from tests.study.reporting.synthetic import write_rows

CELL = synthetic.cell("dna", "tractable", 10, "ss_cmpe", 0)


def test_everything_is_read(results):
    assert {c.dataset for c in results.cells} == set(synthetic.SMALL)
    assert results.curves
    assert results.times
    assert results.paper
    assert results.attacks
    assert results.provenance["python"] == "3.12.1"
    assert list(results.pictures) == [".png"]
    missing = [c for c in results.cells if not c.measured]
    assert {(c.dataset, c.q, c.method) for c in missing} == {synthetic.MISSING}
    assert missing[0].reason == synthetic.REASON
    assert missing[0].every == {}


def test_only_the_cells_are_required(tmp_path):
    write_rows(tmp_path / "cells.jsonl", [CELL])
    found = read_results(tmp_path)
    assert len(found.cells) == 1
    assert (found.curves, found.paper, found.provenance) == ((), (), {})


def refusal(folder):
    with pytest.raises(InputError) as caught:
        read_results(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_no_directory(tmp_path):
    assert "expected a directory" in refusal(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    assert "found a file" in refusal(tmp_path / "file")
    assert "expected cells.jsonl in it" in refusal(tmp_path)
    (tmp_path / "cells.jsonl").write_text("\n")
    assert "at least one cell" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": None}, "line 2, dataset: expected a name"),
        ({"dataset": ""}, "line 2, dataset: expected a name"),
        ({"dataset": "x" * 81}, "line 2, dataset: expected a name"),
        ({"dataset": "a\x00b"}, "line 2, dataset: expected printable text"),
        ({"method": 3}, "line 2, method: expected printable text"),
        ({"q": "80"}, "line 2, q: expected a finite number or null, found '80'"),
        ({"q": True}, "line 2, q: expected a finite number or null, found True"),
        ({"q": float("nan")}, "line 2, q: expected a finite number or null, found nan"),
        ({"q": 10**400}, "line 2, q: expected a finite number or null, found inf"),
        ({"seed": 0.5}, "line 2, seed: expected a whole number"),
        ({"every": None}, "line 2, every: expected the metrics"),
        ({"every": [1]}, "line 2, every: expected an object"),
        ({"every": {"gap": "small"}}, "line 2, every.gap: expected a finite number"),
        ({"status": "done"}, "line 2, status: expected measured or missing, found 'done'"),
        ({"train_seconds": float("inf")}, "line 2, train_seconds: expected a finite number"),
        ({"seed": 0}, "found two of dna 10.0 ss_cmpe 0"),
    ],
)
def test_a_bad_cell_is_named(tmp_path, change, message):
    write_rows(tmp_path / "cells.jsonl", [CELL, {**CELL, "seed": 1, **change}])
    found = refusal(tmp_path)
    assert found.startswith(str(tmp_path / "cells.jsonl"))
    assert message in found


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cells.jsonl", json.dumps(CELL)[:-20], "line 1, column"),
        ("cells.jsonl", "[1, 2]", "line 1: expected a JSON object, found list"),
        ("cells.jsonl", "[" * 100_000, "expected a JSON object"),
        ("cells.jsonl", "\xff", "line 1"),
        ("curves.jsonl", '{"dataset": "a", "method": "b", "seed": 0}', "epoch: expected a finite"),
        ("times.jsonl", '{"dataset": "a", "method": "b"}', "seconds: expected a finite number"),
        ("times.jsonl", '{"dataset": "a", "method": "b", "seconds": 1, "amortised": 2}', "true or"),
        ("datasets.jsonl", '{"dataset": "a", "width": "x"}', "width: expected a finite number"),
        ("paper.jsonl", '{"table": "t", "dataset": "a", "method": "b", "metric": "gap"}', "mean"),
        ("adversarial.jsonl", '{"label": "a"}', "method: expected a name"),
        ("adversarial.png", "GIF89a", "expected a PNG picture"),
        ("adversarial.svg", "hello", "expected a SVG picture"),
        ("provenance.json", "3", "expected a JSON object, found int"),
    ],
)
def test_a_bad_file_is_named(tmp_path, name, content, message):
    write_rows(tmp_path / "cells.jsonl", [CELL])
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    found = refusal(tmp_path)
    assert name in found
    assert message in found


def test_unicode_names_and_unknown_fields_are_welcome(tmp_path):
    row = {**CELL, "dataset": "Müller", "extra": {"a": [1]}, "settings": {"net": "mlp", "rho": 1}}
    text = json.dumps(row, ensure_ascii=False)
    (tmp_path / "cells.jsonl").write_text(text, encoding="utf-8")
    [cell] = read_results(tmp_path).cells
    assert cell.dataset == "Müller"
