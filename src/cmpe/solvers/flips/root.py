"""The root of a flip program: its relaxation, its cuts, and what its prices leave of the region.

The relaxation is solved by HiGHS, cut by `cuts`, and solved again from the last basis. A
bound is never taken from the solver: any prices y of the rows prove

    sum t >= -( y b + sum_i max over the column's limits of (c - y A)_i z_i ),

recomputed here in float64. The same reduced costs say how far each move can go in a flip that is
no farther than the one already known. Caps that become smaller make more neurons stable; moves
that every such flip makes become part of the origin, and the radius shrinks by them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from cmpe.arrays import Floats
from cmpe.bounds.linearization import LinearProgram, highs_model
from cmpe.bounds.networks.neurons import LayerBounds
from cmpe.errors import BackendError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.base import Deadline
from cmpe.solvers.flips.cuts import Cuts, violated_cuts
from cmpe.solvers.flips.program import FlipProgram, Region
from cmpe.solvers.flips.settings import FLIPS
from cmpe.solvers.milp.highs import configure

ROUNDING = 1e-10


@dataclass(frozen=True)
class Root:
    """What the relaxation says; `bound` counts from the region's origin."""

    bound: float  # at most sum t of every flip in the region
    columns: Floats  # the relaxed optimum
    reduced: Floats  # (columns,): at most 0 where more of the column cannot help
    cuts: Cuts | None  # those that are tight


class RootRelaxation:
    """A flip program without its integer columns, kept in HiGHS while cuts are added."""

    def __init__(self, flip: FlipProgram, clock: Deadline) -> None:
        import highspy

        program = flip.program
        self._flip, self._clock = flip, clock
        self._program = replace(program, integer=np.zeros(len(program.cost), dtype=bool))
        self._solver = highspy.Highs()
        configure(self._solver, clock.left())
        self._solver.setOptionValue("presolve", "off")  # the last basis is worth more
        self._solver.passModel(highs_model(self._program))
        self._first = len(program.upper)  # rows that are no cuts

    def solve(self, at_most: float) -> Root | None:
        """Cuts and solves until the bound passes `at_most` or rises no more; None: no flip."""
        best = -np.inf
        inner: Floats | None = None
        for _ in range(FLIPS.cut_rounds):
            columns = self._run()
            if columns is None:
                return None
            bound, reduced = self._priced()
            root = Root(bound, columns, reduced, self._tight(columns))
            inner = columns if inner is None else FLIPS.inner * inner + (1 - FLIPS.inner) * columns
            small = bound - best < FLIPS.least_gain * at_most
            if bound >= at_most or small or self._clock.expired():
                break
            cuts = violated_cuts(self._flip, columns, inner)
            if not len(cuts):
                break
            best = bound
            self._add(cuts)
        return root

    def dive(self, phases: Floats) -> Floats | None:
        """The moves of the nearest flip whose neurons have these phases, if there is one."""
        own = self._flip.phases.phase.astype(np.int32)
        self._solver.changeColsBounds(len(own), own, phases, phases)
        columns = self._run()
        self._solver.changeColsBounds(len(own), own, np.zeros(len(own)), np.ones(len(own)))
        return None if columns is None else self._flip.moves_of(columns)

    def _run(self) -> Floats | None:
        """The columns of the relaxed optimum; None if there is no point."""
        from highspy import HighsModelStatus as Status

        seconds = self._clock.left().seconds
        if seconds is not None:
            self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        status = self._solver.getModelStatus()
        if status == Status.kInfeasible:
            return None
        if status not in (Status.kOptimal, Status.kTimeLimit):
            name = self._solver.modelStatusToString(status)
            raise BackendError(f"HiGHS stopped with status {name}")
        return np.array(self._solver.getSolution().col_value)

    def _priced(self) -> tuple[float, Floats]:
        """The bound that the rows' prices prove, and the reduced costs behind it."""
        program = self._program
        prices = np.array(self._solver.getSolution().row_dual)
        if len(prices) != len(program.upper):
            prices = np.zeros(len(program.upper))
        prices = np.where(np.isinf(program.upper), np.minimum(prices, 0.0), prices)
        prices = np.where(np.isinf(program.lower), np.maximum(prices, 0.0), prices)
        limit = np.where(prices > 0, program.upper, np.where(prices < 0, program.lower, 0.0))
        reduced = program.cost - prices @ program.rows
        most = np.maximum(reduced * program.column_lower, reduced * program.column_upper)
        size = np.abs(most).sum() + np.abs(prices * limit).sum()
        return float(-(most.sum() + prices @ limit) - ROUNDING * (1.0 + size)), reduced

    def _add(self, cuts: Cuts) -> None:
        rows, program = cuts.rows, self._program
        self._solver.addRows(
            len(cuts), np.full(len(cuts), -np.inf), cuts.upper, rows.nnz,
            rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32), rows.data,
        )  # fmt: skip
        self._program = with_cuts(program, cuts)

    def _tight(self, columns: Floats) -> Cuts | None:
        program = self._program
        slack = program.upper - program.rows @ columns
        tight = np.flatnonzero(slack[self._first :] < 1e-6) + self._first
        return Cuts(program.rows[tight], program.upper[tight]) if len(tight) else None


def with_cuts(program: LinearProgram, cuts: Cuts | None) -> LinearProgram:
    """The program with more rows."""
    if cuts is None:
        return program
    return replace(
        program,
        rows=vstack([program.rows, cuts.rows], format="csr"),
        lower=np.append(program.lower, np.full(len(cuts), -np.inf)),
        upper=np.append(program.upper, cuts.upper),
    )


def tightened(flip: FlipProgram, root: Root, radius: float, dominated: NDArray[np.bool_]) -> Region:
    """The region without dominated moves and what no flip within `radius` can use."""
    region = replace(flip.region, radius=min(radius, flip.region.radius))
    slack = max(0.0, region.radius - root.bound) * (1.0 + ROUNDING) + ROUNDING
    reduced = root.reduced[: len(region.caps)]
    with np.errstate(divide="ignore"):
        far = slack / np.abs(reduced)
    caps = np.where(reduced < 0, np.minimum(region.caps, far), region.caps)
    least = np.where(reduced > 0, np.maximum(region.caps - far, 0.0), 0.0)
    return _recentred(replace(region, caps=caps), least, ~dominated)


def _recentred(region: Region, least: Floats, kept: NDArray[np.bool_]) -> Region:
    """The region whose origin makes the moves `least` that every point makes."""
    made = np.flatnonzero(least > 0)
    back = np.isin(region.pixel, region.pixel[made]) & (least == 0)  # never up and down at once
    inner = replace(
        region,
        origin=region.point(least),
        caps=region.caps - least,
        room=region.room - least,
        radius=region.radius - float(least.sum()),
    )
    return inner.restricted((kept | (least > 0)) & ~back & (inner.caps > 0))


def _rates(
    network: ReluNetwork, row: Floats, layers: tuple[LayerBounds, ...], region: Region
) -> tuple[Floats, Floats]:
    """The least and the most that a unit of each move lowers the margin by, over the region."""
    least = most = -(row @ network.weights[-1] if layers else row)
    for layer, inside in zip(layers[::-1], network.weights[len(layers) - 1 :: -1], strict=True):
        on, off = layer.low[0] >= 0, layer.high[0] <= 0
        least = np.where(on, least, np.where(off, 0.0, np.minimum(least, 0.0)))
        most = np.where(on, most, np.where(off, 0.0, np.maximum(most, 0.0)))
        if inside is network.weights[0]:
            inside = inside[:, region.pixel] * region.sign
        rise, fall = np.maximum(inside, 0.0), np.minimum(inside, 0.0)
        least, most = least @ rise + most @ fall, most @ rise + least @ fall
    if not layers:
        least = most = least @ (network.weights[0][:, region.pixel] * region.sign)
    return least, most


def dominated_moves(network: ReluNetwork, row: Floats, flip: FlipProgram) -> NDArray[np.bool_]:
    """Moves that a best flip can do without: they never help, or others always help more.

    Neurons must not be forced: their rows might forbid the exchange. If moves with
    least >= most_i have more room than the radius, one of them is never used up;
    what i moves can be moved there instead, at the same length and no larger margin.
    """
    region = flip.region
    least, most = _rates(network, row, flip.layers, region)
    order = np.argsort(-least)
    enough = np.cumsum(region.room[order]) > region.radius * (1.0 + 1e-9) + 1e-9
    threshold = least[order[np.argmax(enough)]] if enough.any() else -np.inf
    return np.asarray((most <= 0) | (most <= threshold - 1e-12))
