"""The race on one wide row: presolve, then search and bounds in alternation, until the deadline.

Presolve sweeps the row's tables (`network`), dives for a first answer, lets `search` improve it and
takes away what cannot be better. What is left is a smaller problem (`reduced`). Three contestants
work on it in turns: `search` for better answers, `branching` (depth first, on soft consistency)
and `splitting` (`solvers.reduction`) for the bound and the proof. A turn's length follows what a
contestant earned: nats by which answer and bound came closer, per second. Whenever the answer
improves, values are taken away again; when enough of them are gone, the contestants start anew on
what is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.lagrangian import MOST_BYTES, lane_bytes
from cmpe.core.compiler import timing
from cmpe.errors import CmpeError
from cmpe.problem import Instances
from cmpe.solvers.base import Limits
from cmpe.solvers.incumbent import Known
from cmpe.solvers.reduction import Splits
from cmpe.solvers.wide.accounts import LEAST, LEAST_SEARCH, Account, next_of
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.prices import find_prices
from cmpe.solvers.wide.probing import ProbingTurns
from cmpe.solvers.wide.reduced import Reduced
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

LONGEST = 0.15  # of the limit: a turn, and each step of presolve
LEAST_PACE = 0.2  # seconds
SECONDS_PER_NUMBER = 2e-7  # a pace, per table entry
FIRST_SHARE = 0.05  # of the limit, for eliminating small variables
PRICE_SHARE = 0.1  # of the limit, for the first prices of the constraints
SPLIT_SHARE = 0.2  # of the limit, for making one split
SPLIT_SECONDS, SPLIT_LATE = 2e-4, 0.05  # a table, of the limit: splitting waits until the others
# have played so long, whichever is less
MILP_LATE, MILP_SOON = 0.1, 0.03  # of the limit: HiGHS waits until all have played so long, since
# consistency says what its first program says; with constraints, until search has,
MILP_SHARE = 0.3  # then it has so much of it
WELL = 0.05  # of the gap: presolve goes on sweeping while a turn closes so much
EARLY = 1.0  # seconds: a shorter elimination comes before branching and search
AT_ONCE = 0.3  # seconds: a shorter elimination does not wait
SWEEPS, DIVE = 32, 256  # of presolve without a limit: sweeps, and nodes beside one a variable
WORTH = 0.25  # of the values must be gone for the contestants to start anew


@dataclass
class Race:
    """One row on its way."""

    instances: Instances
    row: int
    limits: Limits
    splits: Splits
    known: Known
    begin: float = field(default_factory=timing.now)

    def __post_init__(self) -> None:
        seconds = self.limits.seconds
        self.seconds = np.inf if seconds is None else seconds
        self.until = min(self.begin + self.seconds, self.limits.until)
        self.reduced = Reduced.of(self.instances, self.row)
        self.shrunk = False
        self.failed: set[str] = set()
        self.network: RowNetwork
        self._dominated: tuple[RowNetwork, int] | None = None  # when that was last tried
        self._begun: tuple[RowNetwork, int] | None = None  # what `_tree` grows on
        self._tree: BranchTurns

    def prove_at_once(self) -> bool:
        """Sweeps, answers decoded from them, what shrinks, a dive; by counts, not by the clock."""
        self._network_of(np.zeros(len(self.instances.problem.constraints)))
        self._price(np.inf)
        known, best = self.known, self.known.best
        for _ in range(SWEEPS // 4):
            if known.closed:
                return True
            self.network.require(best.enough)
            self.network.tighten(np.inf, 4, -1.0)
            self._consistency().decode()
            known.upper = min(known.upper, max(self.network.upper, best.enough))
        self.shrink_by_elimination()
        if not known.closed and self._eliminates_early():
            self._once(self._elimination(), 1.0)
        if known.closed:
            return True
        nodes = DIVE + len(self.reduced.instances.problem.free)
        dive = BranchTurns(self.reduced, best, self.network, nodes)
        known.upper = min(known.upper, max(dive.play(np.inf), best.enough))
        return known.closed

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

    def _soon(self, seconds: float) -> float:
        """So many seconds from now, a share of the limit at most; never where there is none."""
        if self.seconds == np.inf:
            return np.inf
        return min(self.until, timing.now() + min(seconds, LONGEST * self.seconds))

    def _pace(self) -> float:
        """What a moment is on the present problem, in seconds: dozens of sweeps."""
        entries = len(self.reduced.instances.conditioning.layout.values)
        return max(LEAST_PACE, SECONDS_PER_NUMBER * entries)

    # --- presolve ---

    def _presolve(self) -> Iterator[str]:
        self._network_of(np.zeros(len(self.instances.problem.constraints)))
        self._consistency().play_once(self.until)  # an answer and a bound, late as it may be
        self._price(self._soon(PRICE_SHARE * self.seconds))
        if self.known.best.assignment is None and self.network.possible:
            self._consistency().repair()
        yield from self._swept()
        before = len(self.reduced.steps)
        if self._eliminate_small():
            self._hand_over(self.network, before)
            yield from self._swept()
        self._shrinks()
        yield "shrunk"
        if self._eliminates_early():
            yield self._once(self._elimination(), 1.0)
            if self._over():
                return
        yield self._once(self._branching(), 2.0)
        yield self._once(self._search(0), 2.0)
        self._shrinks()
        yield "shrunk"

    def _swept(self) -> Iterator[str]:
        """Consistency for as long as it closes much of the gap."""
        until, before = self._soon(LONGEST * self.seconds), np.inf
        yield self._once(self._consistency(), 2.0)
        while timing.now() < until and not self._over():
            before, reach = self.known.reach, before
            if self._is_worth_it() and self._shrinks():
                yield "shrunk"
            elif not before < (1.0 - WELL) * reach:
                break
            yield self._once(self._consistency(), 2.0)

    def _eliminate_small(self) -> bool:
        """Maximise out what leaves no larger tables, if that is worth it; whether it was tried."""
        if not self.reduced.can_eliminate():
            return False
        self.reduced = self.reduced.eliminated(self._soon(FIRST_SHARE * self.seconds))
        self.shrunk = True
        return True

    def _eliminates_early(self) -> bool:
        """Whether to eliminate before anything else: where that is quicker than to branch.

        A plan of what is left is made only where the row as given is not far too wide.
        """
        if lane_bytes(self.instances.problem) > MOST_BYTES or self._over():
            return False
        return self._elimination().seconds <= min(EARLY, LONGEST * self.seconds)

    def _elimination(self) -> EliminationTurns:
        return EliminationTurns(self.reduced, self.known.best, self.until, self.limits.bytes)

    def shrink_by_elimination(self) -> None:
        """What leaves no larger tables is maximised out, what others can stand in for goes."""
        before = len(self.reduced.steps)
        if not self.known.closed and self._eliminate_small():
            self._hand_over(self.network, before)
        if not self.known.closed:
            self._shrinks()

    def played(self, contestant: Contestant, until: float) -> float:
        """A turn; what fails costs neither the answer nor the bound."""
        if contestant.name == MilpTurns.name:  # it plays once
            until = min(self.until, timing.now() + MILP_SHARE * self.seconds)
        try:
            return contestant.play(until)
        except (CmpeError, MemoryError, ArithmeticError) as error:
            warnings.warn(f"{contestant.name} failed: {error}", RuntimeWarning, stacklevel=2)
            self.failed.add(contestant.name)
            return np.inf

    def _once(self, contestant: Contestant, paces: float) -> str:
        bound = self.played(contestant, self._soon(paces * self._pace()))
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
        before = self.reduced.values
        return before - int(self.network.sizes.sum()) >= WORTH * before

    def _shrinks(self) -> bool:
        """Take away what is not better than the incumbent; whether much is gone."""
        network, known = self.network, self.known
        network.require(known.best.enough)
        if network.tighten(self._soon(self._pace()), 8):
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
            self.network.dominate(self._soon(self._pace()))
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
            splits = Splits(reduced.instances.problem, seed, self.limits.memory)
        later = SPLIT_SECONDS * len(reduced.instances.conditioning.scopes)
        later = min(later, SPLIT_LATE * self.seconds)
        patience = Patience(SPLIT_SHARE * self.seconds, self.until)
        accounts = [
            Account(self._branching(), turns=2),  # a longer first turn: values have just gone
            Account(self._search(1), turns=4, least=LEAST_SEARCH),  # short runs find little
            Account(ProbingTurns(reduced, best, self.network, self.limits.bytes)),
            Account(self._consistency()),
            Account(SplitTurns(reduced, best, splits, patience), played=later),
        ]
        if MilpTurns.suits(reduced):
            program = MilpTurns(reduced, best, self.limits)
            soon = bool(reduced.instances.problem.constraints)
            wait, least = (MILP_SOON, LEAST_SEARCH) if soon else (MILP_LATE, LEAST)
            accounts.append(Account(program, played=wait * self.seconds, least=least))
        elimination = self._elimination()
        if not elimination.finished:
            accounts.insert(0, Account(elimination, played=elimination.seconds - AT_ONCE))
        return accounts

    def _goes_on(self, account: Account) -> bool:
        return not (account.contestant.finished or account.contestant.name in self.failed)

    def _next(self, accounts: list[Account]) -> Account:
        gap = self.known.reach if np.isfinite(self.known.reach) else 1.0
        return next_of(accounts, gap / self.seconds)

    def _turn(self, account: Account) -> bool:
        """Let one play; whether the answer improved."""
        known, begin = self.known, timing.now()
        before, objective = known.reach, known.best.objective
        seconds = min(LONGEST * self.seconds, self._pace() * account.paces)
        bound = self.played(account.contestant, self._soon(seconds))
        known.upper = min(known.upper, max(bound, known.best.enough))
        earned = before - known.reach if np.isfinite(before) else 1.0
        earned = earned if np.isfinite(earned) else 0.0
        account.note(earned, max(1e-6, timing.now() - begin), seconds)
        return known.best.objective > objective
