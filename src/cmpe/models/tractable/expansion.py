"""A cutset network as one log-linear model.

Every table T_l,v of leaf l becomes a table over the path of l, the parent and v, which is 0
outside the context of l; tables of equal scope are added up. Each variable of the path multiplies
the entries, so this is for shallow networks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cmpe.errors import TooLarge
from cmpe.models.loglinear import Factor, LogLinearModel

if TYPE_CHECKING:
    from cmpe.arrays import Assignments
    from cmpe.models.tractable.cutset import CutsetNetwork


def expanded(network: CutsetNetwork, most_entries: int) -> LogLinearModel:
    """The same function as tables; more than `most_entries` entries in all are refused.

    A single leaf is a Chow-Liu tree: one function per variable, and nothing is merged.
    """
    cards = network.cardinalities
    if network.leaves == 1:
        return network.leaf_model(0)
    entries = expanded_entries(network)
    if entries > most_entries:
        raise TooLarge(
            f"a cutset network of {network.leaves} leaves and depth {network.depth} expands to "
            f"{entries} table entries; the limit is {most_entries}"
        )
    factors = [
        _within(cards, context, factor)
        for leaf, context in enumerate(network.contexts)
        for factor in network.leaf_model(leaf).factors
    ]
    return LogLinearModel(cards, tuple(factors), network.names, network.states).merged()


def expanded_entries(network: CutsetNetwork) -> int:
    """How many entries the tables have, before those of equal scope are merged."""
    cards = np.array(network.cardinalities, dtype=object)  # whole numbers of any size
    own = network.used.sum(axis=(1, 2, 3)) + 1
    return sum(
        math.prod(cards[context >= 0]) * int(size)
        for context, size in zip(network.contexts, own, strict=True)
    )


def _within(cards: tuple[int, ...], context: Assignments, factor: Factor) -> Factor:
    """The factor where the context holds, 0 elsewhere."""
    path = tuple(int(v) for v in np.flatnonzero(context >= 0))
    scope = (*path, *factor.scope)
    table = np.zeros([cards[v] for v in scope])
    table[tuple(int(context[v]) for v in path)] = factor.log_table
    return Factor(scope, table)
