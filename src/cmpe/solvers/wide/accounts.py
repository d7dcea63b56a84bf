"""The gains of the contestants of a race, and the choice of the next one.

A contestant earns the nats by which answer and bound came closer during its turns. Its share of the
time follows its rate, nats a second, what was earned lately counting more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cmpe.solvers.wide.settings import SETTINGS
from cmpe.solvers.wide.turns import Contestant


@dataclass
class Account:
    """A contestant, what it earned lately, and how long it played."""

    contestant: Contestant
    least: float = SETTINGS.least  # share of what the most successful gets
    slack: float = 0.0  # the same while nobody closes the gap in time
    rate: float = 0.0
    played: float = 0.0

    def note(self, earned: float, spent: float, meant: float) -> None:
        """A turn of `spent` seconds earned so much, and was meant to last `meant` seconds."""
        fading = SETTINGS.fading
        self.rate = fading * self.rate + (1 - fading) * max(0.0, earned) / spent
        self.played += min(spent, 2.0 * meant)  # making a split takes longer


def next_of(accounts: Sequence[Account], enough: float) -> Account:
    """The one that played least for what it earned; the rate `enough` closes the gap in time."""
    most = max(*(a.rate for a in accounts), SETTINGS.slow * enough, 1e-12)
    slack = min(1.0, enough / most)

    def share(account: Account) -> float:
        return max(account.least, slack * account.slack, account.rate / most)

    return min(accounts, key=lambda a: a.played / share(a))
