"""Learning a cutset network from data, top down (Rahman, Kothalkar, Gogate 2014).

A node holds the rows that reach it, their smoothed pairwise counts and the Chow-Liu tree of those.
It is split on the variable v with the largest information gain

    sum over u of I(u; v)  =  sum over u of H(u) - sum over k of P(v = k) H(u | v = k),

or, if several candidates are asked for, on the one of them whose children's trees give the rows the
largest likelihood. The counts of a child are smoothed twice: by rows spread evenly, and by rows
distributed as its parent's. Validation data prune: a node whose own tree explains the validation
rows that reach it at least as well as its children do becomes a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.core.compiler.notices import asked_for
from cmpe.errors import InputError
from cmpe.models.tractable.chow_liu import mutual_information, smoothing_choices, tree_arrays
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.models.tractable.pair_counts import Indicators, PairCounts, check_data, check_weights

# Pseudo-rows from the parent: without validation data, and what is tried with them.
INHERITED = 30.0
INHERITANCE = (30.0, 100.0, 300.0, 1000.0)

Progress = Callable[[int, int], None]
Numbers = NDArray[np.intp]
Pseudo = float | Sequence[float] | None


@dataclass(frozen=True)
class CutsetSettings:
    """The depth, the smoothing and the splits of a cutset network.

    `smoothing` and `inheritance` are pseudo-rows of every node, spread evenly and distributed as
    the parent's; with None or several, validation data choose. `candidates` variables of the
    largest information gain are compared by likelihood; 1 takes the first as it is. Every child
    must keep `minimum_rows` (or as much weight).
    """

    depth: int = 5
    minimum_rows: float = 10.0
    smoothing: Pseudo = None
    inheritance: Pseudo = None
    candidates: int = 1

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise InputError(f"depth must be at least 0, found {self.depth}")
        if not self.minimum_rows > 0:
            raise InputError(f"minimum_rows must be above 0, found {self.minimum_rows}")
        if self.candidates < 1:
            raise InputError(f"candidates must be at least 1, found {self.candidates}")


@asked_for("cutset networks")
def learn_cutset(
    data: ArrayLike,
    settings: CutsetSettings | None = None,
    *,
    cardinalities: Sequence[int] | None = None,
    weights: ArrayLike | None = None,
    valid: ArrayLike | None = None,
    progress: Progress | None = None,
) -> CutsetNetwork:
    """A cutset network for `data` (N, n), whole numbers from 0; `weights` count rows.

    `valid` (M, n) prunes, and chooses the smoothing where the settings leave a choice.
    """
    chosen = settings or CutsetSettings()
    rows, cards = check_data(data, cardinalities)
    held_out = None if valid is None else check_data(np.asarray(valid), cards)[0]
    has_valid = held_out is not None
    indicators = Indicators(rows, cards, check_weights(weights, len(rows)))
    inherited = smoothing_choices(
        chosen.inheritance, INHERITANCE if has_valid else (INHERITED,), has_valid=has_valid
    )
    growth = _Growth(indicators, held_out, chosen, progress, len(inherited))
    smoothing = growth.best_smoothing()
    grown = [growth.grown(smoothing, inheritance) for inheritance in inherited]
    best = max(grown, key=lambda subtree: subtree.score)
    return _network(cards, best.leaves)


@dataclass(frozen=True)
class _Leaf:
    context: Assignments  # (n,)
    log_weight: float
    parents: Assignments  # (n,)
    log_tables: Floats  # (n, K, K)

    def values(self, rows: NDArray[np.integer]) -> Floats:
        """log P of rows (B, n) that agree with the context: (B,)."""
        own = np.flatnonzero(self.context < 0)
        above = self.parents[own]
        given = np.where(above >= 0, rows[:, above], 0)
        return np.asarray(self.log_weight + self.log_tables[own, given, rows[:, own]].sum(axis=1))


@dataclass(frozen=True)
class _Subtree:
    leaves: list[_Leaf]
    score: float  # log-likelihood of the validation rows that reach it; 0 without


@dataclass(frozen=True)
class _CutsetNode:
    """What reaches a node, and its own tree."""

    rows: Numbers
    valid: Numbers
    raw: PairCounts
    counts: PairCounts  # smoothed
    leaf: _Leaf
    information: Floats  # (A, A) between the variables that the path leaves free

    @property
    def active(self) -> Numbers:
        """The variables that the path leaves free."""
        return np.flatnonzero(self.leaf.context < 0)


class _Growth:
    """One data set on its way to a network."""

    def __init__(
        self,
        indicators: Indicators,
        valid: NDArray[np.integer] | None,
        settings: CutsetSettings,
        progress: Progress | None,
        repeats: int,
    ) -> None:
        self._indicators = indicators
        self._valid = valid
        self._settings = settings
        self._progress = progress
        self._steps = (0, repeats << settings.depth)
        self._raw = indicators.counts()

    def best_smoothing(self) -> float:
        """The smoothing that suits the Chow-Liu tree of all rows best."""
        has_valid = self._valid is not None
        choices = smoothing_choices(self._settings.smoothing, has_valid=has_valid)
        if self._valid is None or len(choices) == 1:
            return choices[0]
        roots = [self._root(self._raw.smoothed(choice)) for choice in choices]
        return choices[int(np.argmax([self._score(root) for root in roots]))]

    def grown(self, smoothing: float, inheritance: float) -> _Subtree:
        """The network with these pseudo-rows."""
        self._settings = replace(self._settings, smoothing=smoothing, inheritance=inheritance)
        root = self._root(self._raw.smoothed(smoothing))
        return self._grow(root, self._settings.depth)

    def _root(self, counts: PairCounts) -> _CutsetNode:
        context = np.full(len(counts.cardinalities), -1, dtype=np.int32)
        everything = np.arange(len(self._indicators.rows))
        valid = np.arange(0 if self._valid is None else len(self._valid))
        return self._node(everything, valid, (self._raw, counts), context, 0.0)

    def _node(
        self,
        rows: Numbers,
        valid: Numbers,
        counts: tuple[PairCounts, PairCounts],
        context: Assignments,
        log_weight: float,
    ) -> _CutsetNode:
        active = np.flatnonzero(context < 0)
        information = mutual_information(counts[1], active)
        leaf = _Leaf(context, log_weight, *tree_arrays(counts[1], active, information))
        return _CutsetNode(rows, valid, *counts, leaf, information)

    def _grow(self, node: _CutsetNode, depth: int) -> _Subtree:
        alone = _Subtree([node.leaf], self._score(node))
        children = self._split(node) if depth else []
        if not children:
            self._advance(1 << depth)
            return alone
        parts = [self._grow(child, depth - 1) for child in children]
        leaves = [leaf for part in parts for leaf in part.leaves]
        together = _Subtree(leaves, sum(part.score for part in parts))
        if self._valid is not None and alone.score >= together.score:
            return alone
        return together

    def _score(self, node: _CutsetNode) -> float:
        if self._valid is None:
            return 0.0
        return float(node.leaf.values(self._valid[node.valid]).sum())

    def _advance(self, steps: int) -> None:
        done, total = self._steps
        self._steps = (min(total, done + steps), total)
        if self._progress is not None:
            self._progress(*self._steps)

    def _split(self, node: _CutsetNode) -> list[_CutsetNode]:
        """The children of the best split, or none if nothing can be split."""
        gains = node.information.sum(axis=1)
        best: list[_CutsetNode] = []
        best_value, tried = -math.inf, 0
        for place in np.argsort(-gains, kind="stable"):
            variable = int(node.active[place])
            if not self._is_splittable(node, variable):
                continue
            children = self._children(node, variable)
            tried += 1
            if self._settings.candidates == 1:
                return children
            value = sum(self._fit(child) for child in children)
            if value > best_value:
                best, best_value = children, value
            if tried == self._settings.candidates:
                break
        return best

    def _fit(self, node: _CutsetNode) -> float:
        """The log-likelihood of the training rows under the node's own tree."""
        values = node.leaf.values(self._indicators.rows[node.rows])
        weights = self._indicators.weights
        return float(values.sum() if weights is None else values @ weights[node.rows])

    def _is_splittable(self, node: _CutsetNode, variable: int) -> bool:
        """Every value must keep enough weight."""
        size = node.raw.cardinalities[variable]
        values = self._indicators.rows[node.rows, variable]
        weights = self._indicators.weights
        given = None if weights is None else weights[node.rows]
        counts = np.bincount(values, weights=given, minlength=size)
        return size > 1 and bool(counts.min() >= self._settings.minimum_rows)

    def _children(self, node: _CutsetNode, variable: int) -> list[_CutsetNode]:
        values = self._indicators.rows[node.rows, variable]
        size = node.raw.cardinalities[variable]
        parts = [node.rows[values == k] for k in range(size)]
        raws = self._child_counts(node.raw, parts)
        shares = node.counts.shares(variable)
        children = []
        for k, (rows, raw) in enumerate(zip(parts, raws, strict=True)):
            context = node.leaf.context.copy()
            context[variable] = k
            weight = node.leaf.log_weight + math.log(shares[k])
            counts = self._smoothed(raw, node.counts)
            children.append(
                self._node(rows, self._reaching(node, variable, k), (raw, counts), context, weight)
            )
        return children

    def _child_counts(self, whole: PairCounts, parts: Sequence[Numbers]) -> list[PairCounts]:
        """Counts of each part; the largest by subtraction, where that is exact."""
        if self._indicators.weights is not None:
            return [self._indicators.counts(part) for part in parts]
        largest = int(np.argmax([len(part) for part in parts]))
        counted = {k: self._indicators.counts(part) for k, part in enumerate(parts) if k != largest}
        counted[largest] = whole.without(counted.values())
        return [counted[k] for k in range(len(parts))]

    def _smoothed(self, raw: PairCounts, parent: PairCounts) -> PairCounts:
        smoothing, inheritance = self._settings.smoothing, self._settings.inheritance
        assert isinstance(smoothing, float)
        assert isinstance(inheritance, float)
        return raw.smoothed(smoothing, parent, inheritance)

    def _reaching(self, node: _CutsetNode, variable: int, value: int) -> Numbers:
        if self._valid is None:
            return node.valid
        return np.asarray(node.valid[self._valid[node.valid, variable] == value])


def _network(cards: Sequence[int], leaves: Sequence[_Leaf]) -> CutsetNetwork:
    return CutsetNetwork(
        tuple(cards),
        np.stack([leaf.context for leaf in leaves]),
        np.array([leaf.log_weight for leaf in leaves]),
        np.stack([leaf.parents for leaf in leaves]),
        np.stack([leaf.log_tables for leaf in leaves]),
    )
