"""Prices of the constraints: multipliers mu under which soft consistency bounds best.

For fixed messages the bound of `kernels.consistency` is a maximum of each belief and of each table
of its own, and convex in mu; its slope is

    q_j - t_j at these maximisers                          (envelope theorem),

so that mu_j should rise where t_j > q_j and fall where t_j < q_j. Messages make maximisers tie, so
the assignment that the messages decode to is asked first, if it has any weight. Sweeps and steps of
mu alternate; the messages are kept. A step grows while the sign of its slope stays, doubling until
the first change, and is halved where it changes (Riedmiller and Braun 1993). Whatever the steps do,
every bound holds, and the best one is kept with its messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Floats
from cmpe.core.compiler import timing
from cmpe.solvers.wide.network import RowNetwork
from cmpe.solvers.wide.settings import SETTINGS


@dataclass
class PriceSteps:
    """How far each multiplier moves next, and which way it moved last."""

    sizes: Floats  # (m,)
    least: Floats  # (m,) smaller ones are not worth it
    last: Floats  # (m,) sign of the last slope
    turned: np.ndarray[tuple[int], np.dtype[np.bool_]]  # (m,) whether it ever changed

    @classmethod
    def of(cls, units: Floats, first: float = SETTINGS.price_step) -> PriceSteps:
        """The first ones, for multipliers of such sizes."""
        nothing = np.zeros(len(units))
        least = min(SETTINGS.least_price_step, 0.1 * first)
        return cls(first * units, least * units, nothing, np.zeros(len(units), bool))

    def moved(self, multipliers: Floats, slopes: Floats) -> Floats:
        """The multipliers after a step against the slopes."""
        signs = np.sign(slopes)
        changed = signs * self.last < 0
        self.turned |= changed
        same = (signs * self.last > 0) & ~changed
        grown = np.where(self.turned, SETTINGS.faster_price, 2.0) * self.sizes
        self.sizes = np.where(
            changed, SETTINGS.slower_price * self.sizes, np.where(same, grown, self.sizes)
        )
        self.last = signs
        return np.maximum(0.0, multipliers - signs * self.sizes)

    def is_idle(self, multipliers: Floats, slopes: Floats) -> bool:
        """Whether no step is worth it: all are small, or lead below 0."""
        stuck = (multipliers == 0.0) & (slopes >= 0.0)
        return bool((stuck | (self.turned & (self.sizes < self.least))).all())


def find_prices(
    network: RowNetwork,
    until: float,
    decode: Callable[[], Floats],
    first: float = SETTINGS.price_step,
) -> None:
    """Let the network have the multipliers of the best bound; the `first` step is of their size.

    `decode` gives q_j - t_j (m,) of the present assignment, not finite where that has no weight.
    Where the bound is loose, the assignment and the maximisers disagree: both are followed.
    """
    search = _PriceSearch(network, decode, first)
    search.follow(timing.now() + 0.5 * (until - timing.now()), decoded=True)
    if network.possible:
        search.follow(until, decoded=False)
    if network.possible:
        network.price(search.best, search.messages)


class _PriceSearch:
    """The best prices so far, and the messages that they were found with."""

    def __init__(self, network: RowNetwork, decode: Callable[[], Floats], first: float) -> None:
        self._network, self._decode, self._first = network, decode, first
        self.least, self.best = np.inf, network.multipliers
        self.messages = network.state.message.copy()

    def follow(self, until: float, *, decoded: bool) -> None:
        """Step along one kind of slope, from the best so far, while that helps."""
        network, steps, idle = self._network, PriceSteps.of(self._network.units, self._first), 0
        if self.least < np.inf:
            network.price(self.best, self.messages)
        for _ in range(SETTINGS.price_steps):
            if not (network.possible and network.tighten(until, SETTINGS.price_sweeps, -1.0)):
                return
            idle = 0 if self._noted() else idle + 1
            slopes = self._decode() if decoded else network.slopes()
            if not np.isfinite(slopes).all():
                slopes = network.slopes()
            over = timing.now() >= until or idle == SETTINGS.price_patience
            if over or steps.is_idle(network.multipliers, slopes):
                return
            network.price(steps.moved(network.multipliers, slopes), network.state.message.copy())

    def _noted(self) -> bool:
        """Whether the present bound is the best one."""
        if not self._network.now < self.least:
            return False
        self.least, self.best = self._network.now, self._network.multipliers
        self.messages = self._network.state.message.copy()
        return True
