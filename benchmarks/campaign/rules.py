"""Random rules, and what they mean in plain Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import cmpe
from cmpe import Rule

KINDS = (
    "implies",
    "exactly_one",
    "at_most_one",
    "at_least_one",
    "parity",
    "equal",
    "all_different",
    "allowed",
)


def random_rule(rng: np.random.Generator, cards: list[int]) -> tuple[Rule, Any]:
    """A rule over variables by number, and a function of an assignment that says if it holds."""
    kind = KINDS[int(rng.integers(len(KINDS)))]
    weight = None if rng.random() < 0.7 else float(rng.integers(1, 5))
    some = [int(v) for v in rng.permutation(len(cards))[: int(rng.integers(1, len(cards) + 1))]]
    literals = [{v: _states(rng, cards[v])} for v in some]
    if kind == "implies":
        cut = int(rng.integers(0, len(literals)))
        left, right = literals[:cut], literals[cut:]
        if rng.random() < 0.3:  # a variable on both sides
            right = [*right, {some[0]: _states(rng, cards[some[0]])}]
        rule = cmpe.implies(left, right, weight=weight)
        return rule, lambda z: not all(_true(z, x) for x in left) or all(_true(z, x) for x in right)
    if kind in ("equal", "all_different"):
        rule = getattr(cmpe, kind)(some, weight=weight)
        if kind == "equal":
            return rule, lambda z: len({z[v] for v in some}) == 1
        return rule, lambda z: len({z[v] for v in some}) == len(some)
    if kind == "allowed":
        every = list(itertools.product(*(range(cards[v]) for v in some)))
        rows = [row for row in every if rng.random() < rng.choice([0.1, 0.5])]
        rule = cmpe.allowed(some, rows, weight=weight)
        return rule, lambda z: tuple(z[v] for v in some) in rows
    if rng.random() < 0.2:  # a variable twice
        literals = [*literals, {some[0]: _states(rng, cards[some[0]])}]
    if kind == "parity":
        odd = bool(rng.integers(2))
        rule = cmpe.parity(literals, odd=odd, weight=weight)
        return rule, lambda z: sum(_true(z, x) for x in literals) % 2 == odd
    rule = getattr(cmpe, kind)(literals, weight=weight)
    low, high = {"exactly_one": (1, 1), "at_most_one": (0, 1), "at_least_one": (1, 99)}[kind]
    return rule, lambda z: low <= sum(_true(z, x) for x in literals) <= high


def _states(rng: np.random.Generator, size: int) -> int | list[int]:
    if rng.random() < 0.6:
        return int(rng.integers(size))
    return [int(s) for s in rng.choice(size, int(rng.integers(1, size + 1)), replace=False)]


def _true(z: tuple[int, ...], literal: dict[int, Any]) -> bool:
    ((v, states),) = literal.items()
    return z[v] in (states if isinstance(states, list) else [states])


def worth(rule: Rule, holds: Any, rows: np.ndarray) -> np.ndarray:
    """What the objective gains by a rule at every row: 0, or what breaking it costs."""
    broken = -np.inf if rule.weight is None else -rule.weight
    return np.array([0.0 if holds(tuple(row)) else broken for row in rows.tolist()])
