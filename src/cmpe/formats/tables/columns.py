"""Evidence in columns: CSV files with a header, and Parquet files."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.arrays import Values
from cmpe.domain import Domain
from cmpe.errors import EvidenceError, FormatError, MissingExtra
from cmpe.formats.text import read_bytes
from cmpe.problem import Problem
from cmpe.problem.groups import by_observed


def has_header(text: str, domain: Domain) -> bool:
    """Whether the first line names variables: they have names, and some cell is no whole number.

    Where names look like numbers, the first line is a header if all of its cells are names.
    """
    if not domain.names:
        return False
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        cells = [cell.strip() for cell in next(csv.reader([first]), [])]
    except csv.Error:  # `parse_csv` says where
        return True
    if all(cell.removeprefix("-").isdecimal() or not cell for cell in cells):
        return bool(cells) and set(cells) <= set(domain.names)
    return True


def parse_csv(path: Path | str, text: str) -> dict[str, list[str | None]]:
    """The cells of each column by name; None where a cell is empty."""
    reader = csv.reader(io.StringIO(text), strict=True, skipinitialspace=True)
    try:
        lines = [(reader.line_num, line) for line in reader if any(map(str.strip, line))]
    except csv.Error as error:
        place = f"line {reader.line_num}"
        raise FormatError.at(path, place, "comma-separated cells", str(error)) from None
    header = [cell.strip() for cell in lines[0][1]]
    if len(set(header)) != len(header):
        raise FormatError.at(path, "line 1", "distinct names of columns", ", ".join(header)[:60])
    for number, line in lines[1:]:
        if len(line) != len(header):
            expected = f"{len(header)} cells, as the header has"
            raise FormatError.at(path, f"line {number}", expected, str(len(line)))
    rows = [[cell.strip() or None for cell in line] for _, line in lines[1:]]
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def read_frame(path: Path | str) -> Any:
    """A Parquet file as a pandas frame (extra `frames`)."""
    try:
        import pandas
        import pyarrow  # noqa: F401 - which reads the file
    except ImportError as error:
        raise MissingExtra.named(str(error.name), "frames") from None
    try:
        return pandas.read_parquet(io.BytesIO(read_bytes(path)))
    except Exception as error:  # what pandas notes in the file may be anything, and raise anything
        first = (str(error).splitlines() or [""])[0]
        raise FormatError(f"{path}: expected a Parquet file, found: {first[:80]}") from None


def full_rows_of(
    path: Path | str, problem: Problem, columns: Mapping[str, Any] | Any, *, ignore_extra: bool
) -> Values:
    """Evidence over all variables (B, n), -1 where free."""
    if not len(columns):
        raise FormatError.at(path, "line 1", "a row of evidence", "an empty file")
    try:
        if not problem.domain.names:
            columns = _by_number(columns)
        batches = by_observed(problem, _numbered(columns), ignore_extra=ignore_extra)
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}") from None
    out = np.empty((sum(len(n) for _, n in batches), problem.variables), dtype=problem.dtype)
    for instances, numbers in batches:
        out[numbers] = instances.full()
    return out


def _by_number(columns: Any) -> Any:
    """A frame whose columns are numbers of variables: a Parquet file has texts for them."""
    if isinstance(columns, dict):
        return columns
    return columns.rename(columns={c: int(c) for c in columns if str(c).isdecimal()})


def _numbered(columns: Any) -> Any:
    """Whole numbers for cells that are such: a file may call the second of two states 1."""
    if not isinstance(columns, dict):
        return columns
    return {name: [_whole(cell) for cell in cells] for name, cells in columns.items()}


def _whole(cell: str | None) -> Any:
    is_whole = cell is not None and len(cell) < 19 and cell.removeprefix("-").isdecimal()
    return int(cell) if is_whole and cell == str(int(cell)) else cell  # type: ignore[arg-type]
