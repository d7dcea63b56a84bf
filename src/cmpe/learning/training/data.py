"""Training data: rows of evidence, labels and bounds, as arrays.

Training takes bounds and labels as data. Only `prepare` (and the trained solver) calls the
engines that make them. An example is a row together with a margin: the constraint then reads
t <= q - margin, so one network learns to keep any of the margins. Rows of a file are few, so each
is asked for every margin in turn; drawn rows (`config.rows`) are plenty, so each has one margin
and one label.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import feasible_losses, lagrangian_dual, lane_bytes
from cmpe.bounds.loss import LossBounds, loss_bounds, printed_bounds
from cmpe.bounds.networks.slopes import quick_loss_bound
from cmpe.bounds.splitting import Splitting, by_size
from cmpe.core.compiler import timing
from cmpe.errors import EvidenceError, InputError, MethodError, ModelError, TooLarge
from cmpe.flip import flip_of
from cmpe.formats.labels import Labels, fingerprint, read_labels, write_labels
from cmpe.learning.networks.reading import Reads
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.problem import Constraint, Instances, Problem
from cmpe.sampling import sample
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer
from cmpe.solvers.flips.attack import AttackSettings, attack

DRAWING = 4  # tells the generator of drawn rows from that of splits and orders

Examples = tuple[NDArray[np.intp], NDArray[np.intp]]  # rows, and columns of their margins


class TrainingWarning(UserWarning):
    """Training goes on, but something about it deserves a look."""


@dataclass(frozen=True)
class TrainingData:
    """N rows with K margins each; what is missing is NaN, or -1 in labels."""

    problem: Problem
    evidence: Assignments  # (N, |X|)
    margins: Floats  # (N, K)
    usable: NDArray[np.bool_]  # (N, K): not proved infeasible, and labelled if labels are needed
    labels: NDArray[np.integer] | Floats  # (N, K, n): the best known feasible assignment
    reference: Floats  # (N,): the best known objective without a margin, or a bound of it
    p_upper: Floats  # (N, K)
    q_lower: Floats  # (N, K)
    multipliers: Floats  # (N, K, m): mu* of the dual

    def __len__(self) -> int:
        return len(self.evidence)

    @cached_property
    def reads(self) -> Reads:
        """Which potentials and limits of its rows a network reads."""
        return Reads.of(self.problem.lift)

    @property
    def answerable(self) -> NDArray[np.bool_]:
        """Which rows are usable without a margin (N,); True of those only asked to keep one."""
        plain = self.margins == 0.0
        return np.where(plain.any(axis=1), (self.usable & plain).any(axis=1), True)

    def plain_labels(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The labels of `rows` without a margin (B, n); -1 where there is none."""
        plain = self.margins[rows] == 0.0
        at = self.labels[rows, np.argmax(plain, axis=1)]
        return np.where(plain.any(axis=1)[:, np.newaxis], at, -1)


def split(count: int, config: TrainingConfig) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to validate on, by the seed.

    Where rows are drawn to train on, more of those given validate, with every seed the same.
    """
    order = np.random.default_rng([0 if config.rows else config.seed, 0]).permutation(count)
    held = min(count - 1, round(config.validation_share * count))
    if config.rows:
        held = min(count, max(held, TRAINING.drawn_validation))
    return np.sort(order[held:]), np.sort(order[:held])


def folds(count: int, parts: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """(train, validation) rows of each of `parts` folds, all of one size; what does not fill
    them is always trained on."""
    order = np.random.default_rng([seed, 0]).permutation(count)
    pieces = order[: count // parts * parts].reshape(parts, -1)
    whole = np.arange(count)
    return [(np.setdiff1d(whole, piece), np.sort(piece)) for piece in pieces]


def asked_margins(
    count: int, held: NDArray[np.intp], config: TrainingConfig
) -> NDArray[np.float64]:
    """The margins (N, K) that rows are asked to keep; `held` ones are read without any."""
    all_of = np.array(config.margins)
    if not config.rows:
        return np.broadcast_to(all_of, (count, len(all_of)))
    one = all_of[np.arange(count) % len(all_of), np.newaxis]
    one[held] = 0.0
    return one


def draw(problem: Problem, count: int, seed: int, epoch: int = 0) -> Assignments:
    """Rows of evidence (count, |X|) as the objective itself would show them."""
    if not problem.has_tables:
        raise MethodError("rows can be drawn from tables only; train with rows=0, on rows given")
    drawn = sample(problem.objective, count, np.random.SeedSequence((seed, DRAWING, epoch)))
    return drawn.assignments[:, list(problem.evidence_variables)]


NO_ROWS = np.zeros(0, dtype=np.intp)


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
    count = len(instances)
    if not count:
        raise EvidenceError("training needs at least one row of evidence, found none")
    supervised = config.kind.labels
    held = split(count, config)[1] if measured is None else measured
    data = blank(problem, instances.evidence, asked_margins(count, held, config))
    for margin in config.margins:
        at = _where(data.margins == margin)
        part = Instances(with_margin(problem, margin), instances.evidence[at[0]])
        if supervised or margin == 0.0:
            _fill_labels(data, at, part, held, _Making(config, cache, running))
        if len(part):
            _fill_bounds(data, at, part, config, running.threads)
    return data


def _where(chosen: NDArray[np.bool_]) -> Examples:
    rows, columns = np.nonzero(chosen)
    return rows, columns


@dataclass(frozen=True)
class _Making:
    """How labels are made, and the folder in which they are kept."""

    config: TrainingConfig
    cache: Path | str | None
    running: Running

    def labels(self, problem: Problem, evidence: Assignments) -> Labels:
        """The answers to rows of evidence, block by block: those that are kept are read."""
        known = self._read(problem, evidence)  # all in one file
        if known is not None or len(evidence) <= TRAINING.label_rows or self.cache is None:
            return known or self._make(problem, evidence)
        pieces = np.split(evidence, range(TRAINING.label_rows, len(evidence), TRAINING.label_rows))
        with self.running.place.kept():
            found = [self._read(problem, each) or self._make(problem, each) for each in pieces]
        return Labels(
            np.concatenate([each.assignments for each in found]),
            np.concatenate([each.bound for each in found]),
        )

    def _method(self, problem: Problem) -> str:
        asked = self.config.label_method
        return "local" if asked == "exact" and not problem.has_tables else asked

    def _read(self, problem: Problem, evidence: Assignments) -> Labels | None:
        if self.cache is None:
            return None
        key = fingerprint(problem, evidence, self._method(problem))
        return read_labels(self.cache, key, (len(evidence), problem.variables))

    def _make(self, problem: Problem, evidence: Assignments) -> Labels:
        method = self._method(problem)
        answers = answer(problem, evidence, method, Limits.of(self.running))
        kept = np.where(answers.feasible[:, np.newaxis], answers.assignments, -1)
        found = Labels(kept, np.where(answers.feasible, answers.objective, answers.bound))
        if self.cache is not None:
            try:
                write_labels(self.cache, fingerprint(problem, evidence, method), found)
            except InputError as error:
                warnings.warn(f"labels are not kept: {error}", TrainingWarning, stacklevel=2)
        return found


def _fill_labels(
    data: TrainingData, at: Examples, part: Instances, held: NDArray[np.intp], making: _Making
) -> None:
    """Labels of the examples `at` one margin: of all for supervised losses, else of `held` rows."""
    supervised = making.config.kind.labels
    chosen = np.arange(len(part)) if supervised else np.flatnonzero(np.isin(at[0], held))
    rows, columns = (index[chosen] for index in at)
    found = making.labels(part.problem, part.evidence[chosen])
    data.labels[rows, columns] = found.assignments
    data.usable[rows, columns] = found.bound > -np.inf
    if supervised:
        data.usable[rows, columns] &= found.assignments[:, 0] >= 0
    if part.problem is data.problem:  # no margin
        data.reference[rows] = np.where(np.isposinf(found.bound), np.nan, found.bound)


def blank(problem: Problem, evidence: Assignments, margins: Floats) -> TrainingData:
    """Training data of which nothing is known yet: no labels, no bounds, every row usable."""
    count = len(evidence)
    margins = np.array(np.broadcast_to(margins, (count, margins.shape[-1])))
    shape = margins.shape
    small = problem.has_tables and max(problem.objective.cardinalities, default=0) <= 128
    kind: type = np.float32 if problem.continuous else np.int8 if small else np.int32
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


def _fill_bounds(
    data: TrainingData, at: Examples, part: Instances, config: TrainingConfig, threads: int
) -> None:
    """p_upper, q_lower and mu* of the examples `at` one margin.

    Where elimination is too wide, or there are no tables, alpha "fixed" has the f of an answer of
    `local` as p_upper. The head for mu* then learns the mu of a split relaxation.
    """
    if flip_of(part.problem) is not None:
        _fill_flip_bounds(data, at, part, config, threads)
        return
    distinct, where = np.unique(part.evidence, axis=0, return_inverse=True)
    where = where.ravel()
    kind = part.evidence.dtype
    few = Instances(part.problem, np.ascontiguousarray(distinct, dtype=kind))
    whole = data.problem  # its plan is that of every margin
    tables = whole.has_tables
    narrow = tables and (not whole.is_log_linear or lane_bytes(whole) <= TRAINING.quick_bytes)
    try:
        if narrow:
            dual = lagrangian_dual(few, threads=threads)
            data.multipliers[at] = dual.multipliers[where]
            data.usable[at] &= ~dual.infeasible[where]
        elif tables and config.predict_multiplier and part.problem.constraints:
            split = Splitting(by_size(few.conditioning, Work(time_limit=TRAINING.split_seconds)))
            found = split.upper_bound(few, Work(steps=TRAINING.split_steps, threads=threads))
            data.multipliers[at] = found.multipliers[where]
        if not config.kind.alpha:
            return
        bounds = _alpha_bounds(few, config, threads, narrow=narrow)
    except (TooLarge, ModelError, MethodError) as error:
        if config.kind.alpha:
            warnings.warn(f"no bounds for alpha_x: {error}", TrainingWarning, stacklevel=2)
        return
    data.p_upper[at], data.q_lower[at] = bounds.p_upper[where], bounds.q_lower[where]


def _alpha_bounds(
    few: Instances, config: TrainingConfig, threads: int, *, narrow: bool
) -> LossBounds:
    """p_upper and q_lower of distinct rows, as `config.alpha` has them."""
    tight = config.alpha == "fixed"
    if tight and narrow:
        return loss_bounds(few, threads=threads)
    bounds = printed_bounds(few, threads=threads, narrow=narrow)
    if not tight:
        return bounds
    answers = answer(few.problem, few.evidence, "local", Limits(threads=threads)).assignments
    near = np.fmin(bounds.p_upper, feasible_losses(few.problem, answers))
    return replace(bounds, p_upper=near)


def _fill_flip_bounds(
    data: TrainingData, at: Examples, part: Instances, config: TrainingConfig, threads: int
) -> None:
    """Bounds of adversarial problems, where f is 1 + the distance.

    The greatest f is that of the farthest corner. With alpha "fixed", p_upper is f of a flip that
    the attack finds, where it finds one. q_lower comes from the network's steepest slope.
    """
    flip = flip_of(part.problem)
    if flip is None or not config.kind.alpha:
        return
    images = np.asarray(part.evidence[:, flip.original], dtype=np.float64)
    greatest = np.maximum(images, 1.0 - images).sum(axis=1)
    if config.alpha == "fixed":
        settings = AttackSettings(margin=flip.margin)
        near = attack(flip.network, images, config=settings, threads=threads)
        greatest = np.where(near.found, near.distance, greatest)
    data.p_upper[at] = part.problem.shift + greatest
    # f + v = shift + distance + margin + reach where it is above 0: at least the bound of reach 0
    data.q_lower[at] = part.problem.shift + quick_loss_bound(flip.network, images)


@dataclass
class FreshRows:
    """Rows that are drawn anew for every epoch, taught while the network trains on the last ones.

    Those of an epoch depend on the seed and its number alone; calls in the order of epochs find
    them ready. Compiled code runs without the interpreter's lock, on all the cores it is given, so
    a GPU hardly waits where labels cost less than an epoch.
    """

    problem: Problem
    config: TrainingConfig
    running: Running
    seconds: float = 0.0  # spent on rows, labels and bounds
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _next: tuple[int, Future[TrainingData]] | None = None

    def __call__(self, epoch: int) -> TrainingData:
        """The rows of `epoch`; those of the next one are begun."""
        ready = self._next
        found = ready[1] if ready is not None and ready[0] == epoch else self._begin(epoch)
        data = found.result()
        self._next = (epoch + 1, self._begin(epoch + 1)) if self._goes_on(epoch) else None
        return data

    def _goes_on(self, epoch: int) -> bool:
        return epoch + 1 < self.config.epochs

    def _begin(self, epoch: int) -> Future[TrainingData]:
        return self._thread.submit(self._make, epoch)

    def _make(self, epoch: int) -> TrainingData:
        begin = timing.now()
        rows = draw(self.problem, self.config.rows, self.config.seed, epoch)
        given = self.problem.given(rows)
        data = prepare(given, self.config, measured=NO_ROWS, running=self.running)
        self.seconds += timing.now() - begin
        return data

    def close(self) -> None:
        """Forget what is under way."""
        self._thread.shutdown(wait=True, cancel_futures=True)
