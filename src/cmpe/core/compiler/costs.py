"""What a first use compiles and about how long it takes: measured, to be told to people.

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
    "attacks": Cost(16, 3),
    "auto": Cost(59, 9),
    "best": Cost(84, 13),
    "bounds": Cost(54, 13),
    "cutset networks": Cost(72, 13),
    "exact": Cost(59, 9),
    "front": Cost(79, 14),
    "fronts": Cost(154, 28),
    "lagrangian": Cost(93, 16),
    "local": Cost(34, 6),
    "sampling": Cost(11, 3),
    "search": Cost(104, 15),
    "sensitivity": Cost(123, 20),
    "training": Cost(51, 12),
    "wide": Cost(187, 28),
}
