"""Settings of fronts and the k best."""

from __future__ import annotations

from typing import NamedTuple


class FrontSettings(NamedTuple):
    """What tunes the fronts of narrow rows.

    `benchmarks.front` measures the time of complete fronts, `benchmarks.front_check` compares them
    with enumeration. Run both before and after a change: no setting may change a front.
    """

    references: int = 128  # at most, of a row with one constraint
    few_references: int = 24  # and with several
    descent_steps: int = 24  # for the multipliers of the other constraints
    rounds: int = 12  # budgets grow at most so often
    shares: tuple[float, ...] = (0.002, 0.01, 0.05)  # first budgets: shares of the corners' cost
    patience: int = 4  # smaller budgets that are tried where the space is too small
    learning: float = 0.25  # share of a row's budgets in the guess for the next ones
    spread: float = 0.2  # the first deviation, as a share of the first row's budgets
    margin: float = 0.5  # deviations that are added to a guess
    levels: int = 8  # bins of losses within a budget
    thinned: int = 1 << 17  # sums from which on they are thinned while more are added
    few: int = 2048  # sums up to which all are formed
    steps: int = 8  # stairs have so many steps for each state of the two lists
    inserted: int = 24  # states up to which a list is sorted by insertion
    places: int = 64  # of the hull at which budgets are guessed, from the greatest h to the least t


class RankSettings(NamedTuple):
    """What tunes the k best answers of narrow rows.

    The `best` cells of `benchmarks.checkouts` measure their time. No setting may change an answer.
    """

    rounds: int = 60  # of growing gaps
    scales: tuple[float, ...] = (1.0, 0.6, 0.85, 1.15, 1.6)  # shares of mu* that prune sums
    tilt: float = 0.4  # share of mu* by which the two multipliers that prune lists differ from it
    first_gap: float = 0.002  # share of the bound
    list_window: float = 1.3  # lists hold losses up to this multiple of the gap of earlier rows
    learning: float = 0.2  # share of a row's gap in the guess for the next one
    margin: float = 1.0  # mean errors that are added to a guess
    thinned: int = 64  # times the rank: lists from this length on are thinned
    products: int = 1 << 22  # sums of one combination of the components' lists
    bins: int = 64  # of losses, to guess how many answers lie within a gap


FRONTS = FrontSettings()
RANKS = RankSettings()
