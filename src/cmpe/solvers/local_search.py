"""`local`: repair any assignment at the least loss, then improve it move by move.

No proof and no training: microseconds a row. It is what learned answers have to beat, and the
last step of the methods that make starts (Lagrangian relaxation, networks).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.errors import Interrupted, MethodError
from cmpe.models.conditioning import Conditioning, Gather
from cmpe.models.flat import Floats, Integers
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import FREE, Assignments, Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.rows import Limits, Running

CHUNK = 512  # rows of one compiled call
PADDING = 1e-9  # of max(1, |q|): the search adds up tables in another order than the problem


class Graph(NamedTuple):
    """Which moves there are and which tables they touch, as arrays for compiled code.

    Variables are numbered as in `Conditioning.free`, tables as its scopes; a slot is one value
    of one variable. Tables of one variable need no arcs and no places: no other move sees them.
    """

    entries: int  # of all tables
    offsets: Integers  # (T,): where each table starts
    free: Integers  # (F,): the variables' numbers in the problem
    owner: Integers  # (S,): the variable of each slot
    variables: Integers  # (F + 1, 3): first slot, first arc, first place
    all_places: Integers  # (., 3): variable, table, stride
    places: Integers  # (., 2): table and stride, by variable
    arcs: Integers  # (., 6): table, own stride; the other's stride, number, first slot, values
    pairs: Integers  # (Q + 1, 3): two variables of one table, first link
    links: Integers  # (., 3): table, stride of the one, stride of the other

    @classmethod
    def of(cls, structure: Conditioning) -> Graph:
        """Index the tables that evidence leaves by variable and by pair of variables."""
        free = structure.free
        number = {v: i for i, v in enumerate(free)}
        layout = structure.layout
        cards = [structure.cardinalities[v] for v in free]
        slots = np.concatenate([[0], np.cumsum(cards, dtype=np.int64)])
        everywhere: list[tuple[int, int, int]] = []
        places: list[list[tuple[int, int]]] = [[] for _ in free]
        arcs: list[list[tuple[int, ...]]] = [[] for _ in free]
        links: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for f, scope in enumerate(structure.scopes):
            strides = layout.strides[layout.starts[f] : layout.starts[f + 1]].tolist()
            axes = [(number[v], stride) for v, stride in zip(scope, strides, strict=True)]
            everywhere.extend((v, f, stride) for v, stride in axes)
            for v, stride in axes if len(axes) > 1 else ():
                places[v].append((f, stride))
                for u, other in axes:
                    if u != v:
                        arcs[v].append((f, stride, other, u, int(slots[u]), cards[u]))
                    if u > v:
                        links.setdefault((v, u), []).append((f, stride, other))
        return cls(
            entries=len(layout.values),
            offsets=layout.offsets[:-1].copy(),
            free=np.asarray(free, dtype=np.int64),
            owner=np.repeat(np.arange(len(free)), cards).astype(np.int64),
            variables=np.stack([slots, _starts(arcs), _starts(places)], axis=1),
            all_places=_table(everywhere, 3),
            places=_table([p for own in places for p in own], 2),
            arcs=_table([a for own in arcs for a in own], 6),
            pairs=_table(
                [
                    (*pair, start)
                    for pair, start in zip([*links, (0, 0)], _starts(list(links.values())).tolist(), strict=True)
                ],
                3,
            ),
            links=_table([link for own in links.values() for link in own], 3),
        )


def _starts(lists):
    return np.concatenate([[0], np.cumsum([len(x) for x in lists], dtype=np.int64)]).astype(np.int64)


def _table(rows, columns):
    return np.asarray(rows, dtype=np.int64).reshape(-1, columns)


def merged(gathers, entries):
    return Gather(
        np.concatenate([g.values for g in gathers]),
        _chained([g.offsets for g in gathers]),
        _chained([g.starts for g in gathers]),
        np.concatenate([g.columns for g in gathers]),
        np.concatenate([g.strides for g in gathers]),
        _chained([g.entries for g in gathers]),
        np.concatenate([g.steps for g in gathers]),
        np.concatenate([g.targets + k * entries for k, g in enumerate(gathers)]),
    )


def _chained(starts):
    """Start positions of lists laid end to end: the last of each part is the first of the next."""
    parts, base = [np.zeros(1, dtype=np.int64)], 0
    for part in starts:
        parts.append(part[1:] + base)
        base += int(part[-1])
    return np.concatenate(parts)


def improve(instances, assignments, *, sweeps=3, pair_moves=True, seed=0, steps=50):
    from cmpe.solvers import local_search_kernels as kernels
    problem = instances.problem
    c = problem.conditioning
    st = cache.get(c)
    if st is None:
        st = cache[c] = (Graph.of(c), merged(c.gathers, len(c.layout.values)))
    graph, gather = st
    out = np.array(assignments, dtype=np.int32)
    out[:, list(problem.evidence_variables)] = instances.evidence
    zeros = np.full(1 + len(problem.constraints), -1)
    k = len(zeros)
    for i, f in enumerate(problem.functions):
        if not f.is_finite:
            zeros[i] = k; k += 1
    limits = problem.limits + problem.tolerances - PADDING * np.maximum(1, np.abs(problem.limits))
    seeds = np.arange(len(out)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed*1000003 + 12345)
    kernels.search(instances.evidence, gather, graph, limits, np.ones(len(limits)), zeros, seeds, np.array([steps, sweeps if pair_moves else 0, 1, 1]), out)
    return out
cache = WeakKeyDictionary()
