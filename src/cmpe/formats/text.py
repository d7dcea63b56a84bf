"""What all text formats share: compression by suffix, tokens that know their line, safe writing."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from cmpe.errors import FormatError, InputError

MOST_BYTES = 1 << 32  # of one file, after decompression
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def read_bytes(path: Path | str) -> bytes:
    """The whole file, decompressed by its suffix (.gz, .xz, .bz2)."""
    file = Path(path)
    opener = _OPENERS.get(file.suffix, open)
    try:
        with opener(file, "rb") as stream:
            data: bytes = stream.read(MOST_BYTES + 1)
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: expected a whole {file.suffix} file, found: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise FormatError(f"{path}: expected at most {MOST_BYTES} bytes, found more")
    return data


def read_text(path: Path | str) -> str:
    """The whole file as ASCII text."""
    data = read_bytes(path)
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x}"
        raise FormatError.at(path, f"line {line}", "plain ASCII text", found) from None


def suffix_of(path: Path | str) -> str:
    """The suffix that tells the format, without that of the compression."""
    file = Path(path)
    return Path(file.stem).suffix if file.suffix in _OPENERS else file.suffix


@contextlib.contextmanager
def atomic_writer(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary stream that becomes `path` only if all of it was written."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as raw:
            if target.suffix in _OPENERS:
                with _OPENERS[target.suffix](raw, "wb") as stream:
                    yield stream
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def write_text(path: Path | str, text: str) -> None:
    """Write all of `text`, or nothing."""
    with atomic_writer(path) as stream:
        stream.write(text.encode("ascii"))


class Tokens:
    """The white-space separated words of a text, taken in order, with errors that say where."""

    def __init__(self, path: Path | str, text: str) -> None:
        self.path = path
        self._text = text
        self._words = text.split()
        self._next = 0

    @property
    def left(self) -> int:
        """How many words remain."""
        return len(self._words) - self._next

    def word(self, expected: str) -> str:
        """The next word."""
        if self._next >= len(self._words):
            raise self.error(expected, "the end of the file")
        self._next += 1
        return self._words[self._next - 1]

    def whole(self, expected: str, *, least: int = 0, most: int | None = None) -> int:
        """The next word as a whole number within limits."""
        word = self.word(expected)
        if not (word.isdigit() and len(word) < 19):
            raise self.error(expected, repr(word[:40]), back=1)
        value = int(word)
        if value < least or (most is not None and value > most):
            limits = f"from {least}" + ("" if most is None else f" to {most}")
            raise self.error(f"{expected} {limits}", word, back=1)
        return value

    def wholes(
        self, count: int, expected: str, *, least: int = 0, most: int | None = None
    ) -> list[int]:
        """The next `count` words as whole numbers; refuses a count that the file cannot hold."""
        self.need(count, expected)
        return [self.whole(expected, least=least, most=most) for _ in range(count)]

    def reals(self, count: int, expected: str) -> list[float]:
        """The next `count` words as floating-point numbers."""
        self.need(count, expected)
        words = self._words[self._next : self._next + count]
        try:
            values = list(map(float, words))
        except ValueError:
            self._next += next(i for i, word in enumerate(words) if not _is_real(word))
            raise self.error(expected, repr(self._words[self._next][:40])) from None
        self._next += count
        return values

    def need(self, count: int, expected: str) -> None:
        """Refuse now if fewer than `count` words remain."""
        if count > self.left:
            self._next = len(self._words)
            raise self.error(f"{count} x {expected}", f"only {self.left} more words before the end")

    def finish(self) -> None:
        """Refuse if words remain."""
        if self.left:
            raise self.error("the end of the file", f"{self._words[self._next][:40]!r}")

    def error(self, expected: str, found: str, back: int = 0) -> FormatError:
        """An error at the next word, or `back` words before it."""
        place = self._next - back
        return FormatError.at(
            self.path, f"line {self._line(place)}, word {place + 1}", expected, found
        )

    def _line(self, place: int) -> int:
        seen = 0
        lines = self._text.split("\n")
        for number, line in enumerate(lines, 1):
            seen += len(line.split())
            if seen > place:
                return number
        return len(lines)


def _is_real(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def lines_of(path: Path | str, text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of every line that is not blank."""
    numbered = zip(itertools.count(1), text.splitlines(), strict=False)
    return ((number, line) for number, line in numbered if line.strip())
