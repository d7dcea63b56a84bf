"""evidence: both forms of .evid, .npy and .csv, and what does not fit the problem."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import EvidenceError, FormatError, InputError, TooLarge
from cmpe.formats import evidence
from cmpe.formats.evidence import read_array, read_evidence, write_evid
from cmpe.formats.uai import read_uai
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem

DATA = Path(__file__).parents[2].parent / "shared" / "data"
PROBLEM = Problem(LogLinearModel((2, 3, 2)), evidence_variables=(2, 1))
WIDE = Problem(LogLinearModel((10**6,) * 50))  # takes the variables and values of all samples
samples = st.dictionaries(st.integers(0, 49), st.integers(0, 10**6 - 1), max_size=6)


def samples_of(path, problem=WIDE):
    """The samples of an `.evid` file, each a mapping from variable to value."""
    rows = read_evidence(path, problem)
    return [{int(v): int(row[v]) for v in np.flatnonzero(row >= 0)} for row in rows]


def save(tmp_path, content, name="e.evid"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evidence")


@settings(deadline=None, derandomize=True)
@given(st.lists(samples, min_size=1, max_size=6), st.sampled_from(["", ".gz", ".xz", ".bz2"]))
def test_samples_come_back(folder, rows, suffix):
    path = folder / f"e.evid{suffix}"
    write_evid(rows, path)
    assert samples_of(path) == rows


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("2 0 1 5 0", [{0: 1, 5: 0}]),
        ("0\n", [{}]),
        ("\n 2\t0 1\n5 0 \n", [{0: 1, 5: 0}]),  # one sample over several lines
        ("2\n5\n0\n7\n1\n", [{5: 0, 7: 1}]),  # a word a line
        ("1\n2 0 1 5 0\n", [{0: 1, 5: 0}]),
        ("3\n1 0 1\n0\n\n2 5 0 6 1\n", [{0: 1}, {}, {5: 0, 6: 1}]),
        ("2\n0\n0", [{}, {}]),
        ("2\r\n1 0 1\r\n1 0 0\r\n", [{0: 1}, {0: 0}]),
        ("2 4 1 4 1", [{4: 1}]),  # said twice, no contradiction
    ],
)
def test_one_line_and_many_sample_forms(tmp_path, content, expected):
    assert samples_of(save(tmp_path, content)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected the number of observed variables, found an empty file"),
        ("one 0 1", "line 1: expected whole numbers, found 'one'"),
        ("1 0 -1", "line 1: expected whole numbers, found '-1'"),
        ("1 0 1.0", "line 1: expected whole numbers, found '1.0'"),
        ("1 0 9999999999", "line 1: expected whole numbers, found '9999999999'"),
        ("3 0 1 5 0", "line 1: expected 3 pairs of variable and value after the count, found 4"),
        ("1 0 1 5", "line 1: expected 1 pairs of variable and value after the count, found 3"),
        ("999999999 0 1", "line 1: expected 999999999 pairs"),
        ("3\n1 0 1\n1 0 1\n", "line 1: expected 3 samples, as the first line says, found 2"),
        ("3\n1 4 0\n1 2 1\n", "line 1: expected 3 samples, as the first line says, found 2"),
        ("1\n0\n0\n", "line 1: expected 1 samples, as the first line says, found 2"),
        ("2\n1 0 1\n2 0 1\n", "line 3: expected 2 pairs of variable and value after the count"),
        ("2\n1 0 1\n2 3 1 3 0", "line 3: expected one value of variable 3, found 1 and 0"),
        ("2 3 0 3 1", "line 1: expected one value of variable 3, found 0 and 1"),
    ],
)
def test_broken_evidence_is_refused_with_its_line(tmp_path, content, message):
    with pytest.raises(FormatError) as caught:
        samples_of(save(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path}/e.evid: {message}")


def test_no_samples_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="expected at least one sample"):
        write_evid([], tmp_path / "e.evid")


def test_evid_rows_are_full_width(tmp_path):
    rows = read_evidence(save(tmp_path, "2\n2 0 1 1 2\n1 2 0\n"), PROBLEM)
    assert rows.tolist() == [[1, 2, -1], [-1, -1, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2\n0\n1 3 0", "line 3: expected variables below 3, found 3"),
        ("1 1 3", "line 1: expected a value of variable 1 below 3, found 3"),
        ("1 999999999 0", "line 1: expected variables below 3, found 999999999"),
    ],
)
def test_evid_out_of_range(tmp_path, content, message):
    with pytest.raises(FormatError, match=f"e.evid: {message}"):
        read_evidence(save(tmp_path, content), PROBLEM)


ARRAYS = {
    "c.npy": npy(np.array([[1, 2], [0, 0]], dtype=np.int8)),
    "fortran.npy": npy(np.asfortranarray([[1, 2], [0, 0]])),
    "big-endian.npy": npy(np.array([[1, 2], [0, 0]], dtype=">u8")),
    "plain.csv": "1,2\n0,0\n",
    "spaced.csv": "1 , 2\r\n\r\n0,0",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_rows_of_evidence_values(tmp_path, name):
    assert read_evidence(save(tmp_path, ARRAYS[name], name), PROBLEM).tolist() == [[1, 2], [0, 0]]


def test_rows_of_all_variables(tmp_path):
    for name, content in (("e.csv", "1,,0\n-1,2,\n"), ("e.npy", npy([[1, -1, 0], [-1, 2, -1]]))):
        rows = read_evidence(save(tmp_path, content, name), PROBLEM)
        assert rows.tolist() == [[1, -1, 0], [-1, 2, -1]]


def test_booleans_and_no_rows(tmp_path):
    assert read_array(save(tmp_path, npy(np.array([[True, False]])), "b.npy")).tolist() == [[1, 0]]
    assert read_array(save(tmp_path, npy(np.zeros((0, 2), int)), "z.npy")).shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.npy", npy([[2, 0]]), "row 0, variable 2: evidence must be from 0 to 1, found 2"),
        ("e.csv", "0,1\n0,3\n", "row 1, variable 1: evidence must be from 0 to 2, found 3"),
        ("e.csv", "0,-1\n", "row 0, variable 1: evidence must be from 0 to 2, found -1"),
        ("e.csv", "0,1,2\n", "row 0, variable 2: evidence must be from 0 to 1, found 2"),
    ],
)
def test_rows_out_of_range_name_the_file(tmp_path, name, content, message):
    with pytest.raises(EvidenceError, match=f"{name}: {message}"):
        read_evidence(save(tmp_path, content, name), PROBLEM)


def header(text, version=1):
    body = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(body)) + body


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.txt", "0,1", r"expected a file ending in \.evid, \.npy, \.csv or \.parquet"),
        ("e.csv", "\n \n", "line 1: expected a row of evidence, found an empty file"),
        ("e.csv", "a,b\n0,1\n", "line 1: expected whole numbers or -1, found 'a'"),
        ("e.csv", "0,1\n0,1e5\n", "line 2: expected whole numbers or -1, found '1e5'"),
        ("e.csv", "0,1\n\n0,9999999999\n", "line 3: expected whole numbers or -1"),
        ("e.csv", "0,1\n0\n", "line 2: expected 2 cells, found 1"),
        ("e.csv", "0\n", "every row: expected 2 columns or 3 columns, found 1"),
        ("e.npy", npy([[0, 1]])[:-1], r"expected 16 bytes for shape \(1, 2\), found 15"),
        ("e.npy", npy([[0, 1]]) + b"x", r"expected 16 bytes for shape \(1, 2\), found 17"),
        ("e.npy", npy([0, 1]), r"expected two axes \(rows, variables\), found \(2,\)"),
        ("e.npy", npy([[0.0, 1.0]]), "expected whole numbers, found dtype float64"),
        ("e.npy", npy([[2**63 + 1]]), "expected values within 32 bits"),
        ("e.npy", npy([[2**32, 0]]), "expected values within 32 bits"),
        ("e.npy", npy(np.array([[0, "a"]], dtype=object)), "expected numbers, found dtype object"),
        ("e.npy", b"", r"expected a \.npy array"),
        ("e.npy", b"PK\3\4 and more", r"expected a \.npy array"),
        ("e.npy", header("((((((", 1), r"expected a \.npy array"),
        ("e.npy", header("{'descr': '<i8',", 1), r"expected a \.npy array"),
        ("e.npy", header("{}", 9), r"expected a \.npy array"),
        ("e.npy", header("{}" + " " * 20_000), "array, found: Header info length .* securely.$"),
    ],
)
def test_broken_arrays_are_refused(tmp_path, name, content, message):
    with pytest.raises(FormatError, match=f"{name}: .*{message}|{name}: {message}"):
        read_evidence(save(tmp_path, content, name), PROBLEM)


@pytest.mark.parametrize(
    "shape", ["(999999999, 3)", "(999999999999, 3)", "(0, 10**30)", "(-1, -3)"]
)
def test_an_array_is_not_allocated_because_it_says_so(tmp_path, shape):
    shape = str(eval(shape))
    claim = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}"
    path = save(tmp_path, header(claim) + bytes(24), "e.npy")
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"e\.npy: the (array|shape): expected"):
            read_array(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_public_evidence():
    folder = DATA / "uai_formats"
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    path = folder / "Promedus_24.uai.evid"
    words = [int(word) for word in path.read_text().split()]
    expected = dict(zip(words[1::2], words[2::2], strict=True))
    assert samples_of(path, Problem(read_uai(folder / "Promedus_24.uai"))) == [expected]
    assert len(expected) == words[0] > 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 0 1 " * 20, "at most 13 numbers in a sample of 3 variables, found more"),
        ("2\n" + "1 0 1\n" * 9, "expected 2 samples, as the first line says, found more lines"),
        ("0\n" * 6, "at most 4 lines, found more"),
    ],
)
def test_evidence_that_cannot_be_right_is_refused_early(tmp_path, content, message, monkeypatch):
    monkeypatch.setattr(evidence, "MOST_LINES", 4 if "lines, found more" in message else 100)
    with pytest.raises(FormatError, match=message):
        read_evidence(save(tmp_path, content), PROBLEM)


def test_rows_that_a_small_file_asks_for_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "MOST_ROWS", 100)
    path = save(tmp_path, "9\n" + "0\n" * 9)
    with pytest.raises(TooLarge, match="9 rows of 3 variables take"):
        read_evidence(path, PROBLEM)


def test_a_variable_may_be_named_twice(tmp_path):
    path = save(tmp_path, "4 0 1 0 1 1 2 1 2")
    assert samples_of(path, PROBLEM) == [{0: 1, 1: 2}]


def test_more_axes_than_an_array_has_are_refused(tmp_path):
    """A shape of 70 axes, one of them 0, so that no byte is needed."""
    header = npy(np.zeros(0)).replace(b"(0,)" + b" " * 220, b"")
    shape = "(0, " + "1, " * 69 + ")"
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    data = header[:8] + struct.pack("<H", len(text) + 1) + text + b"\n"
    with pytest.raises(FormatError, match="the shape: expected sizes of an array"):
        read_evidence(save(tmp_path, data, "e.npy"), PROBLEM)


def cells_one_by_one(text):
    """What a file of cells means, or None where it is refused."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    if not rows or len({len(row) for row in rows}) > 1:
        return None
    if not all(re.fullmatch(r"|-1|[0-9]{1,9}", cell) for row in rows for cell in row):
        return None
    return [[int(cell or -1) for cell in row] for row in rows]


LINES = st.lists(
    st.sampled_from(
        [
            "0,1",
            "1,-1",
            ",12",
            "0",
            "1,2,3",
            "",
            " 0, 1",
            "1-1,0",
            "-,1",
            "-0,1",
            "123456789,0",
            "1234567890,0",
            "--1,0",
            "0,,1",
        ]
    )
)


@settings(max_examples=300)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.integers(1, 40))
def test_cells_are_read_in_bulk_as_one_by_one(folder, lines, end, closed, block):
    file = folder / "m.csv"
    file.write_bytes(end.join([*lines, ""] if closed else lines).encode())
    problem = Problem(LogLinearModel((10**9,) * 3))
    expected = cells_one_by_one(file.read_bytes().decode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "BLOCK", block)
        patch.setattr(evidence, "check_rows", lambda _path, rows, *_: rows)
        if expected is None:
            with pytest.raises(FormatError):
                read_evidence(file, problem)
        else:
            assert read_evidence(file, problem).tolist() == expected
