"""What training reads: rows of evidence, labels and bounds, as arrays.

Training takes bounds and labels as data. Only `prepare` (and the trained solver) calls the
engines that make them. An example is a row together with a margin: the constraint then reads
t <= q - margin, so one network learns to keep any of the margins.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import lagrangian_dual, lane_bytes, loss_bounds
from cmpe.bounds.networks.slopes import quick_loss_bound
from cmpe.bounds.splitting import Splitting, by_size
from cmpe.errors import EvidenceError, InputError, TooLarge
from cmpe.formats.labels import Labels, fingerprint, read_labels, write_labels
from cmpe.learning.training.config import TrainingConfig
from cmpe.problem import Constraint, Instances, Problem
from cmpe.queries import flip_of
from cmpe.solvers.base import Running
from cmpe.solvers.dispatch import solve
from cmpe.solvers.flips.attack import AttackSettings, attack

QUICK_BYTES = 1 << 20  # a row; with more, the duals of thousands of rows take minutes
# There the mu of a split dual stands for mu*: steps of its descent, seconds to choose the splits.
SPLIT_STEPS, SPLIT_SECONDS = 100, 0.02


class TrainingWarning(UserWarning):
    """Training goes on, but something about it deserves a look."""


@dataclass(frozen=True)
class TrainingData:
    """N rows with K margins each; what is missing is NaN, or -1 in labels."""

    problem: Problem
    evidence: Assignments  # (N, |X|)
    margins: Floats  # (K,)
    usable: NDArray[np.bool_]  # (N, K): not proved infeasible, and labelled if labels are needed
    labels: Assignments  # (N, K, n): the best known feasible assignment
    reference: Floats  # (N,): the best known objective without a margin, or a bound of it
    p_upper: Floats  # (N, K)
    q_lower: Floats  # (N, K)
    multipliers: Floats  # (N, K, m): mu* of the dual

    def __len__(self) -> int:
        return len(self.evidence)


def split(count: int, config: TrainingConfig) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to validate on, by the seed."""
    order = np.random.default_rng([config.seed, 0]).permutation(count)
    held = min(count - 1, round(config.validation_share * count))
    return np.sort(order[held:]), np.sort(order[:held])


def folds(count: int, parts: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(train, validation) rows of each of `parts` folds, all of one size; what does not fill
    them is always trained on."""
    order = np.random.default_rng([seed, 0]).permutation(count)
    pieces = order[: count // parts * parts].reshape(parts, -1)
    whole = np.arange(count)
    return [(np.setdiff1d(whole, piece), np.sort(piece)) for piece in pieces]


def prepare(
    instances: Instances,
    config: TrainingConfig,
    *,
    measured: NDArray[np.intp] | None = None,
    cache: Path | str | None = None,
    running: Running = Running(),
) -> TrainingData:
    """Make the labels and bounds that `config` needs; labels are kept in the directory `cache`.

    Supervised losses need a label for every row and margin. The others need them for the
    `measured` rows only (by default the validation rows), to tell their regret; their bounds
    know nothing of labels.
    """
    problem = instances.problem
    count, margins = len(instances), np.array(config.margins)
    if not count:
        raise EvidenceError("training needs at least one row of evidence, found none")
    supervised = config.kind.labels
    data = blank(problem, instances.evidence, margins)
    held = split(count, config)[1] if measured is None else measured
    for k, margin in enumerate(margins):
        part = Instances(with_margin(problem, float(margin)), instances.evidence)
        rows = np.arange(count) if supervised else held
        if supervised or margin == 0.0:
            found = _labels(part, rows, config, cache, running)
            data.labels[rows, k] = found.assignments
            data.usable[rows, k] = found.bound > -np.inf
            if supervised:
                data.usable[rows, k] &= found.assignments[:, 0] >= 0
            if margin == 0.0:
                data.reference[rows] = np.where(np.isposinf(found.bound), np.nan, found.bound)
        _fill_bounds(data, k, part, config, running.threads)
    return data


def blank(problem: Problem, evidence: Assignments, margins: Floats) -> TrainingData:
    """Training data of which nothing is known yet: no labels, no bounds, every row usable."""
    count = len(evidence)
    shape = (count, len(margins))
    kind = np.float32 if problem.continuous else np.int32
    return TrainingData(
        problem,
        evidence,
        margins,
        usable=np.ones(shape, dtype=bool),
        labels=np.full((*shape, problem.variables), -1, dtype=kind),
        reference=np.full(count, np.nan),
        p_upper=np.full(shape, np.nan),
        q_lower=np.full(shape, np.nan),
        multipliers=np.full((*shape, len(problem.constraints)), np.nan),
    )


def with_margin(problem: Problem, margin: float) -> Problem:
    """The same problem with every q lower by `margin`."""
    if margin == 0.0:
        return problem
    limits = [Constraint(c.function, c.at_most - margin) for c in problem.constraints]
    return replace(problem, constraints=tuple(limits))


def _labels(
    part: Instances,
    rows: NDArray[np.intp],
    config: TrainingConfig,
    cache: Path | str | None,
    running: Running,
) -> Labels:
    """The answers of `label_method` to `rows`, read from the cache where they are kept."""
    evidence = part.evidence[rows]
    method = config.label_method
    if method == "exact" and not part.problem.has_tables:
        method = "local"
    key = fingerprint(part.problem, evidence, method)
    known = None if cache is None else read_labels(cache, key, (len(rows), part.problem.variables))
    if known is not None:
        return known
    answers = solve(part.problem, evidence, method=method, running=running)
    kept = np.where(answers.feasible[:, np.newaxis], answers.assignments, -1)
    found = Labels(kept, np.where(answers.feasible, answers.objective, answers.bound))
    if cache is not None:
        try:
            write_labels(cache, key, found)
        except InputError as error:
            warnings.warn(f"labels are not kept: {error}", TrainingWarning, stacklevel=2)
    return found


def _fill_bounds(
    data: TrainingData, k: int, part: Instances, config: TrainingConfig, threads: int
) -> None:
    """p_upper, q_lower and mu* of margin k; where elimination is too wide they stay missing, but
    for the mu of a split relaxation if the network has a head for it."""
    if not part.problem.has_tables:
        _fill_flip_bounds(data, k, part, config, threads)
        return
    distinct, where = np.unique(part.evidence, axis=0, return_inverse=True)
    where = where.ravel()
    few = Instances(part.problem, np.ascontiguousarray(distinct, dtype=np.int32))
    whole = data.problem  # its plan is that of every margin
    if whole.is_log_linear and lane_bytes(whole) > QUICK_BYTES:
        if config.predict_multiplier and part.problem.constraints:
            split = Splitting(by_size(few.conditioning, Work(time_limit=SPLIT_SECONDS)))
            found = split.upper_bound(few, Work(steps=SPLIT_STEPS, threads=threads))
            data.multipliers[:, k] = found.multipliers[where]
        return
    try:
        dual = lagrangian_dual(few, threads=threads)
        data.multipliers[:, k] = dual.multipliers[where]
        data.usable[dual.infeasible[where], k] = False
        if not config.kind.alpha:
            return
        bounds = loss_bounds(few, threads=threads)
    except TooLarge:
        return
    data.p_upper[:, k], data.q_lower[:, k] = bounds.p_upper[where], bounds.q_lower[where]


def _fill_flip_bounds(
    data: TrainingData, k: int, part: Instances, config: TrainingConfig, threads: int
) -> None:
    """Of adversarial problems, where f is 1 + the distance: p_upper is that of a flip which the
    attack finds, or that of the farthest corner; q_lower comes from the network's steepest slope.
    Of others they stay missing."""
    flip = flip_of(part.problem)
    if flip is None or not config.kind.alpha:
        return
    images = np.asarray(part.evidence[:, flip.original], dtype=np.float64)
    near = attack(flip.network, images, config=AttackSettings(margin=flip.margin), threads=threads)
    corner = np.maximum(images, 1.0 - images).sum(axis=1)
    data.p_upper[:, k] = part.problem.shift + np.where(near.found, near.distance, corner)
    # f + v = shift + distance + margin + reach where it is above 0: at least the bound of reach 0
    data.q_lower[:, k] = part.problem.shift + quick_loss_bound(flip.network, images)
