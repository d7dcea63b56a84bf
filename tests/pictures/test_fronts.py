"""Pictures of fronts."""

import numpy as np

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.pictures.figures import save
from cmpe.pictures.fronts import draw_fronts
from cmpe.tradeoffs.front import Front
from cmpe.tradeoffs.points import ListedPoints, Steps, TracedPoints
from tests.problems import worked_example
from tests.refusals import refused


def test_one_panel_a_front(tmp_path):
    fronts = cmpe.front(worked_example(), [[1, 1], [0, 0], [0, 1], [1, 0]])
    figure = draw_fronts(fronts, names=["a", "b", "c", "d"])
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        "a: complete",
        "b: complete",
    ]
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2
    save(figure, tmp_path / "fronts.svg")
    assert (tmp_path / "fronts.svg").read_bytes().startswith(b"<?xml")
    labels = [line.get_label() for front in fronts for line in front.plot().axes[0].lines]
    assert "q = 20" in labels


def test_lower_limits_and_rows_without_points():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    t = LogLinearModel.from_tables([2], [((0,), [2.0, 1.0])])
    mirrored = cmpe.front(Problem(h, [t >= 1.5]))[0]
    nothing = cmpe.front(Problem(h, [t <= 5.0, t <= -5.0]))[0]
    figure = draw_fronts([mirrored, nothing])
    assert "t >= q" in figure.axes[0].get_xlabel()
    assert "no assignment" in figure.axes[1].texts[0].get_text()


def test_nothing_to_draw():
    refused(lambda: draw_fronts([]), "at least one front")


def test_the_band_is_drawn_from_the_point_before_to_the_bound_at_the_next_mark():
    rows = np.zeros((2, 4), dtype=np.int32)
    steps = Steps(np.array([1.0, 2.0, 3.0, np.inf]), np.array([2.0, 4.0, 5.0, 5.0]))
    traced = TracedPoints(
        np.array([1.0, 4.0]), np.array([1.0, 3.0]), ListedPoints(rows), False, steps
    )
    front = Front(worked_example(), 0, traced, np.zeros(4, dtype=bool))
    band = draw_fronts([front]).axes[0].collections[0].get_paths()[0].vertices
    for q, low, high in ((1.0, 1.0, 4.0), (2.0, 1.0, 5.0), (3.0, 1.0, 5.0)):
        inside = band[band[:, 0] == q, 1]
        assert inside.min() == low
        assert inside.max() == high
