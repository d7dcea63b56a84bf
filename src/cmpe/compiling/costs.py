"""What a first use compiles and about how long it takes: measured, to be told to people.

    python -m benchmarks.compiling

prints these numbers for the machine it runs on. They are estimates for a message and a bar, and
nothing depends on them.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """A first use with an empty cache."""

    functions: int  # of this package
    seconds: int  # of one core


COSTS = {
    "auto": Cost(60, 40),
    "exact": Cost(60, 40),
}
