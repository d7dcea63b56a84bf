"""The smallest change of an image, in L1, that makes a ReLU network decide for another class.

    minimise sum |x' - x|  over x' in [0, 1]^n  subject to  margin(x') <= -m,
    margin = F_c - max over k != c of F_k

(paper §5.4). The margin is linearised; under one linear constraint the L1-nearest point of a box
is known in closed form. Answers are sparse, so the network is followed exactly along the way, one
input at a time (docs/adversarial.md). The network itself confirms every flip in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import Floats
from cmpe.errors import MethodError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.batch import Attacked, ImageBatch, checked_images, round_outward
from cmpe.solvers.flips.rounds import Block, Directions, joined
from cmpe.solvers.flips.settings import FLIPS

__all__ = [
    "AttackSettings",
    "Attacked",
    "attack",
    "round_outward",
]


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
        if not 0.0 <= self.margin < np.inf:
            raise MethodError(f"a margin must be at least 0 and finite, found {self.margin}")


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
