"""Rules of many variables as tables over a few: more variables that are functions of the others.

A rule that can be evaluated variable by variable in any order (`Fold`) is evaluated along the tree
in which elimination visits its variables: each new variable z holds the product of two others,

    table over (a, b, z)  =  0 where z = a * b, else -inf

and the last product pays what the rule is worth. So the width grows by about two variables of few
values, however many the rule has. A rule that lists rows (`Listing`) is read like a word: z holds
the state of the smallest automaton that reads the variables one after another.

Each new variable has one value for every assignment of the others, so neither objectives nor the
numbers and the order of answers change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cmpe.arrays import FREE, Integers, Values
from cmpe.elimination.plan import make_plan
from cmpe.elimination.settings import ELIMINATION
from cmpe.errors import TooLarge
from cmpe.models.function import Function
from cmpe.models.logic import BoundRule, Fold, Listing
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.ruled import RuledModel


class Hidden(NamedTuple):
    """A variable that is a function of others: `lookup` has its value by theirs, -1 for none."""

    inputs: tuple[int, ...]
    lookup: Integers


@dataclass(frozen=True)
class TabledRules:
    """A model whose rules are tables; its first variables are those of the ruled model."""

    model: LogLinearModel  # without names
    hidden: tuple[Hidden, ...]

    def completed(self, rows: Values) -> Values:
        """Rows (B, n) of the first variables with the others; -1 where an input is -1."""
        out = np.full((len(rows), rows.shape[1] + len(self.hidden)), FREE, dtype=rows.dtype)
        out[:, : rows.shape[1]] = rows
        for v, (inputs, lookup) in enumerate(self.hidden, rows.shape[1]):
            columns = tuple(out[:, u] for u in inputs)
            fixed = np.logical_and.reduce([column >= 0 for column in columns])
            out[fixed, v] = lookup[tuple(column[fixed] for column in columns)]
        return out


def tabled_rules(
    ruled: RuledModel, others: Sequence[Function] = (), observed: Sequence[int] = ()
) -> TabledRules:
    """Tables for the rules, along an order for these functions and the others.

    `observed` variables need no elimination.
    """
    functions = [f for f in (ruled.base, *others) if isinstance(f, LogLinearModel)]
    tree = _Tree(functions, observed)
    for rule in ruled.rules:
        for part in rule.parts:
            if isinstance(part, Fold):
                tree.fold(part)
            else:
                tree.read(part)
    model = LogLinearModel(tuple(tree.cardinalities), (*ruled.base.factors, *tree.factors))
    return TabledRules(model, tuple(tree.hidden))


class _Node(NamedTuple):
    """A variable, and the element that each of its values stands for."""

    variable: int
    elements: Integers


class _Tree:
    """The elimination tree of some functions, and what rules add along it."""

    def __init__(self, functions: Sequence[LogLinearModel], observed: Sequence[int]) -> None:
        self.cardinalities = list(functions[0].cardinalities)
        self.factors: list[Factor] = []
        self.hidden: list[Hidden] = []
        fixed = set(observed) | {v for v, k in enumerate(self.cardinalities) if k == 1}
        scopes = {
            tuple(v for v in factor.scope if v not in fixed)
            for function in functions
            for factor in function.factors
        }
        free = [v for v in range(len(self.cardinalities)) if v not in fixed]
        plan = make_plan(self.cardinalities, sorted(scopes), variables=free, restarts=1)
        buckets = [(b.variable, b.scope[0] if b.scope else None) for b in plan.buckets]
        if plan.hopeless:  # any tree will do
            buckets = [(v, u) for v, u in zip(free, [*free[1:], None], strict=True)]
        self._parents = dict(buckets)  # in the order of elimination

    def fold(self, rule: Fold) -> None:
        """Products along the tree, observed variables last."""
        here = dict(zip(rule.scope, map(_Node, rule.scope, rule.elements), strict=True))
        waiting: dict[int | None, list[_Node]] = {None: []}
        for v, parent in self._parents.items():
            nodes = waiting.pop(v, [])
            if v in here:
                nodes.append(here.pop(v))
            if nodes:
                waiting.setdefault(parent, []).append(self._product(rule, nodes))
        seen = list(here.values())
        nodes = [*waiting[None], *([self._product(rule, seen)] if seen else [])]
        first = self._product(rule, nodes[:-1]) if len(nodes) > 1 else None
        self._pay(rule, [*([first] if first else []), nodes[-1]])

    def _product(self, rule: Fold, nodes: Sequence[_Node]) -> _Node:
        """One node for the product of several."""
        first = nodes[0]
        for node in nodes[1:]:
            product = rule.product[first.elements[:, np.newaxis], node.elements]
            states = np.array([e for e in np.unique(product) if not _is_dead(rule, e)], dtype=int)
            states = states if len(states) else product.ravel()[:1]
            lookup = np.full(product.shape, FREE)
            for place, element in enumerate(states):
                lookup[product == element] = place
            variable = self._define((first.variable, node.variable), lookup, len(states))
            first = _Node(variable, states)
        return first

    def _pay(self, rule: Fold, nodes: Sequence[_Node]) -> None:
        elements = nodes[0].elements
        for node in nodes[1:]:
            elements = rule.product[elements[:, np.newaxis], node.elements]
        self.factors.append(Factor(tuple(n.variable for n in nodes), rule.worth[elements]))

    def read(self, rule: Listing) -> None:
        """The states of an automaton along the order of elimination, observed variables first."""
        place = {v: i for i, v in enumerate(self._parents)}
        columns = sorted(range(len(rule.scope)), key=lambda c: place.get(rule.scope[c], -1))
        scope = [rule.scope[c] for c in columns]
        steps = _automaton(rule.rows[:, columns], [self.cardinalities[v] for v in scope])
        is_hard = rule.broken == -math.inf
        before: tuple[int, ...] = ()
        for v, step, following in zip(scope, steps, steps[1:], strict=False):
            states = len(following)
            if not is_hard:  # one more state, for values that begin no row
                step = np.where(step < 0, states, step)
                step = np.concatenate([step, np.full((1, step.shape[1]), states)])
                states += 1
            lookup = step if before else step[0]
            before = (self._define((*before, v), lookup, states),)
        last = np.where(steps[-1] < 0, rule.broken, 0.0)
        if not is_hard:
            last = np.concatenate([last, np.full((1, last.shape[1]), rule.broken)])
        self.factors.append(Factor((*before, scope[-1]), last if before else last[0]))

    def _define(self, inputs: tuple[int, ...], lookup: Integers, values: int) -> int:
        """A new variable with its table."""
        if lookup.size * values > ELIMINATION.rule_entries:
            raise TooLarge(
                f"a rule needs a table of {lookup.size * values} entries; the most is "
                f"{ELIMINATION.rule_entries}: split it into rules of fewer variables or rows"
            )
        variable = len(self.cardinalities)
        self.cardinalities.append(values)
        self.hidden.append(Hidden(inputs, lookup))
        table = np.where(lookup[..., np.newaxis] == np.arange(values), 0.0, -np.inf)
        self.factors.append(Factor((*inputs, variable), table))
        return variable


def _is_dead(rule: Fold, element: int) -> bool:
    """Whether the rule is broken whatever is multiplied to an element."""
    reached = np.append(rule.product[element], element)
    return bool(np.isneginf(rule.worth[reached]).all())


def joined(rule: BoundRule) -> BoundRule:
    """The rule with one product in place of several over the same variables.

    Elements are tuples of those of the products: for `all_different`, sets of states. Elimination
    that leaves out entries of -inf gains by it, since few sets can be reached; other elimination
    loses, because tables are larger. A rule that would have too many elements stays as it is.
    """
    folds = [part for part in rule.parts if isinstance(part, Fold)]
    if len(folds) < 2 or len(folds) < len(rule.parts) or len({f.scope for f in folds}) > 1:
        return rule
    radix = [math.prod(len(f.worth) for f in folds[:i]) for i in range(len(folds))]
    if math.prod(len(f.worth) for f in folds) > 1 << 62:
        return rule
    dead = [np.array([_is_dead(f, e) for e in range(len(f.worth))]) for f in folds]

    def products(one: Integers, two: Integers) -> Integers:
        """The codes of all products of tuples (N, F) and (M, F); -1 where the rule is broken."""
        code = np.zeros((len(one), len(two)), dtype=np.int64)
        broken = np.zeros(code.shape, dtype=bool)
        for f, fold in enumerate(folds):
            element = fold.product[one[:, np.newaxis, f], two[:, f]]
            code += radix[f] * element
            broken |= dead[f][element]
        return np.where(broken, -1, code)

    def tuples(codes: Integers) -> Integers:
        return np.stack(
            [codes // r % len(f.worth) for r, f in zip(radix, folds, strict=True)], axis=1
        )

    values = [np.stack(each, axis=1) for each in zip(*(f.elements for f in folds), strict=True)]
    first = np.unique(np.concatenate(values), axis=0)
    known = np.unique(first @ np.array(radix))
    size = 0
    while size < len(known) <= ELIMINATION.elements:
        size = len(known)
        known = np.union1d(known, products(tuples(known), first))
    codes = np.union1d(known, [-1])  # the first one: the rule is broken
    if len(codes) > ELIMINATION.elements + 1:
        return rule
    elements = tuples(codes[1:])
    product = np.zeros((len(codes), len(codes)), dtype=np.int64)
    product[1:, 1:] = np.searchsorted(codes, products(elements, elements))
    worth = np.full(len(codes), -np.inf)
    worth[1:] = sum(fold.worth[elements[:, f]] for f, fold in enumerate(folds))
    own = tuple(np.searchsorted(codes, each @ np.array(radix)) for each in values)
    return replace(rule, parts=(Fold(folds[0].scope, own, product, worth),))


def _automaton(rows: Values, cardinalities: Sequence[int]) -> list[Integers]:
    """The smallest automaton that reads exactly these rows: (states, values) -> state, -1 for none.

    From the end: two beginnings are one state where the same ends may follow.
    """
    steps: list[Integers] = []
    after = np.zeros(len(rows), dtype=np.int64)  # the state of each row's beginning
    for i in range(rows.shape[1] - 1, -1, -1):
        _, beginning = np.unique(rows[:, :i], axis=0, return_inverse=True)
        follow: list[set[tuple[int, int]]] = [
            set() for _ in range(int(beginning.max(initial=-1)) + 1)
        ]
        for b, value, state in zip(
            beginning.ravel().tolist(), rows[:, i].tolist(), after.tolist(), strict=True
        ):
            follow[b].add((value, state))
        numbers: dict[frozenset[tuple[int, int]], int] = {}
        state_of = [numbers.setdefault(frozenset(pairs), len(numbers)) for pairs in follow]
        step = np.full((max(1, len(numbers)), cardinalities[i]), FREE, dtype=np.int64)
        for pairs, state in numbers.items():
            for value, target in pairs:
                step[state, value] = target
        steps.append(step)
        after = np.array(state_of, dtype=np.int64)[beginning.ravel()] if len(rows) else after
    return steps[::-1]
