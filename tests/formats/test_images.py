"""Image sets: the embedded digits, and directories with MNIST's four files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import FormatError, InputError
from cmpe.formats.images import read_images
from tests.formats.test_idx import content

NAMES = {
    "train": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


def arrays(train: int = 7, test: int = 3, rows: int = 4, columns: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng((train, test, rows, columns))
    counts = {"train": train, "test": test}
    return {
        part: rng.integers(0, 10, counts[part[:-7]], dtype=np.uint8)
        if part.endswith("_labels")
        else rng.integers(0, 256, (counts[part], rows, columns), dtype=np.uint8)
        for part in NAMES
    }


def write(directory: Path, parts: dict[str, np.ndarray]) -> Path:
    for part, array in parts.items():
        (directory / NAMES[part]).write_bytes(content(*array.shape, data=array.tobytes()))
    return directory


def test_the_embedded_digits():
    images = read_images("digits")
    assert (images.name, images.shape, images.classes) == ("digits", (8, 8), 10)
    assert (images.train.shape, images.test.shape) == ((1438, 64), (359, 64))
    for pixels, labels in (
        (images.train, images.train_labels),
        (images.test, images.test_labels),
    ):
        assert (pixels.dtype, labels.dtype) == (np.float64, np.int64)
        levels = np.rint(255 * pixels)
        np.testing.assert_array_equal(levels / 255, pixels)  # 8 bits hold them
        assert (levels.min(), levels.max()) == (0, 255)
        assert set(labels.tolist()) == set(range(10))


def test_the_embedded_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    ink, digits = datasets.load_digits(return_X_y=True)
    images = read_images("digits")
    np.testing.assert_array_equal(images.test, np.rint(ink[4::5] * 255 / 16) / 255)
    np.testing.assert_array_equal(images.test_labels, digits[4::5])
    kept = np.delete(np.arange(len(ink)), np.s_[4::5])
    np.testing.assert_array_equal(np.rint(16 * images.train), ink[kept])
    np.testing.assert_array_equal(images.train_labels, digits[kept])


@settings(max_examples=20, deadline=None)
@given(st.tuples(*[st.integers(1, 6)] * 4), st.sampled_from("-."), st.booleans())
def test_a_directory_is_read(tmp_path_factory, sizes, dash, packed):
    directory = tmp_path_factory.mktemp("mnist")
    parts = arrays(*sizes)
    write(directory, parts)
    for name in NAMES.values():
        data = (directory / name).read_bytes()
        (directory / name).unlink()
        file = directory / (name.replace("-idx", f"{dash}idx") + (".gz" if packed else ""))
        file.write_bytes(gzip.compress(data) if packed else data)
    images = read_images(str(directory))
    assert (images.name, images.shape) == (directory.name, sizes[2:])
    for part, array in parts.items():
        found = getattr(images, part)
        if part.endswith("_labels"):
            np.testing.assert_array_equal(found, array)
        else:
            np.testing.assert_array_equal(found, array.reshape(len(array), -1) / 255)


@pytest.mark.parametrize("part", NAMES)
def test_a_missing_file_is_named(tmp_path, part):
    (write(tmp_path, arrays()) / NAMES[part]).unlink()
    with pytest.raises(InputError, match=f"{NAMES[part]}: not there") as error:
        read_images(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("part", NAMES)
def test_a_truncated_file_is_named(tmp_path, part):
    file = write(tmp_path, arrays()) / NAMES[part]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FormatError, match=NAMES[part]):
        read_images(tmp_path)
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes())[:-9])
    file.unlink()
    with pytest.raises(FormatError, match=f"{NAMES[part]}.gz: expected a whole .gz file"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    ("part", "array", "message"),
    [
        ("train_labels", np.zeros(6, np.uint8), "expected 7 labels, one for each image of train-"),
        ("test_labels", np.zeros(4, np.uint8), "expected 3 labels, one for each image of t10k-"),
        ("train_labels", np.arange(4, 11, dtype=np.uint8), "label 6: .* from 0 to 9, found 10"),
        ("test", np.zeros((3, 5, 3), np.uint8), "images of 4 x 3 pixels, .* found 5 x 3"),
        ("train", np.zeros((7, 12), np.uint8), r"3 axes \(images x rows x columns\), found 2"),
        ("train_labels", np.zeros((7, 1), np.uint8), r"1 axes \(labels\), found 2"),
        ("train", np.zeros((0, 4, 3), np.uint8), "at least one image"),
        ("test", np.zeros((3, 0, 3), np.uint8), "at least one image and pixel"),
    ],
)
def test_what_does_not_fit_is_one_line_that_names_the_file(tmp_path, part, array, message):
    write(tmp_path, arrays() | {part: array})
    with pytest.raises(FormatError, match=f"{NAMES[part]}: .*{message}") as error:
        read_images(tmp_path)
    assert "\n" not in str(error.value)


def test_a_source_that_is_no_directory_is_refused(tmp_path):
    for source in (tmp_path / "nowhere", "digit", Path("digits")):
        with pytest.raises(InputError, match="expected 'digits' or a directory"):
            read_images(source)
