"""Proofs of rows that are too wide to eliminate: a tree of cubes on soft consistency.

Every table of two and more variables is a cluster, and so is every variable; what moves are the
messages of `core.consistency`, functions of single variables. A cube whose bound exceeds the claim
is split: z is decoded, and the variable whose tables lose most at z is set to its value in z in one
part, to its other values in the other. No value is taken away besides, so every cube of the tree is
proved by its own messages. With constraints, `solvers.wide.prices` finds multipliers for the root.
A cube begins with those of the cube that it is a part of; steps along t_j(z) - q_j stay if they
lower its bound.

Entries of -inf in h become numbers so low that one of them takes the bound of a cube below the
claim: the checker has -inf there, which is lower still.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.certificates.proofs import Clustering, Cube, Message, Proof, Values, Where
from cmpe.problem import Instances
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.prices import find_prices

MOST_CUBES = 2000
MOST_WORK = 2e10  # numbers that a row may read: about 20 seconds
CALL = 1e5  # numbers that could be read while a compiled function is called and prepared
ROOT_SWEEPS, SWEEPS = 256, 8  # A sweep goes there and back.
LEAST_FALL = 0.1  # A cube's sweeps end when they close a smaller share of its gap.
ROUNDS = 20  # A cube has at most so many rounds of sweeps.
LEAST_GAIN = 1e-9  # A step of the multipliers fails if it gains a smaller share of the bound.
FIRST_STEP, LONGER, SHORTER = 0.01, 1.5, 0.5  # Success and failure scale the next step.
DIGITS = (4, 5, 6, 7, 9)  # Messages are written with the fewest that still prove the claim.
WEAKER = 1e-6  # A bound above the claim may lose this share of itself to shorter messages.
EMPTY = -1e-6  # A bound below this on 0 in place of h proves that a cube is empty.


class _OpenCube(NamedTuple):
    """A cube that is not proved yet."""

    network: RowNetwork
    where: Where


class CubeTree:
    """The cubes of one row; a claim of -inf is that no assignment is feasible, and h is 0."""

    def __init__(self, instances: Instances, claim: float) -> None:
        self._instances, self._infeasible = instances, claim == -math.inf
        self._claim = EMPTY if self._infeasible else claim
        shape = NetworkShape(instances.conditioning)
        units = float(self._infeasible) * np.ones(len(instances.problem.constraints))
        self._network = RowNetwork(shape, instances, 0, units)
        self._work = 0.0
        self._stated: Floats | None = None  # (M,) the messages of the cube before

    def proof(self) -> Proof:
        """The cubes; or one cube that proves a weaker bound; or why there are none."""
        proof = Proof(_clustering(self._network.shape))
        self._network.impose(self._claim)
        root = self._network
        self._sweep(root, ROOT_SWEEPS)
        if root.now > self._claim and len(root.multipliers):
            find_prices(root, np.inf, lambda: self._room(root))
        first = root.copied()
        nodes = [_OpenCube(root, ())]
        while nodes and len(proof.cubes) + len(nodes) <= MOST_CUBES and self._work <= MOST_WORK:
            node = nodes.pop()
            if self._closes(node.network):
                proof.cubes.append(self._cube(node.network, node.where, self._claim))
                continue
            parts = self._parts(node)
            if not parts and self._decided(node.network):
                proof.cubes.append(self._cube(node.network, node.where, self._claim))
            elif not parts:
                proof.failure = "an assignment exceeds the claim"
                return proof
            nodes += parts
        if nodes and self._infeasible:
            proof.failure = "no proof was found within its limits"
        elif nodes:
            proof.cubes = [self._cube(first, (), math.inf)]
        return proof

    def _sweep(self, network: RowNetwork, count: int) -> None:
        network.tighten(np.inf, count, -1.0)
        self._work += CALL + 2.0 * count * len(network.net.values)

    def _closes(self, network: RowNetwork) -> bool:
        """Whether a cube is proved, after sweeps for as long as they close much of the gap."""
        gap, steps = math.inf, FIRST_STEP * network.units
        for _ in range(ROUNDS):
            if network.now <= self._claim or network.now - self._claim > (1.0 - LEAST_FALL) * gap:
                break
            gap = network.now - self._claim
            self._sweep(network, SWEEPS)
            if network.now > self._claim and len(network.multipliers):
                steps = steps * (LONGER if self._moves(network, steps) else SHORTER)
        return network.now <= self._claim

    def _moves(self, network: RowNetwork, steps: Floats) -> bool:
        """Move the multipliers along t_j(z) - q_j; whether that lowers the bound, else undo it."""
        room = self._room(network)
        if not np.isfinite(room).all():
            room = network.slopes()
        before, messages = network.multipliers, network.state.message.copy()
        bound = network.now
        network.price(np.maximum(0.0, before - np.sign(room) * steps), messages)
        self._sweep(network, SWEEPS)
        is_lower = network.now < bound - LEAST_GAIN * (1.0 + abs(bound))
        if not is_lower:
            network.price(before, messages)
        return is_lower

    def _decided(self, network: RowNetwork) -> bool:
        """Whether a cube of one assignment is proved by multipliers of its own."""
        broken = np.minimum(self._room(network), 0.0)
        own = np.zeros(len(broken))
        if (broken < 0.0).any():
            j = int(broken.argmin())
            network.price(own)
            own[j] = max(0.0, network.now - self._claim + 1.0) / -broken[j]
        network.price(own)
        return network.now <= self._claim

    def _room(self, network: RowNetwork) -> Floats:
        """q_j - t_j of what the messages decode to."""
        problem = self._instances.problem
        whole = self._instances.complete(network.decoded()[np.newaxis])[0]
        values = problem.constraint_values(whole[np.newaxis])[0]
        return np.asarray(problem.limits + problem.tolerances - values)

    def _parts(self, node: _OpenCube) -> list[_OpenCube]:
        """The two parts of a cube; none where it is one assignment."""
        network, shape = node.network, node.network.shape
        z = network.decoded()
        v = _widest_slack(network, z)
        if v < 0:
            return []
        values = network.domains()[v]
        parts = []
        for chosen in sorted((values[values != z[v]], z[v : v + 1]), key=min, reverse=True):
            out = np.zeros(int(shape.place[-1]))
            out[shape.place[v] : shape.place[v + 1]] = np.inf
            out[shape.place[v] + chosen] = 0.0
            split = (shape.structure.free[v], tuple(chosen.tolist()))
            parts.append(_OpenCube(network.narrowed(0.0, out), (*node.where, split)))
        return parts

    def _cube(self, network: RowNetwork, where: Where, claim: float) -> Cube:
        """The proof of a cube: messages of the cube before, and few digits, as the claim allows."""
        shape = network.shape
        variable, sends = shape.arrays["variable"], shape.arrays["sends"]
        cards = np.diff(shape.place)[variable]
        for messages in self._shorter(network, np.repeat(np.arange(len(sends)), cards)):
            other = network.copied()
            other.price(network.multipliers, messages)
            if other.now <= min(claim, network.now + WEAKER * (1.0 + abs(network.now))):
                network = other
                break
        self._stated = network.state.message
        moved = [
            Message((tuple(range(card)),), self._stated[begin : begin + card])
            for begin, card in zip(sends.tolist(), cards.tolist(), strict=True)
        ]
        bound = -math.inf if self._infeasible else network.now
        return Cube(where, network.multipliers, moved, self._infeasible, bound)

    def _shorter(self, network: RowNetwork, slots: Integers) -> Iterator[Floats]:
        """Messages that take less room, the shortest first."""
        own = network.state.message
        if self._stated is not None and len(own):
            change = np.zeros(slots[-1] + 1)
            np.maximum.at(change, slots, abs(own - self._stated))
            for share in (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 0.0):
                same = change <= share * change.max()
                for digits in DIGITS:
                    yield np.where(same[slots], self._stated, own.round(digits))
        else:
            yield from (own.round(digits) for digits in DIGITS)


def _clustering(shape: NetworkShape) -> Clustering:
    """A cluster for each variable, then for each table, which sends each of its variables some."""
    free, arrays = shape.structure.free, shape.arrays
    starts, variable = arrays["starts"], arrays["variable"]
    clusters: list[Values] = [(v,) for v in free]
    moves = []
    for f in range(len(starts) - 1):
        slots = range(starts[f], starts[f + 1])
        scope = tuple(free[variable[s]] for s in slots)
        moves += [(len(clusters), int(variable[s]), (free[variable[s]],)) for s in slots]
        clusters.append(scope)
    return Clustering(tuple(clusters) or ((),), tuple(moves))


def _widest_slack(network: RowNetwork, z: Integers) -> int:
    """The variable with several values whose belief or tables lose most at z; -1 if there is none.

    `core.branching` has the rule.
    """
    net, state, count = network.net, network.state, len(z)
    several = state.size > 1
    if not several.any():
        return -1
    slack = state.best[:count] - state.belief[net.place[:-1] + z]
    if len(net.table):
        at = net.offsets[:-1] + np.add.reduceat(net.stride * z[net.variable], net.starts[:-1])
        sent = np.add.reduceat(state.message[net.sends + z[net.variable]], net.starts[:-1])
        np.maximum.at(slack, net.variable, (state.best[count:] - net.values[at] + sent)[net.table])
    return int(np.where(several, slack / state.size, -1.0).argmax())
