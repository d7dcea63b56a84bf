"""text: compression by suffix, words that know their place, all of a file or nothing."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import stat
import threading
import time

import pytest

import cmpe
from cmpe.errors import FormatError, InputError, TooLarge
from cmpe.formats import text
from cmpe.formats.text import (
    Tokens,
    atomic_writer,
    check_writable,
    lines_of,
    parse_object,
    parts_of,
    read_bytes,
    read_text,
    stem_of,
    suffix_of,
    write_text,
)
from tests.refusals import fill_disk

SENTENCE = "one two\n three\n" * 50
PLAIN = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress, ".uai": bytes}


@pytest.mark.parametrize("suffix", PLAIN)
def test_the_suffix_decides_the_compression(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    write_text(path, SENTENCE)
    assert PLAIN[suffix](path.read_bytes()) == SENTENCE.encode()
    assert read_text(path) == SENTENCE


def test_gzip_gives_equal_bytes_for_equal_content_at_any_time(tmp_path, monkeypatch):
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    write_text(first, SENTENCE)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    write_text(second, SENTENCE)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_a_truncated_or_foreign_archive_is_refused(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    write_text(path, SENTENCE)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"MARKOV 1 2 0 and then some more"):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=rf"file\{suffix}: expected a whole \{suffix} file"):
            read_bytes(path)


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.gz"
    monkeypatch.setattr(text, "MOST_UNPACKED", 1000)
    write_text(path, "0" * 1000)
    assert len(read_bytes(path)) == 1000
    write_text(path, "0" * 100_000)
    with pytest.raises(FormatError, match="expected at most 1000 bytes, found more"):
        read_bytes(path)


@pytest.mark.parametrize("name", ["zeros.uai", "zeros.npy", "zeros.gz", "zeros.xz"])
def test_a_file_that_is_too_large_is_refused_unread(tmp_path, name):
    """10 GB of zeros on a disk that stores none of them."""
    path = tmp_path / name
    with path.open("wb") as stream:
        stream.truncate(10 << 30)
    with pytest.raises(FormatError, match="expected at most 1073741824 bytes, found more"):
        read_bytes(path)


def test_an_object_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(text, "MOST_JSON", 10)
    with pytest.raises(FormatError, match="an object of at most 10 bytes, found one of 14"):
        parse_object("f", '{"a": 1234567}')


def test_not_enough_memory_is_one_line(tmp_path, monkeypatch):
    def exhausted(*_):
        raise MemoryError

    monkeypatch.setattr(text, "gathered", exhausted)
    (tmp_path / "a").write_bytes(b"0")
    with pytest.raises(TooLarge, match="not enough memory to read it"):
        read_bytes(tmp_path / "a")


def test_what_cannot_be_read_says_why(tmp_path):
    with pytest.raises(InputError, match=r"none\.uai: cannot be read: No such file"):
        read_text(tmp_path / "none.uai")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_text(tmp_path)


def test_text_that_is_not_ascii_is_refused_with_its_line(tmp_path):
    path = tmp_path / "a.uai"
    path.write_bytes(b"MARKOV\n2\xc2\xa02\n")
    with pytest.raises(FormatError, match="line 2: expected plain ASCII text, found byte 0xc2"):
        read_text(path)


def test_suffix_and_stem_look_through_the_compression():
    assert [suffix_of(p) for p in ("a.b/m.LG.xz", "m.uai", "m.gz", "m")] == [".LG", ".uai", "", ""]
    assert [stem_of(p) for p in ("a.b/m.1.uai.gz", "m.uai", "m.gz", "m")] == ["m.1", "m", "m", "m"]


def test_a_writer_that_fails_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail_midway():
        with atomic_writer(path) as stream:
            stream.write(b"half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_midway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_full_disk_is_one_line_and_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    write_text(path, "old")
    fill_disk(monkeypatch)
    with pytest.raises(InputError, match=r"a\.gz: cannot be written: No space left on device"):
        write_text(path, SENTENCE)
    assert read_text(path) == "old"
    assert os.listdir(tmp_path) == ["a.gz"]


def test_new_files_have_the_permissions_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    write_text(tmp_path / "ours", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("other", "ours")}
    assert len(modes) == 1


def test_a_link_keeps_pointing_at_what_was_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "content"


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    check_writable(pipe)
    write_text(pipe, "content")
    reader.join(10)
    assert received == ["content"]
    assert pipe.is_fifo()


def test_check_writable_leaves_no_trace(tmp_path):
    for name in ("a", "a.probe"):
        (tmp_path / name).write_text("old")
    check_writable(tmp_path / "a")
    check_writable(tmp_path / "new")
    assert sorted(os.listdir(tmp_path)) == ["a", "a.probe"]
    assert (tmp_path / "a.probe").read_text() == "old"


def test_check_writable_names_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"none/a\.json: cannot be written: No such file"):
        check_writable(tmp_path / "none" / "a.json")
    with pytest.raises(InputError, match="cannot be written: it is a directory"):
        check_writable(tmp_path)


def tokens(content):
    return Tokens("f", content)


def test_tokens_count_lines_and_the_words_of_a_line():
    words = tokens("a b\n\n  c\n")
    assert [words.error("x", "y", back=-k).args[0] for k in range(4)] == [
        "f: line 1, word 1: expected x, found y",
        "f: line 1, word 2: expected x, found y",
        "f: line 3, word 1: expected x, found y",
        "f: line 4, word 1: expected x, found y",  # the end of the file
    ]


@pytest.mark.parametrize(
    ("content", "take", "message"),
    [
        ("", lambda t: t.word("MARKOV"), "line 1, word 1: expected MARKOV, found the end of"),
        ("x", lambda t: t.whole("a count"), "expected a count, found 'x'"),
        ("-1", lambda t: t.whole("a count"), "expected a count, found '-1'"),
        ("9" * 30, lambda t: t.whole("a count"), "expected a count, found '9999"),
        ("5", lambda t: t.whole("a count", most=4), "expected a count from 0 to 4, found 5"),
        ("0", lambda t: t.whole("a count", least=1), "expected a count from 1, found 0"),
        (
            "1 2 c",
            lambda t: t.floats(next(t.blocks(3, "an entry")), "an entry"),
            "word 3: expected an entry, found 'c'",
        ),
        (
            "1",
            lambda t: t.need(10**18, "a row"),
            "expected 1000000000000000000 x a row, found only",
        ),
        ("a \u2028 \x85\n", lambda t: [t.word("x"), t.word("y")], "line 2, word 1: expected y"),
        ("1 2", lambda t: t.finish(), "word 1: expected the end of the file, found '1'"),
    ],
)
def test_tokens_say_what_they_expected(content, take, message):
    with pytest.raises(FormatError) as caught:
        take(tokens(content))
    assert message in str(caught.value)


def test_lines_of_numbers_what_is_not_blank():
    assert list(lines_of("a\n\n \t\nb")) == [(1, "a"), (4, "b")]
    assert list(lines_of("a\r\n\rb\r")) == [(1, "a"), (3, "b")]
    assert list(lines_of("")) == []


def test_parts_are_those_of_split():
    for content in ("", ",", "a", "a,b,,c,"):
        assert list(parts_of(content, ",")) == content.split(",")


def test_words_are_made_block_by_block(monkeypatch):
    """However the blocks fall, words, counts and places are those of the whole text."""
    content = "".join(f"{k} {'x' * (k % 7)}\n\t" for k in range(60))
    places = [
        (number, word)
        for number, line in enumerate(content.split("\n"), 1)
        for word in range(1, 1 + len(line.split()))
    ]
    for block in (1, 5, 64, 1 << 20):
        monkeypatch.setattr(text, "BLOCK", block)
        words = tokens(content)
        assert words.left == len(content.split()) == len(places)
        for line, word in places[:40]:
            assert f"line {line}, word {word}:" in str(words.error("x", "y"))
            words.word("a word")
        assert [w for some in words.blocks(30, "words") for w in some] == content.split()[40:70]
        assert f"line {places[69][0]}, word {places[69][1]}:" in str(words.error("x", "y", back=1))


@pytest.mark.parametrize(
    ("data", "place", "found"),
    [
        ('{"a": 1,\n "b": }', "line 8, column 7", "Expecting value"),
        ("[1]", "line 7", "list"),
        ("[" * 100_000, "line 7", "recursion"),
        ('{"a": ' + "9" * 5000 + "}", "line 7", "digits"),
        (b'{"a": "\xff"}', "line 7", "invalid start byte"),
    ],
)
def test_parse_object_refuses_all_but_an_object(data, place, found):
    with pytest.raises(FormatError, match=rf"f: {place}: expected a JSON object, found .*{found}"):
        parse_object("f", data, line=7)


def test_parse_object_reads_what_json_writes():
    value = {"name": "modèle", "list": [1, 2.5, None]}
    assert parse_object("f", json.dumps(value)) == value


@pytest.mark.parametrize(
    ("name", "mark"), [("m.bif", '"a" '), ("m.net", "%\n"), ("m.erg", "/**/"), ("m.uai", "#\n")]
)
def test_too_many_quoted_words_and_comments_are_refused(tmp_path, monkeypatch, name, mark):
    """A file of megabytes would make gigabytes of small texts."""
    (tmp_path / name).write_text(4 * mark)
    monkeypatch.setattr(text, "MOST_MARKED", 3)
    with pytest.raises(TooLarge, match="more than 3 quoted words and comments"):
        cmpe.read_model(tmp_path / name)
