"""DEBD data sets (`.data`, `.data.gz`): rows of comma-separated small whole numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError
from cmpe.formats.evidence import equal_rows, read_array
from cmpe.formats.text import read_text, suffix_of


def read_debd(path: Path | str) -> NDArray[np.uint8]:
    """The rows (N, columns) of a data set."""
    words = ("columns", "a row of data")
    return equal_rows(path, read_text(path), words, _cell, (0, 255)).astype(np.uint8, copy=False)


def _cell(path: Path | str, number: int, cell: str) -> int:
    if not (cell.isdecimal() and len(cell) <= 3 and int(cell) < 256):
        expected = "whole numbers from 0 to 255"
        raise FormatError.at(path, f"line {number}", expected, repr(cell[:40]))
    return int(cell)


def read_data(path: Path | str) -> NDArray[np.integer]:
    """The rows of a data set: `.npy`, or text as above."""
    if suffix_of(path) != ".npy":
        return read_debd(path)
    rows = read_array(path)
    if not rows.size:
        raise FormatError.at(path, "the array", "rows of data", f"shape {rows.shape}")
    if rows.min() < 0 or rows.max() > 255:
        found = f"{rows.min()} to {rows.max()}"
        raise FormatError.at(path, "the array", "whole numbers from 0 to 255", found)
    return rows.astype(np.uint8)
