"""debd: rows of comma-separated small whole numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cmpe.errors import FormatError
from cmpe.formats.debd import read_debd

DENSITY = Path(__file__).parents[2].parent / "shared" / "data" / "density"
COLUMNS = {"nltcs": 16, "dna": 180, "bbc": 1058, "ad": 1556, "cwebkb": 839, "c20ng": 910}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("debd")


@settings(deadline=None, derandomize=True)
@given(
    arrays.arrays(
        np.uint8,
        st.tuples(st.integers(1, 6), st.integers(1, 6)),
        elements=st.one_of(st.integers(0, 1), st.integers(0, 255)),
    ),
    st.sampled_from(["", ".gz"]),
)
def test_rows_come_back(folder, rows, suffix):
    path = folder / f"a.data{suffix}"
    np.savetxt(path, rows, fmt="%d", delimiter=",")
    back = read_debd(path)
    assert back.dtype == np.uint8
    assert np.array_equal(back, rows)


@pytest.mark.parametrize("content", ["0,1\n1,1\n", "0,1\r\n1,1", "\n0 , 1\n\n1,1\n", "0,1\n1,1"])
def test_line_ends_and_spaces_do_not_matter(tmp_path, content):
    path = tmp_path / "a.data"
    path.write_bytes(content.encode())
    assert read_debd(path).tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected a row of data, found an empty file"),
        ("\n\n", "line 1: expected a row of data, found an empty file"),
        ("0,1\n0,1,1\n0\n", "line 2: expected 2 columns, found 3"),  # six cells all the same
        ("0,1,1\n,,1 0 1\n", "line 2: expected whole numbers from 0 to 255, found ''"),
        ("0,1\n0 1\n", "line 2: expected 2 columns, found 1"),
        ("0,1\n0;1\n", "line 2: expected 2 columns, found 1"),
        ("0,x\n", "line 1: expected whole numbers from 0 to 255, found 'x'"),
        ("0,1\n0,-\n", "line 2: expected whole numbers from 0 to 255, found '-'"),
        ("0,1\n0,256\n", "line 2: expected whole numbers from 0 to 255, found '256'"),
        ("0,1\n0,-1\n", "line 2: expected whole numbers from 0 to 255, found '-1'"),
        ("0,1\n0,1.0\n", "line 2: expected whole numbers from 0 to 255, found '1.0'"),
        ("0,1\n0,nan\n", "line 2: expected whole numbers from 0 to 255, found 'nan'"),
    ],
)
def test_broken_rows_are_refused_with_their_line(tmp_path, content, message):
    path = tmp_path / "a.data"
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_debd(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("name", COLUMNS)
def test_public_data(name):
    path = DENSITY / f"{name}.valid.data.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    rows = read_debd(path)
    assert rows.shape[1] == COLUMNS[name]
    assert len(rows) > 100
    assert np.unique(rows).tolist() == [0, 1]
