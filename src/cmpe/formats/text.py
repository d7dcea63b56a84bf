"""Shared by all text formats: compression by suffix, tokens that know their line, safe writing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, AnyStr

import numpy as np

from cmpe.errors import FormatError, InputError, TooLarge
from cmpe.formats.packing import BROKEN, PACKED, PIECE, packer, unpacked

MOST_BYTES = 1 << 30  # A larger file is refused,
MOST_UNPACKED = 1 << 28  # and so is a packed one that unpacks to more,
MOST_JSON = 1 << 25  # and a longer JSON object: as Python values it takes 20 times its text.
MOST_MARKED = 1 << 22  # Quoted words and comments: each takes about 100 bytes.
BLOCK = 1 << 20  # Characters that become words at once.
_IS_SPACE = np.array([chr(code).isspace() for code in range(256)])  # as str.split has it


def read_bytes(path: Path | str) -> bytes:
    """The whole file, decompressed by its suffix (.gz, .xz, .bz2)."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > MOST_BYTES:
                raise FormatError(f"{path}: expected at most {MOST_BYTES} bytes, found more")
            if file.suffix in PACKED:
                return gathered(path, unpacked(stream, file.suffix), MOST_UNPACKED)
            return gathered(path, iter(lambda: stream.read(PIECE), b""), MOST_BYTES)
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        raise FormatError(f"{path}: expected a whole {file.suffix} file, found: {error}") from None
    except ValueError:  # Python refuses a name with a NUL
        raise InputError(f"{str(path)!r}: cannot be read: it is no file name") from None
    except MemoryError:
        raise TooLarge(f"{path}: there is not enough memory to read it") from None


def gathered(path: Path | str, pieces: Iterable[bytes], most: int) -> bytes:
    """All pieces in one, without a second copy."""
    buffer = io.BytesIO()
    for piece in pieces:
        if buffer.tell() + len(piece) > most:
            raise FormatError(f"{path}: expected at most {most} bytes, found more")
        buffer.write(piece)
    return buffer.getvalue()


def read_text(path: Path | str, encoding: str = "ascii") -> str:
    """The whole file as text, ASCII unless names may have other letters."""
    return decoded(path, read_bytes(path), encoding)


def decoded(path: Path | str, data: bytes, encoding: str = "ascii") -> str:
    """The bytes of a file as text."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x}"
        expected = "plain ASCII text" if encoding == "ascii" else f"{encoding} text"
        raise FormatError.at(path, f"line {line}", expected, found) from None


def check_marked(path: Path | str, text: AnyStr, marks: Sequence[AnyStr]) -> None:
    """Refuse more quoted words and comments, which begin with one of `marks`, than memory holds."""
    if sum(text.count(mark) // (1 + (mark == '"')) for mark in marks) > MOST_MARKED:
        raise TooLarge(f"{path}: more than {MOST_MARKED} quoted words and comments")


def suffix_of(path: Path | str) -> str:
    """The suffix that tells the format, without that of the compression."""
    return _uncompressed(path).suffix


def stem_of(path: Path | str) -> str:
    """The name without the suffixes of format and compression."""
    return _uncompressed(path).stem


def _uncompressed(path: Path | str) -> Path:
    file = Path(path)
    return Path(file.stem) if file.suffix in PACKED else Path(file.name)


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
    with writing(path), _opened(target) as raw, _packing(target, raw) as stream:
        yield stream


def _opened(target: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    return target.open("wb") if is_device(target) else _replacing(target)


@contextlib.contextmanager
def _packing(target: Path, raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """`raw`, packed if the suffix says so."""
    if target.suffix in PACKED:
        with packer(target.suffix, raw) as stream:
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


def is_device(target: Path) -> bool:
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
    if not is_device(target):
        with writing(path), tempfile.TemporaryFile(dir=Path(os.path.realpath(target)).parent):
            pass


def write_text(path: Path | str, text: str) -> None:
    """Write all of `text`, or nothing."""
    with atomic_writer(path) as stream:
        stream.write(text.encode())


def write_together(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write files that belong together: all are on the disk before the first takes its place."""
    with contextlib.ExitStack() as stack:
        for path, data in reversed(files):
            with writing(path):
                raw = stack.enter_context(_replacing(path))
                with _packing(path, raw) as stream:
                    stream.write(data)
                raw.flush()
                os.fsync(raw.fileno())


def parse_object(path: Path | str, data: bytes | str, *, line: int = 1) -> dict[str, Any]:
    """The JSON object in `data`, which starts at `line` of the file."""
    if len(data) > MOST_JSON:
        found = f"one of {len(data)}"
        raise FormatError.at(path, f"line {line}", f"an object of at most {MOST_JSON} bytes", found)
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
    """The white-space separated words of a text, taken in order, with errors that say where.

    Words are made block by block, since a word takes twenty times the memory of its letters.
    """

    def __init__(self, path: Path | str, text: str) -> None:
        self.path = path
        self._text = text
        self._words: list[str] = []  # of the block, which ends at `_end`,
        self._next = 0  # where the next one is among them,
        self._before = 0  # and how many words there are before the block.
        self._end = 0
        self._total = sum(_count_words(text[first:last]) for first, last in _blocks(text))

    @property
    def left(self) -> int:
        """How many words remain."""
        return self._total - self._before - self._next

    def _fill(self) -> bool:
        """Make sure that the block has a next word, if there is one."""
        while self._next == len(self._words) and self._end < len(self._text):
            first, self._end = self._end, _block_end(self._text, self._end)
            self._before += len(self._words)
            self._words, self._next = self._text[first : self._end].split(), 0
        return self._next < len(self._words)

    def word(self, expected: str) -> str:
        """The next word."""
        if not self._fill():
            raise self.error(expected, "the end of the file")
        self._next += 1
        return self._words[self._next - 1]

    def peek(self) -> str:
        """The next word, which stays; nothing at the end."""
        return self._words[self._next] if self._fill() else ""

    def blocks(self, count: int, expected: str) -> Iterator[list[str]]:
        """The next `count` words, some at a time; each is taken when it is given."""
        self.need(count, expected)
        while count:
            self._fill()
            some = self._words[self._next : self._next + count]
            self._next += len(some)
            count -= len(some)
            yield some

    def whole(self, expected: str, *, least: int = 0, most: int | None = None) -> int:
        """The next word as a whole number within limits."""
        word = self.word(expected)
        if not (word.isdecimal() and len(word) < 19):
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

    def floats(self, words: list[str], expected: str) -> list[float]:
        """The words that were taken last as floating-point numbers."""
        try:
            return list(map(float, words))
        except ValueError:
            wrong = next(i for i, word in enumerate(words) if not _is_real(word))
            raise self.error(expected, repr(words[wrong][:40]), len(words) - wrong) from None

    def need(self, count: int, expected: str) -> None:
        """Refuse now if fewer than `count` words remain."""
        if count > self.left:
            found = f"only {self.left} more words before the end of the file"
            raise self.error(f"{count} x {expected}", found)

    def finish(self) -> None:
        """Refuse if words remain."""
        if self._fill():
            raise self.error("the end of the file", f"{self._words[self._next][:40]!r}")

    def error(self, expected: str, found: str, back: int = 0) -> FormatError:
        """An error at the next word, or `back` words before it."""
        line, word = self._place(self._before + self._next - back)
        return FormatError.at(self.path, f"line {line}, word {word}", expected, found)

    def _place(self, index: int) -> tuple[int, int]:
        """Line and word within the line, both from 1, of word `index`."""
        text = self._text
        at, before = len(text), 0
        for first, last in _blocks(text):
            count = _count_words(text[first:last])
            if index < before + count:
                places = re.finditer(r"\S+", text[first:last])
                at = first + next(m.start() for k, m in enumerate(places, before) if k == index)
                break
            before += count
        begin = text.rfind("\n", 0, at) + 1
        words = sum(_count_words(text[i : min(j, at)]) for i, j in _blocks(text, begin, at))
        return text.count("\n", 0, at) + 1, words + 1


def _blocks(text: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Ends of blocks that cut no word."""
    stop = len(text) if end is None else end
    while begin < stop:
        begin, first = _block_end(text, begin), begin
        yield first, begin


def _block_end(text: str, begin: int) -> int:
    space = re.compile(r"\s").search(text, min(begin + BLOCK, len(text)))
    return len(text) if space is None else space.end()


def _count_words(text: str) -> int:
    try:
        spaces = _IS_SPACE[np.frombuffer(text.encode("latin-1"), dtype=np.uint8)]
    except UnicodeEncodeError:  # other characters may be spaces, too
        return len(text.split())
    if not len(spaces):
        return 0
    return int(np.count_nonzero(spaces[:-1] & ~spaces[1:]) + (not spaces[0]))


def _is_real(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parts_of(text: str, separator: str) -> Iterator[str]:
    """What `text.split(separator)` gives, one at a time."""
    begin = 0
    while (end := text.find(separator, begin)) >= 0:
        yield text[begin:end]
        begin = end + 1
    yield text[begin:]


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of every line that is not blank, one at a time."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    for number, line in enumerate(parts_of(unix, "\n"), 1):
        if line and not line.isspace():
            yield number, line
