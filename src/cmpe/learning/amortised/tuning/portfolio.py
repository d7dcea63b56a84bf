"""Schedules that complement one another, chosen among many by what their mixed answers are worth.

Which schedule leads to a good answer differs from question to question, and within a large model
from place to place, in a way that nothing foretells. So several are kept, all of them are asked,
and their answers are mixed (`solvers.local.mixing`). The first is the tuned one; each of the others
is the candidate whose answers, mixed with what there is already, are worth most. More are kept than
are asked: of many rows with one mask, the first tell which of them suit it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.learning.amortised.tuning.evolution import Evolution
from cmpe.learning.amortised.tuning.schedules import LEAN, NUMBERS
from cmpe.problem import Instances
from cmpe.solvers.local.mixing import mixed

LEANS = (-4.0, -2.0, 2.0, 4.0)  # beside the tuned one
WIDER = (2.0, 4.0)  # draws of the last distribution, its size times so much
DRAWN = 10  # of each
NEVER = 1e3  # nats that an answer loses where nothing feasible is found


def candidates(evolution: Evolution, kept: Floats, random: np.random.Generator) -> Floats:
    """Schedules (P, NUMBERS) to choose from, the tuned one first: those `kept` of earlier
    generations, which are rougher but different, other leans, and wider draws."""
    leaning = np.zeros((len(LEANS), NUMBERS))
    leaning[:, LEAN] = LEANS
    wider = [evolution.wider(size).draw(random, DRAWN) for size in WIDER]
    return np.concatenate([evolution.mean[None], kept, evolution.mean + leaning, *wider])


def complements(
    asked: Sequence[Instances], answers: Sequence[Sequence[Assignments]], count: int, threads: int
) -> list[int]:
    """The numbers of `count` candidates, the first among them; answers[p][b] are those of candidate
    p to the rows asked[b].

    What a candidate adds falls, as a rule, while others are chosen. So those that added most before
    are looked at first, and the rest only if none of these still adds as much (Minoux 1978).
    """
    chosen, best = [0], list(answers[0])
    adds = dict.fromkeys(range(1, len(answers)), np.inf)
    while len(chosen) < min(count, len(answers)):
        now, looked = _worth(asked, best), set[int]()
        while (first := max(adds, key=lambda p: adds[p])) not in looked:
            adds[first] = _worth(asked, _joined(asked, best, answers[first], threads)) - now
            looked.add(first)
        chosen.append(first)
        best = _joined(asked, best, answers[first], threads)
        del adds[first]
    return chosen


def _joined(
    asked: Sequence[Instances],
    one: Sequence[Assignments],
    other: Sequence[Assignments],
    threads: int,
) -> list[Assignments]:
    pairs = zip(asked, one, other, strict=True)
    return [mixed(rows, both, trades=1, threads=threads) for rows, *both in pairs]


def _worth(asked: Sequence[Instances], answers: Sequence[Assignments]) -> float:
    """The mean of h, NEVER less where an answer is not feasible."""
    total = 0.0
    for rows, found in zip(asked, answers, strict=True):
        values = rows.problem.objective.value(found)
        fits = rows.problem.is_feasible(found) & np.isfinite(values)
        total += float(np.where(fits, values, 0.0).mean()) - NEVER * float((~fits).mean())
    return total
