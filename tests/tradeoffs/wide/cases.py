"""Random rows with what enumeration knows of them."""

from collections.abc import Iterator

from cmpe import Limits
from cmpe.arrays import Floats
from cmpe.tradeoffs.wide.band import Band
from cmpe.tradeoffs.wide.pricing import Pricing
from tests.problems import Shape, random_problem
from tests.tradeoffs.truth import enumerated


def priced_rows(seed: int) -> Iterator[tuple[Pricing, Band, Floats, Floats]]:
    """Each row of a random problem: its questions, its band, and all (h, t) that it allows."""
    problem, evidence = random_problem(seed, Shape(constraints=3))
    over = seed % max(1, len(problem.constraints))
    for row, truth in enumerate(enumerated(problem, evidence) if problem.constraints else []):
        band, good = Band(problem, over), truth.satisfied(over)
        pricing = Pricing(problem.given(evidence).take(slice(row, row + 1)), band, Limits())
        yield pricing, band, truth.h[good], truth.t[good, over]
