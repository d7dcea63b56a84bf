"""What tunes the torch back-end."""

from __future__ import annotations

from typing import NamedTuple


class TensorSettings(NamedTuple):
    """What tunes the torch back-end.

    They were chosen by hand; `benchmarks.device` measures what a change does.
    """

    # Damped max-product.
    rounds: int = 15  # changes of the multipliers
    sweeps: int = 3  # of messages between two changes
    damping: float = 0.5  # share of the old message
    # A multiplier's step, in `BatchTables.units`.
    first_step: float = 0.1
    longest_step: float = 1.0
    doubled: float = 2.0  # factor while the sign has never changed
    longer: float = 1.1  # factor while the sign stays
    shorter: float = 0.6  # factor when the sign changes
    # Loops.
    moves: int = 20  # of a row per free variable, at most
    rows_checked: int = 8  # steps between two removals of finished rows
    clock_checked: int = 16  # steps between two looks at the clock and the device


TENSOR = TensorSettings()
