"""Calibration: how each margin fares on rows that were held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cmpe.flip import adversarial
from cmpe.learning.runs import worst_rate
from cmpe.learning.training import calibration
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import split
from cmpe.learning.training.fitting import fit
from tests.learning.cases import quick, small_grid
from tests.learning.losses.test_functions import images, small_network

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


@pytest.mark.parametrize("allowed", [0.0, 0.3, 0.999])
def test_head_linear_is_calibrated_by_the_solvers_own_answers(allowed):
    problem, x = adversarial(small_network()), images(200)
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(16,), epochs=5, batch_size=32, margins=(0.0, 0.5),
        keep_best=False, allowed_violation=allowed,
    )  # fmt: skip
    solver = fit(problem, x, config)
    held, known = x[split(len(x), config)[1]], solver.trained.calibration
    rates = []
    for found in known:
        alone = solver.with_stages(margins=[found.margin], repair=False, certificate="none")
        answers = alone.solve(problem, held)
        rates.append(1.0 - answers.feasible.mean())
        assert (found.rows, found.all_rows) == (len(held), len(held))
        assert found.violation == found.all_violation == pytest.approx(rates[-1])
    assert [c.margin for c in known] == sorted(c.margin for c in known)
    safe = [c.margin for c in known if worst_rate(c.violation, c.rows) <= allowed]
    margin = solver.calibrated_margin()
    alone = solver.with_stages(repair=False, certificate="none").solve(problem, held)
    if safe:
        assert [margin] == safe
        assert worst_rate(1.0 - alone.feasible.mean(), len(held)) <= allowed
    else:
        assert (1.0 - alone.feasible.mean()) == pytest.approx(min(rates))
        assert max(c.margin for c in known) == 0.5
    assert np.isin(margin, np.linspace(0.0, 0.5, calibration.TRAINING.calibrated_alone))


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
