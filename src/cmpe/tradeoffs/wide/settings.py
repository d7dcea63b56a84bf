"""Settings of the fronts of wide rows."""

from __future__ import annotations

from typing import NamedTuple


class WideFrontSettings(NamedTuple):
    """What tunes the fronts of wide rows.

    They were chosen by hand; `benchmarks.front` (its wide rows) measures what a change does.
    """

    # The band.
    seconds: float = 60.0  # of a row without a limit
    most_points: int = 10_000
    pieces: int = 16  # steps from one point to the next, at most
    # Questions.
    long: float = 1 / 64  # share of the window: only in longer intervals the middle is looked at
    candidates: int = 16  # of each kind
    # Share of the points' range by which the band goes on after the last of them.
    beyond: float = 0.1
    most_gap: float = 1e9  # nats: where there is no bound
    # Time.
    first_slice: float = 0.1  # seconds
    growth: float = 0.25  # share of the time so far: the longest later slice
    longest: float = 0.1  # share of the limit: the longest slice
    half: float = 0.5  # a line that leaves more of the slack there had too little time,
    longer: float = 2.0  # and slices become so many times as long
    doublings: int = 40  # of a slice, at most: longer than any limit
    forgets: float = 0.2  # share of a kind's account that each question replaces
    # Splits.
    split_seconds: tuple[float, ...] = (0.02, 0.1)  # that 60 steps of a split should take
    later_split: float = 8.0  # after so many times what one took to make the next is made
    split_share: float = 0.4  # of the time of a line, where its bound is a split's
    split_after: float = 3.0  # seconds: no split is made before
    split_patience: float = 0.25  # share of the time that is left: how long one may take to make
    trusted: int = 2  # bounds of a line by the split before branch and bound is tried
    # Multipliers and mixtures.
    near: float = 1e-4  # multipliers this share of their size apart are the same question
    far: float = 4.0  # factor of a multiplier that leaves the first limits without an answer
    multipliers: int = 5  # that are tried so
    skips: tuple[int, ...] = (1, 2, 4, 8)  # neighbours that an answer is mixed with
    mixtures: int = 512  # of one pair, at most
    core: int = 8  # components of which all choices are tried


WIDE_FRONTS = WideFrontSettings()
