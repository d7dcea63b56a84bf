"""Looks at rows that were not trained on: prices of violations, different answers."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.learning.settings import TRAINING
from cmpe.learning.training.looking import JudgedAnswers, together
from tests.learning.cases import quick, small_grid, trainer_for


def judged(regret, violated, counts=None, fingerprints=None):
    shape = np.shape(regret)
    return JudgedAnswers(
        np.full(shape, 20.0), np.array(regret, dtype=float), np.array(violated),
        np.ones(shape, dtype=bool) if counts is None else np.array(counts),
        np.zeros(shape) if fingerprints is None else np.array(fingerprints, dtype=float),
        np.zeros(shape[0]),
    )  # fmt: skip


def test_a_violated_row_costs_its_price_and_no_regret():
    look = judged([[1.0, 3.0, 99.0, 0.0]], [[False, False, True, False]]).look()
    assert look.regret[0] == pytest.approx(4.0 / 3.0)
    assert look.violation[0] == 0.25
    assert look.score[0] == pytest.approx(1.0 + TRAINING.violation_price * 20.0 * 0.25)
    assert look.choice_score[0] == pytest.approx(1.0 + TRAINING.choice_price * 20.0 * 0.25)


def test_rows_that_do_not_count_are_left_out():
    counts, prints = [[True, False, True]], [[1, 2, 1]]
    look = judged([[1.0, 50.0, 3.0]], [[False, True, False]], counts, prints).look()
    assert (look.regret[0], look.violation[0], look.distinct[0]) == (2.0, 0.0, 1)


def test_where_all_is_violated_there_is_no_regret():
    look = judged([[1.0, 2.0]], [[True, True]]).look()
    assert np.isnan(look.regret[0])
    assert look.score[0] == pytest.approx(TRAINING.violation_price * 20.0)


def test_a_look_is_the_mean_of_its_rows():
    one = small_grid()
    trainer = trainer_for(one.problem, one.train, quick(margins=(0.0, 1.0)))
    held = trainer.splits[0][1]
    rows, look = trainer.judge(1.0), trainer.look(1.0)
    assert rows.regret.shape == rows.violated.shape == (1, len(held))
    assert look.violation[0] == pytest.approx(rows.violated.mean())
    assert look.best[0] == pytest.approx((one.problem.shift - trainer.data.reference[held]).mean())


def test_of_several_answers_the_best_feasible_one_counts():
    one = judged([[5.0, 1.0, 2.0]], [[False, True, True]], fingerprints=[[1, 2, 3]])
    other = judged([[4.0, 3.0, 9.0]], [[False, False, True]], fingerprints=[[4, 5, 6]])
    found = together([one, other])
    assert found.regret.tolist() == [[4.0, 3.0, 2.0]]
    assert found.violated.tolist() == [[False, False, True]]
    assert found.fingerprints.tolist() == [[4.0, 5.0, 3.0]]
    assert together([one]) is one
