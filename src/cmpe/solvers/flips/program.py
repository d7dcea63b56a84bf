"""The smallest L1 change that makes one class overtake another, as a mixed-integer linear program.

Columns are the moves t of `bounds.networks.neurons` (a pixel up or down), an activation a for every
neuron that can be on either side of 0, and a 0/1 phase s for those whose activation must not be too
large:

    minimise sum t   subject to   F_c - F_k <= -margin  with the neurons' values replaced by
    z                        where a neuron is always on (0 where it is always off),
    a >= z, a >= 0           where a larger a only helps to satisfy the row it enters with,
    a <= z - low (1 - s), a <= high s, and the rows of `cuts`, where a smaller one does.

Only one half is needed of a neuron that enters with one sign only, as all of the last hidden
layer do: half of them need no phase. `low` and `high` hold for every point of the program, whose
columns and radius are those the bounds were computed for, so the program is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cmpe.arrays import Floats
from cmpe.bounds.linearization import LinearProgram
from cmpe.bounds.networks.neurons import LayerBounds, Moves, hidden_layers, loosened, relu_bounds
from cmpe.bounds.networks.phases import Forced, Needs, kinds_of, sides_needed
from cmpe.models.relu import ReluNetwork

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Region:
    """Where a best flip is looked for: x' = origin + sum sign t e_pixel.

    The moves from `image` to `origin`, of length `spent`, are made by every point of the region.
    """

    image: Floats  # (n,)
    origin: Floats  # (n,)
    pixel: Indices  # (M,)
    sign: Floats  # (M,), 1 up or -1 down
    caps: Floats  # (M,): 0 <= t <= caps holds for every flip within the radius
    room: Floats  # (M,): how far the pixel could go
    radius: float  # sum t <= radius

    @classmethod
    def around(cls, image: Floats, radius: float) -> Region:
        """All moves of an image within [0, 1]."""
        up, down = np.flatnonzero(image < 1), np.flatnonzero(image > 0)
        room = np.concatenate([1.0 - image[up], image[down]])
        sign = np.concatenate([np.ones(len(up)), -np.ones(len(down))])
        return cls(image, image, np.concatenate([up, down]), sign, room, room, radius)

    @property
    def spent(self) -> float:
        """The distance of the origin."""
        return float(np.abs(self.origin - self.image).sum())

    def moves(self, network: ReluNetwork) -> Moves:
        """The region as the first layer sees it."""
        weight = network.weights[0]
        return Moves(
            (weight @ self.origin + network.biases[0])[np.newaxis],
            weight[:, self.pixel] * self.sign,
            self.caps[np.newaxis],
            np.array([self.radius]),
        )

    def point(self, t: Floats) -> Floats:
        """The input that the moves t lead to."""
        out = self.origin.copy()
        np.add.at(out, self.pixel, self.sign * t)
        return np.asarray(np.clip(out, 0.0, 1.0))

    def steps_to(self, point: Floats) -> Floats | None:
        """The moves that lead to `point`, or None where it lies outside."""
        change = point - self.origin
        t = np.clip(change[self.pixel] * self.sign, 0.0, None)
        reached = np.abs(self.point(t) - point).max(initial=0.0) < 1e-12
        within = (t <= self.caps).all() and t.sum() <= self.radius
        return np.asarray(t) if reached and within else None

    def restricted(self, kept: NDArray[np.bool_]) -> Region:
        """Without the moves that are not kept."""
        names = ("pixel", "sign", "caps", "room")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


@dataclass(frozen=True)
class Phases:
    """The neurons that have a 0/1 column, with their upper functions value + slopes t of z."""

    activation: Indices  # (J,), columns
    phase: Indices  # (J,), columns
    value: Floats  # (J,)
    slopes: Floats  # (J, M)
    layer: Indices  # (J,), and which neuron of it
    neuron: Indices


@dataclass(frozen=True)
class FlipProgram:
    """The program, and where its columns stand."""

    region: Region
    program: LinearProgram
    phases: Phases
    layers: tuple[LayerBounds, ...]
    needs: Needs  # (lower, upper) of each layer

    def moves_of(self, columns: Floats) -> Floats:
        """The columns of the moves, within their caps."""
        region = self.region
        return np.asarray(np.clip(columns[: len(region.caps)], 0.0, region.caps))

    def columns_of(self, network: ReluNetwork, point: Floats) -> Floats | None:
        """All columns of an input of the region; None outside of it."""
        t = self.region.steps_to(point)
        if t is None:
            return None
        columns = np.zeros(len(self.program.cost))
        columns[: len(t)] = t
        values, a, s = point, len(t), len(t) + self._activations
        parts = zip(network.weights[:-1], network.biases[:-1], self._kinds(), strict=True)
        for weight, bias, (unstable, phased) in parts:
            values = np.maximum(weight @ values + bias, 0.0)
            columns[a : a + unstable.sum()] = values[unstable]
            columns[s : s + phased.sum()] = values[phased] > 0
            a, s = a + int(unstable.sum()), s + int(phased.sum())
        return columns

    def phases_at(self, network: ReluNetwork, point: Floats) -> Floats:
        """Which neurons with a phase are on at an input: (J,)."""
        values, on = point, [np.zeros(0)]
        parts = zip(network.weights[:-1], network.biases[:-1], self._kinds(), strict=True)
        for weight, bias, (_, phased) in parts:
            values = np.maximum(weight @ values + bias, 0.0)
            on.append((values[phased] > 0).astype(np.float64))
        return np.concatenate(on)

    @property
    def _activations(self) -> int:
        return sum(int(unstable.sum()) for unstable, _ in self._kinds())

    def _kinds(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        return kinds_of(self.layers, self.needs)


def flip_program(
    network: ReluNetwork, row: Floats, region: Region, margin: float, forced: Forced = None
) -> FlipProgram:
    """The program of the target whose contrast with the image's class is `row` (outputs,).

    `forced` neurons are on (1) or off (-1), by a row each.
    """
    layers = tuple(hidden_layers(network, region.moves(network), forced))
    needs = sides_needed(network, row[np.newaxis], layers, forced)
    build = _Build(network, region, layers, needs, forced)
    return FlipProgram(region, build.program(row, margin), build.phases(), layers, needs)


class _Build:
    """Lays out the columns, then the rows layer by layer."""

    def __init__(
        self,
        network: ReluNetwork,
        region: Region,
        layers: tuple[LayerBounds, ...],
        needs: Needs,
        forced: Forced,
    ) -> None:
        self.network, self.region, self.layers, self.needs = network, region, layers, needs
        self.forced = forced
        self.kinds = kinds_of(layers, needs)
        self.first = len(region.caps)
        self.activations = sum(int(u.sum()) for u, _ in self.kinds)
        self.columns = self.first + self.activations + sum(int(p.sum()) for _, p in self.kinds)
        self.rows: list[Floats] = []
        self.lower: list[Floats] = []
        self.upper: list[Floats] = []

    def add(self, rows: Floats, lower: Floats | float, upper: Floats | float) -> None:
        self.rows.append(rows)
        self.lower.append(np.broadcast_to(lower, len(rows)))
        self.upper.append(np.broadcast_to(upper, len(rows)))

    def program(self, row: Floats, margin: float) -> LinearProgram:
        moves = self.region.moves(self.network)
        expression = np.zeros((len(moves.slopes), self.columns))
        expression[:, : self.first] = moves.slopes
        constant = moves.values[0]
        a, s = self.first, self.first + self.activations
        for depth, (unstable, phased) in enumerate(self.kinds):
            if depth:
                constant = self.network.weights[depth] @ constant + self.network.biases[depth]
                expression = self.network.weights[depth] @ expression
            expression, constant = self._layer(depth, expression, constant, a, s)
            a, s = a + int(unstable.sum()), s + int(phased.sum())
        weight = row @ self.network.weights[-1] if self.kinds else row
        offset = row @ self.network.biases[-1] if self.kinds else 0.0
        self.add((weight @ expression)[np.newaxis], -np.inf, -margin - offset - weight @ constant)
        within = np.zeros((1, self.columns))
        within[0, : self.first] = 1.0
        self.add(within, -np.inf, self.region.radius)
        return self._assembled()

    def _layer(
        self, depth: int, z: Floats, constant: Floats, a: int, s: int
    ) -> tuple[Floats, Floats]:
        """Adds the rows of a layer; its activations as expressions of the columns."""
        layer, (lower, upper) = self.layers[depth], self.needs[depth]
        unstable, phased = self.kinds[depth]
        low, high = layer.low[0], layer.high[0]
        if self.forced is not None:
            signs = self.forced[depth]
            self.add(z[signs > 0], -constant[signs > 0], np.inf)
            self.add(z[signs < 0], -np.inf, -constant[signs < 0])
        column = np.zeros(len(z), dtype=np.int64)
        column[unstable] = a + np.arange(unstable.sum())
        unit = np.zeros_like(z)
        unit[unstable, column[unstable]] = 1.0
        chosen = unstable & lower
        self.add(unit[chosen] - z[chosen], constant[chosen], np.inf)  # a >= z
        switch = np.zeros((int(phased.sum()), self.columns))
        switch[np.arange(len(switch)), s + np.arange(len(switch))] = 1.0
        least, most = loosened(low[phased], high[phased])
        held = least[:, np.newaxis]  # a <= z - low (1 - s)
        self.add(unit[phased] - z[phased] - held * switch, -np.inf, constant[phased] - least)
        self.add(unit[phased] - most[:, np.newaxis] * switch, -np.inf, 0.0)  # a <= high s
        envelope = relu_bounds(layer, np.array([self.region.radius]))
        line = unit[phased]
        line[:, : self.first] -= envelope.over[0][phased]
        self.add(line, -np.inf, envelope.value[0][phased])  # a below the line through the corners
        on = (low >= 0) & (lower | upper)
        return np.where(on[:, np.newaxis], z, unit), np.where(on, constant, 0.0)

    def _assembled(self) -> LinearProgram:
        cost, integer = np.zeros(self.columns), np.zeros(self.columns, dtype=bool)
        cost[: self.first] = -1.0
        integer[self.first + self.activations :] = True
        pairs = zip(self.layers, self.kinds, strict=True)
        high = [loosened(x.low[0][u], x.high[0][u])[1] for x, (u, _) in pairs]
        top = np.concatenate([self.region.caps, *high, np.ones(int(integer.sum()))])
        return LinearProgram(
            cost, 0.0, csr_array(np.vstack(self.rows)),
            np.concatenate(self.lower), np.concatenate(self.upper),
            np.zeros(self.columns), top, integer,
        )  # fmt: skip

    def phases(self) -> Phases:
        activation: list[int] = []
        where: list[tuple[int, int]] = []
        value, slopes = [np.zeros(0)], [np.zeros((0, self.first))]
        a = self.first
        for depth, (layer, (unstable, phased)) in enumerate(
            zip(self.layers, self.kinds, strict=True)
        ):
            activation.extend(a + np.flatnonzero(phased[unstable]))
            where.extend((depth, int(neuron)) for neuron in np.flatnonzero(phased))
            value.append(layer.value[0][phased])
            slopes.append(layer.over[0][phased])
            a += int(unstable.sum())
        chosen = np.array(activation, dtype=np.int64)
        phase = self.first + self.activations + np.arange(len(chosen))
        depths, neurons = np.array(where, dtype=np.int64).reshape(-1, 2).T
        return Phases(chosen, phase, np.concatenate(value), np.concatenate(slopes), depths, neurons)
