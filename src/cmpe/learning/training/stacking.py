"""Folds x hyper-parameters x seeds as one batched program on one device.

Members differ in numbers only (`config.MEMBER_FIELDS`), so their weights are one tensor with a
member axis and every product is a batched one. A member of a stack ends where it would end
alone, up to the order of additions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmpe.errors import MethodError
from cmpe.learning.losses.catalogue import PAPER_LOSSES, Family, loss_kind
from cmpe.learning.training.config import MEMBER_FIELDS, TrainingConfig, paper
from cmpe.learning.training.data import TrainingData, prepare
from cmpe.learning.training.data import folds as make_folds
from cmpe.learning.training.trainer import Trainer
from cmpe.problem import Evidence, Problem
from cmpe.solvers.base import Running
from cmpe.tensor.device import torch_threads

# Paper, supplement B.D.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "beta": (0.1, 1.0, 2.0, 5.0, 10.0, 20.0),
    "rho": (0.01, 0.1, 1.0, 10.0, 100.0),
}
# The paper tunes pdl as its authors do and prints no values: these are ours.
DUAL_GRID: Mapping[str, tuple[float, ...]] = {
    "penalty_start": (0.1, 1.0, 10.0),
    "dual_growth": (2.0, 10.0),
}


def paper_grid(loss: str) -> dict[str, tuple[float, ...]]:
    """What cross-validation chooses for a loss: of the paper's grid, the numbers that it reads."""
    kind = loss_kind(loss)
    if kind.dual:
        return dict(DUAL_GRID)
    names = ["beta"] if kind.family is Family.consistent else []
    if loss == "ss_cmpe_pen" or (kind.penalty and kind.in_paper):
        names.append("rho")
    if not names:
        choices = ", ".join(n for n in PAPER_LOSSES if n not in ("mse", "mae"))
        raise MethodError(
            f"the paper's grid has nothing to choose for {loss}; cross-validate one of {choices}, "
            "or give a grid"
        )
    return {name: PAPER_GRID[name] for name in names}


@dataclass(frozen=True)
class Trial:
    """One setting over all folds and seeds: means and standard deviations of their scores."""

    setting: dict[str, float]
    score: float
    score_std: float
    regret: float
    violation: float
    members: int


@dataclass(frozen=True)
class CrossValidation:
    """The config of the best setting, and every trial, best first."""

    winner: TrainingConfig
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class FoldPlan:
    """How a cross-validation is laid out."""

    folds: int = 5
    seeds: Sequence[int] = (0,)
    device: str = "cpu"
    members: int = 150  # in one stack; more are trained in several
    threads: int = 1
    progress: Callable[[int, int], None] | None = None  # epochs done, epochs in all

    def __post_init__(self) -> None:
        if self.folds < 2 or self.members < 1 or not self.seeds:
            raise MethodError("cross-validation needs at least 2 folds, 1 member and 1 seed")


def cross_validate(
    problem: Problem,
    evidence: Evidence,
    grid: Mapping[str, Sequence[float]] | None = None,
    config: TrainingConfig | None = None,
    plan: FoldPlan | None = None,
) -> CrossValidation:
    """Choose the numbers in `grid` by their mean score over folds (default: `paper_grid`).

    The score is the mean regret of rounded answers to the held-out rows, where a violated row
    counts as one that is ten times the mean f* off (`Look.choice_score`).
    """
    config, plan = config or paper("ss_cmpe_pen"), plan or FoldPlan()
    grid = grid or paper_grid(config.loss)
    instances = problem.given(evidence)
    count = len(instances)
    _check(grid, plan, count)
    running = Running(threads=plan.threads)
    with torch_threads(plan.threads):
        data = prepare(instances, config, measured=np.arange(count), running=running)
        return choose(data, settings_of(grid), config, plan)


def settings_of(grid: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def choose(
    data: TrainingData, settings: Sequence[dict[str, Any]], config: TrainingConfig, plan: FoldPlan
) -> CrossValidation:
    """`cross_validate` with labels and bounds at hand; every row needs a reference."""
    parts = make_folds(len(data), plan.folds, config.seed)
    members = [
        (number, replace(config, **setting, seed=seed), part)
        for number, setting in enumerate(settings)
        for seed in plan.seeds
        for part in parts
    ]
    scores: list[list[tuple[float, float, float]]] = [[] for _ in settings]
    stacks = [members[a : a + plan.members] for a in range(0, len(members), plan.members)]
    for done, stack in enumerate(stacks):
        trainer = Trainer(
            data, [c for _, c, _ in stack], [part for _, _, part in stack], device=plan.device
        )
        for epoch in trainer.epochs():
            if plan.progress is not None:
                total = config.epochs * len(stacks)
                plan.progress(done * config.epochs + epoch.number, total)
        trainer.finish()
        look = trainer.look(0.0)
        for (number, _, _), *found in zip(
            stack, look.choice_score, look.regret, look.violation, strict=True
        ):
            scores[number].append((float(found[0]), float(found[1]), float(found[2])))
    trials = [_trial(s, found) for s, found in zip(settings, scores, strict=True)]
    trials.sort(key=lambda t: t.score)
    best: dict[str, Any] = trials[0].setting
    return CrossValidation(replace(config, **best), tuple(trials))


def _check(grid: Mapping[str, Sequence[float]], plan: FoldPlan, count: int) -> None:
    free = MEMBER_FIELDS - {"seed"}  # seeds have their place in the plan
    odd = sorted(set(grid) - free)
    if odd:
        raise MethodError(f"a grid may vary {', '.join(sorted(free))}; found {odd[0]!r}")
    if plan.folds > count:
        raise MethodError(f"{plan.folds} folds need as many rows, found {count}")


def _trial(setting: dict[str, float], found: list[tuple[float, float, float]]) -> Trial:
    score, regret, violation = np.array(found).T
    known = regret[np.isfinite(regret)]
    return Trial(
        setting,
        float(score.mean()),
        float(score.std()),
        float(known.mean()) if len(known) else float("nan"),
        float(violation.mean()),
        len(found),
    )
