"""Digits before and after attacks: a row per image, a column per method.

A cell holds the changed image and, beside it, the change alone: ink added is dark, ink removed is
light, no change is grey, so that they are told apart without colours too. Changes d are shown as
sign(d) sqrt|d|, for small ones to be seen. Below stand the class decided now and sum |x' - x|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.errors import InputError
from cmpe.pictures.figures import new_figure

INCHES = 0.55  # of the side of an image; other lengths are in sides
BETWEEN = 0.22  # columns
BELOW = 0.36  # an image, for its caption
ABOVE = 0.55  # the first row, for the names
POINTS = 8.5  # of letters: 11 pixels on a screen
CHANGES = ["#f2fbff", "#b5e0f5", "0.62", "#8b1a1a", "#2b0000"]  # removed ... added: ever darker


@dataclass(frozen=True)
class DigitColumn:
    """The answers of one method to R images."""

    name: str
    images: Floats  # (R, n), NaN where there is none
    classes: NDArray[np.integer]  # (R,): what the network decides now
    distances: Floats  # (R,): sum |x' - x|


def draw_digits(
    originals: Floats,
    shape: tuple[int, int],
    columns: Sequence[DigitColumn],
    classes: Sequence[int] | NDArray[np.integer] = (),
) -> Any:
    """Images (R, n) and what each method made of them; `classes` (R,) go under the originals."""
    originals = np.asarray(originals, dtype=np.float64)
    _check(originals, shape, columns, len(classes))
    rows = len(originals)
    width = 1.0 + len(columns) * (2.0 + BETWEEN)
    height = ABOVE + rows * (1.0 + BELOW)
    figure, axes = new_figure(INCHES * width + 0.1, INCHES * height + 0.1)
    _write(axes, 0.5, -ABOVE / 2, "original")
    for row, original in enumerate(originals):
        top = row * (1.0 + BELOW)
        _draw(axes, 0.0, top, original.reshape(shape), "gray_r", 0.0)
        if len(classes):
            _write(axes, 0.5, top + 1 + BELOW / 2, str(classes[row]))
    for number, column in enumerate(columns):
        left = 1.0 + BETWEEN + number * (2.0 + BETWEEN)
        _write(axes, left + 1, -ABOVE / 2, column.name)
        _draw_column(axes, left, originals, shape, column)
    axes.set(xlim=(-0.02, width + 0.02), ylim=(height - ABOVE, -ABOVE), aspect="equal")
    axes.axis("off")
    return figure


def _draw_column(
    axes: Any, left: float, originals: Floats, shape: tuple[int, int], column: DigitColumn
) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("changes", CHANGES)
    for row, (original, changed) in enumerate(zip(originals, column.images, strict=True)):
        top = row * (1.0 + BELOW)
        if np.isnan(changed).any():
            _write(axes, left + 1, top + 0.5, "none", color="0.35", style="italic")
            continue
        change = changed - original
        seen = np.sign(change) * np.sqrt(np.abs(change))
        _draw(axes, left, top, changed.reshape(shape), "gray_r", 0.0)
        _draw(axes, left + 1, top, seen.reshape(shape), colours, -1.0)
        middle = top + 1 + BELOW / 2
        _write(axes, left + 0.5, middle, str(int(column.classes[row])), weight="bold")
        _write(axes, left + 1.5, middle, f"{column.distances[row]:.1f}")


def _draw(axes: Any, left: float, top: float, image: Floats, colours: Any, least: float) -> None:
    """An image with the corner (left, top), one side long whatever its shape."""
    from matplotlib.patches import Rectangle

    extent = (left, left + 1, top + 1, top)
    axes.imshow(image, cmap=colours, vmin=least, vmax=1.0, extent=extent, interpolation="nearest")
    axes.add_patch(Rectangle((left, top), 1, 1, fill=False, edgecolor="0.35", linewidth=0.5))


def _write(axes: Any, x: float, y: float, text: str, **style: str) -> None:
    axes.text(x, y, text, ha="center", va="center", fontsize=POINTS, **style)


def _check(
    originals: Floats, shape: tuple[int, int], columns: Sequence[DigitColumn], classes: int
) -> None:
    wanted = (len(originals), shape[0] * shape[1])
    if originals.shape != wanted or not originals.size:
        raise InputError(f"originals must be (R, {wanted[1]}), found {originals.shape}")
    if classes not in (0, len(originals)):
        raise InputError(f"one class per original is required: {len(originals)}, found {classes}")
    for column in columns:
        count = wanted[:1]
        found = (column.images.shape, column.classes.shape, column.distances.shape)
        if found != (wanted, count, count):
            raise InputError(
                f"column {column.name!r} must hold images {wanted}, classes and distances {count}, "
                f"found {', '.join(map(str, found))}"
            )
