"""Packed files: unpacked in pieces, padding and members told apart, no more memory than asked."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma

import pytest

from cmpe.formats import packing
from cmpe.formats.packing import BROKEN, MOST_PADDING, PACKED, packer, unpacked

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
suffixes = pytest.mark.parametrize("suffix", sorted(PACKED))
CONTENT = b"".join(b"%d " % k for k in range(50_000))


def whole(data, suffix):
    return b"".join(unpacked(io.BytesIO(data), suffix))


@suffixes
def test_what_was_packed_comes_back(suffix, monkeypatch):
    assert set(PACK) == PACKED
    data = PACK[suffix](CONTENT)
    assert whole(data, suffix) == CONTENT
    monkeypatch.setattr(packing, "PIECE", 100)
    pieces = list(unpacked(io.BytesIO(data), suffix))
    assert b"".join(pieces) == CONTENT
    assert max(map(len, pieces)) <= 100
    buffer = io.BytesIO()
    with packer(suffix, buffer) as stream:
        stream.write(CONTENT)
    assert whole(buffer.getvalue(), suffix) == CONTENT


@suffixes
def test_members_follow_each_other(suffix):
    data = PACK[suffix](b"one ")
    assert whole(data + PACK[suffix](b"two"), suffix) == b"one two"
    assert whole(data + bytes(512) + PACK[suffix](b"two"), suffix) == b"one two"
    assert whole(b"", suffix) == b""


@suffixes
def test_padding_is_short(suffix):
    data = PACK[suffix](b"one")
    assert whole(data + bytes(MOST_PADDING), suffix) == b"one"
    with pytest.raises(EOFError, match="zeros after the packed data"):
        whole(data + bytes(MOST_PADDING + 1), suffix)


@suffixes
def test_broken_data_is_one_of_few_errors(suffix):
    data = PACK[suffix](CONTENT)
    for wrong in (data[: len(data) // 2], data[:-1], data + b"junk", b"junk" + data, b"x"):
        with pytest.raises(BROKEN):
            whole(wrong, suffix)


def test_a_dictionary_has_a_limit(monkeypatch):
    data = lzma.compress(b"one", preset=9)
    assert whole(data, ".xz") == b"one"
    monkeypatch.setattr(packing, "MOST_DICTIONARY", 1 << 20)
    with pytest.raises(lzma.LZMAError):
        whole(data, ".xz")
