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
    "auto": Cost(50, 25),
    "bounds": Cost(50, 20),
    "cutset networks": Cost(20, 10),
    "exact": Cost(50, 25),
    "fronts": Cost(80, 40),
    "lagrangian": Cost(40, 20),
    "local": Cost(40, 20),
    "sampling": Cost(10, 5),
    "search": Cost(100, 45),
    "training": Cost(40, 20),
    "wide": Cost(120, 60),
}
