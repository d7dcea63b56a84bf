"""The starts of `search`: rounds of messages, as many as the time allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.arrays import Integers
from cmpe.core.search.settings import SETTINGS
from cmpe.solvers.search.schedule import Budget


def rounds_within(layout: Any, budget: Budget, rows: int) -> int:
    """How many rounds a block of rows has time for; 0 where single moves are the quicker start."""
    if budget.seconds is None:
        return SETTINGS.rounds
    arity = np.diff(layout.starts).astype(np.float64)
    work = float((np.diff(layout.offsets) * (1.0 + arity)).sum())
    time = rows * budget.seconds / max(SETTINGS.message_seconds * work, 1e-9)  # in rounds
    if time < SETTINGS.least_rounds and work > SETTINGS.cheap_messages * len(layout.cards):
        return 0
    return int(np.clip(SETTINGS.rounds_share * time, SETTINGS.least_rounds, SETTINGS.rounds))


def message_room(layout: Any, functions: int) -> Any:
    """Nothing is said yet."""
    from cmpe.core.lanes import LANES
    from cmpe.core.search.starts import MessageRoom

    def ends(sizes: Integers) -> Integers:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def lanes(rows: int) -> Any:
        return np.zeros((rows, LANES), dtype=np.float32)

    slots, places = ends(layout.cards), ends(layout.cards[layout.variables])
    largest, longest = np.diff(layout.offsets), np.diff(places[layout.starts])
    return MessageRoom(
        slots,
        places,
        lanes(slots[-1]),
        lanes(places[-1]),
        lanes(int(longest.max(initial=1))),
        lanes(int(largest.max(initial=1)) + int(layout.cards.max(initial=1))),
        lanes(3),
        np.zeros((functions, functions, LANES)),
    )
