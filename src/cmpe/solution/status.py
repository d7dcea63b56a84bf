"""The status of an answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, SupportsInt

import numpy as np


class Status(StrEnum):
    """The status of one answer, as a word; `sentence` explains it.

    `Solutions.status` holds one whole number per row, its `code`. A status equals its word and its
    code: `answers.status == Status.OPTIMAL` marks rows, and JSON has the word.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    __array_ufunc__ = None  # numpy leaves the comparison of an array with a status to the status

    @classmethod
    def of(cls, code: SupportsInt) -> Status:
        """The status that a number stands for; `Status(code)` is the same."""
        return list(cls)[int(code)]

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        if isinstance(value, (int, np.integer)) and 0 <= value < len(cls):
            return cls.of(value)
        return None

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return str.__eq__(self, other)
        return self.code == other

    def __ne__(self, other: object) -> Any:
        if isinstance(other, str):
            return str.__ne__(self, other)
        return self.code != other

    def __hash__(self) -> int:
        """That of the code, so that a set of statuses contains the codes of `Solutions.status`."""
        return hash(self.code)

    def __int__(self) -> int:
        return self.code

    @property
    def code(self) -> int:
        """The number that stands for the status in `Solutions.status`."""
        return list(Status).index(self)

    @property
    def label(self) -> str:
        """The word used in files and tables."""
        return self.value

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
