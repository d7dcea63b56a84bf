"""The pool of `search`: induced subgraphs of bounded width, made once per structure.

Global members cover what an elimination of the whole graph keeps within the limit; balls do the
same around one vertex with a higher limit. Rows and problems of the same structure share them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Integers
from cmpe.core.compiler import timing
from cmpe.core.search.settings import SETTINGS
from cmpe.elimination.orders import neighbours_of
from cmpe.models.conditioning import Conditioning
from cmpe.solvers.local.graph import starts_of

MOST_VALUES = 256  # of a variable that members hold: choices are bytes


class MemberKind(NamedTuple):
    """Members that are made alike."""

    bits: float  # log2 of the largest message
    vertices: int  # of a ball; 0 is the whole graph
    number: int


class Pool(NamedTuple):
    """All members end to end (see `member_kernels.Member`); one row of `members` each."""

    members: Integers  # (M, 10)
    buckets: Integers
    axes: Integers
    inputs: Integers
    jumps: Integers
    pieces: Integers
    steps: Integers
    frozen: Integers
    folds: Integers
    touched: Integers
    work: Integers  # (M,): entries of the member's messages and tables


class Subgraphs(NamedTuple):
    """A pool with what compiled code needs beside it."""

    pool: Pool
    layout: Any  # member_kernels.Tables
    groups: tuple[NDArray[np.int64], ...]  # the members of each kind
    sizes: Integers  # (3,): rows of the largest member, of its choices, most inputs of a bucket


class PoolMaker:
    """A pool on its way; each kind has random numbers of its own, so that breaks change nothing."""

    def __init__(self, structure: Conditioning, kinds: Sequence[MemberKind], seed: int) -> None:
        self._layout = tables_of(structure)
        self._starts, self._near = adjacency(structure)
        self._kinds = kinds
        self._bits = np.log2(self._layout.cards)
        self._small = self._layout.cards <= MOST_VALUES
        random = np.random.SeedSequence(seed).generate_state(max(1, len(kinds)), np.uint64)
        self._random = (random | np.uint64(1)).reshape(-1, 1)
        self._members: list[list[Any]] = [[] for _ in kinds]
        self._whole = [
            False for _ in kinds
        ]  # the whole graph is within the limit: that says it all
        self._pool: Subgraphs | None = None

    def made(self, until: float) -> Subgraphs:
        """What there is of it at a moment of `timing.now`; another call goes on from there.

        Every kind has its part of the time, and a member at least.
        """
        begin = timing.now()
        for turn in range(len(self._kinds)):
            over = begin + (until - begin) * (turn + 1) / len(self._kinds)
            while self._wants(turn) and not (self._members[turn] and timing.now() >= over):
                self._add(turn)
                self._pool = None
        if self._pool is None:
            ends = np.cumsum([0, *map(len, self._members)])
            groups = [np.arange(a, b) for a, b in pairwise(ends.tolist())]
            self._pool = _joined([m for own in self._members for m in own], self._layout, groups)
        return self._pool

    def _wants(self, turn: int) -> bool:
        """Whether this kind is to have another member."""
        if self._whole[turn] or not len(self._bits):
            return False
        return len(self._members[turn]) < self._kinds[turn].number

    def _add(self, turn: int) -> None:
        from cmpe.core.search import members, subgraphs

        kind, random, bits = self._kinds[turn], self._random[turn], self._bits
        allowed = np.flatnonzero(self._small)
        if 0 < kind.vertices < len(bits):
            allowed = subgraphs.ball(self._starts, self._near, kind.vertices, random)
            allowed = allowed[self._small[allowed]]
        order = subgraphs.grow(self._starts, self._near, bits, allowed, kind.bits, random)
        self._members[turn].append(members.lay_out(order, self._layout))
        self._whole[turn] = len(order) == len(bits)


_POOLS: OrderedDict[object, PoolMaker] = OrderedDict()


def subgraphs(
    structure: Conditioning, kinds: Sequence[MemberKind], seed: int = 0, until: float = np.inf
) -> Subgraphs:
    """The pool of a structure, as far as it is made by then (`PoolMaker.made`)."""
    return pool_maker(structure, kinds, seed).made(until)


def pool_maker(structure: Conditioning, kinds: Sequence[MemberKind], seed: int = 0) -> PoolMaker:
    """Who makes the pool of a structure; a structure met again, in any problem, gets the same."""
    key = (structure.cardinalities, structure.free, structure.scopes, tuple(kinds), seed)
    if key not in _POOLS:
        _POOLS[key] = PoolMaker(structure, kinds, seed)
        while len(_POOLS) > SETTINGS.pools:
            _POOLS.popitem(last=False)
    _POOLS.move_to_end(key)
    return _POOLS[key]


def tables_of(structure: Conditioning) -> Any:
    """The layout of the tables by free variable."""
    from cmpe.core.search.members import Tables

    number = {v: i for i, v in enumerate(structure.free)}
    flat = structure.layout
    variables = np.array([number[int(v)] for v in flat.variables], dtype=np.int64)
    table = np.repeat(np.arange(flat.count), np.diff(flat.starts))
    order = np.argsort(variables, kind="stable")
    return Tables(
        np.array([structure.cardinalities[v] for v in structure.free], dtype=np.int64),
        flat.offsets,
        flat.starts,
        variables,
        flat.strides,
        starts_of(np.bincount(variables, minlength=len(number))),
        table[order].astype(np.int64),
    )


def adjacency(structure: Conditioning) -> tuple[Integers, Integers]:
    """The interaction graph of the free variables, as (starts, neighbours)."""
    number = np.full(len(structure.cardinalities), -1, dtype=np.int64)
    number[list(structure.free)] = np.arange(len(structure.free))
    return neighbours_of(number, len(structure.free), structure.scopes)


def _joined(members: Sequence[Any], layout: Any, groups: Sequence[Integers]) -> Subgraphs:
    """Members end to end: what points into a list moves by where the member's part starts."""
    from cmpe.core.search import members as columns

    def together(name: str, shifts: dict[int, str] | None = None) -> Integers:
        parts = []
        for number, member in enumerate(members):
            part = np.array(getattr(member, name))
            for column, target in (shifts or {}).items():
                part[:, column] += at[target][number]
            parts.append(part)
        return np.concatenate(parts) if parts else np.zeros((0, 11), dtype=np.int64)

    names = ("buckets", "axes", "inputs", "jumps", "pieces", "steps", "frozen", "folds", "touched")
    at = {
        name: starts_of(np.array([len(getattr(m, name)) for m in members], int)) for name in names
    }
    lists = ("buckets", "pieces", "folds", "touched")
    rows = [
        [*(at[name][k + d] for name in lists for d in (0, 1)), *m.sizes[:2].tolist()]
        for k, m in enumerate(members)
    ]
    pool = Pool(
        np.array(rows, dtype=np.int64).reshape(-1, 10),
        together(
            "buckets", {columns.AXES: "axes", columns.INPUTS: "inputs", columns.JUMPS: "jumps"}
        ),
        together("axes"),
        together("inputs"),
        together("jumps"),
        together("pieces", {columns.STEPS: "steps", columns.FROZEN: "frozen"}),
        together("steps"),
        together("frozen"),
        together("folds"),
        together("touched"),
        np.array([m.sizes[2] for m in members], dtype=np.int64),
    )
    most = pool.buckets[:, columns.INPUT_COUNT].max(initial=1)
    largest = np.array([m.sizes[2:] for m in members] or [[1, 1]]).max(axis=0)
    sizes = np.array([*largest, most], dtype=np.int64)
    return Subgraphs(pool, layout, tuple(groups), sizes)
