"""Cutset networks: conditioning on a few variables leaves a tree (Rahman, Kothalkar, Gogate 2014).

    h(z) = sum over leaves l of [z agrees with context_l] (w_l + sum over v of T_l,v(z_parent, z_v))

An OR tree tests one variable after another; the values it fixes on the way to a leaf are the
leaf's context, and w_l is the log-probability of that path. The contexts are disjoint and cover
everything, so exactly one leaf speaks for an assignment, and every question about the network is
one upward pass in each leaf that agrees with the evidence. The tables may be any log-weights
(noise leaves them unnormalised); a learned network sums to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Assignments, Floats
from cmpe.domain import Placement, States
from cmpe.errors import EvidenceError, ModelError
from cmpe.models.constraint import Bounded
from cmpe.models.function import Assigned, as_rows
from cmpe.models.loglinear import Factor, LogLinearModel

Places = NDArray[np.int64]

MOST_ENTRIES = 1 << 22  # An expansion to more table entries is refused.


@dataclass(frozen=True, eq=False, repr=False)
class CutsetNetwork(Bounded):
    """Leaves 0..L-1 over variables 0..n-1, at most K values each; arrays are read-only."""

    cardinalities: tuple[int, ...]
    contexts: Assignments  # (L, n): the values that the path fixes, -1 for the leaf's tree
    log_weights: Floats  # (L,): log-probability of the path
    parents: Assignments  # (L, n): within the leaf's tree, -1 for a root or a fixed variable
    log_tables: Floats  # (L, n, K, K): [l, v, i, j] for z_parent = i (0 at a root), z_v = j
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        if min(self.cardinalities, default=0) < 1:
            raise ModelError("a cutset network needs variables of at least one value, and a leaf")
        self._settle()
        kinds = {
            "contexts": np.int32,
            "log_weights": np.float64,
            "parents": np.int32,
            "log_tables": np.float64,
        }
        for name, kind in kinds.items():
            array = np.array(getattr(self, name), dtype=kind, order="C", copy=True)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        self._check_shapes()
        self._check_contexts()
        self._check_tables()

    def _check_shapes(self) -> None:
        n, leaves = len(self.cardinalities), len(self.log_weights)
        widest = max(self.cardinalities, default=0)
        if leaves == 0:
            raise ModelError("a cutset network needs variables of at least one value, and a leaf")
        wanted = {
            "contexts": (leaves, n),
            "log_weights": (leaves,),
            "parents": (leaves, n),
            "log_tables": (leaves, n, widest, widest),
        }
        for name, shape in wanted.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ModelError(f"{name} must have shape {shape}, found {found}")

    def _check_contexts(self) -> None:
        cards = np.array(self.cardinalities)
        if ((self.contexts < FREE) | (self.contexts >= cards)).any():
            raise ModelError("a context must hold values of its variables, or -1")
        shares = np.where(self.contexts >= 0, 1.0 / cards, 1.0).prod(axis=1)
        if shares.sum() < 1.0 - 1e-9:
            raise ModelError("the contexts of the leaves must cover every assignment")
        fixed = self.contexts[:, self.split_variables]
        for leaf in range(1, self.leaves):
            both = (fixed[:leaf] >= 0) & (fixed[leaf] >= 0)
            if not (both & (fixed[:leaf] != fixed[leaf])).any(axis=1).all():
                raise ModelError(f"the context of leaf {leaf} must exclude those before it")

    def _check_tables(self) -> None:
        fixed = self.contexts >= 0
        known = (self.parents >= -1) & (self.parents < self.variables)
        within = np.where(known & (self.parents >= 0), self.parents, 0)
        orphan = (self.parents >= 0) & (fixed | np.take_along_axis(fixed, within, axis=1))
        if not known.all() or orphan.any():
            raise ModelError("a parent must be a variable of the same leaf's tree, or -1")
        for values in (self.log_weights, self.log_tables):
            if np.isnan(values).any() or np.isposinf(values).any():
                raise ModelError("log-weights must be finite or -inf, found NaN or inf")
        _ = self.order

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return len(self.log_weights)

    @property
    def depth(self) -> int:
        """The length of the longest path; 0 is one tree."""
        return int((self.contexts >= 0).sum(axis=1).max())

    @cached_property
    def split_variables(self) -> Places:
        """The variables that some path fixes, ascending."""
        return np.flatnonzero((self.contexts >= 0).any(axis=0)).astype(np.int64)

    @cached_property
    def order(self) -> Places:
        """The variables of each leaf's tree, parents before children, padded by -1: (L, n)."""
        at, depth = self.parents.astype(np.int64), (self.parents >= 0).astype(np.int64)
        for _ in range(self.variables.bit_length()):  # `at` is 1, 2, 4, ... parents up
            inside = at >= 0
            if not inside.any():
                break
            above = np.where(inside, at, 0)
            depth += np.where(inside, np.take_along_axis(depth, above, 1), 0)
            at = np.where(inside, np.take_along_axis(at, above, 1), -1)
        if (at >= 0).any():
            raise ModelError("parents must form a tree, found a cycle")
        fixed = self.contexts >= 0
        order = np.argsort(np.where(fixed, self.variables, depth), axis=1, kind="stable")
        return np.where(np.take_along_axis(fixed, order, axis=1), -1, order)

    @cached_property
    def _cards(self) -> Places:
        return np.array(self.cardinalities, dtype=np.int64)

    @cached_property
    def _compiled(self) -> Any:
        from cmpe.core.trees import Leaves

        return Leaves(
            self._cards, self.contexts, self.split_variables,
            self.order, self.parents, self.log_tables, self.log_weights,
        )  # fmt: skip

    def locate(self, assignments: ArrayLike) -> Places:
        """The leaf of each assignment (B, n): (B,)."""
        from cmpe.core import trees as kernels

        rows = self._rows(assignments, least=0)
        out = np.zeros(len(rows), dtype=np.int64)
        kernels.locate(self._compiled, rows, out)
        return out

    def value(self, assignments: Assigned) -> Floats:
        """h of each row of `assignments` (B, n), or of one assignment (n,), in float64."""
        from cmpe.core import trees as kernels

        rows = self._rows(assignments, least=0)
        out = np.zeros(len(rows))
        kernels.evaluate(self._compiled, rows, self.locate(rows), out)
        return out

    @cached_property
    def log_partition(self) -> float:
        """log of the sum of exp h over all assignments; 0 but for rounding if learned."""
        return float(self.log_evidence(np.full((1, self.variables), FREE))[0])

    def log_likelihood(self, assignments: ArrayLike) -> Floats:
        """log P of each row of `assignments` (B, n): (B,)."""
        return self.value(assignments) - self.log_partition

    def log_evidence(self, evidence: ArrayLike) -> Floats:
        """log of the total weight of the completions of each row (B, n), -1 where free: (B,)."""
        values = self.leaf_values(evidence, is_sum=True)
        return np.asarray(_log_sum_exp(values))

    def leaf_values(self, evidence: ArrayLike, *, is_sum: bool = False) -> Floats:
        """The largest h (or the log of the total weight) that evidence leaves in each leaf: (B, L);
        -inf where the leaf's path contradicts it."""
        from cmpe.core import trees as kernels

        rows = self._rows(evidence)
        out = np.zeros((len(rows), self.leaves))
        kernels.leaf_values(self._compiled, rows, is_sum, out)
        return out

    def mpe(self, evidence: ArrayLike) -> tuple[Assignments, Floats]:
        """The best completion of each row (B, n), -1 where free, and its h: (B, n), (B,).

        It lies in the best leaf. A row that no weight completes gets -1 and -inf.
        """
        rows = self._rows(evidence)
        values = self.leaf_values(rows)
        return self._completed(rows, values.argmax(axis=1), values.max(axis=1)), values.max(axis=1)

    def sample(self, count: int, seed: int | np.random.SeedSequence) -> Assignments:
        """`count` exact samples: (count, n)."""
        return self.sample_given(np.full((count, self.variables), FREE), seed)

    def sample_given(self, evidence: ArrayLike, seed: int | np.random.SeedSequence) -> Assignments:
        """An exact sample of the completions of each row (B, n), -1 where free: (B, n)."""
        rows = self._rows(evidence)
        generator = np.random.default_rng(seed)
        values = self.leaf_values(rows, is_sum=True)
        totals = _log_sum_exp(values)
        if np.isneginf(totals).any():
            raise ModelError("no assignment has a positive probability: nothing to sample")
        edges = np.cumsum(np.exp(values - totals[:, np.newaxis]), axis=1)
        chosen = (edges <= generator.random((len(rows), 1)) * edges[:, -1:]).sum(axis=1)
        return self._completed(rows, chosen, totals, generator.random(rows.shape))

    def _completed(
        self, rows: Assignments, leaves: Places, values: Floats, uniforms: Floats | None = None
    ) -> Assignments:
        from cmpe.core import trees as kernels

        uniforms = np.zeros((len(rows), 0)) if uniforms is None else uniforms
        out = np.zeros_like(rows)
        kernels.complete(self._compiled, rows, leaves.astype(np.int64), uniforms, out)
        out[np.isneginf(values)] = FREE
        return out

    def marginals(self, evidence: ArrayLike) -> Floats:
        """P(z_v = j | evidence) for each row (B, n), -1 where free: (B, n, K)."""
        from cmpe.core import trees as kernels

        rows = self._rows(evidence)
        values = self.leaf_values(rows, is_sum=True)
        totals = _log_sum_exp(values)
        if np.isneginf(totals).any():
            row = int(np.argmax(np.isneginf(totals)))
            raise EvidenceError(f"row {row}: the evidence has probability 0")
        out = np.zeros((len(rows), self.variables, self.log_tables.shape[-1]))
        shares = np.exp(values - totals[:, np.newaxis])
        kernels.marginals(self._compiled, rows, shares, out)
        return out

    @cached_property
    def used(self) -> NDArray[np.bool_]:
        """Which entries of `log_tables` mean something; the others pad: (L, n, K, K)."""
        values = np.arange(self.log_tables.shape[-1])
        above = np.where(self.parents >= 0, self._cards[self.parents], 1)  # (L, n)
        own = np.where(self.contexts >= 0, 0, self._cards)
        rows = values < above[..., np.newaxis]
        columns = values < own[..., np.newaxis]
        return np.asarray(rows[..., np.newaxis] & columns[..., np.newaxis, :])

    def ceiling(self) -> float:
        """An upper bound of every finite value: the largest over leaves of the sum over tables of
        the largest finite entry."""
        counted = self.used & np.isfinite(self.log_tables)
        largest = np.where(counted, self.log_tables, -np.inf).max(axis=(2, 3))  # (L, n)
        weights = np.where(np.isfinite(self.log_weights), self.log_weights, 0.0)
        return float((weights + np.where(np.isfinite(largest), largest, 0.0).sum(axis=1)).max())

    @property
    def is_finite(self) -> bool:
        """Whether no weight is -inf."""
        return bool(
            np.isfinite(self.log_weights).all() and np.isfinite(self.log_tables[self.used]).all()
        )

    def leaf_model(self, leaf: int) -> LogLinearModel:
        """What h is where the context of `leaf` holds: one function per variable of its tree."""
        factors = [Factor((), self.log_weights[leaf])]
        factors += [Factor(*self._table(leaf, v)) for v in self.order[leaf].tolist() if v >= 0]
        return LogLinearModel(self.cardinalities, tuple(factors), self.names, self.states)

    def _table(self, leaf: int, v: int) -> tuple[tuple[int, ...], Floats]:
        """Scope (parent, v) or (v,), and its table."""
        u = int(self.parents[leaf, v])
        size = self.cardinalities[v]
        if u < 0:
            return (v,), self.log_tables[leaf, v, 0, :size]
        return (u, v), self.log_tables[leaf, v, : self.cardinalities[u], :size]

    def to_model(self, *, most_entries: int = MOST_ENTRIES) -> LogLinearModel:
        """The same function as tables: for shallow networks (see `expansion`)."""
        from cmpe.models.tractable.expansion import expanded

        return expanded(self, most_entries)

    def placed(self, placement: Placement) -> CutsetNetwork:
        """The same function over a wider domain: further variables are roots without weight."""
        from cmpe.models.tractable.placing import placed

        return placed(self, placement)

    def negated(self) -> tuple[CutsetNetwork | LogLinearModel, LogLinearModel | None]:
        """(-h, nothing to forbid), or as tables where a weight is -inf (see `LogLinearModel`)."""
        if not self.is_finite:
            return self.to_model().negated()
        tables = np.where(self.used, -self.log_tables, 0.0)
        return replace(self, log_weights=-self.log_weights, log_tables=tables), None

    def __repr__(self) -> str:
        return f"CutsetNetwork({self.variables} variables, {self.leaves} leaves)"

    def perturb(self, variance: float, seed: int | np.random.SeedSequence) -> CutsetNetwork:
        """Add independent N(0, variance) noise to every finite table entry and path weight."""
        if not (math.isfinite(variance) and variance >= 0):
            raise ModelError(f"a variance must be finite and at least 0, found {variance}")
        generator = np.random.default_rng(seed)
        deviation = math.sqrt(variance)
        weights = self.log_weights + deviation * generator.standard_normal(self.leaves)
        tables = self.log_tables.copy()
        tables[self.used] += deviation * generator.standard_normal(int(self.used.sum()))
        return replace(self, log_weights=weights, log_tables=tables)

    def _rows(self, values: Assigned, *, least: int = FREE) -> Assignments:
        rows = as_rows(values, self.domain)
        if rows.dtype.kind not in "iub":
            raise ModelError(f"an assignment must hold whole numbers, found dtype {rows.dtype}")
        wrong = (rows >= self._cards) | ((rows < least) if rows.dtype.kind == "i" else False)
        if wrong.any():
            row, v = (int(i) for i in np.argwhere(wrong)[0])
            raise ModelError(
                f"row {row}, variable {v}: a value must be from {least} to "
                f"{self.cardinalities[v] - 1}, found {rows[row, v]}"
            )
        return np.ascontiguousarray(rows, dtype=np.int32)


def _log_sum_exp(values: Floats) -> Floats:
    """Over the last axis; -inf where all are."""
    largest = values.max(axis=-1)
    base = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return np.asarray(base + np.log(np.exp(values - base[..., np.newaxis]).sum(axis=-1)))
