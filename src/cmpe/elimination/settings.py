"""Settings of elimination orders, plans and sums."""

from __future__ import annotations

from typing import NamedTuple


class EliminationSettings(NamedTuple):
    """What tunes elimination orders, plans and sums.

    They were chosen by hand on the paper's models; `benchmarks.scaling` and the `sampling` cells of
    `benchmarks.checkouts` measure what a change does. The last ones refuse what would take too
    long or too much memory.
    """

    # Orders.
    cheap: int = 16  # bucket entries per variable up to which the first order is good enough
    heuristics: int = 3  # orders of each start
    spelled: int = 3000  # variables up to which a hopeless plan lists its buckets
    hopeless: int = 40  # a bucket of more than two to this power entries is never eliminated
    work_per_second: int = 1 << 28  # steps of a greedy order, about
    least_work: int = 1 << 22  # steps of a greedy order that it has in any case
    noise: float = 0.01  # that breaks ties at random
    # Rules and sums.
    chunk: int = 256  # rows of one compiled call
    rule_entries: int = 1 << 22  # of a table that a rule becomes
    pairs: int = 1 << 22  # of states of one join, whose map is stored
    weights: int = 1 << 28  # that one row may have to add: seconds
    count_steps: int = 1 << 40  # of the sum of a count
    elements: int = 1 << 10  # of one product that stands for several
    terms: int = 1 << 21  # of a circuit: so many vectors are held while a block is summed


ELIMINATION = EliminationSettings()
