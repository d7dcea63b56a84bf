"""idx files (the MNIST images and labels): a big-endian header, then unsigned bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError
from cmpe.formats.text import read_bytes

_UNSIGNED_BYTE = 0x08


def read_idx(path: Path | str) -> NDArray[np.uint8]:
    """The array of an idx file of unsigned bytes."""
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTE:
        found = data[:4].hex(" ") or "an empty file"
        raise FormatError.at(path, "byte 0", "the header 00 00 08 of an idx file", found)
    axes = data[3]
    start = 4 + 4 * axes
    if len(data) < start:
        raise FormatError.at(path, "byte 4", f"{axes} sizes", f"{len(data)} bytes in all")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != math.prod(shape):
        expected = f"{math.prod(shape)} bytes for shape {shape}"
        raise FormatError.at(path, f"byte {start}", expected, str(len(data) - start))
    try:
        return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)
    except ValueError as error:  # too many axes, or sizes beyond memory beside one of 0
        raise FormatError.at(path, "byte 4", "sizes of an array", str(error)) from None
