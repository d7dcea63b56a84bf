"""What is attacked: images and the networks that decide them.

A network for all classes is one part. One-vs-all is a part per class: its network, and the images
of that class. Only images that are decided rightly are attacked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.flip import adversarial
from cmpe.formats.directory import DESCRIPTION, ProblemDirectory, write_directory
from cmpe.formats.images import ImageSet
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Problem


@dataclass(frozen=True)
class Part:
    """One network, the images it is attacked on, and those that attacks may learn from."""

    name: str
    network: ReluNetwork
    train: Floats  # (N, n)
    test: Floats  # (B, n)
    rows: NDArray[np.intp]  # (B,): their places among the test images

    def with_first(self, rows: Collection[int]) -> Part:
        """The same part with some test images before all others."""
        order = np.argsort(~np.isin(self.rows, list(rows)), kind="stable")
        return replace(self, test=self.test[order], rows=self.rows[order])

    @cached_property
    def problem(self) -> Problem:
        """The smallest change that flips the network's decision."""
        return adversarial(self.network)

    def keep(self, folder: Path) -> None:
        """Write the problem and its test images as a problem directory, unless they are there."""
        if not (folder / DESCRIPTION).exists():
            write_directory(ProblemDirectory(self.problem, self.test[:0], self.test), folder)


def parts_of(
    data: ImageSet, networks: Sequence[ReluNetwork], most: int | None = None
) -> tuple[Part, ...]:
    """The parts of a classifier: one network with all classes, or one per class.

    `most` limits the test images, the first ones of the set. A part without any is left out.
    """
    count = len(data.test) if most is None else min(most, len(data.test))
    test, labels = data.test[:count], data.test_labels[:count]
    if len(networks) == 1:
        chosen = _right(networks[0], data.train, data.train_labels)
        rows = _right(networks[0], test, labels)
        return (Part("all", networks[0], data.train[chosen], test[rows], rows),)
    parts = []
    for digit, network in enumerate(networks):
        own = np.flatnonzero(data.train_labels == digit)
        own = own[network.decide(data.train[own]) == 1]
        rows = np.flatnonzero(labels == digit)
        rows = rows[network.decide(test[rows]) == 1]
        parts.append(Part(str(digit), network, data.train[own], test[rows], rows))
    return tuple(part for part in parts if len(part.rows))


def _right(network: ReluNetwork, images: Floats, labels: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.flatnonzero(network.decide(images) == labels)
