"""The cheapest change of a case after which a target is likely enough (`queries.counterfactual`).

    minimise cost(x')  subject to  P(target | x') >= p,  over the states x' of the case's variables

Cases are listed by rising cost, by `best` on a model that has only the costs, and P is computed for
all of a list at once, by elimination. The first one that reaches p is the cheapest: proved, because
every cheaper one was looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cmpe.arguments import real_number
from cmpe.arrays import FREE, Floats, Values
from cmpe.core.compiler.notices import asked_for
from cmpe.display import html_table, number_text
from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import limit_of
from cmpe.models.function import Function
from cmpe.models.linear import State
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.problem.rows import Rows
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.tradeoffs.best import best
from cmpe.tradeoffs.settings import TRADEOFFS
from cmpe.tradeoffs.sums import Summation

TOLERANCE = 1e-9  # of a probability

Costs = Mapping[Any, float | Mapping[State, float]]
Numbers = dict[int, int]  # of variables: the numbers of their states


class Case(NamedTuple):
    """A case by numbers: what it is, what it must lead to, what each change would cost."""

    domain: Domain
    known: Numbers  # without the variables of the target
    target: Numbers
    prices: dict[int, Floats]  # of each variable that may change: of its states, inf where not

    @classmethod
    def of(
        cls,
        domain: Domain,
        case: Mapping[Any, State],
        target: Mapping[Any, State],
        costs: Costs | None,
        immutable: Collection[str | int],
    ) -> Case:
        """What people write, checked."""
        known, wanted = (
            {(v := domain.variable(key)): domain.state(v, s) for key, s in given.items()}
            for given in (case, target)
        )
        fixed = {domain.variable(v) for v in immutable}
        if not wanted or fixed & set(wanted):
            raise ModelError(
                "a target names variables and their new states, none of them immutable"
            )
        unknown = sorted(fixed - set(known))
        if unknown:
            raise ModelError(f"the case must have a state of {domain.called(unknown[0])}")
        known = {v: s for v, s in known.items() if v not in wanted}
        asked: Costs = dict.fromkeys(known, 1.0) if costs is None else costs
        prices: dict[int, Floats] = {}
        for key, price in asked.items():
            v = domain.variable(key)
            if v in known and v not in fixed:
                prices[v] = _priced(domain, v, price, known[v])
        return cls(domain, known, wanted, prices)

    @property
    def kept(self) -> Numbers:
        """What does not change."""
        return {v: s for v, s in self.known.items() if v not in self.prices}

    def minus_cost(self) -> LogLinearModel:
        """-(cost of what has changed) over all variables; -inf where a change has no price."""
        factors = tuple(Factor((v,), -price) for v, price in self.prices.items())
        d = self.domain
        return LogLinearModel(d.cardinalities, factors, d.names, d.states)

    def named(self, numbers: Numbers) -> dict[Any, Any]:
        """States by variable, as people call them."""
        d = self.domain
        return {d.names[v] if d.names else v: d.label(v, s) for v, s in numbers.items()}

    def cost(self, numbers: Numbers) -> float:
        """What the changes of a case cost."""
        return float(sum(self.prices[v][s] for v, s in numbers.items() if v in self.prices))


def _priced(domain: Domain, v: int, price: Any, state: int) -> Floats:
    """The price of each state of a variable, 0 of the one that it has."""
    out = np.full(domain.cardinalities[v], np.inf)
    if isinstance(price, Mapping):
        for key, one in price.items():
            out[domain.state(v, key)] = limit_of(one, f"the cost of {domain.name(v)}={key}")
    else:
        out[:] = limit_of(price, f"the cost of changing {domain.name(v)!r}")
    out[state] = 0.0
    if (out < 0.0).any():
        raise ModelError(f"the costs of changing {domain.name(v)!r} must be at least 0")
    return out


@dataclass(frozen=True, repr=False)
class Counterfactual:
    """The cheapest change, and how likely the target is after it."""

    change: dict[Any, tuple[Any, Any]]  # of each variable that changes: what it is, what it becomes
    case: dict[Any, Any]  # after the change; empty where no change is enough
    cost: float  # inf where no change is enough
    probability: float  # of the target given the case after the change
    before: float  # the same given the case as it is; nan where that is impossible
    bound: float  # no change that is enough costs less
    target: dict[Any, Any]

    @property
    def proved(self) -> bool:
        """Whether nothing cheaper is enough."""
        return self.bound >= self.cost

    def __str__(self) -> str:
        wanted = ", ".join(f"{name}={state}" for name, state in self.target.items())
        was = f"was {number_text(self.before, '.3g')}"
        if self.cost == np.inf:
            least = "" if self.proved else f" that costs less than {self.bound:g}"
            return f"no change{least} makes {wanted} likely enough: proved ({was})"
        words = [f"{name}: {new} instead of {old}" for name, (old, new) in self.change.items()]
        proof = "proved to be the cheapest" if self.proved else f"nothing below {self.bound:g} is"
        return (
            f"{'; '.join(words) or 'nothing to change'} (cost {self.cost:g}, {proof}): "
            f"P({wanted}) is {self.probability:.3g}, {was}"
        )

    def __repr__(self) -> str:
        return f"Counterfactual({self})"

    def _repr_html_(self) -> str:
        rows = [(str(name), str(old), str(new)) for name, (old, new) in self.change.items()]
        return html_table(str(self), ("change", "is", "becomes"), rows)


@asked_for("a counterfactual")
def cheapest(
    model: Function, case: Case, probability: float, time_limit: float | None
) -> Counterfactual:
    """The cheapest change after which the target has at least this probability."""
    least = real_number("probability", probability, ModelError, example="0.5")
    if not 0.0 < least <= 1.0:
        raise ModelError(f"probability must be above 0 and at most 1, found {probability}")
    problem = Problem(model)
    problem.need_tables("counterfactual")
    deadline = Deadline(Limits.of(None, seconds=time_limit))
    odds = _Odds(problem, case)
    before = float(odds.of(np.array([[case.known[v] for v in case.prices]]))[0])
    cards = [case.domain.cardinalities[v] for v in case.prices]
    tables = tuple(Factor((k,), -price) for k, price in enumerate(case.prices.values()))
    listing = Problem(LogLinearModel(tuple(cards), tables))
    seen, count, bound = 0, TRADEOFFS.first_listed, 0.0
    while True:
        (ranked,) = best(listing, k=count)
        rows = ranked.assignments[seen:]
        likely = odds.of(rows)
        enough = np.flatnonzero(likely >= least - TOLERANCE)
        costs = -ranked.objective[seen:]
        if len(enough):
            equal = enough[costs[enough] <= costs[enough[0]]]
            first = equal[int(np.argmax(likely[equal]))]
            return _answer(case, rows[first], float(likely[first]), before)
        seen += len(rows)
        is_all = seen < count
        bound = np.inf if is_all else float(costs[-1])
        if is_all or deadline.expired():
            target = case.named(case.target)
            return Counterfactual({}, {}, np.inf, np.nan, before, bound, target)
        count *= TRADEOFFS.longer


def _answer(case: Case, row: Values, probability: float, before: float) -> Counterfactual:
    states = {**case.known, **dict(zip(case.prices, row.tolist(), strict=True))}
    cost = case.cost(states)
    was, becomes = case.named(case.known), case.named(states)
    change = {v: (old, becomes[v]) for v, old in was.items() if becomes[v] != old}
    return Counterfactual(change, becomes, cost, probability, before, cost, case.named(case.target))


class _Odds:
    """P(target | case) for many cases that differ in the variables that may change."""

    def __init__(self, problem: Problem, case: Case) -> None:
        self._problem, self._case = problem, case

    def of(self, rows: Values) -> Floats:
        """Of each row of states of `case.prices`: (R,), NaN where the case is impossible."""
        whole = np.full((len(rows), self._problem.variables), FREE, dtype=self._problem.dtype)
        for v, state in self._case.kept.items():
            whole[:, v] = state
        whole[:, list(self._case.prices)] = rows
        joint = whole.copy()
        for v, state in self._case.target.items():
            joint[:, v] = state
        threads = Running().cores
        given, both = (
            Summation.of(Rows(self._problem, each), threads).log_partitions()
            for each in (whole, joint)
        )
        with np.errstate(invalid="ignore"):
            return np.asarray(np.exp(both - given))
