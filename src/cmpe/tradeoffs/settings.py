"""Settings of fronts, lists of answers and probabilities."""

from __future__ import annotations

from typing import NamedTuple


class TradeoffSettings(NamedTuple):
    """What tunes fronts, lists of answers and probabilities.

    They were chosen by hand; `benchmarks.front` and the `front` and `best` cells of
    `benchmarks.checkouts` measure what a change does.
    """

    # Fronts of narrow rows.
    # States of a row: the largest that memory has room for is taken.
    front_spaces: tuple[int, ...] = (1 << 18, 1 << 20, 1 << 23)
    sums_per_second: float = 2e7  # of two states, about
    ties: int = 3  # how often a limit is narrowed because a point missed the tolerance
    bound_steps: int = 4  # of the bound between two points
    # The k best answers.
    # States of a row: the next where one is too small.
    best_spaces: tuple[int, ...] = (1 << 16, 1 << 20)
    spare: float = 0.5  # of k: further answers that are listed, for ties
    most_rank: int = 1 << 14  # answers of equal h that are looked through for the first ones
    first_listed: int = 64  # answers that are listed to see how many are near,
    longer: int = 8  # and how many times as long the next list is
    chunk_entries: int = 1 << 24  # of values that one compiled call fills in
    first_share: float = 0.4  # of a wide row's time: for its first answer
    least_slice: float = 0.05  # seconds
    # Lists of some variables' values.
    chosen_seconds: float = 10.0  # of a row too wide for elimination that has no limit
    most_listed: int = 10_000  # answers of a row, where only a distance in nats limits them
    least_chosen_slice: float = 0.02  # seconds
    # Marginal MAP where elimination does not fit.
    part_bytes: int = 1 << 25  # of a part of a bucket that is divided
    first_scored: int = 32  # assignments that are listed by their bounds at first
    # Probabilities, sensitivities and relaxations.
    samples: int = 10_000  # where probabilities are estimated
    sample_rounds: int = 64  # that a constraint may refuse
    sum_bytes: int = 1 << 26  # of the tables that are filled at once
    sampled: int = 1 << 23  # values of samples that are drawn at once
    many_sets: int = 8  # of observed variables: one plan for all may be less work
    seconds_per_weight: float = 3e-8  # of one elimination
    seconds_per_variable: float = 1e-4  # of a plan
    forced_rows: int = 4096  # of one call
    regret_steps: int = 200  # of the bounds of a wide row
    most_limits: int = 6  # that may change: 64 problems


TRADEOFFS = TradeoffSettings()
