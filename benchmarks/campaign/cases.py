"""Random problems of every kind with rows of evidence, and the truth about each row.

The truth is found by brute force that shares no code with the package: tables are read entry by
entry, networks leaf by leaf, and every completion of a row is looked at.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cmpe
from cmpe.arrays import Floats, Values

KINDS = ("whole", "real", "zeros", "mixed", "large", "small", "cutset")
TOLERANCE = 1e-6  # of a constraint, relative to max(1, |q|): docs/mathematics.md
MOST_COMPLETIONS = 1500


@dataclass(frozen=True)
class Case:
    """A problem with rows that observe its evidence variables."""

    kind: str
    problem: cmpe.Problem
    rows: Values  # (B, |X|)


@dataclass(frozen=True)
class Truth:
    """Of one row: the best h if constraints are read a hair too strictly, and too loosely."""

    strict: float  # -inf: nothing is feasible
    loose: float
    scale: float  # of the numbers that are added up


def random_case(rng: np.random.Generator, kind: str | None = None) -> Case:
    """A problem of up to seven variables, up to three constraints, up to twelve rows."""
    chosen = str(rng.choice(KINDS)) if kind is None else kind
    while True:
        count = int(rng.integers(1, 8))
        cards = [int(k) for k in rng.integers(1, 5, count)]
        if np.prod(cards) <= MOST_COMPLETIONS:
            break
    objective = random_function(rng, cards, chosen, is_objective=True)
    wanted = int(rng.choice([0, 1, 1, 1, 2, 2, 3]))
    constraints = tuple(_constraint(rng, cards, chosen) for _ in range(wanted))
    some = rng.choice(count, int(rng.integers(0, count + 1)), replace=False)
    observed = tuple(int(v) for v in some)
    rows = int(rng.integers(1, 13)) if observed else 1
    evidence = np.zeros((rows, len(observed)), dtype=int)
    for column, variable in enumerate(observed):
        evidence[:, column] = rng.integers(0, cards[variable], rows)
    return Case(chosen, cmpe.Problem(objective, constraints, observed), evidence)


def _constraint(rng: np.random.Generator, cards: list[int], kind: str) -> cmpe.Constraint:
    """q is usually the value of some assignment, a tie; sometimes too low or too high for any."""
    function = random_function(rng, cards, kind, is_objective=False)
    some = np.stack([rng.integers(0, k, 30) for k in cards], axis=1)
    values = value(function, some)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return cmpe.Constraint(function, float(rng.normal()))
    q, spread = float(rng.choice(finite)), float(np.ptp(finite)) + 1.0
    shift = rng.choice([0.0, 0.0, 0.0, 0.1, 0.5, -0.1, 2.0, -2.0]) * spread
    return cmpe.Constraint(function, q + float(shift))


def random_function(
    rng: np.random.Generator, cards: list[int], kind: str, *, is_objective: bool
) -> Any:
    if kind == "cutset" and (is_objective or rng.random() < 0.5):
        return _network(rng, cards)
    factors = []
    for _ in range(int(rng.integers(0, 7))):
        arity = int(rng.integers(0, min(4, len(cards)) + 1))
        scope = tuple(int(v) for v in rng.choice(len(cards), arity, replace=False))
        factors.append(cmpe.Factor(scope, _table(rng, [cards[v] for v in scope], kind)))
    return cmpe.LogLinearModel(tuple(cards), tuple(factors))


def _table(rng: np.random.Generator, size: Sequence[int], kind: str) -> Floats:
    whole = kind == "whole" or (kind != "real" and rng.random() < 0.4)
    table = rng.integers(-3, 4, size).astype(float) if whole else rng.normal(size=size)
    if kind in ("zeros", "mixed") and rng.random() < 0.4:
        table = np.where(rng.random(size) < 0.3, -np.inf, table)
    if kind in ("large", "small"):
        power = rng.uniform(0, 9) if kind == "large" else rng.uniform(-9, 0)
        table = table * 10.0**power
    return np.asarray(table)


def _network(rng: np.random.Generator, cards: list[int]) -> cmpe.CutsetNetwork:
    """A random OR tree of depth at most 3 with a random forest in every leaf."""
    contexts = [np.full(len(cards), -1)]
    for _ in range(int(rng.integers(0, 4))):
        at = int(rng.integers(0, len(contexts)))
        free = np.flatnonzero(contexts[at] < 0)
        if not len(free):
            break
        parent, variable = contexts.pop(at), int(rng.choice(free))
        for k in range(cards[variable]):
            child = parent.copy()
            child[variable] = k
            contexts.append(child)
    shape, widest = (len(contexts), len(cards)), max(cards)
    parents = random_forests(rng, contexts)
    tables = rng.normal(size=(*shape, widest, widest))
    if rng.random() < 0.3:
        tables[rng.random(tables.shape) < 0.1] = -np.inf
    weights = rng.normal(size=len(contexts))
    return cmpe.CutsetNetwork(tuple(cards), np.array(contexts), weights, parents, tables)


def random_forests(rng: np.random.Generator, contexts: Sequence[Values]) -> Values:
    """Each leaf's parents (leaves, n) of the variables that its context leaves free."""
    parents = np.full((len(contexts), len(contexts[0])), -1)
    for leaf, context in enumerate(contexts):
        order = rng.permutation(np.flatnonzero(context < 0))
        for place in range(1, len(order)):
            if rng.random() < 0.8:
                parents[leaf, order[place]] = order[rng.integers(0, place)]
    return parents


def value(function: Any, rows: Values) -> Floats:
    """h of every row (B, n), straight from the arrays."""
    if isinstance(function, cmpe.CutsetNetwork):
        return np.array([_network_value(function, row) for row in rows])
    total = np.zeros(len(rows))
    for factor in function.factors:
        total = total + factor.log_table[tuple(rows[:, v] for v in factor.scope)]
    return total


def _network_value(network: cmpe.CutsetNetwork, row: Values) -> float:
    for leaf, context in enumerate(network.contexts):
        if all(c in (-1, z) for c, z in zip(context, row, strict=True)):
            total = float(network.log_weights[leaf])
            for v in np.flatnonzero(context < 0):
                parent = int(network.parents[leaf, v])
                above = 0 if parent < 0 else int(row[parent])
                total += float(network.log_tables[leaf, v, above, int(row[v])])
            return total
    raise AssertionError("contexts must cover everything")


def truths(case: Case) -> list[Truth]:
    """The truth about every row."""
    problem = case.problem
    cards = problem.objective.cardinalities
    observed = problem.evidence_variables
    free = [v for v in range(len(cards)) if v not in observed]
    values = np.array(list(itertools.product(*(range(cards[v]) for v in free))), dtype=int)
    whole = np.zeros((len(values), len(cards)), dtype=int)
    whole[:, free] = values.reshape(len(values), len(free))
    known: dict[bytes, Truth] = {}
    out = []
    for row in case.rows:
        key = row.tobytes()
        if key not in known:
            whole[:, list(observed)] = row
            known[key] = _truth(problem, whole)
        out.append(known[key])
    return out


def _truth(problem: cmpe.Problem, whole: Values) -> Truth:
    h = value(problem.objective, whole)
    strict = loose = np.isfinite(h)
    scale = _scale(h)
    for constraint in problem.constraints:
        t = value(constraint.function, whole)
        limit = constraint.at_most + TOLERANCE * max(1.0, abs(constraint.at_most))
        hair = 1e-11 * max(1.0, abs(constraint.at_most), _scale(t))
        strict = strict & (t <= limit - hair)
        loose = loose & (t <= limit + hair)
    best = [float(h[w].max()) if w.any() else -np.inf for w in (strict, loose)]
    return Truth(best[0], best[1], scale)


def _scale(values: NDArray[np.float64]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if len(finite) else 0.0


def told(case: Case) -> bytes:
    """The case as JSON: numbers in full, -inf as null."""
    problem = case.problem

    def function(f: Any) -> Any:
        if isinstance(f, cmpe.CutsetNetwork):
            names = ("contexts", "log_weights", "parents", "log_tables")
            return {name: _plain(getattr(f, name)) for name in names}
        return [[list(factor.scope), _plain(factor.log_table)] for factor in f.factors]

    return json.dumps(
        {
            "kind": case.kind,
            "cardinalities": list(problem.objective.cardinalities),
            "objective": function(problem.objective),
            "constraints": [[function(c.function), c.at_most] for c in problem.constraints],
            "evidence_variables": list(problem.evidence_variables),
            "rows": case.rows.tolist(),
        }
    ).encode()


def _plain(array: NDArray[Any]) -> Any:
    if array.dtype.kind != "f":
        return array.tolist()
    return [_plain(part) for part in array] if array.ndim else _number(float(array))


def _number(number: float) -> float | None:
    return number if np.isfinite(number) else None
