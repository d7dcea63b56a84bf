"""Calibration: how each margin fares on rows that were held out."""

from __future__ import annotations

from dataclasses import replace

from cmpe.learning.training import calibration
from cmpe.learning.training.fitting import fit
from tests.learning.cases import quick, small_grid

ONE = small_grid()
CONFIG = quick()


def test_calibration_has_every_trained_margin():
    config = replace(CONFIG, margins=(-1.0, 0.0, 2.0))
    solver = fit(ONE.problem, ONE.train, config)
    found = {c.margin: c for c in solver.trained.calibration}
    assert {-1.0, 0.0, 2.0} <= set(found)
    assert all(c.rows == 11 and 0.0 <= c.violation <= 1.0 for c in found.values())
    assert (
        fit(ONE.problem, ONE.train, replace(config, validation_share=0.0)).trained.calibration == ()
    )


def test_many_validation_rows_speak_for_themselves(monkeypatch):
    few = fit(ONE.problem, ONE.train, CONFIG).trained.calibration[0]
    assert (few.rows, few.all_rows) == (11, len(ONE.train))
    monkeypatch.setattr(calibration, "TRAINING", calibration.TRAINING._replace(calibration_rows=5))
    many = fit(ONE.problem, ONE.train, CONFIG).trained.calibration[0]
    assert (many.rows, many.all_rows) == (11, 11)
    assert many.all_violation == many.violation == few.violation


def test_several_passes_are_chosen_that_fare_better_together():
    config = quick("distill", margins=(0.0, 1.0, 4.0), rows=100, passes=3, epochs=10)
    solver = fit(ONE.problem, ONE.train, config)
    passes = solver.trained.passes
    assert 1 <= len(passes) <= 3
    assert list(passes) == sorted(set(passes))
    alone = {"repair": False, "certificate": "none"}
    together = solver.with_stages(**alone).solve(ONE.problem, ONE.train)
    for margin in passes:
        one = solver.with_stages(margins=[margin], **alone).solve(ONE.problem, ONE.train)
        assert (together.feasible >= one.feasible).all()
        both = together.feasible & one.feasible
        assert (together.objective[both] >= one.objective[both]).all()
    assert solver.with_stages(**alone).method == (
        "network" if len(passes) == 1 else f"network x {len(passes)}"
    )


def test_one_pass_is_not_chosen():
    assert fit(ONE.problem, ONE.train, quick(margins=(0.0, 1.0))).trained.passes == ()
    assert fit(ONE.problem, ONE.train, quick(passes=4)).trained.passes == ()
