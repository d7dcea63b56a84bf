"""Measured estimates of the time that the first use of an engine compiles.

    python -m benchmarks.compiling

prints such numbers for the machine it runs on. The seconds here lie between those of two servers,
an AMD EPYC and an Intel Xeon that takes about 1.6 times as long. They are for a message and a bar,
and nothing depends on them.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """A first use with an empty cache."""

    functions: int  # of this package
    seconds: int  # of one core


COSTS = {
    "attacks": Cost(16, 4),
    "auto": Cost(59, 14),
    "best": Cost(84, 20),
    "bounds": Cost(54, 20),
    "cutset networks": Cost(72, 20),
    "exact": Cost(59, 14),
    "front": Cost(79, 21),
    "fronts": Cost(154, 42),
    "lagrangian": Cost(93, 24),
    "local": Cost(34, 9),
    "sampling": Cost(11, 4),
    "search": Cost(104, 22),
    "sensitivity": Cost(123, 30),
    "structures": Cost(8, 2),
    "training": Cost(51, 18),
    "wide": Cost(187, 42),
}
