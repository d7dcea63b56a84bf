"""Settings of `exact` and `local`, kernels included."""

from __future__ import annotations

from typing import NamedTuple


class ExactSettings(NamedTuple):
    """What tunes `exact`: proofs by elimination, and what follows them on wide rows.

    They were chosen by hand on the paper's models; `benchmarks.exact`, `benchmarks.wide_reduction`
    and the `exact` cells of `benchmarks.checkouts` measure what a change does. No setting may
    change a proved answer.
    """

    # The dual and its multipliers.
    bracket_steps: int = 60  # that narrow one multiplier
    subgradient_steps: int = 60  # where there are several constraints
    # The proof of a narrow row.
    rounds: int = 40  # at most, each with a larger loss
    states: int = 1 << 16  # of the frontiers of one row
    products: int = 1 << 16  # sums of one combination of lists
    tilt: float = (
        0.2  # share of mu by which two multipliers that prune merged states differ from it
    )
    # Estimates of how long a row takes: rough upper limits.
    seconds_per_round: float = 0.02  # with one constraint
    seconds_per_entry: float = 2e-7  # dual and losses, per bucket entry
    cached_bytes: int = 1 << 22  # a row that needs more does not fit into the cache
    few_functions: int = 32  # a step outside the cache takes longer with more functions
    # Wide rows.
    slow_bytes: int = 1 << 26  # of a constrained row: above this, search and reduction are faster
    reduction_share: float = 0.75  # of the time that search leaves; MILP has the rest
    short_seconds: float = 4.0  # with a shorter limit, reduction takes all of it
    reduction_nodes: int = 4096  # where there is no time limit
    traced_seconds: float = 60.0  # of a wide row that is traced without a limit
    # Reduction.
    narrow_bytes: int = 1 << 22  # of one row: up to here it is eliminated
    splits: int = 3  # of a node before it is branched on
    split_steps: int = 300  # of the descent on one split
    split_seconds: float = 0.1  # the first split does its steps in about this time,
    split_growth: float = 4.0  # each further one takes so many times as long,
    longest_split: float = 0.08  # up to this share of the time limit
    search_share: float = 0.2  # of the time limit for a first answer, at most
    search_seconds: float = 3e-4  # per free variable: a longer first search is not worth it
    least_search: float = 0.02  # seconds
    bound_share: float = 0.2  # of the time limit for the bound of `auto`


EXACT = ExactSettings()


class LocalSettings(NamedTuple):
    """What tunes `local` and what else makes single moves.

    They were chosen by hand on the paper's models; the `local` cells of `benchmarks.checkouts` and
    the regrets of `benchmarks.golden` measure what a change does.
    """

    # Repair and moves.
    chain: int = 10  # moves of the longest chain
    tries: int = 32  # rises of h that an exchange after a kick tries
    kick: int = 6  # moves of the longest kick
    pushes: int = 3  # rises of h that a push takes,
    followers: int = 2  # and the longest walk that each of them may start
    patience: int = 2  # steps of tabu search per variable without progress, then a kick
    # Trades, and mixtures of two answers.
    core: int = 8  # trades of which all choices are tried
    half: int = 8  # with one limit, all choices of twice as many are tried
    colours: int = 16  # sets of variables that no table joins; others do not trade
    values: int = 3  # other values of a variable that are tried
    rounds: int = 4  # of trades, at most
    # One compiled call, for which Ctrl-C waits.
    chunk: int = 512  # rows, at most
    chunk_entries: int = 1 << 21  # of the tables of all its rows


LOCAL = LocalSettings()


class WideSettings(NamedTuple):
    """What tunes compiled branch and bound, presolve, and the descents on relaxations of wide rows.

    They were chosen by hand; `benchmarks.competition` measures branch and bound and presolve,
    `benchmarks.wide_bounds` the descents. No setting may make a bound invalid.
    """

    # Branch and bound.
    backtracks: int = 4  # after so many a dive ends
    rounds: int = 2  # of propagation at a node
    degree_weight: float = 1e-3  # failures that a table of a variable counts for
    longer: float = 1.5  # factor of the step of multipliers after a success,
    shorter: float = 0.5  # and after a failure
    # Presolve and orders.
    dominators: int = 4  # values: up to so many are all tried, of more only the favourite
    exact_fill: int = 1000  # vertices of a graph up to which every change of fill is followed
    # Descents.
    message_step: float = 0.7  # share of Polyak's step that mu takes between messages
    momentum: float = 0.8  # share of a step's velocity that the next step keeps
    least_aim: float = 1e-9  # a descent ends where the aim is a smaller share of 1 + |D|


WIDE = WideSettings()
