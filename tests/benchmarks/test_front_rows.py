"""Tasks of the benchmark of fronts: a journal, and what it becomes."""

import json
import math
from argparse import Namespace

import pytest

import cmpe
from benchmarks import front_rows
from cmpe.generation import grid


@pytest.fixture
def options(tmp_path):
    made = cmpe.generate(grid(3, 3, seed=1), cmpe.Recipe(samples=60, percentile=30))
    content = cmpe.ProblemDirectory(made.problem, made.train[:0], made.test)
    cmpe.write_directory(content, tmp_path / "small")
    return Namespace(
        models=["small"], rows=6, row_limit=5.0, packs=tmp_path, journal=tmp_path / "journal",
        workers=1, ends=math.inf,
    )  # fmt: skip


def test_a_second_run_goes_on_with_what_the_first_left(options, monkeypatch):
    [fronts] = front_rows.fronts(options)
    [best] = front_rows.best(options)
    assert fronts["complete"] == fronts["distinct"] == best["k100_proved"]
    assert fronts["rows"] == 6
    assert fronts["points"] > 1
    lines = (options.journal / "front_rows.jsonl").read_text().splitlines()
    kinds = [json.loads(json.loads(line)["task"])["kind"] for line in lines]
    assert kinds == ["exact", "fronts", "best"]

    monkeypatch.setattr(front_rows, "run", None)  # nothing is run again
    assert next(front_rows.fronts(options)) == fronts
    assert next(front_rows.best(options)) == best


def test_nothing_is_begun_when_the_time_is_over(options):
    options.ends = -math.inf
    assert list(front_rows.fronts(options)) == []


def test_results_of_other_code_do_not_count(options, monkeypatch):
    assert len(front_rows.done(("exact",), options)) == 1
    monkeypatch.setattr(front_rows, "code_of", lambda parts: "other")
    assert len(front_rows.done(("exact",), options)) == 1
    assert len((options.journal / "front_rows.jsonl").read_text().splitlines()) == 2
