"""Commands whose output is a folder: what is in it, when it is refused, how it is completed."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

from cmpe.formats.directory import read_directory
from tests.refusals import only_line


def lines(folder):
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def said(call):
    """What a command that succeeds prints."""

    def calling(*words):
        code, out, err = call(*words)
        assert (code, err) == (0, "")
        return out

    return calling


def timeless(text):
    return [{**json.loads(line), "seconds": None} for line in text.splitlines()]


@pytest.mark.parametrize(
    "command", ["solve --method exact", "bound", "best -k 2", "front"], ids=lambda c: c.split()[0]
)
def test_parts_hold_what_the_command_prints(command, problem, tmp_path, said):
    name, *options = command.split()
    printed = said(name, problem, *options)
    told = said(name, problem, *options, "--output", f"{tmp_path}/parts/", "--block", 4)
    assert told.startswith(f"{tmp_path}/parts: 6 rows in 2 parts: 6 ")
    assert lines(tmp_path / "parts") == timeless(printed)


def test_parquet_and_resuming_what_is_finished(problem, tmp_path, call, said):
    content = read_directory(problem)
    np.save(tmp_path / "rows.npy", content.test)
    asked = ["solve", problem, "--method", "exact", "--evidence", tmp_path / "rows.npy"]
    one = [*asked, "--format", "parquet", "--block", 2, "--output", f"{tmp_path}/one/"]
    said(*one)
    frame = pandas.concat(pandas.read_parquet(f) for f in sorted((tmp_path / "one").glob("part-*")))
    wanted = [json.loads(line) for line in said(*asked).splitlines()]
    assert frame["index"].tolist() == list(range(6))
    np.testing.assert_allclose(frame["objective"], [row["objective"] for row in wanted])
    assert frame["seconds"].isna().all()
    code, _, err = call(*one)
    assert code == 2
    assert "holds a finished run; add --resume" in only_line(err)
    assert call(*one, "--resume")[0] == 0


def test_a_folder_goes_on_with_its_own_block_and_another_question_is_refused(
    problem, tmp_path, call, said
):
    folder = tmp_path / "parts"
    said("solve", problem, "--method", "exact", "--output", f"{folder}/", "--block", 4)
    again = ["solve", problem, "--method", "exact", "--output", folder, "--resume"]
    assert call(*again)[:2] == (0, f"{folder}: 6 rows in 2 parts: 6 optimal\n")
    code, _, err = call("solve", problem, "--method", "local", "--output", folder, "--resume")
    assert code == 2
    assert 'was begun with method "exact", found "local"' in only_line(err)
    code, _, err = call(*again, "--seed", 3)
    assert "was begun with seed 0, found 3" in only_line(err)


def test_default_blocks(problem, tmp_path, said):
    def block(*options):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        said("solve", problem, *options, "--output", f"{folder}/")
        return json.loads((folder / "manifest.json").read_text())["block"]

    assert block("--method", "exact") == 8192
    assert block("--method", "exhaustive") == 16
    assert block("--method", "local", "--time-limit", "1") == 60
    assert block("--method", "local", "--time-limit", "100") == 1


def test_one_question_without_rows(tmp_path, model, said):
    told = said("solve", "--objective", model, "--output", f"{tmp_path}/parts/")
    assert told == f"{tmp_path}/parts: 1 rows in 1 parts: 1 optimal\n"


def test_infeasible_rows_end_with_1(tmp_path, model, call):
    asked = ["solve", "--objective", model, "--constraint", model, "--at-most", "-1e6"]
    code, out, _ = call(*asked, "--output", f"{tmp_path}/parts/")
    assert (code, out) == (1, f"{tmp_path}/parts: 1 rows in 1 parts: 1 infeasible\n")


REFUSED = [
    ("solve --resume", "--resume and --block go with a folder"),
    ("solve --block 3", "--resume and --block go with a folder"),
    ("solve --output parts/ --format csv", "parts are json or parquet, found --format csv"),
    ("solve --output parts/ --start s.npy", "--start goes with a file or stdout"),
    ("front --output parts/ --row 1", "--row goes with a file or stdout"),
    ("bound --output bounds.json", "expected a folder for parts, ending in a slash"),
    ("bound --workers 2", "--workers goes with a folder"),
    ("solve --executor slurm", "an executor is local or ray, found 'slurm'"),
    ("solve --address 1.2.3.4:6379", "only the executor ray takes an address"),
]


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_what_does_not_fit_is_refused(command, message, problem, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *options = command.split()
    code, out, err = call(name, problem, *options)
    assert (code, out) == (2, "")
    assert message in only_line(err)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_evidence_is_read_whole_without_a_folder_of_answers(problem, tmp_path, said):
    content = read_directory(problem)
    columns = list(content.problem.evidence_variables)
    frame = pandas.DataFrame(content.test, columns=[str(v) for v in columns])
    for k, part in enumerate((frame[:2], frame[2:])):
        part.to_parquet(tmp_path / f"{k}.parquet", index=False)
    asked = ["solve", problem, "--method", "exact"]
    assert timeless(said(*asked, "--evidence", tmp_path)) == timeless(said(*asked))
