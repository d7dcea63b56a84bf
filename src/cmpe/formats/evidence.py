"""Evidence: UAI `.evid`, `.npy` and `.csv`.

An `.evid` file is one sample `k v1 a1 ... vk ak`, or a line with the number of samples followed
by one such line each. White space separates, so one sample may take several lines. A lone number
on the first line counts the lines after it when each of them is a sample (if there are more or
fewer the file is refused, not guessed at) or when the file as a whole is not one sample.

`.npy` and `.csv` hold a row per sample: the evidence variables in order, or all variables with
-1 (in `.csv` also an empty cell) where free.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE
from cmpe.errors import EvidenceError, FormatError, InputError
from cmpe.formats.text import lines_of, read_bytes, read_text, suffix_of, write_text
from cmpe.problem import Problem


def _numbered_samples(path: Path | str) -> list[tuple[int, dict[int, int]]]:
    """(line, sample) pairs."""
    lines = [(number, _numbers(path, number, line)) for number, line in lines_of(read_text(path))]
    if not lines:
        raise FormatError.at(path, "line 1", "the number of observed variables", "an empty file")
    (first, head), rest = lines[0], lines[1:]
    everything = [n for _, numbers in lines for n in numbers]
    is_many = len(head) == 1 and bool(rest)
    if is_many and not all(_is_sample(numbers) for _, numbers in rest):
        is_many = not _is_sample(everything)
    if not is_many:
        return [(first, _sample(path, first, everything))]
    if head[0] != len(rest):
        expected = f"{head[0]} samples, as the first line says"
        raise FormatError.at(path, f"line {first}", expected, str(len(rest)))
    return [(number, _sample(path, number, numbers)) for number, numbers in rest]


def _numbers(path: Path | str, number: int, line: str) -> list[int]:
    words = line.split()
    for word in words:
        if not (word.isdigit() and len(word) < 10):
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


def read_evidence(path: Path | str, problem: Problem) -> NDArray[np.int64]:
    """Evidence of any format, fit for `cmpe.solve`: checked against the problem's variables."""
    suffix = suffix_of(path)
    if suffix == ".evid":
        return _full_width(path, problem)
    if suffix not in (".npy", ".csv"):
        raise FormatError(f"{path}: expected a file ending in .evid, .npy or .csv")
    rows = read_array(path) if suffix == ".npy" else _read_csv(path)
    return check_rows(path, rows, problem, (len(problem.evidence_variables), problem.variables))


def check_rows(
    path: Path | str, rows: NDArray[np.int64], problem: Problem, widths: Collection[int]
) -> NDArray[np.int64]:
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
    samples = _numbered_samples(path)
    rows = np.full((len(samples), problem.variables), FREE, dtype=np.int64)
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


def read_array(path: Path | str) -> NDArray[np.int64]:
    """A whole-number matrix from a `.npy` file; objects are never unpickled."""
    stream = io.BytesIO(read_bytes(path))
    shape, is_fortran, dtype = _array_header(path, stream)
    if len(shape) != 2 or not all(0 <= size < 2**31 for size in shape):
        raise FormatError.at(path, "the shape", "two axes (rows, variables)", str(shape)[:60])
    if dtype.kind not in "iub":
        raise FormatError.at(path, "the array", "whole numbers", f"dtype {dtype}")
    data = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if len(data) != size:
        raise FormatError.at(path, "the array", f"{size} bytes for shape {shape}", str(len(data)))
    stored = np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")
    low, high = (int(stored.min()), int(stored.max())) if stored.size else (0, 0)
    if low < -(2**31) or high >= 2**31:
        raise FormatError.at(path, "the array", "values within 32 bits", f"{low} to {high}")
    return stored.astype(np.int64)


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
        raise FormatError(f"{path}: expected a .npy array, found: {error}") from None


def _read_csv(path: Path | str) -> NDArray[np.int64]:
    rows: list[list[int]] = []
    for number, line in lines_of(read_text(path)):
        cells = [cell.strip() or str(FREE) for cell in line.split(",")]
        for cell in cells:
            if not (cell.isdigit() or cell == str(FREE)) or len(cell) > 9:
                raise FormatError.at(path, f"line {number}", "whole numbers or -1", repr(cell[:40]))
        if rows and len(cells) != len(rows[0]):
            raise FormatError.at(path, f"line {number}", f"{len(rows[0])} cells", str(len(cells)))
        rows.append([int(cell) for cell in cells])
    if not rows:
        raise FormatError.at(path, "line 1", "a row of evidence", "an empty file")
    return np.array(rows, dtype=np.int64)
