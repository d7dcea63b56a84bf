"""Proofs of claimed bounds: cubes, multipliers and messages, as `checker` reads them.

A cube whose Lagrangian dual is at most the claim is proved: by elimination of h - mu t, whose
messages are what moves between the buckets. Another cube is split by a variable in which the
assignments differ that set its dual. All cubes of all rows are bounded together: a cube is a row
with log-potentials of its own, which are -inf for the values that it excludes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Indices
from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.elimination.plan import Plan
from cmpe.problem import Instances, Problem
from cmpe.problem.groups import by_observed
from cmpe.problem.rows import Potential, Rows

MOST_CUBES = 5000  # of a row
MOST_NUMBERS = 1 << 22  # that move in the cubes of a row
BLOCK = 256  # cubes that are bounded at once
ROOM = 1e-11  # The rounding of the checker takes at most such a share of all numbers.

Values = tuple[int, ...]
Where = tuple[tuple[int, Values], ...]


class Structure(NamedTuple):
    """Clusters of variables, and what moves: (from, to, variables)."""

    clusters: tuple[Values, ...]
    moves: tuple[tuple[int, int, Values], ...]

    @classmethod
    def of(cls, plan: Plan) -> Structure:
        """The buckets of an elimination, each of which sends its message to its parent."""
        clusters = tuple(tuple(sorted((b.variable, *b.scope))) for b in plan.buckets)
        position = {b.variable: k for k, b in enumerate(plan.buckets)}
        moves = [
            (k, position[b.scope[0]], tuple(sorted(b.scope)))
            for k, b in enumerate(plan.buckets)
            if b.scope
        ]
        return cls(clusters, tuple(moves))


class Cube(NamedTuple):
    """Some values of some variables, and why no assignment there is above the claim."""

    where: Where
    multipliers: Floats  # (m,)
    moved: Floats  # for the values that the cube has, move after move
    infeasible: bool  # No assignment in it satisfies the constraints.
    bound: float


@dataclass
class Proof:
    """The cubes of a row, or why there are none."""

    structure: Structure | None = None
    cubes: list[Cube] = field(default_factory=list)
    failure: str = ""

    @property
    def bound(self) -> float:
        """What the cubes prove."""
        return max((cube.bound for cube in self.cubes), default=-math.inf)


class _Node(NamedTuple):
    """A cube of a row that is not proved yet."""

    row: int
    where: Where


def prove(rows: Rows, claims: Floats) -> list[Proof]:
    """Prove of each row that no feasible objective is above its claim; inf claims nothing.

    -inf claims that no assignment is feasible. The problem must be made of tables.
    """
    proofs = [Proof() for _ in claims]
    bounded = np.flatnonzero(np.isfinite(claims)).tolist()
    _Prover(rows, claims, proofs).run([_Node(i, ()) for i in bounded])
    infeasible = np.flatnonzero(np.isneginf(claims)).tolist()
    if infeasible:
        zero = np.zeros(len(claims))
        _Prover(_without_objective(rows), zero, proofs, True).run(
            [_Node(i, ()) for i in infeasible]
        )
    for i in np.flatnonzero(np.isposinf(claims)).tolist():
        proofs[i].failure = "no bound is claimed"
    return proofs


def _without_objective(rows: Rows) -> Rows:
    """The same rows with an objective of 0 where it is not -inf."""
    problem = rows.problem
    _, support = problem.models[0].negated()
    own = tuple(
        Potential(p.scope, np.where(p.values > -np.inf, 0.0, -np.inf)) for p in rows.potentials
    )
    other = Problem(support, problem.constraints, problem.evidence_variables)
    return replace(rows, problem=other, potentials=own)


class _Priced(NamedTuple):
    """Cubes as rows, their multipliers, and whether 0 stands in place of h."""

    instances: Instances
    multipliers: Floats  # (N, m)
    infeasible: bool


class _Eliminated(NamedTuple):
    """Messages (N, ...) of every move, and what they prove."""

    moved: list[Floats]
    bound: Floats  # (N,)

    def cube(self, i: int, where: Where, structure: Structure, asked: _Priced) -> Cube:
        """The proof of one cube."""
        pairs = zip(self.moved, structure.moves, strict=True)
        moved = [_inside(messages[i], scope, where) for messages, (_, _, scope) in pairs]
        bound = -math.inf if asked.infeasible else float(self.bound[i])
        numbers = np.concatenate([*moved, np.zeros(0)])
        return Cube(where, asked.multipliers[i], numbers, asked.infeasible, bound)


@dataclass
class _Prover:
    """Rows, their claims and what is proved of them so far."""

    rows: Rows
    claims: Floats
    proofs: list[Proof]
    without: bool = False  # the objective: sums below 0 prove that nothing is feasible

    def run(self, nodes: list[_Node]) -> None:
        """Bound all open cubes, and split those that are not proved, until there is none."""
        while nodes:
            split: list[_Node] = []
            for begin in range(0, len(nodes), BLOCK):
                block = nodes[begin : begin + BLOCK]
                for instances, numbers in by_observed(*self._asked(block).asked):
                    split += self._bounded(instances, [block[i] for i in numbers])
            counts = Counter(node.row for node in split)
            for row, count in counts.items():
                if count + len(self.proofs[row].cubes) > MOST_CUBES:
                    self.proofs[row].failure = f"it would take more than {MOST_CUBES} cubes"
            nodes = [node for node in split if not self.proofs[node.row].failure]

    def _asked(self, nodes: Sequence[_Node]) -> Rows:
        """Each cube as a row: its excluded values have potentials of -inf."""
        rows = self.rows.take(np.array([node.row for node in nodes]))
        masks = [np.zeros((len(nodes), k)) for k in self.rows.problem.domain.cardinalities]
        for i, node in enumerate(nodes):
            for v, values in node.where:
                masks[v][i] = -np.inf
                masks[v][i, list(values)] = 0.0
        more = [Potential((v,), mask) for v, mask in enumerate(masks) if mask.shape[1] > 1]
        return replace(rows, potentials=(*rows.potentials, *more))

    def _bounded(self, instances: Instances, nodes: list[_Node]) -> list[_Node]:
        """Keep the cubes that are proved; return the parts of the others."""
        dual = lagrangian_dual(instances)
        structure = Structure.of(instances.problem.plan)
        claims = self.claims[np.array([node.row for node in nodes])]
        left = np.ones(len(nodes), dtype=bool)
        closed, none = np.flatnonzero((dual.bound <= claims) & ~dual.infeasible), dual.infeasible
        tries = [(closed, dual.multipliers, self.without)]
        count = dual.multipliers.shape[1]
        for unit in np.vstack([np.zeros(count), np.eye(count)]):
            tries += [(np.flatnonzero(none), np.tile(unit, (len(nodes), 1)), True)]
        for wanted, multipliers, infeasible in tries:
            rows = wanted[left[wanted]]
            if len(rows):
                most = np.zeros(len(rows)) if infeasible else claims[rows]
                asked = _Priced(instances.take(rows), multipliers[rows], infeasible)
                part = eliminated(structure, asked, most)
                holds = part.bound < 0 if infeasible else part.bound <= most
                for i in np.flatnonzero(holds):
                    node = nodes[rows[i]]
                    proof = self.proofs[node.row]
                    proof.structure = structure
                    proof.cubes.append(part.cube(int(i), node.where, structure, asked))
                left[rows[holds]] = False
        return [
            part
            for i in np.flatnonzero(left)
            for part in self._split(nodes[i], dual.feasible[i], dual.violating[i], structure)
        ]

    def _split(self, node: _Node, low: Indices, high: Indices, structure: Structure) -> list[_Node]:
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
        return [_Node(node.row, (*node.where, (v, part))) for part in parts]


def _inside(message: Floats, scope: Values, where: Where) -> Floats:
    """The entries of a message that a cube has."""
    known = dict(where)
    axes = [known.get(v, range(k)) for v, k in zip(scope, message.shape, strict=True)]
    return np.asarray(message[np.ix_(*map(sorted, axes))]).ravel()


def eliminated(structure: Structure, asked: _Priced, claims: Floats) -> _Eliminated:
    """Eliminate h - mu (t - q) of every row, or with 0 in place of h, keeping all messages."""
    instances, mu = asked.instances, asked.multipliers
    tables = row_tables(instances, slice(0, len(instances)))
    h, t = np.stack([row.h for row in tables]), np.stack([row.t for row in tables])
    if asked.infeasible:
        h = np.where(h > -np.inf, 0.0, -np.inf)
    priced = np.einsum("nj,nje->ne", mu, t)
    values = h - priced
    offsets = instances.conditioning.layout.offsets
    sizes = np.maximum.reduceat(
        np.where(np.isfinite(h), abs(h), 0.0) + abs(priced), offsets[:-1], axis=1
    )
    limits = (mu * loosened_limits(instances)).sum(axis=1)
    room = sizes.sum(axis=1) + abs(limits) + abs(claims) + 1.0
    factors = sum(len(model.factors) for model in instances.problem.models)
    clusters = _filled(structure, instances, values)
    position = {origin: (target, scope) for origin, target, scope in structure.moves}
    moved: list[Floats] = []
    bound, size = limits + values[:, 0], room
    for k, cluster in enumerate(structure.clusters):
        table = clusters[k]
        if k not in position:
            bound = bound + table.reshape(len(table), -1).max(axis=1)
            continue
        target, scope = position[k]
        (axis,) = (1 + a for a, v in enumerate(cluster) if v not in scope)
        floor = -3.0 * room.reshape(-1, *[1] * len(scope))  # in place of -inf
        message = np.maximum(table.max(axis=axis), floor)
        moved.append(message)
        clusters[target] = clusters[target] + _over(structure.clusters[target], scope, message)
        size = size + abs(message).reshape(len(message), -1).max(axis=1)
    return _Eliminated(moved, bound + ROOM * (size + factors))


def _filled(structure: Structure, instances: Instances, values: Floats) -> list[Floats]:
    """The tables (N, ...) of every cluster: each in the first cluster that contains it."""
    layout, cards = instances.conditioning, instances.problem.domain.cardinalities
    shapes = [tuple(cards[v] for v in cluster) for cluster in structure.clusters]
    out = [np.zeros((len(values), *shape)) for shape in shapes]
    sets = list(map(set, structure.clusters))
    offsets = layout.layout.offsets
    for f, scope in enumerate(layout.scopes):
        if scope:
            k = next(k for k, each in enumerate(sets) if each.issuperset(scope))
            table = values[:, offsets[f] : offsets[f + 1]]
            shaped = table.reshape(len(values), *(cards[v] for v in scope))
            out[k] += _over(structure.clusters[k], scope, shaped)
    return out


def _over(cluster: Values, scope: Values, table: Floats) -> Floats:
    """A table (N, ...) over some of the variables of a cluster, which are sorted in both."""
    sizes = iter(table.shape[1:])
    return table.reshape(len(table), *(next(sizes) if v in scope else 1 for v in cluster))
