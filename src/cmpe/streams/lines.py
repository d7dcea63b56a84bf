"""Lines of a text file, many at a time, without reading the rest of it.

A line that opens a quotation goes on until the quotation is closed, as in CSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cmpe.errors import FormatError, InputError
from cmpe.formats.packing import BROKEN, PACKED, PIECE, unpacked

LONGEST = 1 << 26  # bytes of a line


@dataclass(frozen=True)
class LinePiece:
    """Lines that are not blank, end to end."""

    line: int  # the number of the first, from 1
    count: int
    data: bytes


def line_pieces(path: Path, size: int, skip: int = 0) -> Iterator[LinePiece]:
    """The lines after the first `skip`, `size` at a time."""
    held: list[bytes] = []
    first = 1
    for number, line in _records(path):
        if skip:
            skip -= 1
            continue
        if not held:
            first = number
        held.append(line)
        if len(held) == size:
            yield LinePiece(first, size, b"".join(held))
            held = []
    if held:
        yield LinePiece(first, len(held), b"".join(held))


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line with its end) of every line that is not blank; quotations stay whole."""
    open_line, begun = b"", 0
    for number, line in enumerate(_lines(path), 1):
        begun = begun or number
        open_line += line
        if open_line.count(b'"') % 2:
            if len(open_line) > LONGEST:
                raise FormatError.at(path, f"line {begun}", "a closing quotation mark", "none")
            continue
        if open_line.strip():
            yield begun, open_line
        open_line, begun = b"", 0
    if open_line.strip():
        yield begun, open_line


def _lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for data in _chunks(path):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > LONGEST:
            raise FormatError(f"{path}: expected lines of at most {LONGEST} bytes, found more")
    if rest:
        yield rest + b"\n"


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            if path.suffix in PACKED:
                yield from unpacked(stream, path.suffix)
            else:
                yield from iter(lambda: stream.read(PIECE), b"")
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        raise FormatError(f"{path}: expected a whole {path.suffix} file, found: {error}") from None
