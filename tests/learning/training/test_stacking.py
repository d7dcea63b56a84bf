"""Cross-validation: the winner is the one that separate runs would choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cmpe.errors import MethodError
from cmpe.learning.training.data import folds, prepare
from cmpe.learning.training.stacking import (
    DUAL_GRID,
    PAPER_GRID,
    CrossValidation,
    FoldPlan,
    cross_validate,
    paper_grid,
)
from cmpe.learning.training.trainer import Trainer
from tests.learning.cases import quick, small_grid

ONE = small_grid(samples=40)  # 36 rows: 12 a fold
CONFIG = quick("ss_cmpe_pen", epochs=3, batch_size=8, beta=5.0)
GRID = {"learning_rate": (1e-4, 3e-2), "rho": (0.1, 10.0)}


def by_hand(setting, seeds=(0,)):
    """Mean and deviation of the scores of one run per fold and seed."""
    data = prepare(ONE.problem.given(ONE.train), CONFIG, measured=np.arange(len(ONE.train)))
    scores = []
    for seed in seeds:
        for part in folds(len(ONE.train), 3, CONFIG.seed):
            trainer = Trainer(data, [replace(CONFIG, **setting, seed=seed)], [part])
            list(trainer.epochs())
            trainer.finish()
            scores.append(trainer.look(0.0).choice_score[0])
    return np.mean(scores), np.std(scores)


@pytest.fixture(scope="module")
def found() -> CrossValidation:
    return cross_validate(ONE.problem, ONE.train, GRID, CONFIG, FoldPlan(folds=3, seeds=(0, 4)))


def test_every_trial_is_what_separate_runs_find(found):
    assert len(found.trials) == 4
    for trial in found.trials:
        mean, deviation = by_hand(trial.setting, (0, 4))
        assert trial.score == pytest.approx(mean, abs=1e-3)
        assert trial.score_std == pytest.approx(deviation, abs=1e-3)
        assert trial.members == 6
        assert 0.0 <= trial.violation <= 1.0


def test_the_papers_grid_has_what_a_loss_reads():
    beta, rho = PAPER_GRID["beta"], PAPER_GRID["rho"]
    assert beta == (0.1, 1.0, 2.0, 5.0, 10.0, 20.0)
    assert rho == (0.01, 0.1, 1.0, 10.0, 100.0)
    assert paper_grid("ss_cmpe") == {"beta": beta}
    assert paper_grid("ss_cmpe_pen") == {"beta": beta, "rho": rho}
    for loss in ("mse_pen", "mae_pen", "ssl_pen"):
        assert paper_grid(loss) == {"rho": rho}
    assert paper_grid("pdl") == DUAL_GRID
    for loss in ("mse", "mae", "distill"):
        with pytest.raises(MethodError, match=f"nothing to choose for {loss}; cross-validate one"):
            paper_grid(loss)


def test_the_winner_has_the_least_score(found):
    scores = [trial.score for trial in found.trials]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
    assert found.winner == replace(CONFIG, **found.trials[0].setting)


def test_several_stacks_find_the_same(found):
    calls = []
    plan = FoldPlan(folds=3, seeds=(0, 4), members=7, progress=lambda *done: calls.append(done))
    again = cross_validate(ONE.problem, ONE.train, GRID, CONFIG, plan)
    assert again.winner == found.winner
    for a, b in zip(again.trials, found.trials, strict=True):
        assert a.setting == b.setting
        assert a.score == pytest.approx(b.score, abs=1e-3)
    assert calls == [(k, 12) for k in range(1, 13)]  # 24 members: 4 stacks of 3 epochs


def test_nonsense_is_refused_in_one_line():
    with pytest.raises(MethodError, match=r"a grid may vary beta, .*; found 'hidden'"):
        cross_validate(ONE.problem, ONE.train, {"hidden": (3, 4)}, CONFIG)
    with pytest.raises(MethodError, match="40 folds need as many rows, found 36"):
        cross_validate(ONE.problem, ONE.train, GRID, CONFIG, FoldPlan(folds=40))
    for plan in ({"folds": 1}, {"members": 0}, {"seeds": ()}):
        with pytest.raises(MethodError, match="at least 2 folds, 1 member and 1 seed"):
            FoldPlan(**plan)


def test_seeds_are_not_part_of_the_grid():
    """They have a place of their own in the plan."""
    with pytest.raises(MethodError, match="seed"):
        cross_validate(ONE.problem, ONE.train, {"seed": (0, 1)}, CONFIG, FoldPlan(folds=2))


def test_the_papers_grid():
    assert PAPER_GRID == {
        "beta": (0.1, 1.0, 2.0, 5.0, 10.0, 20.0), "rho": (0.01, 0.1, 1.0, 10.0, 100.0)
    }  # fmt: skip
