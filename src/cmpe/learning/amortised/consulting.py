"""Several schedules answer the same rows, then the questions that follow from their answers.

1. The answers of all schedules go through single moves, which are traded, and are mixed
   (`solvers.local.mixing`): which schedule leads to a good answer differs from question to
   question, and within a large model from place to place.
2. Then some variables keep the values of the answer so far as if they had been observed, and the
   others are answered once more. The new answer is different in places, and better in some of
   them; it is mixed with the answer so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cmpe.arrays import Assignments
from cmpe.core.schedules import Passed
from cmpe.learning.improvement import moved
from cmpe.learning.settings import AMORTISED
from cmpe.problem import Instances
from cmpe.solvers.local.mixing import mixed

FOLLOWING = 21  # a generator apart from other ones

Ask = Callable[[Assignments, int], Passed]  # evidence (B, n) and the number of a schedule


def consulted(
    block: Instances, ask: Ask, numbers: tuple[int, int], cores: int = 1, seed: int = 0
) -> tuple[Assignments, Passed]:
    """The mixture (B, n) of all answers, and what the first schedule came to; `numbers` are those
    of the schedules, and of the questions that follow."""
    schedules, followed = numbers
    given, random = block.full(), np.random.default_rng((seed, FOLLOWING))
    first, *others = [ask(given, number) for number in range(schedules)]
    answers = [moved(block, found.values, cores) for found in (first, *others)]
    best = mixed(block, answers, threads=cores)
    for number in range(followed):
        kept = random.random(given.shape[1]) < AMORTISED.kept
        found = ask(np.where(kept, best, given), number % schedules)
        best = mixed(block, [best, moved(block, found.values, cores)], threads=cores)
    return best, first
