"""What the contestants of a race earned, and who plays next.

A contestant earns the nats by which answer and bound came closer during its turns. Its share of the
time follows its rate, nats a second, what was earned lately counting more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cmpe.solvers.wide.turns import Contestant

TURN = 1.0  # paces: the first turn of a contestant; each of its turns is longer
LONGER = 1.4
LEAST, LEAST_SEARCH = 0.2, 1.0  # of what the most successful gets; bounds earn more easily
SLOW = 0.05  # of what would close the gap by the limit: who earns less has earned nothing
FADING = 0.3  # of what was earned before, after a turn


@dataclass
class Account:
    """A contestant, what it earned lately, and how long it played."""

    contestant: Contestant
    rate: float = 0.0
    played: float = 0.0
    turns: int = 0
    least: float = LEAST

    @property
    def paces(self) -> float:
        """How long its next turn is."""
        return TURN * LONGER**self.turns

    def note(self, earned: float, spent: float, meant: float) -> None:
        """A turn of `spent` seconds earned so much, and was meant to last `meant` seconds."""
        self.rate = FADING * self.rate + (1 - FADING) * max(0.0, earned) / spent
        self.played += min(spent, 2.0 * meant)  # making a split takes longer
        self.turns += 1


def next_of(accounts: Sequence[Account], enough: float) -> Account:
    """The one that played least for what it earned; a rate of `enough` would close the gap."""
    most = max(*(a.rate for a in accounts), SLOW * enough, 1e-12)
    return min(accounts, key=lambda a: a.played / max(a.least, a.rate / most))
