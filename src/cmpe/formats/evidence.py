"""Evidence: UAI `.evid`, `.npy` and `.csv`.

An `.evid` file is one sample `k v1 a1 ... vk ak`, or a line with the number of samples followed
by one such line each. A file is read as many samples exactly when its first line is a lone
number that counts the lines after it, each of which is a sample.

`.npy` and `.csv` hold a row per sample: the evidence variables in order, or all variables with
-1 (in `.csv` also an empty cell) where free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError
from cmpe.formats.text import lines_of, read_bytes, read_text, suffix_of, write_text
from cmpe.problem import FREE, Problem

Samples = list[dict[int, int]]


def read_evid(path: Path | str) -> Samples:
    """The samples of an `.evid` file, each a mapping from variable to value."""
    lines = [
        (number, _numbers(path, number, line)) for number, line in lines_of(path, read_text(path))
    ]
    if not lines:
        raise FormatError.at(path, "line 1", "the number of observed variables", "an empty file")
    head, rest = lines[0][1], lines[1:]
    if rest and len(head) == 1 and all(_is_sample(numbers) for _, numbers in rest):
        if head[0] != len(rest):
            expected = f"{head[0]} samples, as the first line says"
            raise FormatError.at(path, f"line {lines[0][0]}", expected, str(len(rest)))
        return [_sample(path, number, numbers) for number, numbers in rest]
    return [_sample(path, lines[0][0], [n for _, numbers in lines for n in numbers])]


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
        rows = _full_width(path, read_evid(path), problem)
    elif suffix == ".npy":
        rows = read_array(path)
    elif suffix == ".csv":
        rows = _read_csv(path)
    else:
        raise FormatError(f"{path}: expected a file ending in .evid, .npy or .csv")
    allowed = {len(problem.evidence_variables), problem.variables}
    if rows.shape[1] not in allowed:
        expected = " or ".join(f"{width} columns" for width in sorted(allowed))
        raise FormatError.at(path, "every row", expected, str(rows.shape[1]))
    return rows


def _full_width(path: Path | str, samples: Samples, problem: Problem) -> NDArray[np.int64]:
    rows = np.full((len(samples), problem.variables), FREE, dtype=np.int64)
    cards = problem.objective.cardinalities
    for number, sample in enumerate(samples):
        for variable, value in sample.items():
            place = f"sample {number}"
            if variable >= problem.variables:
                expected = f"variables below {problem.variables}"
                raise FormatError.at(path, place, expected, str(variable))
            if value >= cards[variable]:
                expected = f"a value of variable {variable} below {cards[variable]}"
                raise FormatError.at(path, place, expected, str(value))
            rows[number, variable] = value
    return rows


def read_array(path: Path | str) -> NDArray[np.int64]:
    """A whole-number matrix from a `.npy` file; objects are never unpickled."""
    import io

    try:
        rows = np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(f"{path}: expected a .npy array, found: {error}") from None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        found = f"{rows.ndim} axes" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise FormatError.at(path, "the array", "two axes (rows, variables)", found)
    if rows.dtype.kind not in "iub":
        raise FormatError.at(path, "the array", "whole numbers", f"dtype {rows.dtype}")
    return rows.astype(np.int64)


def _read_csv(path: Path | str) -> NDArray[np.int64]:
    rows: list[list[int]] = []
    for number, line in lines_of(path, read_text(path)):
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
