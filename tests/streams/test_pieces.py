import numpy as np
import pandas
import pytest

from cmpe.errors import EvidenceError, FormatError, InputError, MissingExtra
from cmpe.streams.pieces import MemorySource, small, source_of
from tests.streams.work import named_problem

ROWS = np.array([[0, 0], [1, 2], [0, 1], [1, 1], [0, 2]])
PROBLEM = named_problem()


def blocks(source, size=2, wanted=lambda number: True):
    """(number, first, rows) of each block, as a list."""
    return [
        (b.number, b.first, b.piece.read(PROBLEM).states[:, :2].tolist())
        for b in source.blocks(size, wanted)
    ]


EXPECTED = [(0, 0, ROWS[:2].tolist()), (1, 2, ROWS[2:4].tolist()), (2, 4, ROWS[4:].tolist())]
FRAME = pandas.DataFrame({
    "a": np.array(["no", "yes"])[ROWS[:, 0]], "b": np.array(["low", "high", "top"])[ROWS[:, 1]]
})  # fmt: skip


def npy(folder):
    np.save(folder / "e.npy", ROWS)
    return folder / "e.npy"


def fortran(folder):
    np.save(folder / "f.npy", np.asfortranarray(ROWS.astype(np.int16)))
    return folder / "f.npy"


def plain_csv(folder):
    (folder / "e.csv").write_text("\n".join(f"{a},{b}" for a, b in ROWS.tolist()))
    return folder / "e.csv"


def csv(folder):
    FRAME.to_csv(folder / "h.csv", index=False)
    return folder / "h.csv"


def parquet(folder):
    FRAME.to_parquet(folder / "e.parquet", row_group_size=2)
    return folder / "e.parquet"


def parquets(folder):
    (folder / "all").mkdir()
    for k, part in enumerate((FRAME[:1], FRAME[1:4], FRAME[4:])):
        part.to_parquet(folder / "all" / f"{k}.parquet", index=False)
    return folder / "all"


def evid(folder):
    lines = "\n".join(f"2 0 {a} 1 {b}" for a, b in ROWS.tolist())
    (folder / "e.evid").write_text(f"5\n{lines}\n")
    return folder / "e.evid"


@pytest.mark.parametrize("make", [npy, fortran, plain_csv, csv, parquet, parquets, evid])
def test_every_source_gives_the_same_blocks(make, tmp_path):
    source = source_of(make(tmp_path), PROBLEM)
    assert source.rows == (None if make in (csv, plain_csv) else 5)
    assert blocks(source) == EXPECTED
    assert blocks(source, wanted=lambda n: n == 2) == EXPECTED[2:]
    assert blocks(source, wanted=lambda n: n != 1) == [EXPECTED[0], EXPECTED[2]]
    assert blocks(source, wanted=lambda n: False) == []
    assert blocks(source, size=7) == [(0, 0, ROWS.tolist())]


def test_a_file_is_known_by_its_name_size_and_ends(tmp_path):
    file = npy(tmp_path)
    before = source_of(file, PROBLEM).identity()
    assert before[0][:2] == ["e.npy", file.stat().st_size]
    np.save(file, 1 - ROWS % 2)
    assert source_of(file, PROBLEM).identity() != before
    assert source_of(csv(tmp_path), PROBLEM).identity()[0][0] == "h.csv"
    names = [known[0] for known in source_of(parquets(tmp_path), PROBLEM).identity()]
    assert names == ["0.parquet", "1.parquet", "2.parquet"]


def test_numbers_travel_in_few_bytes():
    assert small(ROWS).dtype == np.int8
    assert small(ROWS * 200).dtype == np.int64
    assert small(ROWS / 2).dtype == np.float64
    assert MemorySource(ROWS, [["rows", 5, "x"]]).identity() == [["rows", 5, "x"]]


def test_errors_say_where(tmp_path):
    (tmp_path / "e.csv").write_text("0,0\n1,2\n0,9\n")
    (second,) = source_of(tmp_path / "e.csv", PROBLEM).blocks(2, lambda n: n == 1)
    assert second.piece.count == 1
    with pytest.raises(EvidenceError, match=r"e\.csv, counted from line 3: row 0, .*found 9"):
        second.piece.read(PROBLEM)
    (tmp_path / "e.csv").write_bytes(b"0,0\n0,\xff\n")
    (block,) = source_of(tmp_path / "e.csv", PROBLEM).blocks(2, lambda n: True)
    with pytest.raises(FormatError, match="expected UTF-8 text"):
        block.piece.read(PROBLEM)


def test_what_is_no_source_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such file"):
        source_of(tmp_path / "none.npy", PROBLEM)
    with pytest.raises(InputError, match="found none"):
        source_of(tmp_path, PROBLEM)
    np.save(tmp_path / "f.npy", ROWS / 2)
    with pytest.raises(FormatError, match="rows of whole numbers"):
        source_of(tmp_path / "f.npy", PROBLEM)
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(FormatError, match="an empty file"):
        blocks(source_of(tmp_path / "e.csv", PROBLEM))
    (tmp_path / "e.parquet").write_text("nothing")
    with pytest.raises(FormatError, match="expected a Parquet file"):
        source_of(tmp_path / "e.parquet", PROBLEM)
    with pytest.raises(InputError, match="cannot be read"):
        source_of(tmp_path / "none.parquet", PROBLEM)
    folder = parquets(tmp_path)
    FRAME[["a"]].to_parquet(folder / "3.parquet")
    with pytest.raises(FormatError, match=r"those of 0\.parquet"):
        source_of(folder, PROBLEM)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="frames"):
        source_of(folder, PROBLEM)
