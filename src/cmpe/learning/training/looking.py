"""The results of rounded answers on validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.step import Program
from cmpe.problem import Instances

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Look:
    """How rounded answers to validation rows fare: one number per member (M,)."""

    regret: Floats  # mean over the feasible ones, in nats
    violation: Floats  # share of violated ones
    best: Floats  # mean f of the best answers known: f*
    dependence: Floats  # mean standard deviation of an output over the rows
    distinct: Floats  # how many different answers

    @property
    def score(self) -> Floats:
        """Mean regret, with VIOLATION_PRICE for a violated row: what early stopping reads."""
        return self._score(TRAINING.violation_price)

    @property
    def choice_score(self) -> Floats:
        """The same with `TRAINING.choice_price`: what decides between settings."""
        return self._score(TRAINING.choice_price)

    def _score(self, price: float) -> Floats:
        feasible = np.nan_to_num(self.regret) * (1.0 - self.violation)
        return feasible + price * self.best * self.violation


@dataclass(frozen=True)
class JudgedAnswers:
    """The rounded answers of M members to B rows each, in nats."""

    best: Floats  # (M, B): f of the best answer known
    regret: Floats  # (M, B)
    violated: NDArray[np.bool_]  # (M, B)
    counts: NDArray[np.bool_]  # (M, B): False of rows that fill up, or have no answer
    fingerprints: Floats  # (M, B): equal answers have equal ones
    spread: Floats  # (M,): mean standard deviation of an output over the rows

    def look(self) -> Look:
        """Its means."""
        total = np.maximum(self.counts.sum(-1), 1)
        feasible = self.counts & ~self.violated & np.isfinite(self.regret)
        known = np.where(self.counts, np.nan_to_num(self.best), 0.0)
        summed = np.where(feasible, self.regret, 0.0).sum(-1)
        rate = (self.counts & self.violated).sum(-1) / total
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(feasible.any(-1), summed / feasible.sum(-1), np.nan)
        rows = zip(self.fingerprints, self.counts, strict=True)
        distinct = np.array([len(np.unique(p[c])) for p, c in rows], dtype=float)
        return Look(mean, rate, known.sum(-1) / total, self.spread, distinct)


def together(judged: Sequence[JudgedAnswers]) -> JudgedAnswers:
    """Of several answers to each row the best feasible one, else the first."""
    first = judged[0]
    if len(judged) == 1:
        return first
    cost = np.stack([np.where(j.violated, np.inf, j.regret) for j in judged])
    chosen = np.argmin(cost, axis=0)[np.newaxis]  # the first where all are violated

    def of(name: str) -> NDArray[Any]:
        every = np.stack([getattr(j, name) for j in judged])
        return np.asarray(np.take_along_axis(every, chosen, axis=0)[0])

    return replace(
        first, regret=of("regret"), violated=of("violated"), fingerprints=of("fingerprints")
    )


@torch.no_grad()
def judge(program: Program, margin: float, parts: Sequence[Rows]) -> JudgedAnswers:
    """Ask each member its part of the rows, to keep `margin`."""
    data, most = program.tensors.data, max(map(len, parts))
    ids = np.stack([np.resize(part, most) for part in parts])
    counts = np.arange(most) < np.array([[len(part)] for part in parts])
    f, prints = np.zeros(ids.shape), np.zeros(ids.shape)
    violated = np.zeros(ids.shape, dtype=bool)
    moments = torch.zeros((2, len(ids), program.relaxation.coordinates.count))
    moments = moments.to(program.device)
    for start in range(0, most, TRAINING.read_rows):
        here = slice(start, start + TRAINING.read_rows)
        rows = torch.as_tensor(ids[:, here], device=program.device)
        asked = torch.full(rows.shape, margin, device=program.device)
        forward = program.forward(program.adam.parameters, rows, asked)
        rounded_f, rounded_g = program.rounded(forward, asked)
        moments += torch.stack([forward.points.sum(1), forward.points.square().sum(1)])
        f[:, here] = rounded_f.cpu().numpy()
        prints[:, here] = program.fingerprints(forward).cpu().numpy()
        over = rounded_g - (margin if len(program.config.margins) > 1 else 0.0)
        violated[:, here] = (over > program.tensors.tolerances).any(-1).cpu().numpy()
        if not data.problem.objective.is_finite:
            violated[:, here] |= _forbidden(program, rows, forward.points)
    counts &= data.answerable[ids]
    best = data.problem.shift - data.reference[ids]
    mean, square = moments / most
    spread = (square - mean.square()).clamp(min=0.0).sqrt().mean(-1).double().cpu().numpy()
    return JudgedAnswers(best, np.maximum(f - best, 0.0), violated, counts, prints, spread)


def _forbidden(program: Program, rows: Tensor, points: Tensor) -> NDArray[np.bool_]:
    """Which rounded answers have h = -inf, which training knows as a floor: (M, B)."""
    free = program.relaxation.coordinates.assignments(points)
    data = program.tensors.data
    evidence = data.evidence[rows.cpu().numpy().reshape(-1)]
    whole = Instances(data.problem, evidence).complete(free.reshape(len(evidence), -1))
    return np.isneginf(data.problem.objective.value(whole)).reshape(free.shape[:2])
