"""Calibration: the results of each margin on validation rows.

A network that reads the margin answers for any number, so margins between the trained ones are
tried too. All members of a stack are judged at once, in the trainer.
"""

from __future__ import annotations

import math

import numpy as np

from cmpe.learning.runs import Calibration
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.looking import JudgedAnswers
from cmpe.learning.training.trainer import Trainer


def calibrate(trainer: Trainer) -> list[tuple[Calibration, ...]]:
    """Of every member: how each margin fares on its validation rows.

    Also how often each margin violates on all rows, unless there are plenty of the others.
    """
    if not all(len(rows) for _, rows in trainer.splits):
        return [()] * len(trainer.splits)
    held = [len(rows) for _, rows in trainer.splits]
    total = len(trainer.data)
    every = [np.arange(total)] * len(held)
    found: list[list[Calibration]] = [[] for _ in held]
    for margin in _tried(trainer.config):
        look = trainer.look(margin)
        whole = look if min(held) >= TRAINING.calibration_rows else trainer.look(margin, every)
        for k, rows in enumerate(held):
            violation = float(look.violation[k]), float(whole.violation[k])
            regret = _number(look.regret[k])
            of = rows if whole is look else total
            found[k].append(Calibration(margin, regret, rows, violation[0], of, violation[1]))
    return [tuple(member) for member in found]


def choose_passes(trainer: Trainer) -> list[tuple[float, ...]]:
    """Of every member: at most `config.passes` margins whose best feasible answers together fare
    best on its validation rows; none where one pass is all that is asked for.

    Greedy: each next margin is the one that lowers the score most (see `looking.Look`), until no
    margin lowers it by TELLING of what is left.
    """
    config = trainer.config
    held = [rows for _, rows in trainer.splits]
    if config.passes == 1 or len(config.margins) == 1 or not all(map(len, held)):
        return [()] * len(held)
    tried = _tried(config)
    judged = [trainer.judge(margin) for margin in tried]
    return [_greedy(tried, judged, k, config.passes) for k in range(len(held))]


def _greedy(
    tried: list[float], judged: list[JudgedAnswers], member: int, most: int
) -> tuple[float, ...]:
    counts = judged[0].counts[member]
    price = TRAINING.choice_price * float(np.nanmean(judged[0].best[member][counts]))
    cost = np.stack([np.where(j.violated, price, j.regret)[member][counts] for j in judged])
    best, chosen = np.full(cost.shape[1], price), list[int]()
    while len(chosen) < most:
        totals = np.minimum(cost, best).mean(axis=1)
        following = int(np.argmin(totals))
        if chosen and totals[following] > (1.0 - TRAINING.telling) * best.mean():
            break
        chosen.append(following)
        best = np.minimum(best, cost[following])
    return tuple(tried[k] for k in sorted(chosen))


def _tried(config: TrainingConfig) -> list[float]:
    trained = config.margins
    if len(trained) == 1:
        return [0.0]
    return sorted({*trained, *np.linspace(0.0, max(trained), TRAINING.calibrated).tolist()})


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
