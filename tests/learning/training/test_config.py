"""The choices of a run: what is refused, presets, files."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest

from cmpe import Problem
from cmpe.errors import MethodError
from cmpe.flip import adversarial
from cmpe.generation import grid
from cmpe.learning.losses.catalogue import PAPER_LOSSES
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import (
    MEMBER_FIELDS,
    TrainingConfig,
    has_cheap_labels,
    paper,
    preset,
    stable,
    tuned,
)
from tests.learning.cases import small_grid
from tests.learning.losses.test_functions import small_network


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "huber"}, "a loss is one of"),
        ({"epochs": 0}, "epochs must be at least 1, found 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": math.nan}, "learning_rate must be at least 0"),
        ({"learning_rate": -1.0}, "learning_rate must be at least 0"),
        ({"beta": -0.1}, "beta must be at least 0"),
        ({"penalty_factor": 0.5}, "penalty_factor must be at least 1"),
        ({"plateau_factor": 0.0}, "plateau_factor must be above 0 and at most 1"),
        ({"cooling": 1.5}, "cooling must be above 0 and at most 1"),
        ({"validation_share": 1.0}, "validation_share must be below 1"),
        ({"margins": (1.0,)}, "margins must be finite and contain 0"),
        ({"margins": (0.0, math.inf)}, "margins must be finite and contain 0"),
        ({"hidden": (8, 0)}, "hidden layers must be at least 1 wide"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"gamma": math.nan}, "gamma"),
        ({"alpha": "tight"}, "alpha is one of paper, precomputed, fixed; found 'tight'"),
        ({"dual_growth": 0.5}, "dual_growth must be at least 1"),
        ({"dual_hidden": 0}, "dual_hidden must be at least 1"),
        ({"dual_enough": 0.0}, "dual_enough must be above 0 and at most 1"),
    ],
)
def test_nonsense_is_refused_in_one_line(change, message):
    with pytest.raises(MethodError, match=message) as caught:
        TrainingConfig(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(),
        TrainingConfig(beta=5.0, hidden=[3, 4], margins=[0, 1.5], seed=9),
        TrainingConfig(penalty_limit=math.inf),
        paper("mse"),
        tuned(),
        paper(),
        stable("pdl"),
    ],
)
def test_configs_survive_a_file(config):
    text = json.dumps(config.to_json(), allow_nan=False)
    assert TrainingConfig.from_json(json.loads(text)) == config


def test_unknown_fields_are_refused():
    with pytest.raises(MethodError, match="a training config has no field 'colour'"):
        TrainingConfig.from_json({"colour": 3})


def test_runs_of_earlier_versions_are_read():
    earlier = {"network": "mlp", "steps": 0, "mask_inputs": False, "epochs": 7}
    assert TrainingConfig.from_json(earlier) == TrainingConfig(epochs=7)
    with pytest.raises(MethodError, match="a training config has no field 'network'"):
        TrainingConfig.from_json({**earlier, "network": "unrolled"})


def test_the_paper_preset_is_the_papers():
    for loss, factor in (("ss_cmpe", 0.9), ("ssl_pen", 0.9), ("mse", 1.0), ("mae_pen", 1.0)):
        config = paper(loss)
        assert config.hidden == (128, 256, 512)
        assert (config.learning_rate, config.batch_size, config.epochs) == (1e-3, 128, 300)
        assert config.plateau_factor == factor
        assert not config.keep_best
        assert not config.skip


def test_presets_by_name():
    assert preset("paper") == paper()
    assert preset("stable", "pdl", epochs=2) == stable("pdl", epochs=2)
    assert preset("tuned", "mse", epochs=3) == tuned("mse", epochs=3)
    with pytest.raises(MethodError, match="a preset is one of paper, stable, tuned; found 'best'"):
        preset("best")


def test_member_fields_are_fields():
    assert {f.name for f in fields(TrainingConfig)} >= MEMBER_FIELDS


def test_the_papers_own_losses_are_as_printed():
    for loss in PAPER_LOSSES:
        config = paper(loss)
        assert (config.contrast, config.temperature, config.margins) == (1.0, 0.0, (0.0,))
        assert (config.gamma, config.gate_gradient) == (0.0, True)
    for loss in ("ss_cmpe", "ss_cmpe_pen"):
        assert (paper(loss).alpha, paper(loss).beta) == ("paper", 1.0)
    assert paper("ss_cmpe", contrast=3.0).contrast == 3.0


def test_stable_gives_every_self_supervised_loss_the_same():
    """Besides alpha of the losses that have one, it differs from `paper` in these two."""
    for loss in ("ssl_pen", "pdl", "ss_cmpe", "ss_cmpe_pen"):
        config = stable(loss)
        alpha = {"alpha": config.alpha, "contrast": config.contrast} if config.kind.alpha else {}
        assert config == paper(loss, temperature=2.0, margins=TRAINING.stable_margins, **alpha)
        assert config.temperature == 2.0
        assert len(config.margins) > 1
    assert (stable().alpha, stable().contrast) == ("fixed", 3.0)
    for loss in ("mse", "mae", "mse_pen", "mae_pen"):
        assert stable(loss) == paper(loss)


def test_tuned_grows_with_the_problem():
    small = tuned(problem=small_grid().problem)  # 9 variables
    assert (small.loss, small.hidden, small.rows) == ("distill", (128, 64), 1800)
    largest = tuned()
    assert (largest.loss, largest.hidden, largest.rows) == ("distill", (2048, 1024), 40_000)
    assert preset("tuned", problem=small_grid().problem) == small


def test_tuned_learns_without_labels_where_they_are_dear():
    wide = Problem(grid(30, 30, seed=0))
    assert not has_cheap_labels(wide)
    config = tuned(problem=wide)
    assert (config.loss, config.rows, config.contrast) == ("ss_cmpe", 0, 3.0)
    assert not has_cheap_labels(adversarial(small_network()))
    assert tuned("ss_cmpe").rows == 0


def test_fresh_rows_need_a_number():
    with pytest.raises(MethodError, match="rows must be above 0"):
        TrainingConfig(fresh=True)


def test_whole_numbers_may_be_long():
    """They are compared, never turned into floating-point numbers."""
    assert TrainingConfig(batch_size=10**400).batch_size == 10**400
