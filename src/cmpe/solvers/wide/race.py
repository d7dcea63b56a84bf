"""The race on one wide row: presolve, then search and bounds in alternation, until the deadline.

Presolve sweeps the row's tables (`network`), dives for a first answer, lets `search` improve it and
takes away what cannot be better. What is left is a smaller problem (`reduced`). Three contestants
work on it in turns: `search` for better answers, `branching` (best first, on soft consistency)
and `splitting` (`solvers.reduction`) for the bound and the proof. A turn's length follows what a
contestant earned: nats by which answer and bound came closer, per second. Whenever the answer
improves, values are taken away again; when enough of them are gone, the contestants start anew on
what is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.lagrangian import MOST_BYTES, lane_bytes
from cmpe.core.compiler import timing
from cmpe.errors import CmpeError
from cmpe.problem import Instances
from cmpe.solvers.base import Limits
from cmpe.solvers.incumbent import Known
from cmpe.solvers.reduction import Splits
from cmpe.solvers.wide.accounts import Account, next_of
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.prices import find_prices
from cmpe.solvers.wide.probing import ProbingTurns
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.settings import SETTINGS, RaceSettings
from cmpe.solvers.wide.turns import (
    BranchTurns,
    ConsistencyTurns,
    Contestant,
    EliminationTurns,
    MilpTurns,
    Patience,
    SearchTurns,
    SplitTurns,
)


@dataclass
class Race:
    """One row on its way."""

    instances: Instances
    row: int
    limits: Limits
    splits: Splits
    known: Known
    begin: float = field(default_factory=timing.now)
    settings: RaceSettings = SETTINGS

    def __post_init__(self) -> None:
        seconds = self.limits.seconds
        self.seconds = np.inf if seconds is None else seconds
        self.until = min(self.begin + self.seconds, self.limits.until)
        self.reduced = Reduced.of(self.instances, self.row)
        self.shrunk = False
        self.left_out: set[str] = set()  # names of contestants that failed
        self.network: RowNetwork
        self._dominated: tuple[RowNetwork, int] | None = None  # when that was last tried
        self._begun: tuple[RowNetwork, int] | None = None  # what `_tree` grows on
        self._tree: BranchTurns

    def prove_at_once(self) -> bool:
        """Presolve and the tree by counts, not by the clock."""
        for _ in self._presolve():
            if self.known.closed:
                return True
        entries = len(self.reduced.instances.conditioning.layout.values)
        tree = self._branching()
        tree.nodes = int(self.settings.work / (entries + 1))
        self._once(tree)
        return self.known.closed

    def run(self) -> Iterator[str]:
        """What was done, step after step."""
        for step in self._presolve():
            yield step
            if self._over():
                return
        while not self._over():
            accounts = self._enter()
            while not self._over() and accounts:
                account = self._next(accounts)
                improved = self._turn(account)
                accounts = [a for a in accounts if self._goes_on(a)]
                yield account.contestant.name
                if (improved or self._is_worth_it()) and self._shrinks():
                    yield "shrunk"
                    break
            if not accounts:
                return

    def _over(self) -> bool:
        return self.known.closed or timing.now() >= self.until

    @property
    def _passed(self) -> float:
        return timing.now() - self.begin

    def _soon(self, seconds: float) -> float:
        """So many seconds from now, a share of the limit at most; never where there is none."""
        if self.seconds == np.inf:
            return np.inf
        longest = self.settings.longest_share * self.seconds
        return min(self.until, timing.now() + min(seconds, longest))

    def _turn_seconds(self) -> float:
        """How long a turn takes now: dozens of sweeps at least, more as time passes."""
        entries, settings = len(self.reduced.instances.conditioning.layout.values), self.settings
        by_size = max(settings.shortest_turn, settings.turn_per_number * entries)
        return max(by_size, settings.turn_growth * self._passed)

    # --- presolve ---

    def _presolve(self) -> Iterator[str]:
        self._network_of(np.zeros(len(self.instances.problem.constraints)))
        self._consistency().play_once(self.until)  # an answer and a bound, late as it may be
        self._price(self._soon(self.settings.price_share * self.seconds))
        if self.known.best.assignment is None and self.network.possible:
            self._consistency().repair()
        self._dominate()
        self._shrinks()
        yield from self._swept()
        before = len(self.reduced.steps)
        if not self.known.closed and self._eliminate_small():
            self._hand_over(self.network, before)
            yield from self._swept()
        self._shrinks()
        yield "shrunk"
        if self.known.closed:
            return
        if self._is_due(elimination := self._elimination()):
            yield self._once(elimination)
        if not self._over():
            yield self._relaxed_answers()
            self._shrinks()
            yield "shrunk"
        if not self._over() and self.seconds < np.inf:
            yield self._once(self._branching(), max(self._passed, self.settings.first_branching))

    def _swept(self) -> Iterator[str]:
        """Consistency for as long as it closes much of the gap."""
        sweeps = 4
        while not self._over():
            before = replace(self.known, best=copy(self.known.best))
            if self.seconds == np.inf:
                self._sweep(sweeps)
                sweeps = min(2 * sweeps, 32)
                yield "consistency"
            else:
                yield self._once(self._consistency())
            if self._is_worth_it() and self._shrinks():
                yield "shrunk"
            elif not self._gained_since(before):
                break

    def _gained_since(self, before: Known) -> bool:
        """Whether answer or bound came closer by so much that more of the same is worth it."""
        known, settings = self.known, self.settings
        if known.best.assignment is None:
            return before.upper - known.upper > settings.sweep_fall * (1.0 + abs(known.upper))
        return known.reach < (1.0 - settings.sweep_gain) * before.reach

    def _sweep(self, count: int) -> None:
        """So many sweeps, and what they decode."""
        known, best = self.known, self.known.best
        self.network.require(best.enough)
        self.network.tighten(np.inf, count, -1.0)
        if self.network.possible:
            self._consistency().decode()
        known.upper = min(known.upper, max(self.network.upper, best.enough))

    def _relaxed_answers(self) -> str:
        """Answers near the best of the reparametrisation: other values are left out."""
        network, known, settings = self.network, self.known, self.settings
        losses = network.losses()
        if not network.possible:
            return "relaxed"
        place = network.shape.place
        second = [np.partition(losses[a:b], 1)[1] for a, b in pairwise(place) if b - a > 1]
        for share in settings.relaxed:
            most = float(np.quantile(second, share, method="lower")) if second else 0.0
            narrow = network.narrowed(min(most, 1e300), losses)
            nodes = settings.relaxed_nodes + len(network.sizes)
            tree = BranchTurns(self.reduced, known.best, narrow, nodes)
            if narrow.possible:
                tree.play(self._soon(self._turn_seconds()))
            if self._over():
                break
        return "relaxed"

    def _eliminate_small(self) -> bool:
        """Maximise out what leaves no larger tables; whether there was any."""
        small = self.reduced.eliminated(self._soon(self.settings.small_share * self.seconds))
        if small is self.reduced:
            return False
        self.reduced, self.shrunk = small, True
        return True

    def _is_due(self, elimination: EliminationTurns) -> bool:
        """Whether so much time has passed that elimination is no great loss if it is in vain."""
        if elimination.finished or elimination.name in self.left_out:
            return False
        return self._passed >= self.settings.elimination_due * elimination.seconds

    def _elimination(self) -> EliminationTurns:
        """A plan of what is left is made only where the row as given is not far too wide."""
        until = self.until if lane_bytes(self.instances.problem) <= MOST_BYTES else -np.inf
        return EliminationTurns(self.reduced, self.known.best, until, self.limits.bytes)

    def played(self, contestant: Contestant, until: float) -> float:
        """A turn; what fails costs neither the answer nor the bound."""
        if contestant.name == MilpTurns.name:  # it plays once
            until = min(self.until, timing.now() + self.settings.milp_share * self.seconds)
        try:
            return contestant.play(until)
        except (CmpeError, MemoryError, ArithmeticError) as error:
            warnings.warn(f"{contestant.name} failed: {error}", RuntimeWarning, stacklevel=2)
            self.left_out.add(contestant.name)
            return np.inf

    def _once(self, contestant: Contestant, seconds: float = 0.0) -> str:
        bound = self.played(contestant, self._soon(max(seconds, self._turn_seconds())))
        self.known.upper = min(self.known.upper, max(bound, self.known.best.enough))
        return contestant.name

    def _network_of(self, multipliers: Floats) -> None:
        instances = self.reduced.instances
        self.network = RowNetwork(NetworkShape(instances.conditioning), instances, 0, multipliers)
        self.network.require(self.known.best.enough)

    def _price(self, until: float) -> None:
        """Prices of the constraints; what is decoded under each of them may be an answer."""
        if self.instances.problem.constraints and not self._over():
            find_prices(self.network, until, self._consistency().decode)
        self.known.upper = min(self.known.upper, max(self.network.upper, self.known.best.enough))

    def _consistency(self) -> ConsistencyTurns:
        return ConsistencyTurns(self.reduced, self.known.best, self.network)

    def _search(self, number: int) -> SearchTurns:
        seed = self.limits.seed + number
        limits = replace(self.limits, seed=seed, until=self.until)
        return SearchTurns(self.reduced, self.known.best, limits)

    def _branching(self) -> BranchTurns:
        """Depth first, from what consistency has made of the tables so far.

        Where no value has gone since the last one began, that one goes on.
        """
        begun = self.network, int(self.network.sizes.sum())
        if self._begun != begun:
            self._begun, tables = begun, self.network.copied()
            best = self.known.best
            self._tree = BranchTurns(self.reduced, best, tables, memory=self.limits.bytes)
        return self._tree

    def _is_worth_it(self) -> bool:
        """Whether enough values are out for everything to start anew on what is left."""
        before = self.reduced.values - len(self.network.sizes)
        left = int(self.network.sizes.sum()) - len(self.network.sizes)
        return before > 0 and before - left >= self.settings.worth * before

    def _shrinks(self) -> bool:
        """Take away what is not better than the incumbent; whether much is gone."""
        network, known = self.network, self.known
        network.require(known.best.enough)
        if network.tighten(self._soon(self._turn_seconds()), 8):
            self._dominate()
        known.upper = min(known.upper, max(network.upper, known.best.enough))
        if not network.possible or known.closed:
            return True
        if not self._is_worth_it():
            return False
        before = len(self.reduced.steps)
        self.reduced = self.reduced.restricted(network.domains(), network.stand_ins())
        self.shrunk = True
        self._eliminate_small()
        self._hand_over(network, before)
        return True

    def _dominate(self) -> None:
        """Take away what others can stand in for, if values have gone since that was tried."""
        state = self.network, int(self.network.sizes.sum())
        if self._dominated != state:
            self.network.dominate(self._soon(self._turn_seconds()))
            self._dominated = self.network, int(self.network.sizes.sum())

    def _hand_over(self, network: RowNetwork, steps: int) -> None:
        """A network of the present problem with the messages of what it had before `steps`."""
        messages = network.messages()
        for step in self.reduced.steps[steps:]:
            messages = step.messages(messages)
        self._network_of(network.multipliers)
        self.network.take_over(messages)

    # --- turns ---

    def _enter(self) -> list[Account]:
        """The contestants on the present problem; some wait until others have played a while."""
        best, seed, reduced, splits = self.known.best, self.limits.seed, self.reduced, self.splits
        if self.shrunk:
            splits = Splits(reduced.instances.problem, seed, self.limits.memory, self.seconds)
        settings, seconds = self.settings, self.seconds
        later = settings.split_wait * len(reduced.instances.conditioning.scopes)
        later = min(later, settings.split_late * seconds)
        patience = Patience(settings.split_share * seconds, self.until)
        accounts = [
            Account(self._branching(), settings.least_branching),
            Account(self._search(1), slack=settings.slack_search),
            Account(ProbingTurns(reduced, best, self.network, self.limits.bytes)),
            Account(self._consistency()),
            Account(SplitTurns(reduced, best, splits, patience), played=later),
        ]
        binds = bool(self.network.multipliers.any())
        if binds and MilpTurns.suits(reduced):
            program = MilpTurns(reduced, best, self.limits)
            wait = settings.milp_wait * seconds
            accounts.append(Account(program, slack=settings.slack_search, played=wait))
        self._waiting = self._elimination()
        return [account for account in accounts if self._goes_on(account)]

    def _goes_on(self, account: Account) -> bool:
        return not (account.contestant.finished or account.contestant.name in self.left_out)

    def _next(self, accounts: list[Account]) -> Account:
        if self._is_due(self._waiting):
            return Account(self._waiting)
        gap = self.known.reach if np.isfinite(self.known.reach) else 1.0
        return next_of(accounts, gap / max(1e-9, self.until - timing.now()))

    def _turn(self, account: Account) -> bool:
        """Let one play; whether the answer improved."""
        known, begin = self.known, timing.now()
        before, objective = known.reach, known.best.objective
        seconds = min(self.settings.longest_share * self.seconds, self._turn_seconds())
        bound = self.played(account.contestant, self._soon(seconds))
        known.upper = min(known.upper, max(bound, known.best.enough))
        earned = before - known.reach if np.isfinite(before) else 1.0
        earned = earned if np.isfinite(earned) else 0.0
        account.note(earned, max(1e-6, timing.now() - begin), seconds)
        return known.best.objective > objective
