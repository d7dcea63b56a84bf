"""What all text formats share: compression by suffix, tokens that know their line, safe writing."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from cmpe.errors import FormatError, InputError

MOST_BYTES = 1 << 30  # A file that unpacks to more is refused.
_PIECE = 1 << 20
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def read_bytes(path: Path | str) -> bytes:
    """The whole file, decompressed by its suffix (.gz, .xz, .bz2)."""
    file = Path(path)
    opener = _OPENERS.get(file.suffix, open)
    try:
        with opener(file, "rb") as stream:
            return _read_most(path, stream)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        raise FormatError(f"{path}: expected a whole {file.suffix} file, found: {error}") from None


def _read_most(path: Path | str, stream: IO[bytes]) -> bytes:
    """In pieces: one read of `MOST_BYTES` would take that memory for the smallest file."""
    pieces: list[bytes] = []
    left = MOST_BYTES
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise FormatError(f"{path}: expected at most {MOST_BYTES} bytes, found more")
    return b"".join(pieces)


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
    return _uncompressed(path).suffix


def unpacked_name(path: Path | str) -> str:
    """The file's name without the suffix of the compression."""
    return _uncompressed(path).name


def is_replaceable(path: Path | str) -> bool:
    """Whether `path` is a plain file, or nothing yet: no device and no pipe."""
    return not _is_device(Path(path))


def stem_of(path: Path | str) -> str:
    """The name without the suffixes of format and compression."""
    return _uncompressed(path).stem


def _uncompressed(path: Path | str) -> Path:
    file = Path(path)
    return Path(file.stem) if file.suffix in _OPENERS else Path(file.name)


@contextlib.contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """What goes wrong with the disk in here becomes one line about `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def atomic_writer(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary stream that becomes `path` only if all of it was written.

    A device or a pipe cannot be replaced by a file: it is written as it is.
    """
    target = Path(path)
    with writing(path), target.open("wb") if _is_device(target) else _replacing(target) as raw:
        if target.suffix in _OPENERS:
            with _compressor(target.suffix, raw) as stream:
                yield stream
        else:
            yield raw


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `target` that takes its place; a link keeps pointing at it."""
    final = Path(os.path.realpath(target))
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", dir=final.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(name, 0o666 & ~umask())
        os.replace(name, final)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _compressor(suffix: str, raw: IO[bytes]) -> Any:
    if suffix == ".gz":  # without a time stamp: equal content gives equal bytes
        return gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
    return _OPENERS[suffix](raw, "wb")


def _is_device(target: Path) -> bool:
    """Also /dev/stdout when it is a file: a shell holds it open, so it must not be replaced."""
    is_regular = target.is_file() and Path("/dev") not in target.absolute().parents
    return target.exists() and not (is_regular or target.is_dir())


def umask() -> int:
    """The permissions that new files do not get; the system only tells while setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_writable(path: Path | str) -> None:
    """Find out before hours of work whether `path` can be written."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{path}: cannot be written: it is a directory")
    if not _is_device(target):
        with writing(path), tempfile.TemporaryFile(dir=Path(os.path.realpath(target)).parent):
            pass


def write_text(path: Path | str, text: str) -> None:
    """Write all of `text`, or nothing."""
    with atomic_writer(path) as stream:
        stream.write(text.encode())


def parse_object(path: Path | str, data: bytes | str, *, line: int = 1) -> dict[str, Any]:
    """The JSON object in `data`, which starts at `line` of the file."""
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        raise FormatError.at(path, place, "a JSON object", error.msg) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, a number too long, nested too deep
        raise FormatError.at(path, f"line {line}", "a JSON object", str(error)) from None
    if not isinstance(value, dict):
        raise FormatError.at(path, f"line {line}", "a JSON object", type(value).__name__)
    return value


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

    def recent(self, back: int) -> str:
        """The word that was taken `back` words ago; 1 is the last."""
        return self._words[self._next - back]

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
            found = f"only {self.left} more words before the end of the file"
            raise self.error(f"{count} x {expected}", found)

    def finish(self) -> None:
        """Refuse if words remain."""
        if self.left:
            raise self.error("the end of the file", f"{self._words[self._next][:40]!r}")

    def error(self, expected: str, found: str, back: int = 0) -> FormatError:
        """An error at the next word, or `back` words before it."""
        line, word = self._place(self._next - back)
        return FormatError.at(self.path, f"line {line}, word {word}", expected, found)

    def _place(self, index: int) -> tuple[int, int]:
        """Line and word within the line, both from 1, of word `index`."""
        counts = [len(line.split()) for line in self._text.split("\n")]
        line = 0
        while index >= counts[line] and line + 1 < len(counts):
            index -= counts[line]
            line += 1
        return line + 1, index + 1


def _is_real(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def lines_of(text: str) -> list[tuple[int, str]]:
    """(line number, line) of every line that is not blank."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
