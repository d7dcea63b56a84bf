"""What a first use compiles and about how long it takes: measured, to be told to people.

    python -m benchmarks.compiling

prints these numbers for the machine it runs on. `exact`, `auto` and `search` are kept results;
`fronts` and `wide` were seen once on a busy machine, the others are guesses from what shares their
code. They are for a message and a bar, and nothing depends on them.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """A first use with an empty cache."""

    functions: int  # of this package
    seconds: int  # of one core


COSTS = {
    "auto": Cost(58, 11),
    "bounds": Cost(60, 15),
    "cutset networks": Cost(60, 20),
    "exact": Cost(58, 11),
    "fronts": Cost(102, 32),
    "lagrangian": Cost(60, 18),
    "local": Cost(40, 14),
    "sampling": Cost(10, 4),
    "search": Cost(104, 21),
    "training": Cost(40, 14),
    "wide": Cost(150, 42),
}
