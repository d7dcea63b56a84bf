"""Evidence in columns: CSV files with a header, and Parquet files."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cmpe.arrays import Values
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, FormatError, MissingExtra, TooLarge
from cmpe.formats.text import lines_of, read_bytes
from cmpe.problem import Problem
from cmpe.problem.cells import is_missing
from cmpe.problem.rows import Rows

MOST_CELLS = 1 << 24  # of a CSV file with names: each takes a microsecond


class ExtraColumns(NamedTuple):
    """CsvColumns of a file that are no variables: ignored, or carried into the answers."""

    ignored: bool = False
    carried: tuple[str, ...] = ()


NO_EXTRA = ExtraColumns()


class FileRows(NamedTuple):
    """Rows of a file, and the cells of the columns that are carried into the answers."""

    rows: Rows
    carried: dict[str, list[Any]]

    @property
    def states(self) -> Values:
        """The rows (B, n), -1 where free, for what takes no likelihoods."""
        if self.rows.has_numbers:
            raise EvidenceError("evidence must be states here; found likelihoods")
        return self.rows.evidence


@dataclass(frozen=True)
class CsvColumns:
    """The cells of a CSV file by the name of their column; None where a cell is empty.

    It is read as a frame is.
    """

    cells: dict[str, list[Any]]
    count: int  # of rows, also where there is no column

    @property
    def columns(self) -> list[str]:
        """Their names."""
        return list(self.cells)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> list[Any]:
        return self.cells[name]

    def drop(self, *, columns: Collection[str]) -> CsvColumns:
        """Those that are not in `columns`."""
        rest = {name: c for name, c in self.cells.items() if name not in columns}
        return CsvColumns(rest, self.count)


def has_header(text: str, domain: Domain) -> bool:
    """Whether the first line names variables: they have names, and some cell is no whole number.

    Where names look like numbers, the first line is a header if all of its cells are names.
    """
    if not domain.names:
        return False
    first = next((line for _, line in lines_of(text)), "")
    try:
        cells = [cell.strip() for cell in next(csv.reader([first], delimiter=separator(text)), [])]
    except csv.Error:  # `parse_csv` says where
        return True
    if all(cell.removeprefix("-").isdecimal() or not cell for cell in cells):
        return bool(cells) and set(cells) <= set(domain.names)
    return True


def separator(text: str) -> str:
    """What stands between cells: a comma, or where the first line has none `;` or a tab."""
    first = next((line for _, line in lines_of(text)), "")
    return next((mark for mark in ",;\t" if mark in first), ",")


def parse_csv(path: Path | str, text: str) -> CsvColumns:
    """The cells of each column by name; whole numbers as such."""
    between = separator(text)
    if text.count(between) + text.count("\n") > MOST_CELLS:
        raise TooLarge(f"{path}: more than {MOST_CELLS} cells by name; store them as .parquet")
    reader = csv.reader(io.StringIO(text), strict=True, skipinitialspace=True, delimiter=between)
    header: list[str] = []
    columns: list[list[Any]] = []
    known: dict[str, Any] = {}  # what cells mean: equal ones share a value
    try:
        for line in reader:
            if not any(map(str.strip, line)):
                continue
            if not header:
                header = [cell.strip() for cell in line]
                columns = [[] for _ in header]
                continue
            if len(line) != len(header):
                expected = f"{len(header)} cells, as the header has"
                place = f"line {reader.line_num}"
                raise FormatError.at(path, place, expected, str(len(line)))
            for column, cell in zip(columns, line, strict=True):
                if cell not in known:
                    known[cell] = _whole(cell.strip() or None)
                column.append(known[cell])
    except csv.Error as error:
        place = f"line {reader.line_num}"
        raise FormatError.at(path, place, "comma-separated cells", str(error)) from None
    if not header:
        raise FormatError.at(path, "line 1", "names of columns", "blank cells only")
    if len(set(header)) != len(header):
        raise FormatError.at(path, "line 1", "distinct names of columns", ", ".join(header)[:60])
    return CsvColumns(dict(zip(header, columns, strict=True)), len(columns[0]))


def read_frame(path: Path | str) -> Any:
    """A Parquet file as a pandas frame (extra `frames`)."""
    try:
        import pandas  # noqa: F401 - which the frame is of
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra.named(str(error.name), "frames") from None
    try:
        table = parquet.read_table(io.BytesIO(read_bytes(path)))
        table.validate(full=True)  # its text above all
        return table.to_pandas()
    except Exception as error:  # what pandas notes in the file may be anything, and raise anything
        first = (str(error).splitlines() or [""])[0]
        raise FormatError(f"{path}: expected a Parquet file, found: {first[:80]}") from None


def rows_of_columns(
    path: Path | str, problem: Problem, columns: Any, extra: ExtraColumns
) -> FileRows:
    """Rows of a frame, or of `CsvColumns`; columns `NAME=STATE` hold likelihoods."""
    if not len(columns.columns):
        raise FormatError.at(path, "line 1", "a row of evidence", "an empty file")
    missing = [name for name in extra.carried if name not in list(columns.columns)]
    if missing:
        raise EvidenceError(
            f"{path}: --keep needs a column of the evidence; there is none called {missing[0]!r}"
        )
    carried = {name: [_plain(cell) for cell in columns[name]] for name in extra.carried}
    if extra.carried:
        columns = columns.drop(columns=list(extra.carried))
    if not problem.domain.names:
        columns = _by_number(columns)
    try:
        rows = Rows.of(problem, columns, ignore_extra=extra.ignored)
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}") from None
    return FileRows(rows, carried)


def _plain(cell: Any) -> Any:
    """A cell as JSON has it: a number, a text, or None."""
    cell = getattr(cell, "item", lambda: cell)()
    if is_missing(cell):
        return None
    return cell if isinstance(cell, str | int | float) else str(cell)


def _by_number(frame: Any) -> Any:
    """A frame whose columns are numbers of variables: a Parquet file has texts for them."""
    return frame.rename(columns={c: int(c) for c in frame if str(c).isdecimal()})


def _whole(cell: str | None) -> Any:
    """A whole number for a cell that is one: a file may call the second of two states 1."""
    is_whole = cell is not None and len(cell) < 19 and cell.removeprefix("-").isdecimal()
    return int(cell) if is_whole and cell == str(int(cell)) else cell  # type: ignore[arg-type]
