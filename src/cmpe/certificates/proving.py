"""Proofs of claimed bounds: cubes, multipliers and messages, as `checker` reads them.

A cube whose Lagrangian dual is at most the claim is proved: by elimination of h - mu t, whose
messages are what moves between the buckets. Another cube is split by a variable in which the
assignments differ that set its dual. All cubes of all rows are bounded together: a cube is a row
with log-potentials of its own, which are -inf for the values that it excludes. A cube is tried with
the multipliers of the cube that it is a part of, so that most of their messages are the same.

Rows that are too wide for elimination, or need too many cubes, are proved by `trees`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.certificates.proofs import Clustering, Cube, Message, Proof, Values, Where
from cmpe.certificates.trees import CubeTree
from cmpe.models.loglinear import Factor
from cmpe.problem import Instances, Problem
from cmpe.problem.groups import by_observed
from cmpe.problem.rows import Potential, Rows

MOST_CUBES = 2000  # rows that need more by elimination are proved by a tree
MOST_ENTRIES = 1 << 20  # the messages of one cube have at most so many
MOST_KEPT = 1 << 25  # numbers in the messages of all cubes of a row
BLOCK, BLOCK_ENTRIES = 256, 1 << 23  # cubes that are bounded at once, and their messages' entries
ROOM = 1e-11  # The rounding of the checker takes at most such a share of all numbers.


class _OpenPart(NamedTuple):
    """A cube of a row that is not proved yet."""

    row: int
    where: Where
    multipliers: Floats | None = None  # Those of the cube that this one is a part of.


def prove(rows: Rows, claims: Floats) -> list[Proof]:
    """Prove of each row that no feasible objective is above its claim; inf claims nothing.

    -inf claims that no assignment is feasible. The problem must be made of tables.
    """
    proofs = [Proof() for _ in claims]
    bounded = np.flatnonzero(np.isfinite(claims)).tolist()
    _Prover(rows, claims, proofs).run([_OpenPart(i, ()) for i in bounded])
    infeasible = np.flatnonzero(np.isneginf(claims)).tolist()
    if infeasible:
        zero = np.zeros(len(claims))
        _Prover(_without_objective(rows), zero, proofs, True).run(
            [_OpenPart(i, ()) for i in infeasible]
        )
    for i in np.flatnonzero(np.isposinf(claims)).tolist():
        proofs[i].failure = "no bound is claimed"
    return proofs


def _without_objective(rows: Rows) -> Rows:
    """The same rows with an objective of 0 where it is not -inf."""
    problem = rows.problem
    own = tuple(Potential(p.scope, _support(p.values)) for p in rows.potentials)
    h = problem.models[0]
    support = replace(h, factors=tuple(Factor(f.scope, _support(f.log_table)) for f in h.factors))
    other = Problem(support, problem.constraints, problem.evidence_variables)
    return replace(rows, problem=other, potentials=own)


def _support(table: Floats) -> Floats:
    return np.where(table > -np.inf, 0.0, -np.inf)


class _Cubes(NamedTuple):
    """Cubes as rows, their multipliers, and whether 0 stands in place of h."""

    instances: Instances
    where: list[Where]
    multipliers: Floats  # (N, m)
    infeasible: bool


class _Messages(NamedTuple):
    """Messages (N, ...) of every move, and what they prove."""

    moved: list[Floats]
    bound: Floats  # (N,)

    def cube(self, i: int, structure: Clustering, asked: _Cubes) -> Cube:
        """The proof of one cube."""
        where = asked.where[i]
        pairs = zip(self.moved, structure.moves, strict=True)
        moved = [_inside(messages[i], scope, where) for messages, (_, _, scope) in pairs]
        bound = -math.inf if asked.infeasible else float(self.bound[i])
        return Cube(where, asked.multipliers[i], moved, asked.infeasible, bound)


@dataclass
class _Prover:
    """Rows, their claims and what is proved of them so far."""

    rows: Rows
    claims: Floats
    proofs: list[Proof]
    without: bool = False  # the objective: sums below 0 prove that nothing is feasible

    def run(self, nodes: list[_OpenPart]) -> None:
        """Bound all open cubes, and split those that are not proved, until there is none."""
        while nodes:
            split: list[_OpenPart] = []
            for begin in range(0, len(nodes), BLOCK):
                block = nodes[begin : begin + BLOCK]
                for instances, numbers in by_observed(*self._asked(block).asked):
                    part = [block[i] for i in numbers]
                    entries = instances.problem.plan.message_entries
                    each = max(1, BLOCK_ENTRIES // max(1, entries))
                    for first in range(0, len(part) if entries <= MOST_ENTRIES else 0, each):
                        rows = slice(first, first + each)
                        split += self._bounded(instances.take(rows), part[rows])
                    if entries > MOST_ENTRIES:
                        self._grow(instances, part)
            counts = Counter(node.row for node in split)
            many = [r for r, n in counts.items() if n + len(self.proofs[r].cubes) > self._most(r)]
            if many:
                asked = self.rows.take(np.array(many))
                for instances, numbers in by_observed(*asked.asked):
                    self._grow(instances, [_OpenPart(many[i], ()) for i in numbers])
            nodes = [n for n in split if n.row not in many and not self.proofs[n.row].failure]

    def _most(self, row: int) -> int:
        """How many cubes a row may have."""
        cubes = self.proofs[row].cubes
        numbers = sum(message.numbers.size for message in cubes[0].moved) if cubes else 0
        return min(MOST_CUBES, MOST_KEPT // max(1, numbers))

    def _grow(self, instances: Instances, nodes: list[_OpenPart]) -> None:
        """Prove rows that are too wide, each by a tree of its own."""
        for i, node in enumerate(nodes):
            claim = -math.inf if self.without else float(self.claims[node.row])
            self.proofs[node.row] = CubeTree(instances.take(slice(i, i + 1)), claim).proof()

    def _asked(self, nodes: Sequence[_OpenPart]) -> Rows:
        """Each cube as a row: its excluded values have potentials of -inf."""
        rows = self.rows.take(np.array([node.row for node in nodes]))
        masks = _masks([node.where for node in nodes], rows.problem.domain.cardinalities)
        more = [Potential((v,), mask) for v, mask in enumerate(masks) if mask.shape[1] > 1]
        return replace(rows, potentials=(*rows.potentials, *more))

    def _bounded(self, instances: Instances, nodes: list[_OpenPart]) -> list[_OpenPart]:
        """Keep the cubes that are proved; return the parts of the others."""
        structure = Clustering.of(instances.problem.plan)
        parts = [i for i, node in enumerate(nodes) if node.multipliers is not None]
        if parts:
            known = np.stack([node.multipliers for node in nodes if node.multipliers is not None])
            closed = self._closed(instances.take(np.array(parts)), [nodes[i] for i in parts], known)
            rest = np.ones(len(nodes), dtype=bool)
            rest[np.array(parts)[closed]] = False
            instances = instances.take(np.flatnonzero(rest))
            nodes = [node for node, is_open in zip(nodes, rest, strict=True) if is_open]
        if not nodes:
            return []
        dual = lagrangian_dual(instances)
        count = dual.multipliers.shape[1]
        left = ~self._closed(instances, nodes, dual.multipliers)
        for unit in np.vstack([np.zeros(count), np.eye(count)]):
            none = np.flatnonzero(left & dual.infeasible)
            if len(none):
                asked = np.tile(unit, (len(none), 1))
                own = [nodes[i] for i in none]
                left[none[self._closed(instances.take(none), own, asked, True)]] = False
        return [
            part._replace(multipliers=dual.multipliers[i])
            for i in np.flatnonzero(left)
            for part in self._split(nodes[i], dual.feasible[i], dual.violating[i], structure)
        ]

    def _closed(
        self,
        instances: Instances,
        nodes: list[_OpenPart],
        multipliers: Floats,
        without: bool = False,
    ) -> NDArray[np.bool_]:
        """Which cubes are proved under these multipliers; with 0 in place of h, that it is empty.

        Cubes that are proved are kept.
        """
        infeasible = without or self.without
        structure = Clustering.of(instances.problem.plan)
        most = self.claims[np.array([node.row for node in nodes])]
        most = np.zeros(len(nodes)) if infeasible else most
        asked = _Cubes(instances, [node.where for node in nodes], multipliers, infeasible)
        found = eliminated(structure, asked, most)
        holds = found.bound < 0 if infeasible else found.bound <= most
        for i in np.flatnonzero(holds):
            proof = self.proofs[nodes[i].row]
            proof.structure = structure
            proof.cubes.append(found.cube(int(i), structure, asked))
        return holds

    def _split(
        self, node: _OpenPart, low: Indices, high: Indices, structure: Clustering
    ) -> list[_OpenPart]:
        """Parts of a cube by a variable in which its two extreme assignments differ."""
        cards = self.rows.problem.domain.cardinalities
        known = dict(node.where)
        seen = dict.fromkeys(v for cluster in structure.clusters[::-1] for v in cluster)
        free = [v for v in seen if len(known.get(v, range(cards[v]))) > 1]
        if not free:
            self.proofs[node.row].failure = "an assignment exceeds the claim"
            return []
        differ = [v for v in free if low[v] >= 0 and low[v] != high[v]]
        v = (differ or free)[0]
        values = known.get(v, tuple(range(cards[v])))
        picked = list(dict.fromkeys(int(each[v]) for each in (low, high) if each[v] in values))
        rest = tuple(x for x in values if x not in (picked or values[:1]))
        parts = [(x,) for x in picked or values[:1]] + ([rest] if rest else [])
        return [_OpenPart(node.row, (*node.where, (v, part))) for part in parts]


def _inside(message: Floats, scope: Values, where: Where) -> Message:
    """The entries of a message that a cube has."""
    known = dict(where)
    axes = [
        tuple(sorted(known.get(v, range(k)))) for v, k in zip(scope, message.shape, strict=True)
    ]
    return Message(tuple(axes), message[np.ix_(*axes)])


def eliminated(structure: Clustering, asked: _Cubes, claims: Floats) -> _Messages:
    """Eliminate h - mu (t - q) of every row, or with 0 in place of h, keeping all messages."""
    instances, problem = asked.instances, asked.instances.problem
    limits = problem.limits + problem.tolerances
    every = [_filled(structure, instances, f) for f in range(1 + len(limits))]
    clusters = [np.where(h > -np.inf, 0.0, -np.inf) if asked.infeasible else h for h in every[0]]
    bound = (asked.multipliers * limits).sum(axis=1)
    size = abs(bound) + abs(claims) + sum(len(model.factors) for model in problem.models)
    size = size + sum(_most(np.where(np.isfinite(h), abs(h), 0.0)) for h in clusters)
    outside = _outside(structure, asked.where, problem.domain.cardinalities)
    for j, tables in enumerate(every[1:]):
        for k, t in enumerate(_raised(tables, outside, limits[j])):
            priced = asked.multipliers[:, j].reshape(-1, *[1] * (t.ndim - 1)) * t
            size = size + _most(abs(priced))
            clusters[k] = clusters[k] - priced
    position = {origin: (target, scope) for origin, target, scope in structure.moves}
    moved: list[Floats] = []
    floor = -3.0 * (1.0 + size)  # in place of -inf
    for k, cluster in enumerate(structure.clusters):
        if k not in position:
            bound = bound + _most(clusters[k])
            continue
        target, scope = position[k]
        (axis,) = (1 + a for a, v in enumerate(cluster) if v not in scope)
        least = floor.reshape(-1, *[1] * len(scope))
        message = np.maximum(clusters[k].max(axis=axis), least)
        moved.append(message)
        clusters[target] = clusters[target] + _over(structure.clusters[target], scope, message)
        size = size + _most(abs(message))
    return _Messages(moved, bound + ROOM * (1.0 + size))


def _most(table: Floats) -> Floats:
    """The largest entry of each row (N, ...)."""
    return np.asarray(table.reshape(len(table), -1).max(axis=1))


def _raised(tables: list[Floats], outside: list[Floats], limit: float) -> list[Floats]:
    """The tables of t in every cluster, low entries raised as the checker does."""
    highest = [_most(t + each) for t, each in zip(tables, outside, strict=True)]
    most = [np.where(np.isfinite(each), each, 0.0) for each in highest]
    total = np.sum(most, axis=0)
    lows = [np.minimum(own, limit - (total - own)) for own in most]
    return [
        np.maximum(t, low.reshape(-1, *[1] * (t.ndim - 1)))
        for t, low in zip(tables, lows, strict=True)
    ]


def _masks(where: Sequence[Where], cards: Sequence[int]) -> list[Floats]:
    """Of each variable (N, states): -inf for the values that a cube excludes, 0 for others."""
    masks = [np.zeros((len(where), k)) for k in cards]
    for i, cube in enumerate(where):
        for v, values in cube:
            masks[v][i] = -np.inf
            masks[v][i, list(values)] = 0.0
    return masks


def _outside(structure: Clustering, where: Sequence[Where], cards: Sequence[int]) -> list[Floats]:
    """The masks of every cluster's variables, added up."""
    masks = _masks(where, cards)
    out = []
    for cluster in structure.clusters:
        total = np.zeros((len(where), *[1] * len(cluster)))
        for v in cluster:
            total = total + _over(cluster, (v,), masks[v])
        out.append(total)
    return out


def _filled(structure: Clustering, instances: Instances, which: int) -> list[Floats]:
    """The tables (N, ...) of a function in every cluster: each in the first that contains it."""
    values = instances.tables(which)
    layout, cards = instances.conditioning, instances.problem.domain.cardinalities
    shapes = [tuple(cards[v] for v in cluster) for cluster in structure.clusters]
    out = [np.zeros((len(values), *shape)) for shape in shapes]
    sets = list(map(set, structure.clusters))
    offsets = layout.layout.offsets
    for f, scope in enumerate(layout.scopes):
        k = next(k for k, each in enumerate(sets) if each.issuperset(scope))
        table = values[:, offsets[f] : offsets[f + 1]]
        shaped = table.reshape(len(values), *(cards[v] for v in scope))
        out[k] += _over(structure.clusters[k], scope, shaped)
    return out


def _over(cluster: Values, scope: Values, table: Floats) -> Floats:
    """A table (N, ...) over some of the variables of a cluster, which are sorted in both."""
    sizes = iter(table.shape[1:])
    return table.reshape(len(table), *(next(sizes) if v in scope else 1 for v in cluster))
