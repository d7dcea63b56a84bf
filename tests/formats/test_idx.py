"""idx: arrays of unsigned bytes, as MNIST has them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cmpe.errors import FormatError
from cmpe.formats.idx import read_idx

MNIST = Path(__file__).parents[2].parent / "shared" / "data" / "mnist"
SHAPES = {
    "train-images-idx3-ubyte": (60000, 28, 28),
    "train-labels-idx1-ubyte": (60000,),
    "t10k-images-idx3-ubyte": (10000, 28, 28),
    "t10k-labels-idx1-ubyte": (10000,),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("idx")


@settings(deadline=None, derandomize=True)
@given(
    arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)),
    st.sampled_from(["", ".gz"]),
)
def test_arrays_come_back(folder, array, suffix):
    path = folder / f"a{suffix}"
    with gzip.open(path, "wb") if suffix else path.open("wb") as stream:
        stream.write(content(*array.shape, data=array.tobytes()))
    back = read_idx(path)
    assert back.dtype == np.uint8
    assert back.shape == array.shape
    assert np.array_equal(back, array)


def content(*shape, data=b"", kind=8):
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: expected the header 00 00 08 of an idx file, found an empty file"),
        (b"\0\0\x08", "byte 0: expected the header 00 00 08 of an idx file, found 00 00 08"),
        (b"MARKOV", "byte 0: expected the header 00 00 08 of an idx file, found 4d 41 52 4b"),
        (content(1, data=b"x", kind=0x0D), "byte 0: expected the header 00 00 08"),
        (content(2, 3)[:-1], "byte 4: expected 2 sizes, found 11 bytes in all"),
        (content(2, 3, data=b"12345"), r"byte 12: expected 6 bytes for shape \(2, 3\), found 5"),
        (content(2, 3, data=b"1234567"), r"byte 12: expected 6 bytes for shape \(2, 3\), found 7"),
        (content(2**32 - 1, 2**32 - 1, data=b"1"), "byte 12: expected 18446744065119617025 bytes"),
        (content(0, *[2**32 - 1] * 3), "byte 4: expected sizes of an array, found"),
        (content(*[1] * 100, data=b"1"), "byte 4: expected sizes of an array, found"),
    ],
)
def test_hostile_files_are_refused(tmp_path, data, message):
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"a: {message}"):
        read_idx(path)


@pytest.mark.parametrize("name", SHAPES)
def test_mnist(name):
    path = MNIST / f"{name}.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    array = read_idx(path)
    assert array.shape == SHAPES[name]
    assert array.max() == (255 if array.ndim == 3 else 9)
