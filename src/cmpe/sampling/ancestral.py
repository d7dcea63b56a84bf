"""Ancestral sampling: variables in the order of a directed graph, each given its parents.

A variable that only one table mentions is the child in it. Take both away and go on; if nothing is
left in the end, the tables are those of a Bayesian network, up to factors: child and table drawn
in the opposite order give samples of

    prod over v of  exp(table_v) / sum over values of v of exp(table_v),

which is the model itself where every table is a conditional distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.models.loglinear import LogLinearModel

ROUNDING = 1e-4  # of sums of probabilities, as files have them


@dataclass(frozen=True)
class Directed:
    """A model's tables in an order in which each has one new variable."""

    model: LogLinearModel
    order: tuple[tuple[int, int], ...]  # table, its new variable

    @classmethod
    def of(cls, model: LogLinearModel) -> Directed | None:
        """The order, if there is one."""
        mention: list[set[int]] = [set() for _ in range(model.variables)]
        for f, factor in enumerate(model.factors):
            for v in factor.scope:
                mention[v].add(f)
        ready = [v for v, tables in enumerate(mention) if len(tables) == 1]
        conditionals = []
        while ready:
            v = ready.pop()
            if len(mention[v]) != 1:
                continue
            (f,) = mention[v]
            conditionals.append((f, v))
            for u in model.factors[f].scope:
                mention[u].discard(f)
                if len(mention[u]) == 1:
                    ready.append(u)
        if len(conditionals) < model.variables or any(mention):
            return None
        return cls(model, tuple(reversed(conditionals)))

    @property
    def is_normalised(self) -> bool:
        """Whether every table is a conditional distribution of its new variable."""
        sums = (np.exp(table).sum(axis=-1) for _, table in self._tables())
        return all(bool((abs(total - 1.0) < ROUNDING).all()) for total in sums)

    def _tables(self) -> list[tuple[int, Floats]]:
        """Each new variable with its table, that variable's axis last."""
        out = []
        for f, v in self.order:
            factor = self.model.factors[f]
            out.append((v, np.moveaxis(factor.log_table, factor.scope.index(v), -1)))
        return out

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int32] | None:
        """Samples (count, n); None where parents leave their child no value."""
        rows = np.zeros((count, self.model.variables), dtype=np.int32)
        for (f, v), (_, table) in zip(self.order, self._tables(), strict=True):
            parents = [u for u in self.model.factors[f].scope if u != v]
            logits = np.broadcast_to(table[tuple(rows[:, parents].T)], (count, table.shape[-1]))
            if np.isneginf(logits.max(axis=1)).any():
                return None
            rows[:, v] = draw_each(logits, generator)
        return rows


def draw_each(logits: Floats, generator: np.random.Generator) -> NDArray[np.intp]:
    """A value for each row (B, k) of logarithms of weights: (B,)."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    edges = np.cumsum(weights, axis=1)
    threshold = generator.random(len(logits)) * edges[:, -1]
    chosen = (edges <= threshold[:, np.newaxis]).sum(axis=1)
    # A random number next to 1 may land past the last value of positive weight: step back.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(chosen, last), dtype=np.intp)
