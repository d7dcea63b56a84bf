"""Compiled assignments: variables take different columns, the sum of their scores is greatest.

Each variable takes one of the columns, which are for one variable each, or its private column if it
has one. Variables are added one after another by a shortest augmenting path (Jonker and Volgenant
1987). Any prices p >= 0 of the columns prove a bound:

    maximum  <=  sum over columns of p_j  +  sum over variables of max over columns of s_ij - p_j

so nothing depends on the rounding of the paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit

SLACK = 1e-14  # of the sum of all absolute numbers in a bound


class AssignmentRoom(NamedTuple):
    """Working memory for one row; columns after the shared ones are private."""

    owner: Integers  # (columns,) the variable that has each column, -1 for none
    price: Floats  # (columns,) minus the price
    profit: Floats  # (n,) what each variable has at these prices
    least: Floats  # (columns,) the length of the shortest path to each column
    before: Integers  # (columns,) the column before it on that path, -1 for none
    done: Integers  # (columns,) whether that length is final


@njit(inner=True, nogil=True)
def _cost(scores, private, i, j):
    """Minus the score of variable i in column j."""
    shared = scores.shape[1]
    if j < shared:
        return -scores[i, j]
    return -private[i] if j == shared + i else np.inf


@njit(inner=True, nogil=True)
def _add(scores, private, room, first):
    """Give variable `first` a column, others may move; whether it is possible."""
    columns, shared = len(room.owner), scores.shape[1]
    for j in range(columns):
        room.least[j] = np.inf
        room.before[j] = -1
        room.done[j] = 0
    i, at = first, -1
    while True:
        step, following = np.inf, -1
        for j in range(columns):
            if room.done[j] == 1:
                continue
            if j < shared or j == shared + i:
                length = _cost(scores, private, i, j) - room.profit[i] - room.price[j]
                if length < room.least[j]:
                    room.least[j] = length
                    room.before[j] = at
            if room.least[j] < step:
                step, following = room.least[j], j
        if following < 0:
            return False
        for j in range(columns):
            if room.done[j] == 1:
                room.profit[room.owner[j]] += step
                room.price[j] -= step
            else:
                room.least[j] -= step
        room.profit[first] += step
        room.done[following] = 1
        at = following
        i = room.owner[at]
        if i < 0:
            break
    while at >= 0:
        previous = room.before[at]
        room.owner[at] = first if previous < 0 else room.owner[previous]
        at = previous
    return True


@njit(inner=True, nogil=True)
def _assign(scores, private, room, chosen):
    """One row: the column of each variable and the bound, -inf where there is no assignment."""
    n, shared = scores.shape
    room.owner[:] = -1
    room.price[:] = 0.0
    room.profit[:] = 0.0
    for i in range(n):
        if not _add(scores, private, room, i):
            return -np.inf
    bound, size = 0.0, 0.0
    for j in range(len(room.owner)):
        if room.owner[j] >= 0:
            chosen[room.owner[j]] = j
        bound -= room.price[j]
        size += abs(room.price[j])
    for i in range(n):
        best = private[i] + room.price[shared + i]
        for j in range(shared):
            best = max(best, scores[i, j] + room.price[j])
        bound += best
        size += abs(best)
    return bound + SLACK * size


@njit(nogil=True)
def assign_rows(scores, private, chosen, bounds):
    """The best columns of each row (B, n) and a bound, which is -inf where a row has no answer.

    `scores` (B, n, columns) and `private` (B, n) are finite, or -inf where a column is not allowed.
    Column `columns + i` is the private one of variable i.
    """
    n, columns = chosen.shape[1], scores.shape[2] + chosen.shape[1]
    room = AssignmentRoom(
        np.zeros(columns, dtype=np.int64),
        np.zeros(columns),
        np.zeros(n),
        np.zeros(columns),
        np.zeros(columns, dtype=np.int64),
        np.zeros(columns, dtype=np.int64),
    )
    for row in range(len(chosen)):
        bounds[row] = _assign(scores[row], private[row], room, chosen[row])
