"""CMA-ES: a normal distribution of numbers that follows its better draws (Hansen 2016, "The CMA
evolution strategy: a tutorial", its default settings, without negative weights)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Floats


@dataclass(frozen=True)
class Evolution:
    """The distribution after some generations."""

    mean: Floats  # (n,)
    size: float  # sigma
    shape: Floats  # (n, n): C, so that draws have the covariance sigma^2 C
    path: Floats  # (n,): of C
    step_path: Floats  # (n,): of sigma
    generation: int = 0

    @classmethod
    def around(cls, mean: Floats, size: float) -> Evolution:
        """The first generation, as wide in all directions."""
        nothing = np.zeros(len(mean))
        return cls(mean.copy(), size, np.eye(len(mean)), nothing, nothing.copy())

    @property
    def candidates(self) -> int:
        """Draws of a generation."""
        return 4 + int(3 * np.log(len(self.mean)))

    def wider(self, times: float) -> Evolution:
        """The same distribution, so many times as wide."""
        return replace(self, size=times * self.size)

    def draw(self, random: np.random.Generator, count: int | None = None) -> Floats:
        """Candidates (L, n), as many as a generation has unless `count` says otherwise."""
        values, axes = np.linalg.eigh(self.shape)
        normal = random.standard_normal((count or self.candidates, len(self.mean)))
        drawn: Floats = self.mean + self.size * (normal * np.sqrt(values)) @ axes.T
        return drawn

    def after(self, candidates: Floats, losses: Floats) -> Evolution:
        """The next generation, by the better half of the candidates."""
        n, parents = len(self.mean), self.candidates // 2
        weights = np.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
        weights /= weights.sum()
        mass = 1.0 / float(np.square(weights).sum())
        best = (candidates[np.argsort(losses, kind="stable")[:parents]] - self.mean) / self.size
        step = weights @ best
        slow, both = (mass + 2.0) / (n + mass + 5.0), 4.0 + mass / n
        keep = both / (n + 4.0 + 2.0 * mass / n)
        one = 2.0 / ((n + 1.3) ** 2 + mass)
        many = min(1.0 - one, 2.0 * (mass - 2.0 + 1.0 / mass) / ((n + 2.0) ** 2 + mass))
        expected = np.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n))
        values, axes = np.linalg.eigh(self.shape)
        white = axes @ ((axes.T @ step) / np.sqrt(values))
        step_path = (1.0 - slow) * self.step_path + np.sqrt(slow * (2.0 - slow) * mass) * white
        length = float(np.linalg.norm(step_path))
        settled = np.sqrt(1.0 - (1.0 - slow) ** (2 * (self.generation + 1)))
        moving = length / settled < (1.4 + 2.0 / (n + 1.0)) * expected
        path = (1.0 - keep) * self.path + moving * np.sqrt(keep * (2.0 - keep) * mass) * step
        lost = one * (1.0 - moving) * keep * (2.0 - keep)
        shape = (1.0 - one - many + lost) * self.shape + one * np.outer(path, path)
        shape += many * (best.T * weights) @ best
        damping = 1.0 + 2.0 * max(0.0, np.sqrt((mass - 1.0) / (n + 1.0)) - 1.0) + slow
        size = self.size * float(np.exp(slow / damping * (length / expected - 1.0)))
        mean = self.mean + self.size * step
        return Evolution(mean, size, 0.5 * (shape + shape.T), path, step_path, self.generation + 1)
