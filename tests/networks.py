"""Small random ReLU networks, and optima over them by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from cmpe.bounds.networks.neurons import contrasts
from cmpe.models.relu import ReluNetwork

Floats = NDArray[np.float64]


def random_network(seed: int, sizes: tuple[int, ...], bias: float = 0.5) -> ReluNetwork:
    """Normal weights; a few of them 0, so that some pixels and neurons do not matter."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.normal(size=(b, a)) * (rng.random((b, a)) > 0.15) for a, b in pairs]
    return ReluNetwork(tuple(weights), tuple(bias * rng.normal(size=b) for _, b in pairs))


def random_image(seed: int, inputs: int) -> Floats:
    """An image with black, white and grey pixels."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.clip(rng.random(inputs) * 1.6 - 0.3, 0.0, 1.0))


@dataclass(frozen=True)
class Piece:
    """The moves (p, m) with one activation pattern, left t <= right, and the logits there."""

    left: Floats
    right: Floats
    slopes: Floats  # (outputs, 2n)
    constant: Floats  # (outputs,)
    limits: list[tuple[float, float]]

    def least(self, cost: Floats, left: Floats, right: Floats) -> float:
        """min cost t over the piece and left t <= right; inf if there is no such t."""
        answer = linprog(
            cost,
            A_ub=np.vstack([self.left, left]),
            b_ub=np.concatenate([self.right, right]),
            bounds=self.limits,
        )
        return float(answer.fun) if answer.status == 0 else np.inf


def pieces(network: ReluNetwork, image: Floats) -> Iterator[Piece]:
    """Every activation pattern of the hidden layers."""
    hidden = sum(len(b) for b in network.biases[:-1])
    for pattern in itertools.product((0.0, 1.0), repeat=hidden):
        yield _piece(network, image, np.array(pattern))


def _piece(network: ReluNetwork, image: Floats, pattern: Floats) -> Piece:
    n, first = len(image), 0
    slopes, constant = np.hstack([np.eye(n), -np.eye(n)]), image
    left, right = [np.zeros((0, 2 * n))], [np.zeros(0)]
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        slopes, constant = weight @ slopes, weight @ constant + bias
        on = pattern[first : first + len(bias)]
        first += len(bias)
        sign = np.where(on > 0, -1.0, 1.0)  # z >= 0 where on, z <= 0 where off
        left.append(sign[:, np.newaxis] * slopes)
        right.append(-sign * constant)
        slopes, constant = on[:, np.newaxis] * slopes, on * constant
    slopes, constant = network.weights[-1] @ slopes, network.weights[-1] @ constant
    limits = [(0.0, 1.0 - v) for v in image] + [(0.0, v) for v in image]
    return Piece(
        np.vstack(left), np.concatenate(right), slopes, constant + network.biases[-1], limits
    )


def nearest_by_brute_force(network: ReluNetwork, image: Floats, margin: float) -> float:
    """The exact distance: one linear program per activation pattern and target class."""
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    best = np.inf
    for piece, row in itertools.product(pieces(network, image), rows):
        left, right = (row @ piece.slopes)[np.newaxis], np.array([-margin - row @ piece.constant])
        best = min(best, piece.least(np.ones(2 * len(image)), left, right))
    return best


def margin_by_brute_force(network: ReluNetwork, image: Floats, radius: float) -> float:
    """The least margin within the radius."""
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    ball = np.ones((1, 2 * len(image)))
    values = (
        piece.least(row @ piece.slopes, ball, np.array([radius])) + row @ piece.constant
        for piece, row in itertools.product(pieces(network, image), rows)
    )
    return min(values)


def loss_by_brute_force(network: ReluNetwork, image: Floats) -> float:
    """min 1 + sum |x - x'| + margin(x') subject to margin(x') >= 0."""
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    best = np.inf
    for piece, row in itertools.product(pieces(network, image), rows):
        others = row - rows  # row's target is the one with the least margin, which is >= 0
        left = np.vstack([others @ piece.slopes, -row @ piece.slopes])
        right = np.append(-others @ piece.constant, row @ piece.constant)
        cost = np.ones(2 * len(image)) + row @ piece.slopes
        best = min(best, 1.0 + piece.least(cost, left, right) + row @ piece.constant)
    return best
