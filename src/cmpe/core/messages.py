"""The message of one table to one of its variables, for LANES rows at once.

    m(x) = T log of the sum over the table's other variables of exp((table + heard) / T),

where `heard` is what all its variables heard from other tables, less what x heard itself.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import load, minus, most, plus, soft, spread, store, times


@njit(inner=True, counted=False)
def soft_message(messages, work, cavity, size, axis, how):
    """What a table says to one of its axes: soft maxima less what was heard, the largest number 0.

    Rows of LANES numbers. `work` is the table with all that was heard added, `axis` the first row
    in the messages, the number of values, their stride, and the first row in `cavity`, which is
    what the axis heard; `how` is the temperature, 1 / that, and the share of the old message.
    """
    first, card, stride, heard = axis
    warm, inverse, damping = how
    top = spread(np.float32(-1e30))
    for value in range(card):
        total = load(work, value * stride)
        for begin in range(value * stride, size, card * stride):
            for e in range(begin, begin + stride):
                if e != value * stride:
                    total = soft(total, load(work, e), warm, inverse)
        total = minus(total, load(cavity, heard + value))
        store(work, size + value, total)
        top = most(top, total)
    for value in range(card):
        new = minus(load(work, size + value), top)
        old = load(messages, first + value)
        store(messages, first + value, plus(new, times(damping, minus(old, new))))
