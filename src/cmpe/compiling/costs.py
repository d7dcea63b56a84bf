"""What a first use compiles and about how long it takes: measured, to be told to people.

    python -m benchmarks.compiling

prints these numbers for the machine it runs on. `exact`, `auto` and `search` are measured, on two
busy cores; the others are rounded guesses from what shares their code. They are for a message and
a bar, and nothing depends on them.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """A first use with an empty cache."""

    functions: int  # of this package
    seconds: int  # of one core


COSTS = {
    "auto": Cost(47, 27),
    "bounds": Cost(60, 20),
    "cutset networks": Cost(60, 30),
    "exact": Cost(47, 26),
    "fronts": Cost(100, 60),
    "lagrangian": Cost(60, 25),
    "local": Cost(40, 20),
    "sampling": Cost(10, 5),
    "search": Cost(124, 53),
    "training": Cost(40, 20),
    "wide": Cost(150, 70),
}
