"""Figures show what the results say, with a mark, line or hatch of its own for every method."""

from __future__ import annotations

from dataclasses import replace

import pytest

from study.reporting.figures import rendered
from study.reporting.names import METHODS, style_of
from study.reporting.study import Study
from study.reporting.study_figures import COMPARED, study_figures

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def drawn(study):
    return {d.name: d for d in study_figures(study)}


def test_every_figure_is_there(drawn):
    each = {
        f"{kind}-{name}"
        for kind in ("feasible", "time", "learning")
        for name in ("grids-17", "segmentation-12", "dna", "grids-17-10")
    }
    assert set(drawn) == {"times", "gap-violations-q80", "gap-violations-all"} | each
    assert all(d.caption and d.title for d in drawn.values())


def test_methods_differ_without_colour():
    markers = [style_of(m).marker for m in METHODS]
    assert len(set(markers)) == len(METHODS)
    hatches = [style_of(m).hatch for m in (*COMPARED, "tuned", "tuned+repair")]
    assert len(set(hatches)) == len(hatches)


def test_gap_against_violations_has_ours_and_the_papers_points(drawn, study):
    panels = drawn["gap-violations-q80"].figure.axes
    assert [p.get_title() for p in panels] == [
        *("Grids", "Segmentation", "Tractable models", "Wide problems")
    ]
    marks = {c.get_label(): c.get_offsets().tolist() for c in panels[0].collections}
    gap = study.figure(("Grids_17", 80.0, "pdl"), "gap").mean
    violation = study.figure(("Grids_17", 80.0, "pdl"), "violation").mean
    assert marks["PDL"] == [[violation, 100 * gap]]
    printed = study.paper("Grids_17", 80.0, "pdl", "gap").mean
    assert marks["PDL, paper"][0][1] == pytest.approx(100 * printed)
    every = drawn["gap-violations-all"].figure.axes[0].collections
    assert len(every[0].get_offsets()) == 2


def test_bars_show_feasible_regret(drawn, study):
    axes = drawn["feasible-dna"].figure.axes[0]
    bars = [c for c in axes.containers if hasattr(c, "patches")]
    heights = {c.get_label(): [bar.get_height() for bar in c] for c in bars}
    expected = [study.figure(("dna", q, "ss_cmpe"), "feasible_regret").mean for q in (10.0, 80.0)]
    assert heights["SS-CMPE"] == expected
    assert len(heights["PDL"]) == 1  # the other one is missing
    assert axes.get_yscale() == "linear"


def test_one_bar_does_not_hide_the_others(results):
    cells = tuple(
        replace(c, every={**c.every, "feasible_regret": 4000.0})
        if (c.dataset, c.q, c.method) == ("dna", 80.0, "ss_cmpe")
        else c
        for c in results.cells
    )
    alone = Study(replace(results, cells=cells, curves=(), times=(), paper=()))
    found = {d.name: d for d in study_figures(alone)}["feasible-dna"]
    [axes] = found.figure.axes
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[1] > 4000.0
    assert "logarithmic" in found.caption


def test_times_are_on_one_axis_and_amortised_ones_are_hollow(drawn):
    axes = drawn["time-dna"].figure.axes[-1]
    lines = {line.get_label(): line for line in axes.lines}
    assert len(lines) == 8  # six methods, one again with training, the word for it
    assert [line.get_markerfacecolor() for line in axes.lines].count("white") == 2
    assert lines["exact"].get_markerfacecolor() != "white"
    assert axes.get_xscale() == "log"


def test_a_learning_curve_is_the_mean_over_seeds(results):
    [first, *_] = [c for c in results.curves if c.dataset == "dna" and c.method == "pdl"]
    second = replace(first, seed=1, values={**first.values, "validation_regret": 0.0})
    alone = Study(replace(results, curves=(first, second), times=(), paper=()))
    found = {d.name: d for d in study_figures(alone)}["learning-dna"]
    [line] = found.figure.axes[0].lines
    assert list(line.get_ydata()) == [first.values["validation_regret"] / 2]


def test_cells_without_figures_draw_nothing(results):
    cells = tuple(replace(c, every={}, measured=False) for c in results.cells)
    assert study_figures(Study(type(results)(cells=cells))) == []


def test_answers_that_gain_by_breaking_a_constraint_stay_inside(results):
    points = [t for t in results.times if t.dataset == "dna"]
    gains = tuple(
        replace(t, regret=-200.0, method=m) for t, m in zip(points, METHODS, strict=False)
    )
    alone = Study(replace(results, curves=(), paper=(), times=(*points, *gains)))
    found = {d.name: d for d in study_figures(alone)}["time-dna"]
    assert rendered(found.figure, ".svg").startswith(b"<?xml")  # a layout that fails is a warning
    bottom = min(axes.get_ylim()[0] for axes in found.figure.axes)
    assert bottom <= -300  # room for the markers


def test_fixed_margins_have_room_for_every_label(drawn):
    """Without a layout that measures: what is drawn ends inside the figure, to a pixel."""
    fixed = {n: d.figure for n, d in drawn.items() if d.figure.get_layout_engine() is None}
    assert {name.split("-")[0] for name in fixed} == {"gap", "feasible", "time", "learning"}
    for name, figure in fixed.items():
        box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) > -0.01, name
