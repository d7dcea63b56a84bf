"""query: the variables asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import FormatError
from cmpe.formats.query import read_query, write_query


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("query")


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 10**9), unique=True, max_size=8), st.sampled_from(["", ".gz"]))
def test_queries_come_back(folder, variables, suffix):
    path = folder / f"a.query{suffix}"
    write_query(variables, path)
    assert read_query(path) == tuple(variables)


def test_any_white_space_separates(tmp_path):
    path = tmp_path / "a.query"
    path.write_text("\n3\n 4\t0\r\n7")
    assert read_query(path) == (4, 0, 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1, word 1: expected the number of query variables, found the end of the file"),
        ("two 1 2", "line 1, word 1: expected the number of query variables, found 'two'"),
        ("2\n1", "line 2, word 1: expected 2 x a query variable, found only 1 more words"),
        ("99999999999 1", "line 1, word 2: expected 99999999999 x a query variable"),
        ("2 1 -2", "line 1, word 3: expected a query variable, found '-2'"),
        ("3 4 5 5", "line 1, word 2: expected distinct query variables, found 5 twice"),
        ("1 4 5", "line 1, word 3: expected the end of the file, found '5'"),
    ],
)
def test_a_broken_query_is_refused_where_it_lies(tmp_path, content, message):
    path = tmp_path / "a.query"
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_query(path)
    assert str(caught.value).startswith(f"{path}: {message}")
