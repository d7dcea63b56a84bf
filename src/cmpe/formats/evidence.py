"""Evidence: UAI `.evid`, `.npy` and `.csv`.

An `.evid` file is one sample `k v1 a1 ... vk ak`, or a line with the number of samples followed
by one such line each. White space separates, so one sample may take several lines. A lone number
on the first line counts the lines after it when each of them is a sample (if there are more or
fewer the file is refused, not guessed at) or when the file as a whole is not one sample.

`.npy` and `.csv` hold a row per sample: the evidence variables in order, or all variables with
-1 (in `.csv` also an empty cell) where free. Fractions, of variables in [0, 1], are for `.npy`.
"""

from __future__ import annotations

import io
import math
import os
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Values
from cmpe.errors import EvidenceError, FormatError, InputError, TooLarge
from cmpe.formats.tables.columns import (
    NO_EXTRA,
    ExtraColumns,
    FileRows,
    has_header,
    parse_csv,
    read_frame,
    rows_of_columns,
    separator,
)
from cmpe.formats.text import (
    BLOCK,
    lines_of,
    parts_of,
    read_bytes,
    read_text,
    suffix_of,
    write_text,
)
from cmpe.problem import Problem
from cmpe.problem.groups import full_rows
from cmpe.problem.rows import Rows

MOST_ROWS = 1 << 32  # bytes of rows in memory
_PLAIN = re.compile(r"[0-9,\n-]*")
MOST_LINES = 1 << 22  # of an `.evid` file: each takes microseconds


@dataclass
class _Lines:
    """The numbers of a file, line by line, in little memory."""

    numbers: array[int] = field(default_factory=lambda: array("i"))
    lines: array[int] = field(default_factory=lambda: array("i"))  # the number of each line
    ends: array[int] = field(default_factory=lambda: array("q"))  # where it ends in `numbers`

    def line(self, k: int) -> Sequence[int]:
        return self.numbers[self.ends[k - 1] if k else 0 : self.ends[k]]


def _read_lines(path: Path | str, variables: int) -> _Lines:
    """Refuses what is neither one sample of so many variables nor as many as the first line says.

    A sample may name a variable twice, so that it has at most twice as many pairs as variables.
    """
    found, longest, text = _Lines(), 1 + 4 * variables, read_text(path)
    if text.count("\n") > MOST_LINES:
        raise FormatError(f"{path}: expected at most {MOST_LINES} lines, found more")
    for number, line in lines_of(text):
        words = line.split(None, longest)
        found.numbers.extend(_numbers(path, number, words[:longest]))
        found.lines.append(number)
        found.ends.append(len(found.numbers))
        if len(words) > longest:
            expected = f"at most {longest} numbers in a sample of {variables} variables"
            raise FormatError.at(path, f"line {number}", expected, "more")
        if len(found.lines) - 1 > found.numbers[0] and len(found.numbers) > 2 * longest:
            expected = f"{found.numbers[0]} samples, as the first line says"
            raise FormatError.at(path, f"line {found.lines[0]}", expected, "more lines")
    if not found.lines:
        raise FormatError.at(path, "line 1", "the number of observed variables", "an empty file")
    return found


def _numbered_samples(
    path: Path | str, variables: int
) -> tuple[int, Iterator[tuple[int, dict[int, int]]]]:
    """How many samples there are, and each with its line."""
    found = _read_lines(path, variables)
    first, head, rest = found.lines[0], found.line(0), range(1, len(found.lines))
    is_many = len(head) == 1 and bool(rest)
    if is_many and not all(_is_sample(found.line(k)) for k in rest):
        is_many = not _is_sample(found.numbers)
    if not is_many:
        return 1, iter([(first, _sample(path, first, found.numbers))])
    if head[0] != len(rest):
        expected = f"{head[0]} samples, as the first line says"
        raise FormatError.at(path, f"line {first}", expected, str(len(rest)))
    return len(rest), ((n := found.lines[k], _sample(path, n, found.line(k))) for k in rest)


def _numbers(path: Path | str, number: int, words: Sequence[str]) -> list[int]:
    for word in words:
        if not (word.isdecimal() and len(word) < 10):
            raise FormatError.at(path, f"line {number}", "whole numbers", repr(word[:40]))
    return [int(word) for word in words]


def _is_sample(numbers: Sequence[int]) -> bool:
    return len(numbers) == 1 + 2 * numbers[0]


def _sample(path: Path | str, number: int, numbers: Sequence[int]) -> dict[int, int]:
    if not _is_sample(numbers):
        expected = f"{numbers[0]} pairs of variable and value after the count"
        raise FormatError.at(path, f"line {number}", expected, f"{len(numbers) - 1} numbers")
    sample: dict[int, int] = {}
    for variable, value in zip(numbers[1::2], numbers[2::2], strict=True):
        if sample.get(variable, value) != value:
            found = f"{sample[variable]} and {value}"
            expected = f"one value of variable {variable}"
            raise FormatError.at(path, f"line {number}", expected, found)
        sample[variable] = value
    return sample


def free_rows(path: Path | str, count: int, variables: int, kind: type[np.generic]) -> Values:
    """Rows (count, variables) of -1, unless a small file asks for far too many."""
    size = count * variables * np.dtype(kind).itemsize
    if size > MOST_ROWS:
        raise TooLarge(f"{path}: {count} rows of {variables} variables take {size:.2e} bytes")
    return np.full((count, variables), FREE, dtype=kind)


def write_evid(samples: Sequence[Mapping[int, int]], path: Path | str) -> None:
    """Write one sample in the one-line form, several in the many-sample form."""
    if not samples:
        raise InputError(f"{path}: expected at least one sample to write, found none")
    lines = [
        " ".join(map(str, [len(s), *(n for pair in sorted(s.items()) for n in pair)]))
        for s in samples
    ]
    head = [] if len(lines) == 1 else [str(len(lines))]
    write_text(path, "\n".join(head + lines) + "\n")


def read_evidence(
    path: Path | str, problem: Problem, *, ignore_extra: bool = False
) -> Values | dict[Any, Any]:
    """Read evidence of any format, for `cmpe.solve`, and check it against the problem's variables.

    `.csv` with a header, and `.parquet`, have a column per variable, by name or number, with its
    states or their numbers; an empty cell is free. Columns `NAME=STATE`, one for every state, hold
    likelihoods; evidence is then a mapping. Others are refused unless `ignore_extra`.
    """
    found = _read(path, problem, ExtraColumns(ignore_extra))
    return _with_likelihoods(found.rows) if isinstance(found, FileRows) else found


def read_rows(path: Path | str, problem: Problem, extra: ExtraColumns = NO_EXTRA) -> FileRows:
    """The same as rows over all variables, with the columns that are carried into the answers."""
    found = _read(path, problem, extra)
    return found if isinstance(found, FileRows) else plain_rows(path, problem, found, extra)


def plain_rows(
    path: Path | str, problem: Problem, rows: Values, extra: ExtraColumns = NO_EXTRA
) -> FileRows:
    """Checked rows of a file without names of columns."""
    if extra.carried:
        raise FormatError(
            f"{path}: --keep {extra.carried[0]} needs columns with names: a .csv file with a "
            "header, or .parquet"
        )
    return FileRows(Rows(problem, full_rows(problem, rows)), {})


def _with_likelihoods(rows: Rows) -> Values | dict[Any, Any]:
    """Rows as an array, or where there are likelihoods as a mapping."""
    if not rows.potentials:
        return rows.evidence
    keys: Sequence[Any] = rows.problem.domain.names or range(rows.problem.variables)
    out: dict[Any, Any] = {}
    for v in np.flatnonzero((rows.evidence != FREE).any(axis=0)).tolist():
        out[keys[v]] = [None if value == FREE else value for value in rows.evidence[:, v].tolist()]
    for (v,), values in rows.potentials:
        likelihoods = list(np.exp(values))
        states = out.get(keys[v], [None] * len(rows))
        both = [row for row, state in enumerate(states) if state is not None and values[row].any()]
        if both:
            raise EvidenceError(
                f"row {both[0]}, {rows.problem.domain.called(v)}: expected a state or likelihoods, "
                "found both"
            )
        pairs = zip(states, likelihoods, strict=True)
        out[keys[v]] = [soft if state is None else state for state, soft in pairs]
    return out


def _read(path: Path | str, problem: Problem, extra: ExtraColumns) -> Values | FileRows:
    """Columns as rows over all variables, other formats as they are."""
    suffix = suffix_of(path)
    if suffix == ".evid":
        return _full_width(path, problem)
    if suffix == ".parquet":
        return rows_of_columns(path, problem, read_frame(path), extra)
    if suffix not in (".npy", ".csv"):
        expected = "expected a file ending in .evid, .npy, .csv or .parquet"
        raise FormatError(f"{path}: {expected}; found {suffix!r}")
    if suffix == ".csv":
        return _of_csv(path, read_text(path, encoding="utf-8"), problem, extra)
    rows = read_array(path, fractions=bool(problem.continuous))
    return check_rows(path, rows, problem, (len(problem.evidence_variables), problem.variables))


def rows_of_csv(
    path: Path | str, text: str, problem: Problem, extra: ExtraColumns = NO_EXTRA
) -> FileRows:
    """The rows of a CSV file, with a header or without."""
    found = _of_csv(path, text, problem, extra)
    return found if isinstance(found, FileRows) else plain_rows(path, problem, found, extra)


def _of_csv(
    path: Path | str, text: str, problem: Problem, extra: ExtraColumns
) -> Values | FileRows:
    text = text.removeprefix("\ufeff")  # of a spreadsheet
    if has_header(text, problem.domain):
        return rows_of_columns(path, problem, parse_csv(path, text), extra)
    rows = _parse_cells(path, text.replace(separator(text), ","))
    return check_rows(path, rows, problem, (len(problem.evidence_variables), problem.variables))


def check_rows(path: Path | str, rows: Values, problem: Problem, widths: Collection[int]) -> Values:
    """The rows, if they have one of `widths` columns and values that the variables can take."""
    if rows.shape[1] not in widths:
        expected = " or ".join(f"{width} columns" for width in sorted(set(widths)))
        raise FormatError.at(path, "every row", expected, str(rows.shape[1]))
    try:
        if rows.shape[1] == len(problem.evidence_variables):
            problem.given(rows)
        else:
            problem.full_rows(rows)
    except EvidenceError as error:
        raise EvidenceError(f"{path}: {error}") from None
    return rows


def _full_width(path: Path | str, problem: Problem) -> NDArray[np.int64]:
    count, samples = _numbered_samples(path, problem.variables)
    rows = free_rows(path, count, problem.variables, np.int64)
    cards = problem.objective.cardinalities
    for row, (line, sample) in zip(rows, samples, strict=True):
        for variable, value in sample.items():
            if variable >= problem.variables:
                expected = f"variables below {problem.variables}"
                raise FormatError.at(path, f"line {line}", expected, str(variable))
            if value >= cards[variable]:
                expected = f"a value of variable {variable} below {cards[variable]}"
                raise FormatError.at(path, f"line {line}", expected, str(value))
            row[variable] = value
    return rows


def read_array(path: Path | str, *, fractions: bool = False) -> Values:
    """A matrix of whole numbers from a `.npy` file, int64, or with `fractions` float64."""
    stored = parse_array(path, read_bytes(path))
    if stored.ndim != 2:
        raise FormatError.at(path, "the shape", "two axes (rows, variables)", str(stored.shape))
    if stored.dtype.kind not in ("iubf" if fractions else "iub"):
        expected = "numbers" if fractions else "whole numbers"
        raise FormatError.at(path, "the array", expected, f"dtype {stored.dtype}")
    if fractions:
        return stored.astype(np.float64, copy=False)
    low, high = (int(stored.min()), int(stored.max())) if stored.size else (0, 0)
    if low < -(2**31) or high >= 2**31:
        raise FormatError.at(path, "the array", "values within 32 bits", f"{low} to {high}")
    return stored.astype(np.int64)


class ArrayHeader(NamedTuple):
    """What a `.npy` file says of its array, held against the size of the file."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int  # where the numbers begin


def array_header(path: Path | str) -> ArrayHeader:
    """The header of a file that is too large to be read at once."""
    try:
        with Path(path).open("rb") as stream:
            return _checked_header(path, stream, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def parse_array(path: Path | str, data: bytes) -> NDArray[Any]:
    """The array in the bytes of a `.npy` file; objects are never unpickled."""
    shape, is_fortran, dtype, offset = _checked_header(path, io.BytesIO(data), len(data))
    stored = np.frombuffer(data, dtype, offset=offset) if len(data) > offset else np.zeros(0, dtype)
    try:
        return stored.reshape(shape, order="F" if is_fortran else "C").copy()  # aligned, writable
    except (ValueError, OverflowError) as error:  # too many axes, or sizes beyond memory beside 0
        raise FormatError.at(path, "the shape", "sizes of an array", str(error)) from None


def _checked_header(path: Path | str, stream: IO[bytes], length: int) -> ArrayHeader:
    shape, is_fortran, dtype = _array_header(path, stream)
    if not all(0 <= size < 2**31 for size in shape):
        raise FormatError.at(path, "the shape", "sizes within 31 bits", str(shape)[:60])
    if dtype.hasobject or not dtype.itemsize:
        raise FormatError.at(path, "the array", "numbers", f"dtype {dtype}")
    size, left = math.prod(shape) * dtype.itemsize, length - stream.tell()
    if left != size:
        raise FormatError.at(path, "the array", f"{size} bytes for shape {shape}", str(left))
    return ArrayHeader(shape, is_fortran, dtype, stream.tell())


def _array_header(
    path: Path | str, stream: IO[bytes]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and dtype: claims, to be held against the data's size."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        return readers[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # NumPy parses Python syntax here: a hostile header raises anything
        first = (str(error).splitlines() or [""])[0]
        raise FormatError(f"{path}: expected a .npy array, found: {first[:80]}") from None


def _parse_cells(path: Path | str, text: str) -> NDArray[np.int64]:
    words = ("cells", "a row of evidence")
    return equal_rows(path, text, words, _cell, (FREE, 10**9 - 1)).astype(np.int64, copy=False)


def equal_rows(
    path: Path | str,
    text: str,
    words: tuple[str, str],
    cell: Callable[[Path | str, int, str], int],
    allowed: tuple[int, int],
) -> Values:
    """The cells between commas (lines, cells), in the smallest type for the `allowed` numbers.

    All lines must have equally many cells. `words` are what cells are called, and what a file
    without lines was expected to have.
    """
    kind = np.result_type(*map(np.min_scalar_type, allowed))
    plain = _plain_cells(text, kind, allowed)
    if plain is not None:
        return plain
    cells, width = array(kind.char), 0
    for number, line in lines_of(text):
        found = line.count(",") + 1
        width = width or found
        if found != width:
            raise FormatError.at(path, f"line {number}", f"{width} {words[0]}", str(found))
        cells.extend(cell(path, number, part.strip()) for part in parts_of(line, ","))
    if not width:
        raise FormatError.at(path, "line 1", words[1], "an empty file")
    return np.frombuffer(cells, dtype=kind).reshape(-1, width)


def _plain_cells(text: str, kind: np.dtype[Any], allowed: tuple[int, int]) -> Values | None:
    """The usual case without a loop over cells: digits and -1 alone; None of any other text."""
    text = text.replace("\r\n", "\n").lstrip("\n")
    text += "" if text.endswith("\n") else "\n"
    width = text.count(",", 0, text.index("\n")) + 1
    rows = np.empty(text.count(",") + text.count("\n"), dtype=kind)
    at = filled = 0
    while at < len(text):
        end = text.find("\n", min(at + BLOCK, len(text) - 1)) + 1
        cells = _block_cells(text[at:end], width)
        if cells is None or cells.min() < allowed[0] or cells.max() > allowed[1]:
            return None
        rows[filled : filled + len(cells)] = cells
        at, filled = end, filled + len(cells)
    return rows.reshape(-1, width)


def _block_cells(text: str, width: int) -> NDArray[np.int32] | None:
    """The cells of whole lines in order, by their digits from the last to the first."""
    if not _PLAIN.fullmatch(text):
        return None
    codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    ends = np.flatnonzero(codes <= ord(","))
    lengths = np.diff(ends, prepend=-1) - 1
    if len(ends) % width or lengths.max() > 9 or (width == 1 and not lengths.all()):
        return None
    is_last = codes[ends].reshape(-1, width) == ord("\n")
    begins = codes[ends - lengths]
    is_free = begins == ord("-")
    is_one = (lengths == 2) & (codes[ends - 1] == ord("1"))
    if is_last[:, :-1].any() or not is_last[:, -1].all() or (is_free & ~is_one).any():
        return None
    if np.count_nonzero(is_free) < text.count("-"):
        return None
    cells = np.where(is_free | (lengths == 0), FREE, 0).astype(np.int32)
    for k in range(int(lengths.max())):
        places = np.flatnonzero((lengths > k) & ~is_free)
        cells[places] += (codes[ends[places] - 1 - k].astype(np.int32) - ord("0")) * 10**k
    return cells


def _cell(path: Path | str, number: int, cell: str) -> int:
    if cell in ("", str(FREE)):
        return FREE
    if not (cell.isascii() and cell.isdecimal()) or len(cell) > 9:
        raise FormatError.at(path, f"line {number}", "whole numbers or -1", repr(cell[:40]))
    return int(cell)
