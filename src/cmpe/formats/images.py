"""Labelled images: a directory with MNIST's four idx files, or the embedded 8 x 8 digits.

The embedded set is `digits.npz` beside this module; `digits.txt` tells where it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError, InputError
from cmpe.formats.idx import read_idx

EMBEDDED = "digits"
CLASSES = 10
_DIGITS = Path(__file__).with_name("digits.npz")
_INK = 16  # The embedded pixels go from 0 to this.
_EVERY = 5  # Every so many-th embedded image is for testing.


@dataclass(frozen=True)
class ImageSet:
    """Images as rows of 8-bit levels divided by 255, with the class of each."""

    name: str
    shape: tuple[int, int]  # rows and columns of an image; their product is n
    train: NDArray[np.float64]  # (N, n), from 0 to 1
    train_labels: NDArray[np.int64]  # (N,), from 0 to classes - 1
    test: NDArray[np.float64]
    test_labels: NDArray[np.int64]
    classes: int = CLASSES


def read_images(source: Path | str) -> ImageSet:
    """The embedded set for the word `digits`, else MNIST's files in the directory `source`.

    A directory of that name is meant by `./digits`. The files are called as MNIST's are
    (train-images-idx3-ubyte, ..., t10k-labels-idx1-ubyte), also with `.idx` for `-idx`, each as
    it is or with `.gz`.
    """
    if source == EMBEDDED:
        return _embedded()
    directory = Path(source)
    if not directory.is_dir():
        raise InputError(f"{source}: expected {EMBEDDED!r} or a directory with MNIST's idx files")
    train, train_labels, shape = _part(directory, "train")
    test, test_labels, test_shape = _part(directory, "t10k")
    if test_shape != shape:
        file = _find(directory, "t10k-images", 3)
        expected = f"images of {shape[0]} x {shape[1]} pixels, as for training"
        raise FormatError(f"{file}: expected {expected}, found {test_shape[0]} x {test_shape[1]}")
    name = directory.resolve().name
    return ImageSet(name, shape, train, train_labels, test, test_labels)


def _embedded() -> ImageSet:
    """Every fifth image, from the fifth on, is for testing."""
    with np.load(_DIGITS) as arrays:
        ink, labels = arrays["images"], arrays["labels"].astype(np.int64)
    levels = np.rint(ink * (255.0 / _INK))
    pixels = levels.reshape(len(levels), -1) / 255.0
    tested = np.arange(len(labels)) % _EVERY == _EVERY - 1
    rows, columns = ink.shape[1:]
    return ImageSet(
        EMBEDDED, (rows, columns), pixels[~tested], labels[~tested], pixels[tested], labels[tested]
    )


def _part(
    directory: Path, part: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[int, int]]:
    """Images (N, n), labels (N,) and the images' shape of `train` or `t10k`."""
    file = _find(directory, f"{part}-images", 3)
    levels = _read(file, 3, "images x rows x columns")
    if not levels.size:
        raise FormatError.at(file, "byte 4", "at least one image and pixel", str(levels.shape))
    label_file = _find(directory, f"{part}-labels", 1)
    labels = _read(label_file, 1, "labels")
    if len(labels) != len(levels):
        expected = f"{len(levels)} labels, one for each image of {file.name}"
        raise FormatError.at(label_file, "byte 4", expected, str(len(labels)))
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        place = f"label {wrong[0]}"
        raise FormatError.at(
            label_file, place, f"a class from 0 to {CLASSES - 1}", str(labels[wrong[0]])
        )
    rows, columns = levels.shape[1:]
    return levels.reshape(len(levels), -1) / 255.0, labels.astype(np.int64), (rows, columns)


def _find(directory: Path, stem: str, axes: int) -> Path:
    """The file of that name, by whichever of its spellings is there."""
    for dash, packed in product("-.", ("", ".gz")):
        file = directory / f"{stem}{dash}idx{axes}-ubyte{packed}"
        if file.is_file():
            return file
    raise InputError(f"{directory / f'{stem}-idx{axes}-ubyte'}: not there, nor with .gz")


def _read(file: Path, axes: int, meaning: str) -> NDArray[np.uint8]:
    array = read_idx(file)
    if array.ndim != axes:
        raise FormatError.at(file, "byte 3", f"{axes} axes ({meaning})", str(array.ndim))
    return array
