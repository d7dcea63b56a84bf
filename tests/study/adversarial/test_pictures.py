import sys

import numpy as np
import pytest

from cmpe.errors import InputError, MissingExtra
from cmpe.pictures.figures import save
from study.adversarial.pictures import DigitColumn, draw_digits


def column(name: str, images: np.ndarray, originals: np.ndarray) -> DigitColumn:
    distances = np.abs(images - originals).sum(axis=1)
    return DigitColumn(name, images, np.arange(len(images)), distances)


def grid(rows: int = 3, n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((rows, n)), rng.random((rows, n))


def test_digits_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    before, after = grid()
    lost = after.copy()
    lost[1] = np.nan
    columns = [column("first", after, before), column("second", lost, before)]
    figure = draw_digits(before, (2, 3), columns, [7, 8, 9])
    [axes] = figure.axes
    shown = [np.asarray(image.get_array()) for image in axes.images]
    assert len(shown) == 3 + 2 * 3 + 2 * 2  # the lost one has neither image nor change
    for row in range(3):
        np.testing.assert_array_equal(shown[row], before[row].reshape(2, 3))
        np.testing.assert_array_equal(shown[3 + 2 * row], after[row].reshape(2, 3))
        change = shown[4 + 2 * row].ravel()
        np.testing.assert_allclose(np.sign(change) * change**2, after[row] - before[row])
    words = [text.get_text() for text in axes.texts]
    for word in ("original", "first", "second", "none", "7", "0", f"{columns[0].distances[2]:.1f}"):
        assert word in words
    assert words.count("none") == 1
    assert min(text.get_fontsize() for text in axes.texts) >= 8.25  # 11 pixels of a page
    for suffix in (".png", ".svg"):
        save(figure, tmp_path / f"digits{suffix}")
        assert (tmp_path / f"digits{suffix}").stat().st_size > 1000


def test_ink_that_is_added_is_darker_than_what_is_removed():
    pytest.importorskip("matplotlib")
    before, after = grid()
    [axes] = draw_digits(before, (2, 3), [column("any", after, before)]).axes
    change = axes.images[4]
    shades = change.cmap(change.norm([-1.0, -0.3, 0.0, 0.3, 1.0]))
    grey = shades[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) < -0.05).all()


def test_the_cells_do_not_overlap():
    pytest.importorskip("matplotlib")
    before, after = grid(rows=10)
    [axes] = draw_digits(before, (2, 3), [column(str(k), after, before) for k in range(14)]).axes
    corners = {(round(i.get_extent()[0], 6), round(i.get_extent()[3], 6)) for i in axes.images}
    assert len(corners) == len(axes.images) == 10 * (1 + 14 * 2)
    lefts, tops = (np.unique(values) for values in zip(*corners, strict=True))
    assert (np.diff(lefts) >= 1).all()
    assert (np.diff(tops) >= 1).all()
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert low <= lefts[0]
    assert lefts[-1] + 1 <= high
    assert top <= tops[0]
    assert tops[-1] + 1 <= bottom


def test_what_does_not_fit_is_refused():
    before, after = grid()
    good = column("good", after, before)
    for originals, shape, columns, classes, message in (
        (before, (2, 2), [good], [], r"must be \(R, 4\)"),
        (before[:0], (2, 3), [], [], r"must be \(R, 6\)"),
        (before[:2], (2, 3), [good], [], "column 'good' must hold"),
        (before, (2, 3), [good], [1], "one class per original"),
    ):
        with pytest.raises(InputError, match=message):
            draw_digits(originals, shape, columns, classes)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"cmpe\[report\]"):
        draw_digits(grid()[0], (2, 3), [])
