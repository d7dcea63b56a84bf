"""Compressed files (.gz, .xz, .bz2), unpacked in pieces up to a limit."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

PIECE = 1 << 20  # At most so many bytes are unpacked at once.
MOST_PADDING = 1 << 16  # Zeros after the packed data: tapes and xz pad with a few.
MOST_DICTIONARY = 1 << 28  # What an .xz file may ask for to be unpacked; `xz -9` asks for 65 MiB.
BROKEN = (EOFError, lzma.LZMAError, zlib.error, OSError)  # what unpacking a broken file raises


class _GzipUnpacker:
    """zlib's decompressor with the interface of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, most: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, most)


_UNPACKERS: dict[str, Callable[[], Any]] = {
    ".gz": _GzipUnpacker,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(memlimit=MOST_DICTIONARY),
}
PACKED = frozenset(_UNPACKERS)


def unpacked(stream: IO[bytes], suffix: str) -> Iterator[bytes]:
    """The bytes in a packed stream, piece by piece; one of `BROKEN` is raised if it is broken."""
    packed = stream.read(PIECE)
    while packed:
        unpacker = _UNPACKERS[suffix]()
        while not unpacker.eof:
            if unpacker.needs_input and not packed:
                packed = stream.read(PIECE)
                if not packed:
                    raise EOFError("it ends too early")
            yield unpacker.decompress(packed, PIECE)
            packed = b""
        packed = _after_padding(stream, unpacker.unused_data)


def _after_padding(stream: IO[bytes], packed: bytes) -> bytes:
    """What follows the zeros at the end of packed data."""
    zeros = 0
    while packed := packed or stream.read(PIECE):
        rest = packed.lstrip(b"\0")
        zeros += len(packed) - len(rest)
        if zeros > MOST_PADDING:
            raise EOFError(f"more than {MOST_PADDING} zeros after the packed data")
        if rest:
            return rest
        packed = b""
    return b""


def packer(suffix: str, raw: IO[bytes]) -> Any:
    """A stream that packs what is written to it into `raw`."""
    if suffix == ".gz":  # without a time stamp: equal content gives equal bytes
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
    return bz2.open(raw, "wb") if suffix == ".bz2" else lzma.open(raw, "wb")
