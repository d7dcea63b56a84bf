"""What is known of an answer."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """What is known of one answer; `sentence` says it to a person."""

    OPTIMAL = 0
    FEASIBLE = 1
    INFEASIBLE = 2
    VIOLATED = 3
    UNKNOWN = 4

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The word used in files and tables."""
        return self.name.lower()

    @property
    def sentence(self) -> str:
        """What the status means."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.OPTIMAL: "proved: no feasible assignment has a higher objective",
    Status.FEASIBLE: "satisfies every constraint; a better assignment may exist below the bound",
    Status.INFEASIBLE: "proved: no assignment satisfies every constraint",
    Status.VIOLATED: "the best assignment found breaks a constraint",
    Status.UNKNOWN: "a limit was reached and no assignment of non-zero weight was found",
}
