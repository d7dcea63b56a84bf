"""Classifiers of images, to be attacked: one network for all classes, or one network per class.

One network with an output per class is trained by cross-entropy; with `one_vs_all` each class has
a network with one output, positive for its images, trained by binary cross-entropy (paper §5.4).
All networks of a call are members of one stack, trained by Adam at a rate that falls linearly to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from cmpe.errors import EvidenceError, MethodError
from cmpe.learning.networks.networks import Network, Parameters
from cmpe.learning.training.optimizer import Adam
from cmpe.models.relu import ReluNetwork
from cmpe.tensor.device import device_named


@dataclass(frozen=True)
class ClassifierConfig:
    """The shape of the networks and how they are trained."""

    hidden: tuple[int, ...] = (64,)
    one_vs_all: bool = False
    classes: int = 10
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        if min((*self.hidden, self.epochs, self.batch_size)) < 1 or self.classes < 2:
            raise MethodError(
                "a classifier needs hidden sizes, epochs and batch_size >= 1 and classes >= 2"
            )
        if not 0.0 < self.learning_rate < float("inf"):
            raise MethodError(f"learning_rate must be positive, found {self.learning_rate}")

    @property
    def members(self) -> int:
        """How many networks."""
        return self.classes if self.one_vs_all else 1

    def network(self, inputs: int) -> Network:
        """The shape of each of them."""
        return Network((inputs, *self.hidden, 1 if self.one_vs_all else self.classes), 0)


MANY = ClassifierConfig()  # for tens of thousands of images, as MNIST has
FEW = ClassifierConfig((32,), epochs=40, batch_size=32, learning_rate=1e-2)  # for a thousand


def train_classifier(
    images: ArrayLike,
    labels: ArrayLike,
    config: ClassifierConfig = MANY,
    device: str = "cpu",
) -> tuple[ReluNetwork, ...]:
    """Networks that tell the classes (N,) of images (N, n) apart: one, or one for each class."""
    pixels, classes = _checked(images, labels, config.classes)
    place = device_named(device)
    x, y = pixels.to(place), classes.to(place)
    network = config.network(x.shape[1])
    starts = [network.initial(config.seed + k) for k in range(config.members)]
    adam = Adam(starts, [config.learning_rate] * config.members, place)
    generator = torch.Generator().manual_seed(config.seed)
    batches = -(-len(x) // config.batch_size)
    for epoch in range(config.epochs):
        order = torch.randperm(len(x), generator=generator).to(place)
        for number, rows in enumerate(torch.split(order, config.batch_size)):
            done = (epoch * batches + number) / (config.epochs * batches)
            adam.rates.fill_(config.learning_rate * (1.0 - done))
            losses = _losses(network, adam.parameters, x[rows], y[rows])
            adam.differentiate(losses, torch.full_like(losses, 1.0 / len(rows)))
            adam.step()
    return tuple(_relu_network(adam.member(k)) for k in range(config.members))


def classify(networks: Sequence[ReluNetwork], images: ArrayLike) -> NDArray[np.int64]:
    """The class of each image: by one network, or of those for one class each the largest F."""
    if len(networks) == 1:
        return networks[0].decide(images)
    return np.asarray(np.hstack([network.logits(images) for network in networks]).argmax(axis=1))


def accuracy(networks: Sequence[ReluNetwork], images: ArrayLike, labels: ArrayLike) -> float:
    """The share of images that are given their own label."""
    return float((classify(networks, images) == np.asarray(labels)).mean())


def _checked(images: ArrayLike, labels: ArrayLike, classes: int) -> tuple[Tensor, Tensor]:
    pixels = np.array(images, dtype=np.float32)  # a copy: torch wants to be able to write
    given = np.array(labels)
    if pixels.ndim != 2 or not pixels.size or not np.isfinite(pixels).all():
        raise EvidenceError(f"images must be (N, n) finite numbers, found {pixels.shape}")
    if given.shape != pixels.shape[:1] or not np.issubdtype(given.dtype, np.integer):
        raise EvidenceError(f"one label per image is required, found {given.shape} {given.dtype}")
    wrong = given[(given < 0) | (given >= classes)]
    if len(wrong):
        raise EvidenceError(f"labels must be from 0 to {classes - 1}, found {wrong[0]}")
    return torch.from_numpy(pixels), torch.from_numpy(given.astype(np.int64))


def _losses(network: Network, parameters: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of each member and row (M, B); one output per class, or a member per class."""
    members = len(parameters["bias0"])
    _, logits = network.layers(parameters, x.expand(members, *x.shape))
    if logits.shape[-1] > 1:
        return functional.cross_entropy(logits.squeeze(0), y, reduction="none").unsqueeze(0)
    own = torch.arange(members, device=y.device).unsqueeze(1) == y
    return functional.binary_cross_entropy_with_logits(
        logits.squeeze(-1), own.to(logits.dtype), reduction="none"
    )


def _relu_network(member: Parameters) -> ReluNetwork:
    layers = range(len(member) // 2)
    return ReluNetwork(
        tuple(member[f"weight{layer}"][0].T.cpu().numpy() for layer in layers),
        tuple(member[f"bias{layer}"][0].cpu().numpy() for layer in layers),
    )
