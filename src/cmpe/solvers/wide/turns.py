"""The contestants of the race on a wide row, each of which works in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.bounds.lagrangian import MOST_BYTES, lane_bytes
from cmpe.core.compiler import timing
from cmpe.core.settings import EXACT
from cmpe.errors import Interrupted
from cmpe.solution import Solutions
from cmpe.solvers import exact
from cmpe.solvers.base import Limits
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.local import Local
from cmpe.solvers.milp import Milp
from cmpe.solvers.reduction import BestFirst, Splits
from cmpe.solvers.search import Search
from cmpe.solvers.wide.elimination import eliminate_all
from cmpe.solvers.wide.network import RowNetwork
from cmpe.solvers.wide.prices import find_prices
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.settings import SETTINGS

# How runs from scratch begin, and their noise in multiples of the usual, in turn.
USUAL = "messages", 1.0
SCRATCHES = (("random", 1.0), ("messages", 3.0), USUAL)
ROUNDING = 1e-10  # of a bound
IDLE = 1e-7  # of the bound: sweeps that earn less lead nowhere


class LiftedIncumbent(Incumbent):
    """The incumbent of a row as an incumbent of its smaller problem."""

    def __init__(self, whole: Incumbent, reduced: Reduced) -> None:
        super().__init__(reduced.instances.problem, whole.gap)
        self._whole, self._reduced = whole, reduced

    def offer(self, assignment: Assignments) -> bool:
        """Offer what it stands for in the whole problem."""
        return not (assignment < 0).any() and self._whole.offer(self._reduced.lift(assignment))

    @property
    def enough(self) -> float:
        """The same number: objectives are equal."""
        return self._whole.enough


class Contestant(Protocol):
    """Works on a row in turns, until it is `finished`: nothing more can come of it."""

    name: str

    @property
    def finished(self) -> bool:
        """Whether to leave it out from now on."""
        ...

    def play(self, until: float) -> float:
        """Work until then; a bound on what is better than the incumbent (inf: none)."""
        ...


def _from_incumbent(limits: Limits, reduced: Reduced, best: Incumbent) -> Limits:
    """The limits with the incumbent to start from, if it is an assignment of what is left."""
    start = None if best.assignment is None else reduced.lower(best.assignment)
    return limits if start is None else replace(limits, start=start[np.newaxis])


def _take(found: Solutions, reduced: Reduced, best: Incumbent) -> None:
    """Offer an answer to what is left."""
    if (found.assignments[0] >= 0).all():
        best.offer(reduced.lift(found.assignments[0]))


class SearchTurns:
    """Large-neighbourhood search in runs, each with other random numbers.

    A run begins at the incumbent; after one that found nothing better, the next begins from
    scratch, and three of four do where that leads close to the incumbent or beyond it. Where luck
    decides, many short runs are better than a long one, and nobody knows how short: their lengths
    are 1, 1, 2, 1, 1, 2, 4, ... units (Luby, Sinclair and Zuckerman 1993). Nor does anybody know
    which beginning and how much noise are best: runs from scratch try them in turn. Random
    beginnings find what is best on dense rows, where subgraphs hold two or three variables.
    """

    name = "search"
    finished = False

    def __init__(self, reduced: Reduced, best: Incumbent, limits: Limits) -> None:
        self._reduced, self._best, self._limits = reduced, best, limits
        self._from_scratch = False
        variables = len(reduced.instances.problem.free)
        self._unit = max(SETTINGS.run_seconds, SETTINGS.run_seconds_each * variables)
        self._runs, self._scratches = 0, 0

    def play(self, until: float) -> float:
        """Run after run; a rest of the turn that is too short for one belongs to others."""
        rest = 0.0
        while (left := until - timing.now()) > rest:
            self._runs, rest = self._runs + 1, SETTINGS.rest_for_run * self._unit
            seconds = luby(self._runs) * self._unit
            self._run(left if seconds > left or left < 1.5 * seconds else seconds)
        return np.inf

    def _run(self, seconds: float) -> None:
        limits = replace(self._limits, seconds=seconds, gap=0.0)
        was_from_scratch, (begin, heat) = self._from_scratch, USUAL
        if was_from_scratch:
            begin, heat = SCRATCHES[self._scratches % len(SCRATCHES)]
            self._scratches += 1
        else:
            limits = _from_incumbent(limits, self._reduced, self._best)
        self._limits = replace(self._limits, seed=self._limits.seed + 1)
        before = self._best.objective
        try:
            search = Search(bounds=False, heat=heat, begin=begin)
            found = search.answer(self._reduced.instances, limits)
        except Interrupted as stop:
            _take(stop.solutions, self._reduced, self._best)
            raise
        _take(found, self._reduced, self._best)
        self._from_scratch = self._best.objective == before
        if was_from_scratch:
            least = before - SETTINGS.close * abs(before)
            is_close = found.feasible[0] and found.objective[0] >= least
            self._from_scratch = bool(is_close) and self._runs % 4 > 0


def luby(number: int) -> int:
    """The sequence 1, 1, 2, 1, 1, 2, 4, 1, ... from its first number on."""
    while True:
        power = 1 << (number.bit_length() - 1)
        if number == 2 * power - 1:
            return power
        number -= power - 1


class ConsistencyTurns:
    """Sweeps over all tables, answers decoded from them, and prices of the constraints.

    Prices that were found in a hurry are not the last: where sweeps lead nowhere, further ones are
    looked for, by steps that are half as long every time.
    """

    name = "consistency"

    def __init__(self, reduced: Reduced, best: Incumbent, network: RowNetwork) -> None:
        self._reduced, self._best, self._network = reduced, best, network
        self._step = SETTINGS.price_step if len(network.multipliers) else 0.0
        self.finished = False

    def play(self, until: float) -> float:
        """Sweep and decode, in rounds that double."""
        network, best, count, idle = self._network, self._best, 4, 0
        while timing.now() < until and network.upper > best.enough:
            network.require(best.enough)
            before, objective = network.upper, best.objective
            if not network.tighten(until, count, -1.0):
                break
            self.decode()
            earned = before - network.upper
            if best.objective > objective:
                earned += best.objective - objective
            idle = idle + 1 if earned < IDLE * (1.0 + abs(before)) else 0
            if idle == 2 and self._step < SETTINGS.least_price_step:
                self.finished = True
                break
            if idle == 2:
                find_prices(network, until, self.decode, self._step)
                self._step *= 0.5
                idle, count = 1, 4
            count = min(2 * count, 256)
        return network.upper

    def play_once(self, until: float) -> None:
        """One sweep there and back, and what it decodes: the least that is ever done."""
        self._network.require(self._best.enough)
        self._network.tighten(np.inf, 1)
        if self._network.possible:
            self.decode(1 if timing.now() >= until else 2)

    def repair(self) -> None:
        """What was decoded breaks a constraint: single moves from there may find an answer."""
        instances = self._reduced.instances
        start = instances.complete(self._network.decoded()[np.newaxis])
        found = Local().answer(instances, Limits(seconds=SETTINGS.repair_seconds, start=start))
        self._best.offer(self._reduced.lift(found.assignments[0]))

    def decode(self, ways: int = 2) -> Floats:
        """Offer what each order of the variables decodes, or the first alone; q_j - t_j: (m,)."""
        problem, room = self._best.problem, np.full((ways, len(self._best.problem.limits)), np.inf)
        for way in range(ways):
            found = self._network.decoded(way)[np.newaxis]
            whole = self._reduced.lift(self._reduced.instances.complete(found)[0])
            self._best.offer(whole)
            if problem.objective.value(whole)[0] > -np.inf:
                room[way] = [c.at_most - c.function.value(whole)[0] for c in problem.constraints]
        found_room: Floats = room[0] if np.isfinite(room[0]).all() else room[-1]
        return found_room


class BranchTurns:
    """Depth-first branch and bound on the network of the smaller problem."""

    name = "branching"

    def __init__(
        self,
        reduced: Reduced,
        best: Incumbent,
        network: RowNetwork,
        nodes: int = 1 << 60,
        memory: int = 1 << 60,
    ) -> None:
        self._reduced, self._best, self._network, self.nodes = reduced, best, network, nodes
        network.plant(int(SETTINGS.tree_share * memory))

    @property
    def finished(self) -> bool:
        """Whether nothing is left to explore."""
        return self._network.explored

    def play(self, until: float) -> float:
        """Go on where the last turn stopped."""
        network, best = self._network, self._best
        instances = self._reduced.instances
        while not network.explored and timing.now() < until:
            network.accept(best.objective, best.enough)
            if network.nodes >= self.nodes:
                break
            found = network.explore(until, self.nodes - network.nodes)
            if found is not None:
                best.offer(self._reduced.lift(instances.complete(found[np.newaxis])[0]))
        return network.open_bound


class Patience(NamedTuple):
    """How long one split may take to make, beyond a turn, and when all must be over."""

    seconds: float
    until: float = np.inf


class SplitTurns:
    """Best-first search over what is fixed, bounded by split relaxations."""

    name = "splitting"

    def __init__(
        self, reduced: Reduced, best: Incumbent, splits: Splits, patience: Patience
    ) -> None:
        self._patience = patience
        self._search = BestFirst(LiftedIncumbent(best, reduced), splits, 0.0, None)
        self._search.push(np.inf, reduced.instances.full()[0])

    @property
    def finished(self) -> bool:
        """Whether nothing is open, or no split can be made in time."""
        return self._search.out_of_time or not self._search.open

    def play(self, until: float) -> float:
        """Node after node."""
        self._search.until = until
        enough = max(until, timing.now() + self._patience.seconds)
        self._search.latest = min(self._patience.until, enough)
        self._search.deadline = self._patience.until
        for _ in self._search.run():
            pass
        return self._search.bound


class MilpTurns:
    """One run of HiGHS on what is left, where that is a small program."""

    name = "milp"

    def __init__(self, reduced: Reduced, best: Incumbent, limits: Limits) -> None:
        self._reduced, self._best, self._limits = reduced, best, limits
        self.finished = False

    @staticmethod
    def suits(reduced: Reduced) -> bool:
        """Whether the program is small enough to help."""
        return len(reduced.instances.conditioning.layout.values) <= SETTINGS.milp_entries

    def play(self, until: float) -> float:
        """Once, and never again."""
        self.finished = True
        seconds = until - timing.now()
        if seconds < SETTINGS.least_milp:
            return np.inf
        limits = replace(self._limits, seconds=seconds, gap=0.0)
        limits = _from_incumbent(limits, self._reduced, self._best)
        try:
            found = Milp("highs").answer(self._reduced.instances, limits)
        except Interrupted as stop:
            _take(stop.solutions, self._reduced, self._best)
            raise
        _take(found, self._reduced, self._best)
        return float(found.bound[0])


class EliminationTurns:
    """Elimination of all that is left, once, where it fits into memory and time."""

    name = "elimination"

    def __init__(
        self, reduced: Reduced, best: Incumbent, until: float, memory: int = MOST_BYTES
    ) -> None:
        self._reduced, self._best = reduced, best
        self._until = until
        problem = reduced.instances.problem
        self._alone = not problem.constraints and not problem.evidence_variables
        most = min(memory, MOST_BYTES if self._alone else EXACT.narrow_bytes)
        narrow = lane_bytes(problem) <= most
        each = SETTINGS.seconds_per_entry if self._alone else EXACT.seconds_per_entry
        self.seconds = each * problem.plan.operations if narrow else np.inf
        self.finished = timing.now() + self.seconds > until

    def play(self, until: float) -> float:
        """Eliminate, if there is still time: this cannot be interrupted."""
        self.finished = True
        if timing.now() + self.seconds > self._until:
            return np.inf
        problem = self._reduced.instances.problem
        if self._alone:
            found = eliminate_all(problem.models[0], problem.plan.order)
            bound = float(found.models[0].value(np.zeros((1, 0), dtype=np.int32))[0])
            self._best.offer(self._reduced.lift(found.lift(np.zeros(0, dtype=np.int32))))
            return bound if bound == -np.inf else bound + ROUNDING * abs(bound)
        answer = exact.eliminate(self._reduced.instances, EXACT.rounds)
        _take(answer, self._reduced, self._best)
        return float(answer.bound[0])
