"""Comparison of golden records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import golden

PROOF = {"kind": "proof", "status": ["optimal"], "objective": [100.0], "bound": [float("inf")]}
ANSWER = {"kind": "answer", "status": ["feasible", "unknown"], "objective": [3.0, float("nan")]}


def _compared(tmp_path: Path, new: dict[str, object]) -> int:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    old = {"solve/exact/a": PROOF, "solve/search/a": ANSWER}
    for path, record in zip(paths, (old, old | new), strict=True):
        path.write_text(json.dumps(record))
    return golden.compare(paths, list(golden.SECTIONS))


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, 0),
        ({"objective": [100.0 + 1e-8]}, 0),
        ({"objective": [100.0 + 1e-6]}, 1),
        ({"status": ["feasible"]}, 1),
        ({"bound": [100.0]}, 1),
    ],
)
def test_a_proof_differs_beyond_the_tolerance(
    tmp_path: Path, change: dict[str, object], differs: int
) -> None:
    assert _compared(tmp_path, {"solve/exact/a": PROOF | change}) == differs


def test_a_missing_entry_differs(tmp_path: Path) -> None:
    assert _compared(tmp_path, {"solve/exact/b": PROOF}) == 1


def test_what_a_heuristic_loses_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worse = ANSWER | {"status": ["feasible", "feasible"], "objective": [2.5, 1.0]}
    assert _compared(tmp_path, {"solve/search/a": worse}) == 0
    out = capsys.readouterr().out
    assert "solve/search: mean loss 0.5 nats, feasibility of 1 changed" in out


def test_every_section_has_entries_of_one_kind() -> None:
    for key, entry in golden.model_entries():
        assert entry["kind"] == "value", key
