"""Progress off a terminal: lines on stderr, none with --quiet; a folder where rows are many."""

import json

import pytest

from cmpe.cli import options, solve


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(options, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(solve, "MANY_ROWS", 2)


def test_lines_say_how_many_rows_a_second(call, problem, often, tmp_path):
    code, out, err = call("solve", problem, "--workers", 2)
    assert code == 0
    assert "solving: " in err
    assert " rows, " in err
    assert " a second" in err
    assert all(json.loads(line) for line in out.splitlines())
    code, _, err = call("solve", problem, "--output", f"{tmp_path}/parts/", "--block", 1)
    assert code == 0
    assert "answering: " in err


@pytest.mark.parametrize("before", [True, False])
def test_quiet_silences_them(call, problem, often, tmp_path, before):
    words = ["solve", problem, "--output", tmp_path / "a.jsonl"]
    words = ["--quiet", *words] if before else [*words, "--quiet"]
    assert call(*words) == (0, "", "")


def test_a_folder_is_suggested_for_many_rows(call, problem, often, tmp_path):
    _, _, err = call("solve", problem, "--output", tmp_path / "a.jsonl")
    assert f"with a folder, --output {tmp_path / 'a'}/" in err
    assert "for --resume" in err
