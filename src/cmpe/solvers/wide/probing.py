"""`ProbingTurns`: branch and bound as if an answer of some level were known.

Half-way between incumbent and bound, say, there is a level. Either branching finds something above
it, or it proves that there is nothing, and the level is the bound. Both are easier than closing the
whole gap: where the level is high, consistency takes many more values away. Where a potential of
1e-4 stands for "forbidden", one level above the incumbent forbids it.

After a level that was refuted the next one is twice as deep in the gap (its share of the gap is
squared). After one that was not, in its turns, the next one is half as deep.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler import timing
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.wide.network import RowNetwork
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.settings import SETTINGS


class ProbingTurns:
    """Levels between incumbent and bound; what is found counts, and so does what is refuted."""

    name = "probing"

    def __init__(
        self, reduced: Reduced, best: Incumbent, network: RowNetwork, memory: int = 1 << 60
    ) -> None:
        self._reduced, self._best, self._network, self._memory = reduced, best, network, memory
        self._upper = np.inf  # the least level that was refuted
        self._probe: RowNetwork | None = None
        self.level = -np.inf
        self._share, self._turns = SETTINGS.first_probed, 0

    @property
    def upper(self) -> float:
        """The bound that levels are below."""
        return min(self._upper, self._network.upper)

    @property
    def finished(self) -> bool:
        """Whether there is no level: no incumbent, no bound, or nothing between them."""
        return not self._best.enough < self.upper < np.inf or self._best.assignment is None

    def play(self, until: float) -> float:
        """Find something above the level, or refute it: then it is a bound."""
        self._turns += 1
        if self._turns > SETTINGS.probing_turns:
            self._probe, self._turns = None, 1
            deepest, shallowest = SETTINGS.probed
            is_last = self._share == shallowest
            self._share = deepest if is_last else min(shallowest, self._share**0.5)
        while not self.finished and timing.now() < until:
            probe = self._probe
            if probe is None or not self._best.enough <= self.level < self.upper:
                probe = self._probe = self._begun(until)
            if probe.possible:
                self._explore(probe, until)
            if not probe.possible or probe.explored:
                self._upper = min(self._upper, max(self.level, probe.open_bound))
                self._probe, self._turns = None, 0
                self._share **= 2
        return self._upper

    def _begun(self, until: float) -> RowNetwork:
        """A tree at the next level."""
        best, share = self._best, self._share
        self.level = max(best.enough, (1.0 - share) * best.objective + share * self.upper)
        probe = self._network.copied()
        probe.require(self.level)
        probe.tighten(until, SETTINGS.probing_sweeps, -1.0)
        probe.plant(int(SETTINGS.tree_share * self._memory))
        return probe

    def _explore(self, probe: RowNetwork, until: float) -> None:
        """Branch until the time is over, everything is explored, or something is found."""
        best = self._best
        while not probe.explored and timing.now() < until:
            probe.accept(best.objective, max(self.level, best.enough))
            found = probe.explore(until)
            if found is not None:
                instances = self._reduced.instances
                best.offer(self._reduced.lift(instances.complete(found[np.newaxis])[0]))
                if best.enough > self.level:
                    break
