"""How each margin fares on rows that were not trained on: what a run keeps of its calibration.

A network that reads the margin answers for any number, so margins between the trained ones are
tried too. Most networks are judged in the trainer, all members of a stack at once. Answers of head
`linear` come from what follows its pass, so they are judged by the solver's own stages.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from cmpe.formats.labels import problem_digest
from cmpe.learning.runs import Calibration, Trained, worst_rate
from cmpe.learning.settings import TRAINING
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.looking import JudgedAnswers
from cmpe.learning.training.trainer import Trainer


def calibrate(trainer: Trainer) -> list[tuple[Calibration, ...]]:
    """Of every member: how each margin fares on its validation rows."""
    if not all(len(rows) for _, rows in trainer.splits):
        return [()] * len(trainer.splits)
    if trainer.config.head == "linear":
        return [_by_answers(trainer, member) for member in range(len(trainer.splits))]
    return _by_looks(trainer)


def _by_looks(trainer: Trainer) -> list[tuple[Calibration, ...]]:
    """Also how often each margin violates on all rows, unless there are plenty of the others."""
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


def _by_answers(trainer: Trainer, member: int) -> tuple[Calibration, ...]:
    """Margins up to the least one that is safe enough, found by bisection: a larger one misses
    less, and its answers are longer. Rows that were trained on prove nothing here."""
    problem, config = trainer.data.problem, trainer.configs[member]
    weights = {name: value.cpu() for name, value in trainer.program.adam.member(member).items()}
    solver = NeuralSolver(problem, Trained(config, problem_digest(problem), weights))
    held = trainer.splits[member][1]
    instances, best = problem.given(trainer.data.evidence[held]), trainer.data.reference[held]
    counts = trainer.data.answerable[held]
    found: dict[float, Calibration] = {}

    def is_safe(margin: float) -> bool:
        alone = solver.with_stages(margins=[margin], repair=False, certificate="none")
        answers = alone.solve(problem, instances.evidence)
        feasible = answers.feasible & counts
        regret = np.maximum(best - answers.objective, 0.0)[feasible & np.isfinite(best)]
        rate = 1.0 - float(feasible.sum()) / max(1, int(counts.sum()))
        mean = _number(regret.mean()) if len(regret) else None
        found[margin] = Calibration(margin, mean, len(held), rate, len(held), rate)
        return worst_rate(rate, len(held)) <= config.allowed_violation

    tried = np.linspace(0.0, max(config.margins), TRAINING.calibrated_alone).tolist()
    least = tried[min(bisect_left(tried, True, key=is_safe), TRAINING.calibrated_alone - 1)]
    return tuple(found[margin] for margin in sorted(found) if margin <= least)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
