"""Answers as frames and files."""

import pandas as pd
import pytest

from cmpe import LogLinearModel, Problem, solve
from cmpe.errors import InputError
from cmpe.solution.frames import csv_text
from tests.refusals import refused

NAMES, STATES = ("Rain", "status"), (("no", "yes"), ("low", "mid", "high"))
MODEL = LogLinearModel.from_tables([2, 3], [((0, 1), [[0, 1, 2], [3, 4, 5]])], NAMES, STATES)
ANSWERS = solve(Problem(MODEL, [MODEL <= 2.0]), [{}, {"Rain": "yes"}])


def test_a_frame_has_states_and_facts():
    frame = ANSWERS.to_frame()
    assert frame.columns.tolist() == [
        "Rain", "status", "cmpe.status", "objective", "bound", "gap", "t1 <= 2", "method", "seconds"
    ]  # fmt: skip
    assert frame["Rain"].tolist()[0] == "no"
    assert pd.isna(frame["Rain"][1])
    assert frame["cmpe.status"].tolist() == ["optimal", "infeasible"]
    assert frame["t1 <= 2"][0] == 2.0
    assert (frame["seconds"] > 0).all()


def test_files_give_the_frame_back(tmp_path):
    frame = ANSWERS.to_frame()
    ANSWERS.to_csv(tmp_path / "a.csv")
    ANSWERS.to_parquet(tmp_path / "a.parquet")
    for again in (pd.read_csv(tmp_path / "a.csv"), pd.read_parquet(tmp_path / "a.parquet")):
        pd.testing.assert_frame_equal(again, frame, check_dtype=False)
    assert csv_text(ANSWERS).splitlines()[0].startswith("Rain,status,cmpe.status,objective")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.parquet"]
    refused(lambda: ANSWERS.to_csv(tmp_path / "no" / "a.csv"), "cannot be written", InputError)


def test_an_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    message = r"pandas is not installed; install it with: pip install 'cmpe\[frames\]'"
    refused(ANSWERS.to_frame, message)


@pytest.mark.parametrize("name", ["to_csv", "to_parquet"])
def test_an_old_file_is_replaced_whole(tmp_path, name):
    target = tmp_path / "file"
    target.write_text("old")
    getattr(ANSWERS, name)(target)
    assert target.read_bytes() != b"old"
