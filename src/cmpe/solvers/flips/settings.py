"""Settings of flips of classifiers: their search and their proofs."""

from __future__ import annotations

from typing import NamedTuple


class FlipSettings(NamedTuple):
    """What tunes flips of classifiers: their search and their proofs.

    They were chosen on training images; `benchmarks.attack` measures the search,
    `benchmarks.adversarial_milp` the proofs.
    """

    # The search. The later guesses serve few classes, or rows without a flip.
    guesses: tuple[float, ...] = (3.0, 1.0, 10.0)  # how sharp the first slopes are
    # Rounds take in turn average slopes (0), the answer's gradient (1), or the mean of both,
    local: tuple[float, ...] = (0.0, 0.5, 1.0)
    near: tuple[float, ...] = (0.5, 1.0)  # where the first slopes are good already
    draws: int = 16  # random points that are tried where nothing else flips
    noise: float = 0.3  # standard deviation of a restart's slopes around the best answer's
    rows: int = 256  # of a block: its slopes by input fit the cache
    repairs: int = 4  # how often an answer that misses the margin is pushed further
    hopeful: float = 1.08  # a direction so many times as long as the best of its row is dropped,
    first_hopeful: float = 1.2  # or so many times in the first walk
    # Proofs.
    relaxations: int = 6  # how often a part is relaxed and tightened, at most
    ray_rounds: int = 5  # each finds the first flip on a ray 30 times closer
    few_phases: int = 3  # a part with at most so many phases goes to a back-end
    shrinking: float = 0.8  # a round that leaves more than this share of all caps is the last
    cut_rounds: int = 15  # at most
    inner: float = 0.4  # weight of earlier optima in the point that cuts are made for
    least_gain: float = 5e-3  # share of the radius by which a round of cuts must lift the bound


FLIPS = FlipSettings()
