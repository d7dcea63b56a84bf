import gzip

import pytest

from cmpe.errors import FormatError, InputError
from cmpe.streams import lines
from cmpe.streams.lines import line_pieces


def pieces(tmp_path, data, size=2, **options):
    file = tmp_path / "rows.csv"
    file.write_bytes(data)
    return [(p.line, p.count, p.data) for p in line_pieces(file, size, **options)]


def test_lines_come_many_at_a_time_and_blank_ones_do_not_count(tmp_path):
    found = pieces(tmp_path, b"1,2\n\n3,4\r\n  \n5,6")
    assert found == [(1, 2, b"1,2\n3,4\r\n"), (5, 1, b"5,6\n")]


def test_the_header_is_skipped(tmp_path):
    assert pieces(tmp_path, b"a,b\n1,2\n", skip=1) == [(2, 1, b"1,2\n")]


def test_a_quotation_stays_whole(tmp_path):
    found = pieces(tmp_path, b'"x\ny",1\n2,3\n', size=1)
    assert found == [(1, 1, b'"x\ny",1\n'), (3, 1, b"2,3\n")]


def test_lines_that_cross_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PIECE", 3)
    assert pieces(tmp_path, b"12,34\n56,78\n", size=9) == [(1, 2, b"12,34\n56,78\n")]


def test_packed_files(tmp_path):
    file = tmp_path / "rows.csv.gz"
    file.write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert [p.data for p in line_pieces(file, 1)] == [b"1,2\n", b"3,4\n"]
    file.write_bytes(gzip.compress(b"1,2\n3,4\n")[:-9])
    with pytest.raises(FormatError, match=r"expected a whole \.gz file"):
        list(line_pieces(file, 1))


def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="cannot be read"):
        list(line_pieces(tmp_path / "none.csv", 1))
    monkeypatch.setattr(lines, "LONGEST", 8)
    with pytest.raises(FormatError, match="lines of at most 8 bytes"):
        pieces(tmp_path, b"1,2,3,4,5,6")
    with pytest.raises(FormatError, match="closing quotation mark"):
        pieces(tmp_path, b'"\n1234567\n')
    assert pieces(tmp_path, b'"12\n') == [(1, 1, b'"12\n')]  # who parses it will say
