"""The message of one table to one of its variables, for LANES rows at once.

    m(x) = T log of the sum over the table's other variables of exp((table + incoming) / T),

where `incoming` is the sum of the messages that those variables receive from other tables.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import load, minus, most, plus, soft, spread, store, times


@njit(inner=True, counted=False)
def soft_message(messages, work, cavity, size, axis, how):
    """The message of a table to the variable of one of its axes; its largest number becomes 0.

    Arrays have rows of LANES numbers. `work` is the table plus the incoming messages of all its
    variables; those of the variable itself, in `cavity`, are subtracted from the soft maxima.
    `axis` has the first row of the message, the number of values, their stride in the table, and
    the first row in `cavity`. `how` has T, 1 / T, and the share of the old message that stays.
    """
    first, card, stride, taken_off = axis
    warm, inverse, damping = how
    top = spread(np.float32(-1e30))
    for value in range(card):
        total = load(work, value * stride)
        for begin in range(value * stride, size, card * stride):
            for e in range(begin, begin + stride):
                if e != value * stride:
                    total = soft(total, load(work, e), warm, inverse)
        total = minus(total, load(cavity, taken_off + value))
        store(work, size + value, total)
        top = most(top, total)
    for value in range(card):
        new = minus(load(work, size + value), top)
        old = load(messages, first + value)
        store(messages, first + value, plus(new, times(damping, minus(old, new))))
