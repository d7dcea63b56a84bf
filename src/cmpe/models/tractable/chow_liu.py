"""Chow-Liu trees: the tree of maximum likelihood (Chow, Liu 1968).

    P(z) = product over v of P(z_v | z_parent(v))

Of all trees, the one whose edges have the largest total mutual information under the data's
(smoothed) pairwise distribution fits the data best, with the conditionals of that distribution.
Smoothing adds rows spread evenly over all assignments, so that one pair of variables and another
agree on the variable they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.domain import States
from cmpe.errors import InputError
from cmpe.models.constraint import Bounded
from cmpe.models.function import Assigned
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.models.tractable.pair_counts import Indicators, PairCounts, check_data, check_weights

# Pseudo-rows that are tried where validation data choose.
SMOOTHING = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True, eq=False, repr=False)
class ChowLiuTree(Bounded):
    """A tree (or forest) of conditional tables over variables 0..n-1, at most K values each."""

    cardinalities: tuple[int, ...]
    parents: Assignments  # (n,): -1 for a root
    log_tables: Floats  # (n, K, K): [v, i, j] = log P(z_v = j | z_parent = i), i = 0 at a root
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        checked = self.network
        self._settle()
        object.__setattr__(self, "parents", checked.parents[0])
        object.__setattr__(self, "log_tables", checked.log_tables[0])

    @cached_property
    def network(self) -> CutsetNetwork:
        """The same as a cutset network of depth 0."""
        parents = np.asarray(self.parents)[np.newaxis]
        tables = np.asarray(self.log_tables)[np.newaxis]
        return CutsetNetwork(
            self.cardinalities,
            np.full_like(parents, -1),
            np.zeros(1),
            parents,
            tables,
            self.names,
            self.states,
        )

    def negated(self) -> tuple[LogLinearModel, LogLinearModel]:
        """As for its tables."""
        return self.to_model().negated()

    def __repr__(self) -> str:
        return f"ChowLiuTree({self.variables} variables)"

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def leaves(self) -> int:
        """1: a tree is a cutset network of depth 0."""
        return 1

    @property
    def depth(self) -> int:
        """0: nothing is conditioned on."""
        return 0

    def value(self, assignments: Assigned) -> Floats:
        """h of each row of `assignments` (B, n): (B,)."""
        return self.network.value(assignments)

    def log_likelihood(self, assignments: ArrayLike) -> Floats:
        """log P of each row of `assignments` (B, n): (B,)."""
        return self.network.log_likelihood(assignments)

    def log_evidence(self, evidence: ArrayLike) -> Floats:
        """log of the total weight of the completions of each row (B, n), -1 where free: (B,)."""
        return self.network.log_evidence(evidence)

    def mpe(self, evidence: ArrayLike) -> tuple[Assignments, Floats]:
        """The best completion of each row (B, n), -1 where free, and its h: (B, n), (B,)."""
        return self.network.mpe(evidence)

    def marginals(self, evidence: ArrayLike) -> Floats:
        """P(z_v = j | evidence) for each row (B, n), -1 where free: (B, n, K)."""
        return self.network.marginals(evidence)

    def sample(self, count: int, seed: int | np.random.SeedSequence) -> Assignments:
        """`count` exact samples: (count, n)."""
        return self.network.sample(count, seed)

    def sample_given(self, evidence: ArrayLike, seed: int | np.random.SeedSequence) -> Assignments:
        """An exact sample of the completions of each row (B, n), -1 where free: (B, n)."""
        return self.network.sample_given(evidence, seed)

    @property
    def is_finite(self) -> bool:
        """Whether no value is -inf."""
        return self.network.is_finite

    def ceiling(self) -> float:
        """An upper bound of every finite value."""
        return self.network.ceiling()

    def to_model(self) -> LogLinearModel:
        """One function per variable: over (parent, variable), or the root alone."""
        model = self.network.to_model()
        return replace(model, factors=tuple(f for f in model.factors if f.scope))


def learn_chow_liu(
    data: ArrayLike,
    *,
    cardinalities: Sequence[int] | None = None,
    weights: ArrayLike | None = None,
    smoothing: float | Sequence[float] | None = None,
    valid: ArrayLike | None = None,
) -> ChowLiuTree:
    """The tree of maximum likelihood for `data` (N, n), whole numbers from 0.

    `weights` are multiplicities of rows. `smoothing` is a number of pseudo-rows (default 1); of
    several (default with validation data: `SMOOTHING`) the one with the largest likelihood of
    `valid` (M, n) is taken.
    """
    rows, cards = check_data(data, cardinalities)
    counts = Indicators(rows, cards, check_weights(weights, len(rows))).counts()
    choices = smoothing_choices(smoothing, has_valid=valid is not None)
    trees = [tree_of(counts.smoothed(choice)) for choice in choices]
    if len(trees) == 1:
        return trees[0]
    held_out, _ = check_data(np.asarray(valid), cards)
    return trees[int(np.argmax([t.log_likelihood(held_out).mean() for t in trees]))]


def smoothing_choices(
    wanted: float | Sequence[float] | None, usual: Sequence[float] = SMOOTHING, *, has_valid: bool
) -> tuple[float, ...]:
    """What to try: `usual` (or 1) if nothing is wanted; several need data to choose by."""
    if wanted is None:
        return tuple(usual) if has_valid or len(usual) == 1 else (1.0,)
    choices = (wanted,) if isinstance(wanted, int | float) else tuple(wanted)
    if not choices or not all(np.isfinite(a) and a >= 0 for a in choices):
        raise InputError(f"pseudo-rows must be finite numbers of at least 0, found {wanted}")
    if len(choices) > 1 and not has_valid:
        raise InputError("several numbers of pseudo-rows need validation data to choose by")
    return tuple(float(a) for a in choices)


def tree_of(counts: PairCounts) -> ChowLiuTree:
    """The tree of maximum likelihood for pairwise counts."""
    active = np.arange(len(counts.cardinalities))
    return ChowLiuTree(counts.cardinalities, *tree_arrays(counts, active))


def tree_arrays(
    counts: PairCounts, active: NDArray[np.int64], information: Floats | None = None
) -> tuple[Assignments, Floats]:
    """Parents (n,) and log-tables (n, K, K) of the best tree over the `active` variables."""
    from cmpe.core import dependence as kernels

    if information is None:
        information = mutual_information(counts, active)
    count, widest = len(counts.cardinalities), max(counts.cardinalities)
    among = np.zeros(len(active), dtype=np.int64)
    if len(active):
        kernels.heaviest_tree(information, among)
    parents = np.full(count, -1, dtype=np.int32)
    parents[active] = np.where(among >= 0, active[among], -1)
    tables = np.zeros((count, widest, widest))
    kernels.conditional_tables(counts.joint, counts.starts, counts.total, parents, active, tables)
    return parents, tables


def mutual_information(counts: PairCounts, active: NDArray[np.int64]) -> Floats:
    """I(u; v) in nats between the `active` variables: (A, A), 0 on the diagonal."""
    from cmpe.core import dependence as kernels

    out = np.zeros((len(active), len(active)))
    kernels.mutual_information(counts.joint, counts.starts, counts.total, active, out)
    return out
