"""Rows with numbers of their own under rules: every method and question against enumeration.

Soft evidence, scores of variables and of pairs, limits of each row, logic of every kind. The truth
is enumerated by `cases.value` and plain Python predicates of the rules.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.answers import SELDOM, is_installed
from benchmarks.campaign.cases import random_function, value
from benchmarks.campaign.journal import Journal
from benchmarks.campaign.rules import random_rule, worth
from benchmarks.front_check import non_dominated
from cmpe.arrays import Floats, Values

KINDS = ("whole", "real", "zeros", "mixed")
OFTEN = ("auto", "exact", "exhaustive", "lagrangian", "local", "search")
MILP = ("milp", 0.2)  # the share of the problems that it answers
PROVERS = ("auto", "exact", "exhaustive", "milp", "milp:scip", "milp:gurobi", "toulbar2")
# What solvers of other projects may answer instead.
REFUSALS = ("toulbar2 counts costs up to", "Gurobi needs a licence")
MOST_COMPLETIONS, MOST_LONG = 600, 3000
LONG = 0.1  # share of problems with rules of many variables
TOLERANCE = 1e-6  # of a constraint, relative to max(1, |q|): docs/mathematics.md
CLOSE = 1e-6


@dataclass(frozen=True)
class Case:
    """A problem, what is given with it, and its rows enumerated."""

    problem: cmpe.Problem
    evidence: Any
    options: dict[str, Any]
    every: Values  # (N, n): all assignments
    h: Floats  # (B, N): -inf where evidence, rules or tables forbid
    t: Floats  # (N, m), as in t <= q
    limits: Floats  # (B, m)

    def within(self, room: float, without: int | None = None) -> Floats:
        """h (B, N) of what satisfies the limits with so many tolerances, else -inf."""
        over = self.t - self.limits[:, np.newaxis]
        most = room * TOLERANCE * np.maximum(1.0, np.abs(self.limits))[:, np.newaxis]
        good = over <= most
        if without is not None:
            good[:, :, without] = True
        return np.where(good.all(axis=2), self.h, -np.inf)


def random_case(rng: np.random.Generator) -> Case:
    """Up to six variables, three constraints, three rules and five rows.

    One in ten problems has up to eleven variables of fewer values: rules too large for tables.
    """
    kind = str(rng.choice(KINDS))
    is_long = rng.random() < LONG
    while True:
        cards = [int(k) for k in rng.integers(1, 5, int(rng.integers(1, 7)))]
        if is_long:
            cards = [int(k) for k in rng.choice([2, 2, 2, 3], int(rng.integers(8, 12)))]
        if np.prod(cards) <= (MOST_LONG if is_long else MOST_COMPLETIONS):
            break
    every = np.array(list(itertools.product(*map(range, cards))))
    objective = random_function(rng, cards, kind, is_objective=True)
    h = value(objective, every)
    rules = []
    for _ in range(int(rng.integers(0, 4))):
        rule, holds = random_rule(rng, cards)
        rules.append(rule)
        h = h + worth(rule, holds, every)
    limited = [
        _limited(rng, cards, kind, every, j) for j in range(int(rng.choice([0, 1, 1, 2, 3])))
    ]
    t = np.concatenate([every[:, :0] * 1.0, *(columns for _, columns, _ in limited)], axis=1)
    h = np.where(np.isposinf(t).any(axis=1), -np.inf, h)  # -inf never reaches a lower limit
    signs = np.array([sign for _, _, own in limited for sign in own])
    problem = cmpe.Problem(objective, [*(condition for condition, _, _ in limited), *rules])
    rows = int(rng.integers(1, 6))
    options, u = _own_potentials(rng, cards, rows, every)
    limits = np.broadcast_to(problem.limits, (rows, len(signs)))
    if limited and rng.random() < 0.7:
        limits = np.array([[_limit(rng, column) for column in t.T] for _ in range(rows)])
        names = [c.name for c in problem.constraints]
        keys = [name if names.count(name) == 1 else j for j, name in enumerate(names)]
        by_key = dict(zip(keys, (signs * limits).T, strict=True))
        options["limits"] = signs * limits if rng.random() < 0.5 else by_key
    evidence, more = _evidence(rng, cards, rows, every)
    return Case(problem, evidence, options, every, h + u + more, t, limits)


def _limited(
    rng: np.random.Generator, cards: list[int], kind: str, every: Values, number: int
) -> tuple[Any, Floats, list[float]]:
    """A condition, its values (N, 1 or 2) as in t <= q, and what shown limits are multiplied by."""
    if rng.random() < 0.2:  # exactly so many, which is two limits
        states = {v: int(rng.integers(k)) for v, k in enumerate(cards) if rng.random() < 0.7}
        holds = [every[:, v] == state for v, state in states.items()]
        count = np.sum(holds, axis=0, initial=0.0) + np.zeros(len(every))
        wanted = int(rng.integers(0, len(cards)))
        if states:
            equal = cmpe.count(states, name=f"t{number}") == wanted
            return equal, np.stack([-count, count], axis=1), [-1.0, 1.0]
    function = random_function(rng, cards, kind, is_objective=False)
    values = value(function, every)
    if rng.random() < 0.3:
        least = (function >= -_limit(rng, -values)).named(f"t{number}")
        return least, -values[:, np.newaxis], [-1.0]
    most = cmpe.Constraint(function, _limit(rng, values), name=f"t{number}")
    return most, values[:, np.newaxis], [1.0]


def _limit(rng: np.random.Generator, values: Floats) -> float:
    """Usually a value that some assignment has, a tie; sometimes too low or too high for any."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return -3.0
    shift = rng.choice([0.0, 0.0, 0.0, 0.1, -0.1, 2.0, -2.0])
    return float(rng.choice(finite) + shift * (np.ptp(finite) + 1.0))


def _own_potentials(
    rng: np.random.Generator, cards: list[int], rows: int, every: Values
) -> tuple[dict[str, Any], Floats]:
    """`potentials=` in one of its forms, and what it adds to h (B, N)."""

    def table(*shape: int) -> Floats:
        out = rng.normal(size=(rows, *shape)) * rng.choice([1.0, 5.0])
        return np.where(rng.random(out.shape) < rng.choice([0.0, 0.15]), -np.inf, out)

    total = np.zeros((rows, len(every)))
    given: dict[Any, Floats] = {}
    if rng.random() < 0.3:
        padded = np.full((rows, len(cards), max(cards)), np.nan)
        for v, k in enumerate(cards):
            padded[:, v, :k] = table(k)
            total = total + padded[:, v, every[:, v]]
        return {"potentials": padded}, total
    for v, k in enumerate(cards):
        if rng.random() < 0.5:
            given[v] = table(k).astype(str(rng.choice(["f4", "f8"])))
            total = total + given[v][:, every[:, v]]
    if len(cards) > 1 and rng.random() < 0.5:
        a, b = (int(v) for v in rng.choice(len(cards), 2, replace=False))
        given[a, b] = table(cards[a], cards[b])
        total = total + given[a, b][:, every[:, a], every[:, b]]
    return {"potentials": given} if given else {}, total


def _evidence(
    rng: np.random.Generator, cards: list[int], rows: int, every: Values
) -> tuple[Any, Floats]:
    """Rows with states, likelihoods or nothing for each variable, and what they add to h."""
    total, given = np.zeros((rows, len(every))), list[dict[int, Any]]()
    some = rng.random(len(cards)) < 0.4
    is_soft = rng.random() < 0.6
    for row in range(rows):
        seen: dict[int, Any] = {}
        for v, k in enumerate(cards):
            if some[v] != (rng.random() < 0.1):  # rows may observe different variables
                seen[v] = int(rng.integers(k))
                total[row, every[:, v] != seen[v]] = -np.inf
            elif is_soft and rng.random() < 0.4:
                weights = rng.random(k) * (rng.random(k) < 0.8)
                weights[rng.integers(k)] = 0.5
                seen[v] = weights.tolist() if rng.random() < 0.5 else dict(enumerate(weights))
                with np.errstate(divide="ignore"):
                    total[row] += np.log(weights)[every[:, v]]
        given.append(seen)
    if not is_soft and rng.random() < 0.5:
        return np.array([[row.get(v, -1) for v in range(len(cards))] for row in given]), total
    return given, total


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """One problem: all methods, fronts, the best few, all bounds."""
    case = random_case(rng)
    journal.count("problems with numbers of rows")
    journal.count("rows", len(case.h))
    shares = {**SELDOM, MILP[0]: ("numpy", MILP[1])}
    asked = [m for m, (package, p) in shares.items() if rng.random() < p and is_installed(package)]
    for method in (*OFTEN, *asked):
        _judge(journal, case, method, partial(wrong_answers, method=method))
    for name in ("lagrangian", "minibucket", "splitting", "messages"):
        _judge(journal, case, f"bound {name}", partial(wrong_bounds, name=name))
    _judge(journal, case, "best", wrong_ranks)
    if case.problem.constraints:
        _judge(journal, case, "front", wrong_fronts)


def _judge(
    journal: Journal, case: Case, name: str, judged: Callable[[Case], Iterator[str]]
) -> None:
    journal.count("row-by-method checks", len(case.h))
    journal.count(f"checks of {name}", len(case.h))
    try:
        found = next(judged(case), None)
    except Exception:  # a leak is a finding, whatever it is
        found = traceback.format_exc(limit=-3)
    if found and not any(refusal in found for refusal in REFUSALS):
        journal.find("wrong", f"{name}: {found}", {"case.txt": repr(case).encode()})


def wrong_answers(case: Case, method: str) -> Iterator[str]:
    """What is wrong with a method's answers."""
    found = cmpe.solve(case.problem, case.evidence, method=method, **case.options)
    strict, loose = case.within(0.999).max(axis=1), case.within(1.001).max(axis=1)
    for row in range(len(case.h)):
        hair = CLOSE * max(1.0, abs(strict[row]) if np.isfinite(strict[row]) else 1.0)
        status, h = cmpe.Status.of(found.status[row]), found.objective[row]
        if found.bound[row] < strict[row] - hair:
            yield f"row {row}: bound {found.bound[row]} below {strict[row]}"
        if status is cmpe.Status.INFEASIBLE and strict[row] > -np.inf:
            yield f"row {row}: infeasible, but {strict[row]} is there"
        if method in PROVERS and status not in (cmpe.Status.OPTIMAL, cmpe.Status.INFEASIBLE):
            yield f"row {row}: {status.label}"
        if status not in (cmpe.Status.OPTIMAL, cmpe.Status.FEASIBLE):
            continue
        at = int(np.flatnonzero((case.every == found.assignments[row]).all(axis=1))[0])
        if not abs(case.h[row, at] - h) <= hair:
            yield f"row {row}: h = {h}, its assignment has {case.h[row, at]}"
        if h > loose[row] + hair:
            yield f"row {row}: {h} above {loose[row]}"
        if status is cmpe.Status.OPTIMAL and h < strict[row] - hair:
            yield f"row {row}: optimal with {h}, {strict[row]} is there"


def wrong_bounds(case: Case, name: str) -> Iterator[str]:
    """Bounds below the optimum."""
    work = cmpe.Work(steps=20)
    found = cmpe.bound(case.problem, case.evidence, method=name, work=work, **case.options)
    for row, best in enumerate(case.within(0.999).max(axis=1)):
        if found.upper[row] < best - CLOSE * max(1.0, abs(best)):
            yield f"row {row}: {found.upper[row]} below {best}"
        if found.infeasible[row] and best > -np.inf:
            yield f"row {row}: infeasible, but {best} is there"


def wrong_ranks(case: Case) -> Iterator[str]:
    """Ranks that are not those of enumeration."""
    ranked = cmpe.best(case.problem, case.evidence, k=5, **case.options)
    for row, found in enumerate(ranked):
        h = -np.sort(-case.within(1.0)[row])
        h = h[np.isfinite(h)]
        if len(found.objective) != min(5, len(h)):
            yield f"row {row}: {len(found.objective)} ranks of {len(h)} assignments"
        elif not np.allclose(found.objective, h[:5], atol=CLOSE):
            yield f"row {row}: {found.objective} instead of {h[:5]}"
        elif len({tuple(z) for z in found.assignments.tolist()}) < len(found.objective):
            yield f"row {row}: an assignment twice"


def wrong_fronts(case: Case) -> Iterator[str]:
    """Fronts that are not those of enumeration."""
    over = len(case.problem.constraints) - 1
    for row, found in enumerate(cmpe.front(case.problem, case.evidence, over=over, **case.options)):
        h = case.within(1.0, without=over)[row]
        good = np.isfinite(h)
        want = non_dominated(h[good], case.t[good, over])
        have = (found.traced.h, found.traced.t)
        if not found.complete:
            yield f"row {row}: not complete"
        elif len(have[0]) != len(want[0]):
            yield f"row {row}: {len(have[0])} points instead of {len(want[0])}"
        elif not all(np.allclose(a, b, atol=CLOSE) for a, b in zip(have, want, strict=True)):
            yield f"row {row}: {have} instead of {want}"
