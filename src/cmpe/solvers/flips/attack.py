"""The smallest change of an image, in L1, that makes a ReLU network decide for another class.

    minimise sum |x' - x|  over x' in [0, 1]^n  subject to  margin(x') <= -m,
    margin = F_c - max over k != c of F_k

(paper §5.4). The margin is linearised; under one linear constraint the L1-nearest point of a box
is known in closed form. Answers are sparse, so the network is followed exactly along the way, one
input at a time (docs/adversarial.md). The network itself confirms every flip in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import Floats
from cmpe.errors import EvidenceError, MethodError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.batch import Attacked, ImageBatch, checked_images, round_outward
from cmpe.solvers.flips.layers import Classes, Single
from cmpe.solvers.flips.rounds import Block, Directions, joined
from cmpe.solvers.flips.settings import FLIPS

__all__ = [
    "AttackSettings",
    "AttackStages",
    "Attacked",
    "Guide",
    "attack",
    "guided_attack",
    "round_outward",
]

# (sums, classes) -> (targets, slopes): see guided_attack
Guide = Callable[[Floats, Classes], tuple[Classes, Single]]


def _check_margin(margin: float) -> None:
    if not 0.0 <= margin < np.inf:
        raise MethodError(f"a margin must be at least 0 and finite, found {margin}")


@dataclass(frozen=True)
class AttackSettings:
    """How hard to try."""

    targets: int = 5  # ways tried: to the nearest classes, by the first linearisation
    rounds: int = 4  # linearisations after the first
    restarts: int = 0  # from the best answer with random slopes, each with two rounds
    margin: float = 1e-3  # asked for beyond a tie
    levels: bool = False  # answers in 8 bits, still flipped

    def __post_init__(self) -> None:
        if self.targets < 1 or min(self.rounds, self.restarts) < 0:
            raise MethodError("an attack needs targets >= 1 and rounds and restarts >= 0")
        _check_margin(self.margin)


@dataclass(frozen=True)
class AttackStages:
    """What follows a predicted linearisation."""

    search: Literal["step", "walk"] = "walk"  # the shortest closed form; the exact walk
    rounds: int = 0  # linearisations after the predicted one
    margin: float = 1e-3
    safety: float = 0.0  # a closed-form step asks for so much beyond the margin
    levels: bool = False

    def __post_init__(self) -> None:
        if self.search not in ("step", "walk"):
            raise MethodError(f"search is step or walk, found {self.search!r}")
        _check_margin(self.margin)


def attack(
    network: ReluNetwork,
    images: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    config: AttackSettings = AttackSettings(),
    start: ArrayLike | None = None,
    threads: int = 1,
    seed: int = 0,
) -> Attacked:
    """A near image of another class for each of `images` (B, n), never worse than `start`.

    `classes` are those to leave, by default what the network decides. Images that are of another
    class already come back unchanged. `seed` serves restarts.
    """
    batch = ImageBatch.of(network, images, classes, threads)
    given = None if start is None else checked_images(network, start, len(batch.images))

    def work(block: Block, part: slice) -> None:
        _rounds(block, _start(block, config.targets), config.rounds)
        if given is not None:
            _offer(block, given[part])
        rng = np.random.default_rng((seed, part.start))
        for _ in range(config.restarts):
            _restart(block, rng)
        _rescue(block, rng)

    return batch.run(work, config.margin, config.levels)


def guided_attack(
    network: ReluNetwork,
    images: ArrayLike,
    guide: Guide,
    *,
    classes: ArrayLike | None = None,
    config: AttackStages = AttackStages(),
    threads: int = 1,
) -> Attacked:
    """One pass with predictions: the guide predicts, block by block, from what is computed anyway.

    It is given the sums of all hidden units and the logits, (b, hidden + K), and the classes to
    leave; a network with one output has the logits (0, F). It gives target classes, (b,), or
    (b, T): the most likely first, -1 for none; and slopes of the hidden units, (b, hidden).
    """
    batch = ImageBatch.of(network, images, classes, threads)

    def work(block: Block, part: slice) -> None:
        targets, slopes = guide(block.sums, block.own)
        _follow(block, _columns(targets), slopes, config)

    return batch.run(work, config.margin, config.levels)


def _columns(targets: Classes) -> Classes:
    return targets[:, None] if targets.ndim == 1 else targets


def _follow(block: Block, targets: Classes, slopes: Single, config: AttackStages) -> None:
    """The stages that were asked for, from a predicted linearisation."""
    _check_predictions(block, targets, slopes)
    if config.search == "walk":
        rows, order = np.nonzero(targets >= 0)
        ways = block.walk(rows, targets[rows, order], slopes[rows], FLIPS.hopeful)
    else:
        _step(block, targets, slopes, config)
        ways = block.best(block.rows)
    _rounds(block, ways, config.rounds, FLIPS.near)


def _start(block: Block, count: int) -> Directions:
    """`count` ways for every image; where classes are few, with several guesses of the slopes."""
    others = block.layers.classes - 1
    if not block.layers.hidden:  # exact as it is, so all classes can be tried
        return block.start(block.rows, others, FLIPS.guesses[0])
    guesses = FLIPS.guesses[: max(1, count // others)]
    return joined([block.start(block.rows, count, sharpness) for sharpness in guesses])


def _rounds(
    block: Block, ways: Directions, rounds: int, local: tuple[float, ...] = FLIPS.local
) -> None:
    for turn in range(rounds if block.layers.hidden else 0):
        ways = block.again(ways, local[turn % len(local)])


def _restart(block: Block, rng: np.random.Generator) -> None:
    """A walk with the best answer's slopes, shaken, and two rounds from there."""
    ways = block.best(np.flatnonzero(np.isfinite(block.lengths)))
    slopes = block.secants(ways.rows, ways.after, 0.0)
    slopes = np.clip(slopes + FLIPS.noise * rng.normal(size=slopes.shape), 0.0, 1.0)
    ways = block.walk(ways.rows, ways.targets, slopes.astype(np.float32), FLIPS.first_hopeful)
    _rounds(block, ways, len(FLIPS.near), FLIPS.near)


def _rescue(block: Block, rng: np.random.Generator) -> None:
    """Rows without a flip: all classes with other slopes, then random points of the box."""
    for sharpness in FLIPS.guesses[1:]:
        lost = np.flatnonzero(np.isinf(block.lengths))
        if len(lost):
            block.start(lost, block.layers.classes, sharpness)
    lost = np.flatnonzero(np.isinf(block.lengths))
    for draw in range(FLIPS.draws if len(lost) else 0):
        points = rng.random((len(block.rows), block.images.shape[1]))
        points[lost] = np.rint(points[lost]) if draw % 2 else points[lost]
        _offer(block, np.where(np.isin(block.rows, lost)[:, None], points, block.images))


def _offer(block: Block, start: Floats) -> None:
    """Take answers that are shorter than the block's own, and linearise around them."""
    length = np.abs(start - block.images).sum(axis=1)
    flipped = block.flipped(block.layers.sums(start), block.rows)
    better = np.flatnonzero(flipped & (length < block.lengths))
    block.adopt(start[better], better)
    block.shrink(better)
    _rounds(block, block.best(better), len(FLIPS.local))


def _step(block: Block, targets: Classes, slopes: Single, config: AttackStages) -> None:
    """Adopt the closed-form answers to the linearised problem, the shortest of each image."""
    from cmpe.core import flips as kernels

    logits = block.sums[:, block.layers.hidden :]
    least = np.full(len(block.rows), np.inf)
    for towards in targets.T:
        rows = np.flatnonzero(towards >= 0)
        gaps = logits[rows, block.own[rows]] - logits[rows, towards[rows]]
        amounts = gaps + config.margin + config.safety
        amounts[block.left[rows]] = 0.0
        found = np.empty_like(block.changed[rows])
        gradients = block.slopes(rows, towards[rows], slopes[rows])
        kernels.step(block.images[rows], gradients, amounts, found)
        lengths = np.abs(found - block.images[rows]).sum(axis=1)
        shorter = lengths < least[rows]
        least[rows[shorter]] = lengths[shorter]
        block.changed[rows[shorter]] = found[shorter]
    block.adopt(block.changed, block.rows)


def _check_predictions(block: Block, targets: Classes, slopes: Single) -> None:
    count, hidden = len(block.rows), block.layers.hidden
    if len(targets) != count or slopes.shape != (count, hidden):
        raise EvidenceError(
            f"predictions must be ({count},) targets and ({count}, {hidden}) slopes, "
            f"found {targets.shape} and {slopes.shape}"
        )
    wrong = (targets < -1) | (targets >= block.layers.classes) | (targets == block.own[:, None])
    if wrong.any() or (targets[:, :1] < 0).any():
        raise EvidenceError("targets must be classes other than the image's own")
