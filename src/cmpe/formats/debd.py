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
    text = read_text(path)
    digits = _single_digits(text)
    if digits is not None:
        return digits
    cells = bytearray()
    width = equal_rows(path, text, ("columns", "a row of data"), _cell, cells)
    return np.frombuffer(cells, dtype=np.uint8).reshape(-1, width)


def _single_digits(text: str) -> NDArray[np.uint8] | None:
    """The usual case in one pass: equally long lines `d,d,...,d`; None for anything else."""
    length = text.find("\n") + 1
    if length < 2 or length % 2 or len(text) % length:
        return None
    cells = np.frombuffer(text.encode("ascii"), dtype=np.uint8).reshape(-1, length)
    digits = cells[:, ::2] - np.uint8(ord("0"))
    regular = (cells[:, 1:-1:2] == ord(",")).all() and (cells[:, -1] == ord("\n")).all()
    return digits if regular and (digits <= 9).all() else None


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
