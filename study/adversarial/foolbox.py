"""Attacks of other authors as yardsticks, run by foolbox; extra `study`.

    ead             elastic-net attack, decided by L1 (Chen et al. 2018)
    brendel_bethge  along the decision boundary from a far image (Brendel et al. 2019)
    sparse_descent  projected sparse L1 descent (Tramèr & Boneh 2019)
    fast_gradient   one step along the gradient (Goodfellow et al. 2015)

The last two need a radius: the smallest of a geometric grid that flips.

Every attack sees the network in float64, its own class ahead by the margin asked for, and what
comes back is judged by the network itself: the same rule as for `cmpe.solvers.flips.attack`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import Floats
from cmpe.errors import MethodError, MissingExtra
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.batch import Attacked, ImageBatch, judged
from cmpe.solvers.flips.layers import Classes, Layers

if TYPE_CHECKING:
    from torch import Tensor, nn

# More than the margin is asked for: brendel_bethge steps in float32 and a little out of the box.
SLACK = 1e-5
DRAWS = 16  # So many far images are tried as starts; odd draws are noise.
LEAST, GROWTH = 0.25, 1.15  # Attacks that need a radius try 0.25 and grow it by 15 %.
TRUST = 1e-3  # The radius of the trust region by input that brendel_bethge's authors chose.


@dataclass(frozen=True)
class FoolboxSettings:
    """How hard to try."""

    steps: int | None = None  # None: what STEPS says of the attack
    margin: float = 1e-3  # asked for beyond a tie
    batch_size: int = 256

    def __post_init__(self) -> None:
        if self.batch_size < 1 or (self.steps is not None and self.steps < 1):
            raise MethodError("an attack needs steps and batch_size >= 1")
        if not 0.0 <= self.margin < np.inf:
            raise MethodError(f"a margin must be at least 0 and finite, found {self.margin}")


DEFAULT = FoolboxSettings()


@dataclass(frozen=True)
class Task:
    """Some images, and what leaves their classes."""

    layers: Layers
    images: Floats
    own: Classes
    margin: float
    steps: int
    seed: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.own)

    def some(self, rows: Any) -> Task:
        """The task of some of the images."""
        return Task(
            self.layers, self.images[rows], self.own[rows], self.margin, self.steps, self.seed
        )

    def flips(self, changed: Floats, beyond: float = 0.0) -> Any:
        """Which images have left their class by the margin, and a little beyond."""
        return self.layers.margins(self.layers.sums(changed), self.own) <= -self.margin - beyond

    def posed(self) -> tuple[Any, Tensor, Any]:
        """Model, images and criterion as foolbox takes them.

        Foolbox always asks about all images of a call at once, so the margin is an amount that
        each image's own class is ahead.
        """
        import torch
        from foolbox import PyTorchModel
        from foolbox.criteria import Misclassification

        ahead = np.zeros((len(self), self.layers.classes))
        ahead[np.arange(len(self)), self.own] = self.margin + SLACK
        model = PyTorchModel(_module(self.layers, ahead), bounds=(0, 1), device="cpu")
        return (
            model,
            torch.from_numpy(self.images.copy()),
            Misclassification(torch.tensor(self.own)),
        )


Runner = Callable[[Task], Floats]


def known_attack(
    name: str,
    network: ReluNetwork,
    images: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    effort: FoolboxSettings = DEFAULT,
    seed: int = 0,
) -> Attacked:
    """A near image of another class for each of `images` (B, n), by the attack of that name.

    `classes` are those to leave, by default what the network decides; an image that has left
    comes back as it is, and so does one whose attack failed. `seed` serves brendel_bethge's starts.
    """
    if name not in NAMES:
        raise MethodError(f"attack must be one of {', '.join(NAMES)}, found {name!r}")
    need_foolbox()
    batch = ImageBatch.of(network, images, classes, 1)
    own = network.decide(batch.images) if batch.own is None else batch.own
    answers = batch.images.copy()
    steps = STEPS[name] if effort.steps is None else effort.steps
    inside = np.flatnonzero(network.margins(batch.images, own) > 0.0)
    for first in range(0, len(inside), effort.batch_size):
        rows = inside[first : first + effort.batch_size]
        task = Task(
            batch.layers, batch.images[rows], own[rows], effort.margin, steps,
            (seed, first),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # foolbox's own
            found = np.clip(ATTACKS[name](task), 0.0, 1.0)
        answers[rows] = np.where(task.flips(found)[:, None], found, task.images)
    return judged(batch, answers, effort.margin)


def need_foolbox() -> None:
    """Refuse to go on without it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it imports what scipy is about to drop
            import foolbox  # noqa: F401
    except ImportError:
        raise MissingExtra.named("foolbox", "study") from None


def _ead(task: Task) -> Floats:
    """With more weight on L1 than foolbox's 0.01, which gives longer answers here."""
    from foolbox.attacks import EADAttack

    model, images, criterion = task.posed()
    attack = EADAttack(
        steps=task.steps, initial_const=1.0, regularization=0.1, decision_rule="L1",
        abort_early=False,
    )  # fmt: skip
    return _array(attack.run(model, images, criterion))


def _brendel_bethge(task: Task) -> Floats:
    """Foolbox multiplies the trust region by the number of images: divided out again.

    The first call of a process compiles foolbox's optimizer, which takes most of a minute.
    """
    from foolbox.attacks import L1BrendelBethgeAttack

    starts, startable = _far_images(task)
    answers = task.images.copy()
    if startable.any():
        import torch

        model, images, criterion = task.some(startable).posed()
        attack = L1BrendelBethgeAttack(steps=task.steps, lr=TRUST / int(startable.sum()))
        begin = torch.from_numpy(starts[startable])
        answers[startable] = _array(attack.run(model, images, criterion, starting_points=begin))
    return answers


def _far_images(task: Task) -> tuple[Floats, Any]:
    """For each image the nearest of some that are decided otherwise: others, and noise.

    Where there is none, what one step along the gradient finds.
    """
    rng = np.random.default_rng(task.seed)
    best, lengths = task.images.copy(), np.full(len(task), np.inf)
    for draw in range(DRAWS):
        noise = rng.random(task.images.shape)
        tried = noise if draw % 2 else task.images[rng.permutation(len(task))]
        length = np.abs(tried - task.images).sum(axis=1)
        better = task.flips(tried, 2 * SLACK) & (length < lengths)
        best[better], lengths[better] = tried[better], length[better]
    lost = np.flatnonzero(np.isinf(lengths))
    if len(lost):
        best[lost] = _fast_gradient(task.some(lost))
    return best, task.flips(best, 2 * SLACK)


def _sparse_descent(task: Task) -> Floats:
    from foolbox.attacks import SparseL1DescentAttack

    return _by_radius(task, SparseL1DescentAttack(steps=task.steps))


def _fast_gradient(task: Task) -> Floats:
    from foolbox.attacks import L1FastGradientAttack

    return _by_radius(task, L1FastGradientAttack())


def _by_radius(task: Task, attack: Any) -> Floats:
    """The answer at the smallest radius of a geometric grid that flips."""
    answers, left = task.images.copy(), np.arange(len(task))
    for radius in _radii(task.images.shape[1]):
        part = task.some(left)
        model, images, criterion = part.posed()
        tried = _array(attack.run(model, images, criterion, epsilon=radius))
        flipped = part.flips(tried)
        answers[left[flipped]] = tried[flipped]
        left = left[~flipped]
        if not len(left):
            break
    return answers


def _radii(inputs: int) -> Iterator[float]:
    radius = LEAST
    while radius < inputs * GROWTH:
        yield radius
        radius *= GROWTH


def _module(layers: Layers, ahead: Floats) -> nn.Module:
    """F(x) + ahead as a torch module in float64."""
    import torch
    from torch import nn

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ahead = torch.from_numpy(ahead)
            self.weights = [torch.from_numpy(weight) for weight in layers.weights]
            self.biases = [torch.from_numpy(bias) for bias in layers.biases]

        def forward(self, x: Tensor) -> Tensor:
            last = len(self.weights) - 1
            for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
                x = nn.functional.linear(x, weight, bias)
                x = x if layer == last else x.relu()
            return x + self.ahead

    return Shifted().eval()


def _array(images: Tensor) -> Floats:
    return np.asarray(images.detach().numpy(), dtype=np.float64)


ATTACKS: dict[str, Runner] = {
    "ead": _ead,
    "brendel_bethge": _brendel_bethge,
    "sparse_descent": _sparse_descent,
    "fast_gradient": _fast_gradient,
}
NAMES = tuple(ATTACKS)
STEPS = {"ead": 100, "brendel_bethge": 200, "sparse_descent": 20, "fast_gradient": 1}
