"""Evidence in pieces: `.npy` mapped into memory, CSV line by line, Parquet batch by batch.

A source knows where its rows are and hands them out as pieces of equal size, the last one smaller.
A piece travels to whoever answers it and is read and checked there, so that one process reads the
disk and all of them parse.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from cmpe.arrays import Values
from cmpe.errors import FormatError, InputError, MissingExtra
from cmpe.formats.evidence import array_header, check_rows, plain_rows, read_rows, rows_of_csv
from cmpe.formats.numbers import OwnNumbers
from cmpe.formats.packing import PACKED
from cmpe.formats.tables.columns import (
    NO_EXTRA,
    ExtraColumns,
    FileRows,
    has_header,
    rows_of_columns,
)
from cmpe.formats.text import suffix_of
from cmpe.problem import Problem
from cmpe.streams.lines import LinePiece, line_pieces

ENDS = 1 << 20  # bytes at either end of a file that identify it, with its size


class Piece(Protocol):
    """Some rows of evidence, in any form that can be sent to another process."""

    @property
    def count(self) -> int:
        """How many rows."""
        ...

    def read(self, problem: Problem) -> FileRows:
        """The rows, checked."""
        ...


class RowBlock(NamedTuple):
    """A piece and its place among all."""

    number: int
    first: int  # row
    piece: Piece


class Source(Protocol):
    """Where rows of evidence come from."""

    @property
    def rows(self) -> int | None:
        """How many, where that is known before they are read."""
        ...

    def identity(self) -> list[list[Any]]:
        """What tells these rows from others: name, size and a hash of both ends of each file."""
        ...

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """The wanted blocks of so many rows, in order."""
        ...


def source_of(path: Path | str, problem: Problem, extra: ExtraColumns = NO_EXTRA) -> Source:
    """The rows of a file, or of a folder of Parquet files in the order of their names."""
    file, suffix = Path(path), suffix_of(path)
    if file.is_dir() or suffix == ".parquet":
        return ParquetSource.of(file, extra)
    if not file.is_file():
        raise InputError(f"{path}: cannot be read: there is no such file")
    if suffix == ".csv":
        return CsvSource(file, problem, extra)
    if extra.carried:
        plain_rows(path, problem, np.zeros((0, problem.variables), problem.dtype), extra)
    if suffix == ".npy" and file.suffix not in PACKED:
        return ArraySource.of(file, problem)
    return MemorySource(read_rows(file, problem).rows.evidence, _identity([file]))


def _identity(files: list[Path]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for file in files:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            digest = hashlib.sha256(stream.read(ENDS))
            stream.seek(max(0, size - ENDS))
            digest.update(stream.read(ENDS))
        found.append([file.name, size, digest.hexdigest()[:16]])
    return found


@dataclass(frozen=True)
class ArrayPiece:
    """Rows as numbers, in as few bytes as they fit into."""

    path: str
    values: Values

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.values)

    def read(self, problem: Problem) -> FileRows:
        """Check them."""
        widths = (len(problem.evidence_variables), problem.variables)
        rows = check_rows(self.path, self.values, problem, widths)
        return plain_rows(self.path, problem, rows)


def small(values: Values) -> Values:
    """The same numbers in a byte each, where they fit."""
    if values.dtype.kind not in "iu" or not values.size:
        return np.ascontiguousarray(values)
    fits = values.min() >= -128 and values.max() < 128
    return np.ascontiguousarray(values, dtype=np.int8 if fits else values.dtype)


@dataclass(frozen=True, eq=False)
class MemorySource:
    """Rows that are in memory."""

    values: Values
    known_as: list[list[Any]]

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.values)

    def identity(self) -> list[list[Any]]:
        """The file that they came from."""
        return self.known_as

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """Cut them."""
        for number, first in enumerate(range(0, self.rows, size)):
            if is_wanted(number):
                piece = ArrayPiece("evidence", small(self.values[first : first + size]))
                yield RowBlock(number, first, piece)


@dataclass(frozen=True)
class ArraySource:
    """A `.npy` file, mapped into memory piece by piece, so that few of its pages are held."""

    path: Path
    rows: int

    @classmethod
    def of(cls, path: Path, problem: Problem) -> ArraySource:
        """Look at the header, and refuse what is no matrix of numbers."""
        header = array_header(path)
        kinds = "iubf" if problem.continuous else "iub"
        if len(header.shape) != 2 or header.dtype.kind not in kinds:
            found = f"{header.dtype} of shape {header.shape}"
            raise FormatError.at(path, "the array", "rows of whole numbers", found)
        return cls(path, header.shape[0])

    def identity(self) -> list[list[Any]]:
        """Of the file."""
        return _identity([self.path])

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """Map, copy, let go."""
        header = array_header(self.path)
        order: Any = "F" if header.is_fortran else "C"
        for number, first in enumerate(range(0, self.rows, size)):
            if is_wanted(number):
                mapped = np.memmap(
                    self.path, header.dtype, "r", header.offset, header.shape, order
                )  # fmt: skip
                values = np.array(mapped[first : first + size])
                del mapped
                yield RowBlock(number, first, ArrayPiece(str(self.path), small(values)))


@dataclass(frozen=True)
class CsvPiece:
    """Lines of a CSV file, and its header."""

    path: str
    header: str
    lines: LinePiece
    extra: ExtraColumns

    @property
    def count(self) -> int:
        """How many rows."""
        return self.lines.count

    def read(self, problem: Problem) -> FileRows:
        """Parse and check them."""
        place = f"{self.path}, counted from line {self.lines.line}"
        try:
            text = self.header + self.lines.data.decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{place}: expected UTF-8 text, found: {error.reason}") from None
        return rows_of_csv(place, text, problem, self.extra)


@dataclass(frozen=True)
class CsvSource:
    """A CSV file, packed or not, with or without a header; the end shows how many rows it has."""

    path: Path
    problem: Problem
    extra: ExtraColumns = NO_EXTRA
    rows: int | None = None

    def identity(self) -> list[list[Any]]:
        """Of the file."""
        return _identity([self.path])

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """Every line is read, also those that nobody wants."""
        head = next(line_pieces(self.path, 1), None)
        if head is None:
            raise FormatError.at(self.path, "line 1", "a row of evidence", "an empty file")
        first_line = head.data.decode(errors="replace")
        named = has_header(first_line, self.problem.domain)
        header = first_line if named else ""
        for number, lines in enumerate(line_pieces(self.path, size, skip=int(named))):
            if is_wanted(number):
                piece = CsvPiece(str(self.path), header, lines, self.extra)
                yield RowBlock(number, number * size, piece)


@dataclass(frozen=True)
class ParquetPiece:
    """Batches of a Parquet file, as pyarrow has them."""

    path: str
    table: Any
    extra: ExtraColumns

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.table.num_rows)

    def read(self, problem: Problem) -> FileRows:
        """Translate states and check them."""
        return rows_of_columns(self.path, problem, self.table.to_pandas(), self.extra)


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, or a folder of them in the order of their names."""

    files: tuple[Path, ...]
    rows: int
    extra: ExtraColumns

    @classmethod
    def of(cls, path: Path, extra: ExtraColumns = NO_EXTRA) -> ParquetSource:
        """Look at the footers."""
        found = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith((".", "_")))
        files = tuple(found) if path.is_dir() else (path,)
        if not files:
            raise InputError(f"{path}: expected a folder of .parquet files, found none")
        opened = [_parquet(file) for file in files]
        for file, own in zip(files, opened, strict=True):
            if own.schema_arrow.names != opened[0].schema_arrow.names:
                raise FormatError.at(file, "the columns", f"those of {files[0].name}", "others")
        return cls(files, sum(own.metadata.num_rows for own in opened), extra)

    def identity(self) -> list[list[Any]]:
        """Of every file."""
        return _identity(list(self.files))

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """Row groups before the first wanted row are not read."""
        import pyarrow

        total = -(-self.rows // size)
        start = next((number for number in range(total) if is_wanted(number)), None)
        if start is None:
            return
        held: list[Any] = []
        place, number = start * size, start  # the first row that is held, and its block
        for batch in self._batches(place, size):
            held.append(batch)
            while sum(b.num_rows for b in held) >= min(size, self.rows - place) > 0:
                table = pyarrow.Table.from_batches(held)
                if is_wanted(number):
                    first = table.slice(0, size).combine_chunks()
                    piece = ParquetPiece(str(self.files[0]), first, self.extra)
                    yield RowBlock(number, place, piece)
                held = table.slice(size).to_batches()
                place, number = place + size, number + 1

    def _batches(self, skip: int, size: int) -> Iterator[Any]:
        """Record batches of all files from row `skip` on."""
        for file in self.files:
            opened = _parquet(file)
            for group in range(opened.num_row_groups):
                count = opened.metadata.row_group(group).num_rows
                if skip >= count:
                    skip -= count
                    continue
                for batch in opened.iter_batches(size, row_groups=[group]):
                    if skip < batch.num_rows:
                        yield batch.slice(skip)
                    skip = max(0, skip - batch.num_rows)


@dataclass(frozen=True)
class NumberedPiece:
    """Rows of evidence with their own numbers."""

    piece: Piece
    numbers: OwnNumbers

    @property
    def count(self) -> int:
        """How many rows."""
        return self.piece.count

    def read(self, problem: Problem) -> FileRows:
        """Both, checked."""
        found = self.piece.read(problem)
        return found._replace(rows=self.numbers.of(found.rows))


@dataclass(frozen=True)
class NumberedSource:
    """Rows of evidence, each with the numbers of the same place in other files."""

    source: Source
    numbers: OwnNumbers

    @property
    def rows(self) -> int | None:
        """How many rows of evidence, where that is known."""
        return self.source.rows

    def identity(self) -> list[list[Any]]:
        """Of the evidence."""
        return self.source.identity()

    def blocks(self, size: int, is_wanted: Callable[[int], bool]) -> Iterator[RowBlock]:
        """The numbers of a block are views of what all rows have."""
        total, last = self.numbers.rows or 0, 0
        if self.rows is not None:
            self._check(self.rows)

        def wanted(number: int) -> bool:
            nonlocal last
            last = max(last, number)
            return is_wanted(number)

        for number, first, piece in self.source.blocks(size, wanted):
            if first + piece.count > total or (piece.count < size and first + piece.count < total):
                self._check(first + piece.count)
            part = self.numbers.part(first, piece.count)
            yield RowBlock(number, first, NumberedPiece(piece, part))
        if total > (last + 1) * size:
            self._check((last + 1) * size)

    def _check(self, count: int) -> None:
        if count != self.numbers.rows:
            self.numbers.refuse(count)


def _parquet(file: Path) -> Any:
    try:
        import pandas  # noqa: F401
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra.named(str(error.name), "frames") from None
    if not file.is_file():
        raise InputError(f"{file}: cannot be read: there is no such file")
    try:
        return pyarrow.parquet.ParquetFile(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"{file}: expected a Parquet file, found: {error}") from None
