"""Rounds of linearisation for a block of images: many ways at once, the shortest answer kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.solvers.flips.layers import Classes, Layers, Single
from cmpe.solvers.flips.settings import FLIPS

Rows = NDArray[np.int64]
Marks = NDArray[np.bool_]

SAME = 1e-7  # Two answers of one image that differ by less in length are one.
SLACK = 1e-10  # Rounding of a sum may cost this much of the margin.


@dataclass
class Directions:
    """Ways to leave a class under way: one image may have several."""

    rows: Rows
    targets: Classes
    lengths: Floats  # how long the answers of the last walk are
    after: Floats  # the sums there
    moved: Marks  # whether that was elsewhere than the walk before

    def chosen(self, which: Marks) -> Directions:
        """Some of them."""
        return Directions(
            rows=self.rows[which],
            targets=self.targets[which],
            lengths=self.lengths[which],
            after=self.after[which],
            moved=self.moved[which],
        )


def joined(ways: Sequence[Directions]) -> Directions:
    """All of them."""
    return Directions(
        rows=np.concatenate([way.rows for way in ways]),
        targets=np.concatenate([way.targets for way in ways]),
        lengths=np.concatenate([way.lengths for way in ways]),
        after=np.concatenate([way.after for way in ways]),
        moved=np.concatenate([way.moved for way in ways]),
    )


class Room:
    """Memory for slopes by input, kept between walks: fresh pages cost more than the sums."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self._slopes: Single = np.empty((0, len(layers.first)), dtype=np.float32)

    def of(self, count: int) -> Single:
        """`count` rows of it."""
        if count > len(self._slopes):
            self._slopes = np.empty((count, self._slopes.shape[1]), dtype=np.float32)
        return self._slopes[:count]


class Block:
    """Images of one call, and in `changed` the shortest answer of each so far."""

    def __init__(
        self, room: Room, images: Floats, own: Classes | None, changed: Floats, margin: float
    ) -> None:
        self.layers, self.room = room.layers, room
        self.images, self.changed, self.margin = images, changed, margin
        changed[:], layers = images, room.layers
        self.rows = np.arange(len(images))
        self.sums = layers.sums(images)
        self.own = layers.decide(self.sums) if own is None else own
        self.left = layers.margins(self.sums, self.own) <= 0.0  # another class already
        slack = SLACK * (1.0 + np.abs(self.sums).max(axis=1))
        self.goals = np.where(self.left, np.inf, -margin - slack)
        self.after = self.sums.copy()
        self.lengths = np.full(len(images), np.inf)

    def walk(self, rows: Rows, targets: Classes, slopes: Single, reach: float) -> Directions:
        """Follow one direction for each of `rows`, given the slopes of the hidden units."""
        from cmpe.core import flips as kernels

        layers = self.layers
        lengths, after = np.empty(len(rows)), np.empty((len(rows), self.sums.shape[1]))
        by_input = self.slopes(rows, targets, slopes)
        kernels.walk(
            kernels.ReluLayers(layers.first, layers.deep, layers.sizes),
            kernels.Images(self.images, self.sums, self.own, self.goals),
            kernels.Walks(rows, by_input, lengths, after),
            reach,
            kernels.Shortest(self.lengths, self.changed, self.after),
        )
        return Directions(rows, targets, lengths, after, np.ones(len(rows), dtype=np.bool_))

    def slopes(self, rows: Rows, targets: Classes, slopes: Single) -> Single:
        """The slopes of the margins by input, in room that the next call takes again."""
        value = self.layers.back(self.own[rows], targets, slopes)
        return np.matmul(value, self.layers.single[0], out=self.room.of(len(rows)))

    def start(self, rows: Rows, count: int, sharpness: float) -> Directions:
        """The first walk: towards the `count` nearest classes, with guessed slopes."""
        slopes = self.layers.guess(self.sums[rows], sharpness)
        count = min(count, self.layers.classes - 1)
        targets = self.layers.nearest(self.sums[rows], self.own[rows], slopes, count)
        which = np.repeat(np.arange(len(rows)), count)
        return self.walk(rows[which], targets.ravel(), slopes[which], FLIPS.first_hopeful)

    def again(self, past: Directions, local: float) -> Directions:
        """Linearise anew where the last walk ended: average slopes (0) to its gradient (1)."""
        past = past.chosen(past.moved & (past.lengths <= FLIPS.hopeful * self.lengths[past.rows]))
        slopes = self.secants(past.rows, past.after, local)
        ways = self.walk(past.rows, past.targets, slopes.astype(np.float32), FLIPS.hopeful)
        ways.moved[:] = ~np.isclose(ways.lengths, past.lengths, rtol=0.0, atol=SAME)
        return ways

    def best(self, rows: Rows) -> Directions:
        """The shortest answers so far, as ways under way."""
        after = self.after[rows]
        rivals = self.layers.rivals(after, self.own[rows])
        return Directions(
            rows, rivals, self.lengths[rows], after, np.ones(len(rows), dtype=np.bool_)
        )

    def adopt(self, changed: Floats, rows: Rows) -> None:
        """Take changed images as the answers of `rows`; those that miss their goal count as inf."""
        self.after[rows] = self.layers.sums(changed)
        self.changed[rows] = changed
        self.lengths[rows] = self.distances(changed, rows)
        self.lengths[rows[~self.flipped(self.after[rows], rows)]] = np.inf

    def distances(self, changed: Floats, rows: Rows) -> Floats:
        """sum |x' - x| of every row."""
        from cmpe.core import flips as kernels

        found = np.empty(len(rows))
        kernels.distances(self.images, rows, changed, found)
        return found

    def flipped(self, after: Floats, rows: Rows) -> Marks:
        """Whether `rows` have the margin asked for at points with these sums."""
        margins = self.layers.margins(after, self.own[rows])
        return np.asarray(self.left[rows] | (margins <= -self.margin))

    def shrink(self, rows: Rows) -> None:
        """Move the answers of `rows` towards their images as far as the goal allows."""
        from cmpe.core import flips as kernels

        share, layers = np.empty(len(rows)), self.layers
        kernels.shares(
            kernels.ReluLayers(layers.first, layers.deep, layers.sizes),
            kernels.Images(self.images, self.sums[rows], self.own[rows], self.goals[rows]),
            self.after[rows],
            share,
        )
        shorter, share = rows[share < 1.0], share[share < 1.0]
        images, changed = self.images[shorter], self.changed[shorter]
        self.adopt(np.clip(images + share[:, None] * (changed - images), 0.0, 1.0), shorter)

    def secants(self, rows: Rows, after: Floats, local: float) -> Floats:
        """The slopes of the hidden units between images and answers."""
        from cmpe.core import flips as kernels

        slopes = np.empty((len(rows), self.layers.hidden))
        kernels.secants(self.sums, rows, after, local, slopes)
        return slopes
