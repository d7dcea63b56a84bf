"""Shared by all attacks: images checked, blocks run, answers confirmed by the network."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.errors import EvidenceError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.layers import Classes, Layers
from cmpe.solvers.flips.rounds import Block, Room
from cmpe.solvers.flips.settings import FLIPS


@dataclass(frozen=True)
class Attacked:
    """Answers of a batch; one that was not found is the best attempt, or the image itself."""

    images: Floats  # (B, n), in the box
    classes: Classes  # what the images were, and the answers must not be
    distance: Floats  # sum |x' - x|
    margin: Floats  # what the network says of the answer
    found: NDArray[np.bool_]  # margin <= -m; or the image was of another class as it came
    target: Classes  # the class in front of all others but the image's own

    def __len__(self) -> int:
        return len(self.images)


def round_outward(original: ArrayLike, changed: ArrayLike) -> NDArray[np.uint8]:
    """8-bit levels of changed images, rounded away from the original ones."""
    from cmpe.core import flips as kernels

    before, after = np.asarray(original, dtype=np.float64), np.asarray(changed, dtype=np.float64)
    levels = np.empty(after.shape, dtype=np.uint8)
    kernels.outward(before.ravel(), after.ravel(), levels.reshape(-1))
    return levels


def confirm(block: Block, levels: bool) -> Floats:
    """The network's margins of the answers; those that miss a little are pushed further."""
    network = block.layers.network
    for attempt in range(1 + FLIPS.repairs):
        drawn = _drawn(block) if levels else block.changed
        margin = network.margins(drawn, block.own)
        short = (margin > -block.margin) & ~block.left & np.isfinite(block.lengths)
        bad = np.flatnonzero(short)
        if not len(bad) or attempt == FLIPS.repairs:
            break
        block.goals[bad] -= 2.0 * (margin[bad] + block.margin) + 1e-9
        ways = block.best(bad)
        block.lengths[bad] = np.inf
        slopes = block.secants(bad, ways.after, 0.0).astype(np.float32)
        block.walk(bad, ways.targets, slopes, np.inf)
    if levels:
        block.adopt(drawn, block.rows)
    return margin


def _drawn(block: Block) -> Floats:
    """The answers in 8 bits; what is no answer stays as it is."""
    drawn = round_outward(block.images, block.changed) / 255.0
    other = block.left | np.isinf(block.lengths)
    drawn[other] = block.changed[other]
    return drawn


@dataclass(frozen=True)
class ImageBatch:
    """Checked images, worked on block by block."""

    layers: Layers
    images: Floats
    own: Classes | None  # None: what the network decides
    threads: int

    @classmethod
    def of(
        cls, network: ReluNetwork, images: ArrayLike, classes: ArrayLike | None, threads: int
    ) -> ImageBatch:
        """Check what was given."""
        values = checked_images(network, images)
        if classes is None:
            return cls(Layers.of(network), values, None, threads)
        own = np.asarray(classes)
        if own.shape != values.shape[:1] or not np.issubdtype(own.dtype, np.integer):
            raise EvidenceError(f"one class per image is required, found {own.shape} {own.dtype}")
        if len(own) and (own.min() < 0 or own.max() >= network.classes):
            raise EvidenceError(f"classes must be from 0 to {network.classes - 1}")
        return cls(Layers.of(network), values, own.astype(np.int64), threads)

    def run(
        self, work: Callable[[Block, slice], None], margin: float, levels: bool = False
    ) -> Attacked:
        """Do `work` on every block and join what comes out."""
        answer = _unanswered(self)

        def some(worker: int) -> None:
            room = Room(self.layers)
            for first in range(worker * FLIPS.rows, len(self.images), self.threads * FLIPS.rows):
                part = slice(first, first + FLIPS.rows)
                own = None if self.own is None else self.own[part]
                block = Block(room, self.images[part], own, answer.images[part], margin)
                work(block, part)
                _fill(answer, part, block, confirm(block, levels))

        if self.threads > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(some, range(self.threads)))
        else:
            some(0)
        return answer


def judged(batch: ImageBatch, answers: Floats, margin: float) -> Attacked:
    """Answers from elsewhere (B, n) as they are, with what the network says of them."""
    answer = _unanswered(batch)
    block = Block(Room(batch.layers), batch.images, batch.own, answer.images, margin)
    block.adopt(answers, block.rows)
    _fill(answer, slice(None), block, batch.layers.network.margins(answers, block.own))
    return answer


def _unanswered(batch: ImageBatch) -> Attacked:
    count = len(batch.images)
    return Attacked(
        images=np.empty_like(batch.images),
        classes=np.empty(count, dtype=np.int64),
        distance=np.empty(count),
        margin=np.empty(count),
        found=np.empty(count, dtype=np.bool_),
        target=np.empty(count, dtype=np.int64),
    )


def _fill(answer: Attacked, part: slice, block: Block, margin: Floats) -> None:
    """Write down a block whose images are already there."""
    answer.classes[part] = block.own
    answer.distance[part] = block.distances(block.changed, block.rows)
    answer.margin[part] = margin
    answer.found[part] = block.left | (margin <= -block.margin)
    answer.target[part] = block.layers.rivals(block.after, block.own)


def checked_images(network: ReluNetwork, images: ArrayLike, count: int | None = None) -> Floats:
    """Rows of inputs in the box, float64 and contiguous."""
    values = np.ascontiguousarray(np.atleast_2d(np.asarray(images, dtype=np.float64)))
    if values.ndim != 2 or values.shape[1] != network.inputs:
        raise EvidenceError(f"images must be (B, {network.inputs}), found {values.shape}")
    if count is not None and len(values) != count:
        raise EvidenceError(f"one start per image is required: {count}, found {len(values)}")
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise EvidenceError("inputs must be from 0 to 1")
    return values
