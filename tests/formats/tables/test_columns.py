"""Evidence in columns: CSV with a header, Parquet."""

import pandas as pd
import pytest

from cmpe import LogLinearModel, Problem, read_evidence
from cmpe.errors import EvidenceError, FormatError, TooLarge
from cmpe.formats.tables import columns
from cmpe.formats.tables.columns import has_header
from tests.refusals import refused

NAMES, STATES = ("Rain", "Level", "Fuse"), (("no", "yes"), ("low", "mid", "high"), ("2", "1"))
NAMED = Problem(LogLinearModel.from_tables([2, 3, 2], [], NAMES, STATES))
PLAIN = Problem(LogLinearModel.from_tables([2, 3, 2], []))
COUNTED = Problem(LogLinearModel.from_tables([2, 2], [], ["1", "0"]))


@pytest.mark.parametrize(
    ("problem", "text", "rows"),
    [
        (NAMED, "Level,Rain\nhigh,yes\n,no\n", [[1, 2, -1], [0, -1, -1]]),
        (NAMED, 'Fuse, "Rain"\n1,1\n2,\n\n', [[1, -1, 1], [-1, -1, 0]]),
        (NAMED, "0,2,-1\n1,,0\n", [[0, 2, -1], [1, -1, 0]]),
        (PLAIN, "0,2,1\n", [[0, 2, 1]]),
        (COUNTED, "0,1\n1,0\n", [[0, 1]]),
    ],
)
def test_csv(tmp_path, problem, text, rows):
    (tmp_path / "rows.csv").write_text(text)
    assert read_evidence(tmp_path / "rows.csv", problem).tolist() == rows


def test_parquet(tmp_path):
    frame = pd.DataFrame({"Level": ["high", None], "Rain": [1, 0], "Patient": [7, 8]})
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = read_evidence(tmp_path / "rows.parquet", NAMED, ignore_extra=True)
    assert rows.tolist() == [[1, 2, -1], [0, -1, -1]]
    with pytest.raises(EvidenceError, match=r"rows.parquet: evidence: there is no variable 'Pati"):
        read_evidence(tmp_path / "rows.parquet", NAMED)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(FormatError, match="expected a Parquet file, found"):
        read_evidence(tmp_path / "rows.parquet", NAMED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Rain,Rain\nyes,no\n", "line 1: expected distinct names of columns, found Rain, Rain"),
        ("Rain,Level\nyes\n", "line 2: expected 2 cells, as the header has, found 1"),
        ('Rain\n"yes\n', "expected comma-separated cells"),
        ("Rain\nmaybe\n", "row 0: variable 'Rain' has no state 'maybe'"),
        ("Rain\n2\n", "row 0: variable 'Rain' has 2 states, numbers 0 to 1, found 2"),
        (f"Rain\n{'1' * 5000}\n", "row 0: variable 'Rain' has no state '1111"),
        (f"{'x' * 140_000}\nyes\n", "line 1: expected comma-separated cells, found field larger"),
        ("Rian\nyes\n", "there is no variable 'Rian'; did you mean 'Rain'?"),
    ],
)
def test_mistakes(tmp_path, text, message):
    (tmp_path / "rows.csv").write_text(text)
    assert message in refused(lambda: read_evidence(tmp_path / "rows.csv", NAMED))


def test_headers():
    assert not has_header("", NAMED.domain)
    assert not has_header("1,2\n", NAMED.domain)
    assert has_header("\n1,0\n", COUNTED.domain)
    assert has_header("a,0\n", NAMED.domain)
    assert not has_header("a,0\n", PLAIN.domain)


def test_text_that_is_not_utf8(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    parquet.write_table(table({"Rain": ["yes", "no", "yes"]}), tmp_path / "rows.parquet")
    data = (tmp_path / "rows.parquet").read_bytes()
    (tmp_path / "rows.parquet").write_bytes(data.replace(b"yes", b"\xffes"))
    message = refused(lambda: read_evidence(tmp_path / "rows.parquet", NAMED))
    assert "expected a Parquet file, found" in message


@pytest.mark.parametrize("notes", ["[]", "{}", '{"index_columns": [], "columns": 5}'])
def test_odd_notes_of_pandas(tmp_path, notes):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    path = tmp_path / "rows.parquet"
    parquet.write_table(table({"Rain": [0]}).replace_schema_metadata({"pandas": notes}), path)
    assert "expected a Parquet file" in refused(lambda: read_evidence(path, NAMED))


def test_more_cells_than_memory_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "MOST_CELLS", 5)
    (tmp_path / "rows.csv").write_text("A,B\n" + "0,1\n" * 3)
    problem = Problem(LogLinearModel.from_tables([2, 2], [], ["A", "B"]))
    message = refused(lambda: read_evidence(tmp_path / "rows.csv", problem), kind=TooLarge)
    assert "more than 5 cells by name" in message
