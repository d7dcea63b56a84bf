"""`cmpe.solve_stream`: the answers of `solve`, a block at a time."""

import numpy as np
import pandas
import pytest

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.errors import InputError
from tests.refusals import refused

NET = LogLinearModel.from_tables(
    [2, 3], [((0, 1), np.arange(6.0).reshape(2, 3))], names=["rain", "wind"]
)
PROBLEM = Problem(NET, [cmpe.count({"rain": 1, "wind": 2}) <= 1])
FRAME = pandas.DataFrame({"id": range(10), "rain": [0, 1] * 5})


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "folder"])
def test_files_give_what_solve_gives(name, tmp_path):
    path = tmp_path / name
    if name == "rows.csv":
        FRAME.to_csv(path, index=False)
    elif name == "rows.parquet":
        FRAME.to_parquet(path)
    else:
        path.mkdir()
        FRAME[:5].to_parquet(path / "1.parquet")
        FRAME[5:].to_parquet(path / "2.parquet")
    parts = list(cmpe.solve_stream(PROBLEM, path, block=4, keep=["id"]))
    assert [len(part) for part in parts] == [4, 4, 2]
    frame = pandas.concat([part.to_frame() for part in parts])
    assert frame.index.tolist() == frame["id"].tolist() == list(range(10))
    expected = cmpe.solve(PROBLEM, FRAME, keep=["id"])
    assert frame["wind"].tolist() == expected["wind"]


def test_rows_have_the_numbers_of_other_files(tmp_path):
    FRAME.to_csv(tmp_path / "e.csv", index=False)
    scores = np.random.default_rng(0).normal(size=(len(FRAME), 2, 3))
    limits = np.arange(len(FRAME)) % 3
    np.save(tmp_path / "p.npy", scores)
    (tmp_path / "l.csv").write_text("\n".join(map(str, limits)))
    options = {"potentials": tmp_path / "p.npy", "limits": str(tmp_path / "l.csv")}
    parts = list(
        cmpe.solve_stream(PROBLEM, tmp_path / "e.csv", block=4, ignore_extra=True, **options)
    )
    own = cmpe.solve(PROBLEM, FRAME[["rain"]], potentials=scores, limits=limits)
    assert [len(part) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([p.objective for p in parts]), own.objective)
    refused(lambda: list(cmpe.solve_stream(PROBLEM, [FRAME], **options)), "with a file of evidence")


def test_iterables_give_an_answer_for_each_item():
    frames = (FRAME[i : i + 3] for i in range(0, 9, 3))
    parts = cmpe.solve_stream(PROBLEM, frames, keep="id")
    assert next(parts).to_frame()["id"].tolist() == [0, 1, 2]
    assert [part.to_frame().index.tolist() for part in parts] == [[3, 4, 5], [6, 7, 8]]


def test_soft_columns_arrays_and_mistakes(tmp_path):
    soft = pandas.DataFrame({"wind=0": [0.9], "wind=1": [0.1], "wind=2": [0.0]})
    soft.to_csv(tmp_path / "soft.csv", index=False)
    (part,) = cmpe.solve_stream(PROBLEM, tmp_path / "soft.csv")
    assert part.objective == pytest.approx(cmpe.solve(PROBLEM, soft).objective)
    np.save(tmp_path / "a.npy", np.array([[0, -1], [1, -1], [-1, -1]]))
    assert [len(p) for p in cmpe.solve_stream(PROBLEM, tmp_path / "a.npy", block=2)] == [2, 1]
    none = cmpe.solve_stream(PROBLEM, tmp_path / "none.csv")
    refused(lambda: next(none), "there is no such file", InputError)
    refused(lambda: next(cmpe.solve_stream(PROBLEM, "a.npy", block=0)), "block must be at least 1")
