"""The smallest L1 change of an input that flips a ReLU network's decision, proved.

    minimise sum |x - x'|   over x' in [0, 1]^n   subject to   margin(x') <= -margin

One target class at a time, the one with the least proved distance first; each target's program
(`program`) is relaxed, cut and made smaller (`root`) until its bound passes the best
flip known, and what is left goes to a MILP back-end. Every radius that is searched without a flip
is a bound, so no flip has to be known at the start: the radius is doubled until one is found.

What is reported is decided again by the network in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.bounds.networks.margins import distance_lower_bound
from cmpe.bounds.networks.neurons import Moves, Signs, contrasts, least_cost, margin_bounds
from cmpe.core.compiler import timing
from cmpe.errors import MethodError, ModelError
from cmpe.models.relu import ReluNetwork
from cmpe.problem import FEASIBILITY_TOLERANCE
from cmpe.solution import OPTIMALITY_TOLERANCE
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.flips.program import FlipProgram, Region, flip_program
from cmpe.solvers.flips.root import Root, RootRelaxation, dominated_moves, tightened, with_cuts
from cmpe.solvers.flips.settings import FLIPS
from cmpe.solvers.milp import BACKENDS, MARGIN, backend

WANTED = 1e-3  # The other class must win by this margin unless another one is asked for.
ROUNDING = 1e-12  # A flip wins by this much more than the margin, so that the problem agrees.
HAIR = 1e-7  # A back-end's answer that misses the margin is moved by about this much at most.
SPARE = 1e-9  # of the margin, where the nearest flip is on it.
SLACK = 1e-7  # Distances that differ by less count as equal; an optimum's tolerance is larger.


@dataclass(frozen=True)
class ProvedFlip:
    """The nearest flip found for one input, and how near another could be."""

    image: Floats | None
    distance: float  # inf without an image
    bound: float  # no flip is nearer; inf if there is none at all
    nodes: int = 0
    seconds: float = 0.0
    interrupted: bool = False  # by Ctrl-C

    @property
    def optimal(self) -> bool:
        """Whether no flip is nearer, or none exists, up to the tolerance of all answers."""
        allowed = OPTIMALITY_TOLERANCE * max(1.0, self.bound)
        return self.bound == np.inf or self.distance - self.bound <= allowed

    @property
    def gap(self) -> float:
        """distance - bound, 0 where it is proved that there is no flip."""
        return 0.0 if self.bound == np.inf else self.distance - self.bound


def nearest_flip(
    network: ReluNetwork,
    image: ArrayLike,
    *,
    start: ArrayLike | None = None,
    solver: str = "highs",
    limits: Limits | None = None,
    margin: float = WANTED,
) -> ProvedFlip:
    """The nearest input of another class; `start` is one already known, NaN for none."""
    point = _checked(network, image, solver, margin)
    begin = timing.now()
    search = _FlipSearch(network, point, solver, Deadline(limits or Limits()), margin)
    if start is not None:
        known = np.asarray(start, dtype=np.float64)
        if known.shape != point.shape:
            raise ModelError(f"a start must be {network.inputs} numbers, found {known.shape}")
        search.offer(known)
    return replace(search.run(), seconds=timing.now() - begin)


def _checked(network: ReluNetwork, image: ArrayLike, solver: str, margin: float) -> Floats:
    if margin <= FEASIBILITY_TOLERANCE:
        raise MethodError(
            f"the margin must be above the feasibility tolerance {FEASIBILITY_TOLERANCE}, "
            f"found {margin}"
        )
    if solver not in BACKENDS:
        raise MethodError(f"a MILP back-end is one of {', '.join(BACKENDS)}, found {solver!r}")
    point = np.asarray(image, dtype=np.float64)
    if point.shape != (network.inputs,) or not ((point >= 0) & (point <= 1)).all():
        raise ModelError(f"an input must be {network.inputs} numbers in [0, 1]")
    return point


@dataclass(frozen=True, order=True)
class _SearchPart:
    """A part of the search: one target, the neurons forced so far, where its flips can be."""

    bound: float  # no flip of this part is nearer
    number: int  # the order of making, which decides ties
    target: int = field(compare=False)
    region: Region | None = field(compare=False)  # None: all moves
    forced: tuple[Signs, ...] | None = field(compare=False)


class _FlipSearch:
    """The search for one input: its best flip, and the open nodes, nearest first."""

    def __init__(
        self, network: ReluNetwork, image: Floats, solver: str, clock: Deadline, margin: float
    ) -> None:
        self.network, self.image, self.clock, self.margin = network, image, clock, margin
        self.maximise = backend(solver)
        self.own = network.decide(image[np.newaxis])
        self.rows = contrasts(network, self.own)[0]  # (K, outputs)
        self.best: Floats | None = None
        self.distance = np.inf
        self.radius = 0.0
        self.nodes = 0
        self.open: list[_SearchPart] = []
        self.closed = np.inf  # the least bound of the nodes that are done

    def run(self) -> ProvedFlip:
        """Search growing radii until a flip is found, then within its distance."""
        most = float(np.maximum(self.image, 1.0 - self.image).sum())
        self.radius = min(most, self.distance if self.best is not None else self._first_radius())
        proved = 0.0
        while True:
            try:
                proved = max(proved, self._search())
            except KeyboardInterrupt:
                least = min(proved, self.distance)
                return ProvedFlip(self.best, self.distance, least, self.nodes, interrupted=True)
            if self.distance <= self.radius or proved < self.radius - SLACK:
                return ProvedFlip(self.best, self.distance, min(proved, self.distance), self.nodes)
            if self.radius >= most:
                return ProvedFlip(None, np.inf, np.inf, self.nodes)
            self.radius = min(most, 2.0 * self.radius, self.distance)

    def offer(self, point: Floats) -> None:
        """Keep `point`, or the first one beyond it that flips, if it is the best flip yet."""
        if not np.isfinite(point).all():
            return
        point = self._nudged(point)
        scales = np.linspace(1.0, 1.3, 31)
        for _ in range(FLIPS.ray_rounds):
            rays = np.clip(self.image + scales[:, np.newaxis] * (point - self.image), 0.0, 1.0)
            flips = np.flatnonzero(self._flips(rays))
            if not len(flips):
                return
            first = int(flips[0])
            if first == 0:
                break
            scales = np.linspace(scales[first - 1], scales[first], 31)
        distance = float(np.abs(rays[first] - self.image).sum())
        if distance < self.distance:
            self.best, self.distance = rays[first], distance
            self.radius = min(self.radius, distance)

    def _nudged(self, point: Floats) -> Floats:
        """The point, moved along the one coordinate that helps most if the margin is just missed.

        Answers of back-ends lie on the margin, to within their tolerance and rounding.
        """
        short = self._shortfall(point[np.newaxis])[0]
        if not 0.0 < short < HAIR:
            return point
        axes = np.vstack([np.eye(len(point)), -np.eye(len(point))])
        near = np.clip(point + HAIR * axes, 0.0, 1.0)
        gain = short - self._shortfall(near)
        best = int(np.argmax(gain))
        if gain[best] < short:  # several coordinates must move
            return self._inside(point)
        part = point + 2.0 * short / gain[best] * (near[best] - point)
        both = np.stack([np.clip(part, 0.0, 1.0), near[best]])
        return np.asarray(both[0 if self._flips(both)[0] else 1])

    def _inside(self, point: Floats) -> Floats:
        """The nearest flip with a hair of margin to spare, where neurons stay as at `point`."""
        values, forced = point, []
        for weight, bias in zip(self.network.weights[:-1], self.network.biases[:-1], strict=True):
            z = weight @ values + bias
            forced.append((np.sign(z) * (np.abs(z) > HAIR)).astype(np.int8))
            values = np.maximum(z, 0.0)
        outputs = self.network.weights[-1] @ values + self.network.biases[-1]
        row = self.rows[np.argmin(self.rows @ outputs)]
        region = Region.around(self.image, float(np.abs(point - self.image).sum()) + HAIR)
        flip = flip_program(self.network, row, region, self.margin + SPARE, tuple(forced))
        answer = self.maximise(flip.program, self.clock.left(), None)
        return point if answer.columns is None else region.point(flip.moves_of(answer.columns))

    def _shortfall(self, points: Floats) -> Floats:
        """By how much the margin is missed (B,); 0 or less where it is not."""
        margins = self.network.margins(points, np.repeat(self.own, len(points)))
        return np.asarray(margins + self.margin + ROUNDING)

    def _flips(self, points: Floats) -> NDArray[np.bool_]:
        own = np.repeat(self.own, len(points))
        return np.asarray((self._shortfall(points) <= 0.0) & (self.network.decide(points) != own))

    def _first_radius(self) -> float:
        image = self.image[np.newaxis]
        near = distance_lower_bound(self.network, image, margin=self.margin, steps=4)[0]
        return float(max(1.25 * near, 0.1)) if near < np.inf else float(self.network.inputs)

    def _search(self) -> float:
        """All flips within the radius, the nearest part first; the bound that is reached."""
        self.open, self.closed = [], np.inf
        for target, bound in enumerate(self._target_bounds()):
            self._push(bound, target, None, None)
        while self.open and self.open[0].bound < self.radius - SLACK:
            if self.clock.expired():
                break
            self._explore(heappop(self.open))
        return min(self.radius, self.closed, self.open[0].bound if self.open else np.inf)

    def _target_bounds(self) -> Floats:
        """What each target needs at least, in closed form."""
        moves = Moves.around(self.network, self.image[np.newaxis], self.radius)
        margins = margin_bounds(self.network, moves, self.own)
        needed = np.maximum(margins.value + self.margin - SLACK, 0.0)
        least = least_cost(-margins.under, moves.caps, needed)[0] - SLACK
        return np.asarray(np.maximum(least, 0.0))

    def _push(
        self, bound: float, target: int, region: Region | None, forced: tuple[Signs, ...] | None
    ) -> None:
        self.nodes += 1
        heappush(self.open, _SearchPart(float(bound), self.nodes, target, region, forced))

    def _explore(self, node: _SearchPart) -> None:
        """Relax, cut and shrink a node; then close it, hand it on, or split it."""
        left = self._reduced(node)
        if left is None:
            return
        flip, root, region, bound = left
        if len(flip.phases.phase) <= FLIPS.few_phases:
            self._finish(flip, root, bound)
        else:
            self._split(node, flip, root, region, bound)

    def _reduced(self, node: _SearchPart) -> tuple[FlipProgram, Root, Region, float] | None:
        """The last program, its relaxation, what that leaves of the region, and the bound."""
        region, bound = node.region or Region.around(self.image, self.radius), node.bound
        rounds = 0
        while True:
            rounds += 1
            region = replace(region, radius=min(region.radius, self.radius - region.spent))
            flip = self._program(node, region)
            relaxation = RootRelaxation(flip, self.clock)
            root = relaxation.solve(region.radius)
            if root is None:
                self._close(self.radius - SLACK)
                return None
            bound = max(bound, region.spent + root.bound)
            if bound < self.radius - SLACK:
                self._dive(flip, relaxation, root.columns)
            if bound >= self.radius - SLACK:
                self._close(bound)
                return None
            smaller = self._shrunk(node, flip, root)
            last = rounds == FLIPS.relaxations or self.clock.expired()
            if last or smaller.caps.sum() > FLIPS.shrinking * region.caps.sum():
                return flip, root, smaller, bound
            region = smaller

    def _program(self, node: _SearchPart, region: Region) -> FlipProgram:
        row = self.rows[node.target]
        return flip_program(self.network, row, region, self.margin, node.forced)

    def _shrunk(self, node: _SearchPart, flip: FlipProgram, root: Root) -> Region:
        dominated = np.zeros(len(flip.region.caps), dtype=bool)
        if node.forced is None:
            dominated = dominated_moves(self.network, self.rows[node.target], flip)
        return tightened(flip, root, self.radius - flip.region.spent, dominated)

    def _dive(self, flip: FlipProgram, relaxation: RootRelaxation, columns: Floats) -> None:
        near = flip.region.point(flip.moves_of(columns))
        self.offer(near)
        dived = relaxation.dive(flip.phases_at(self.network, near))
        if dived is not None:
            self.offer(flip.region.point(dived))

    def _split(
        self, node: _SearchPart, flip: FlipProgram, root: Root, region: Region, bound: float
    ) -> None:
        """Two nodes: the neuron whose activation is farthest from its ReLU is on, or off."""
        phases = flip.phases
        z = phases.value + phases.slopes @ flip.moves_of(root.columns)
        excess = np.abs(root.columns[phases.activation] - np.maximum(z, 0.0))
        sizes = _influence(self.network, self.rows[node.target])
        where = zip(phases.layer.tolist(), phases.neuron.tolist(), strict=True)
        weight = np.array([sizes[layer][neuron] for layer, neuron in where])
        chosen = int(np.argmax(excess * weight))
        free = tuple(np.zeros(len(b), dtype=np.int8) for b in self.network.biases[:-1])
        for sign in (1, -1):
            forced = tuple(signs.copy() for signs in node.forced or free)
            forced[phases.layer[chosen]][phases.neuron[chosen]] = sign
            self._push(bound, node.target, region, forced)

    def _finish(self, flip: FlipProgram, root: Root, bound: float) -> None:
        """What is left of a node, by the back-end."""
        start = None if self.best is None else flip.columns_of(self.network, self.best)
        answer = self.maximise(with_cuts(flip.program, root.cuts), self.clock.left(), start)
        self.nodes += answer.nodes
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.infeasible:
            self._close(self.radius - SLACK)
            return
        if answer.columns is not None:
            self.offer(flip.region.point(flip.moves_of(answer.columns)))
        least = flip.region.spent - (answer.bound + 1e-7 + MARGIN * abs(answer.bound))
        self._close(max(least, bound))

    def _close(self, bound: float) -> None:
        """A node is done: none of its flips is nearer than `bound`."""
        self.closed = min(self.closed, bound)


def _influence(network: ReluNetwork, row: Floats) -> list[Floats]:
    """How much of each neuron's activation can reach the margin, layer by layer."""
    sizes = [np.abs(row @ network.weights[-1])]
    for weight in network.weights[-2:0:-1]:
        sizes.insert(0, sizes[0] @ np.abs(weight))
    return sizes
