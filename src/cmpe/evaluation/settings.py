"""Settings of the search for the best constant answer."""

from __future__ import annotations

from typing import NamedTuple


class ConstantSettings(NamedTuple):
    """What tunes the search for the best constant answer.

    They were chosen by hand on the paper's models.
    """

    # Of violations that candidates aim at.
    rates: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.0)
    allowed: float = 0.01  # rate of violations of the constant that stands for all
    rows: int = 10_000  # training rows that constants are chosen on, at most
    chunk: int = 512  # rows of one call
    some_rows: int = 8  # whose answers are candidates where means are not log-linear
    forbidden: float = -100.0  # nats that a potential of 0 counts as in a mean


CONSTANT = ConstantSettings()
