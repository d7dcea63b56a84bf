"""The inputs of a network: evidence, then the row's log-potentials and limits.

A table of log-potentials is read relative to its first entry, cut off at `MOST` nats; the numbers
of a single variable are then in the coordinates of the network's own logits. Limits are read
relative to those of the rows that were trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import Floats
from cmpe.problem import Problem
from cmpe.problem.rows import Rows

MOST = 20.0


@dataclass(frozen=True)
class Reads:
    """Which potentials and limits of rows a network was trained to read."""

    scopes: tuple[tuple[int, ...], ...] = ()
    limits: tuple[tuple[float, float], ...] = ()  # mean and deviation by constraint; none: not read

    @classmethod
    def of(cls, rows: Rows | None) -> Reads:
        """What rows to train on have; nothing where they have inputs, which are read instead."""
        if rows is None or rows.inputs is not None:
            return cls()
        spread: list[tuple[float, float]] = []
        if rows.limits is not None:
            deviations = [each or 1.0 for each in rows.limits.std(axis=0).tolist()]
            spread = list(zip(rows.limits.mean(axis=0).tolist(), deviations, strict=True))
        return cls(tuple(sorted(p.scope for p in rows.potentials)), tuple(spread))

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Reads:
        """What a run keeps."""
        scopes = (tuple(whole_number("scopes", v, 0) for v in s) for s in found["scopes"])
        limits = ((real_number("limits", a), real_number("limits", b)) for a, b in found["limits"])
        return cls(tuple(scopes), tuple(limits))

    def to_json(self) -> dict[str, Any]:
        """The same; nothing of a network that reads evidence alone."""
        return {"reads": asdict(self)} if self.scopes or self.limits else {}

    def columns(self, problem: Problem) -> int:
        """How many numbers of a row these are."""
        cards = problem.domain.cardinalities
        entries = sum(math.prod(cards[v] for v in scope) - 1 for scope in self.scopes)
        return entries + len(self.limits)

    def numbers(self, problem: Problem, rows: Rows | None, count: int) -> Tensor:
        """Those of so many rows: (B, columns). Rows that have none are read as zeros and q."""
        cards, own = problem.domain.cardinalities, dict(rows.potentials if rows else ())
        out = np.zeros((count, self.columns(problem)), dtype=np.float32)
        at = 0
        for scope in self.scopes:
            size = math.prod(cards[v] for v in scope)
            if scope in own:
                out[:, at : at + size - 1] = _relative(own[scope].reshape(count, size))
            at += size - 1
        if self.limits:
            most = problem.limits if rows is None else rows.most
            mean, deviation = np.array(self.limits).T
            out[:, at:] = (most - mean) / deviation
        return torch.as_tensor(out)


EVIDENCE_ALONE = Reads()


def _relative(tables: Floats) -> Floats:
    """Every entry but the first, less the first: -inf counts as far below all others."""
    finite = np.maximum(tables, -1e30, dtype=np.float64)
    return np.asarray(np.clip(finite[:, 1:] - finite[:, :1], -MOST, MOST))
