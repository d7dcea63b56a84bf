"""A cutset network over a wider domain: variables renumbered, states reordered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cmpe.arrays import FREE, Indices

if TYPE_CHECKING:
    from cmpe.domain import Placement
    from cmpe.models.tractable.cutset import CutsetNetwork


def placed(network: CutsetNetwork, placement: Placement) -> CutsetNetwork:
    """The same function over `placement.domain`: further variables are roots without weight."""
    domain, places = placement.domain, np.array(placement.variables)
    ordered = _in_order(network, placement) if any(placement.states) else network
    leaves, count, widest = network.leaves, domain.variables, max(domain.cardinalities)
    contexts = np.full((leaves, count), FREE, dtype=np.int32)
    parents = np.full((leaves, count), FREE, dtype=np.int32)
    tables = np.zeros((leaves, count, widest, widest))
    contexts[:, places] = ordered.contexts
    parents[:, places] = np.where(ordered.parents >= 0, places[ordered.parents], FREE)
    narrow = ordered.log_tables.shape[-1]
    tables[:, places, :narrow, :narrow] = ordered.log_tables
    return replace(
        network,
        cardinalities=domain.cardinalities,
        contexts=contexts,
        parents=parents,
        log_tables=tables,
        names=domain.names,
        states=domain.states,
    )


def _in_order(network: CutsetNetwork, placement: Placement) -> CutsetNetwork:
    """The same variables with their states in the placement's order."""
    widest = network.log_tables.shape[-1]
    orders = [_padded(order, widest) for order in placement.states]
    contexts = network.contexts.copy()
    tables = network.log_tables.copy()
    for v, order in enumerate(orders):
        back = np.argsort(order)
        contexts[:, v] = np.where(contexts[:, v] >= 0, back[contexts[:, v]], FREE)
        for leaf in range(network.leaves):
            parent = int(network.parents[leaf, v])
            rows = orders[parent] if parent >= 0 else np.arange(widest)
            tables[leaf, v] = tables[leaf, v][np.ix_(rows, order)]
    return replace(network, contexts=contexts, log_tables=tables)


def _padded(order: tuple[int, ...] | None, widest: int) -> Indices:
    """The order of the states, followed by places that the variable does not use."""
    known = order or ()
    return np.array([*known, *range(len(known), widest)], dtype=np.intp)
