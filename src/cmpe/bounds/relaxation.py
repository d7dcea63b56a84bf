"""Relaxations by copies: the copies of a variable may take different values.

Every table keeps its entries, but the occurrences of a variable v in the tables are divided among
copies v_1, ..., v_n, which are variables of their own, so that the graph is narrow enough to
eliminate.
Any multipliers l_c with

    sum over the copies c of v of l_c(k) = 0   for every value k

may be added as a table of each copy: where the copies agree they cancel, so the maximum over all
copies is an upper bound on the maximum over assignments (Choi, Chavira and Darwiche 2007; Johnson,
Malioutov and Willsky 2007). v's own table is shared equally among its copies.

One `Relaxation` depends on scopes alone: it serves all rows, and all problems of equal scopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Integers
from cmpe.bounds.base import Work
from cmpe.bounds.settings import SETTINGS
from cmpe.core.copies import CompiledRelaxation, Narrow
from cmpe.elimination.orders import Scope
from cmpe.elimination.plan import Plan, plan_in_order
from cmpe.errors import TooLarge
from cmpe.models.conditioning import Conditioning
from cmpe.models.flat import strides_of

BYTES_PER_PLACE = 12


class _Step(NamedTuple):
    """A bucket, or (variable -1) the sum of small inputs of a bucket, made once beforehand."""

    variable: int
    inputs: tuple[int, ...]  # tables, then messages of earlier steps
    scope: Scope


def _gathered(plan: Plan) -> list[_Step]:
    """The buckets of a plan; small inputs of a large bucket are first added up on their own."""
    steps: list[_Step] = []
    number: list[int] = []  # of each bucket's message
    tables = len(plan.scopes)
    for bucket in plan.buckets:
        inputs = [n if n < tables else number[n - tables] for n in bucket.inputs]
        scope = (*bucket.scope, bucket.variable)
        inputs.sort(key=lambda n: plan.size(_scope_of(plan, steps, n)))
        joined: set[int] = set()
        count = 0
        for n in inputs:
            joined |= set(_scope_of(plan, steps, n))
            if plan.size(joined) * SETTINGS.small > plan.size(scope):
                break
            count += 1
        if count > 1:
            over = {v for n in inputs[:count] for v in _scope_of(plan, steps, n)}
            sum_scope = tuple(v for v in scope if v in over)
            steps.append(_Step(-1, tuple(sorted(inputs[:count])), sum_scope))
            inputs = [*inputs[count:], tables + len(steps) - 1]
        steps.append(_Step(bucket.variable, tuple(sorted(inputs)), bucket.scope))
        number.append(tables + len(steps) - 1)
    return steps


def _scope_of(plan: Plan, steps: Sequence[_Step], number: int) -> Scope:
    tables = len(plan.scopes)
    return plan.scopes[number] if number < tables else steps[number - tables].scope


class Relaxation:
    """`scopes` renames the variables of the structure's scopes (of two and more) to copies.

    `origin[r]` is the variable that relaxed variable r is a copy of; the first ones are the
    structure's variables themselves. `order` eliminates all relaxed variables in use. `ties` are
    sets of copies that get multipliers over their joint values too: the bucket of such a set
    holds all of it.
    """

    def __init__(
        self,
        structure: Conditioning,
        origin: Sequence[int],
        scopes: Sequence[Scope],
        order: Sequence[int],
        ties: Sequence[Scope] = (),
        work: Work | None = None,
    ) -> None:
        self._work = work or Work()
        self.structure_scopes = structure.scopes
        self.origin = tuple(origin)
        members: dict[int, list[int]] = {v: [] for v in structure.free}
        for relaxed in sorted(order):
            members[self.origin[relaxed]].append(relaxed)
        split = {v: group for v, group in members.items() if len(group) > 1}
        renamed = [
            scope if len(scope) > 1 else tuple(members[v][0] for v in own if v not in split)
            for own, scope in zip(structure.scopes, scopes, strict=True)
        ]
        cards = tuple(structure.cardinalities[v] for v in self.origin)
        self.copies = sum(len(group) - 1 for group in split.values())
        first = plan_in_order(cards, (*renamed, *ties), order)
        self.groups: list[tuple[Scope, list[Scope]]] = [
            ((v,), [(c,) for c in group]) for v, group in split.items()
        ]
        self.groups += _shared(first, self.origin, set(split), ties)
        tables = [scope for _, group in self.groups for scope in group]
        self._work.check_time()
        self.plan: Plan = plan_in_order(cards, (*renamed, *tables), order)
        if self.plan.operations > SETTINGS.bucket_entries:
            raise TooLarge(
                f"the buckets of this relaxation have {self.plan.operations} entries; "
                f"the limit is {SETTINGS.bucket_entries}: try a smaller width"
            )
        self._own_sizes = np.diff(structure.layout.offsets)
        self._structure = structure
        self.compiled = self._compile()

    @property
    def width(self) -> int:
        """The largest number of variables in a message."""
        return self.plan.width

    def fits(self, structure: Conditioning) -> bool:
        """Whether another problem's structure has these tables."""
        return structure.scopes == self.structure_scopes and np.array_equal(
            np.diff(structure.layout.offsets), self._own_sizes
        )

    def _compile(self) -> CompiledRelaxation:
        cards = self.plan.cardinalities
        members = [scope for _, group in self.groups for scope in group]
        sizes = [*self._own_sizes.tolist(), *(self.plan.size(scope) for scope in members)]
        steps = _gathered(self.plan)
        # The structure's variable that each bucket decides, -1 for sums made beforehand.
        self.decided = [self.origin[s.variable] if s.variable >= 0 else -1 for s in steps]
        message_sizes = [self.plan.size(step.scope) for step in steps]
        offsets = _starts([*sizes, *message_sizes])  # of tables, copies' tables and messages
        position = {step.variable: k for k, step in enumerate(steps) if step.variable >= 0}
        rows, index, at, tables = [], [np.zeros(0, dtype=np.uint32)], 0, len(sizes)
        axes: list[int] = []
        moves: list[int] = []
        self._check_size(steps)
        for k, step in enumerate(steps):
            self._work.check_time()
            own = self._numbers(step, steps, offsets)
            card = cards[step.variable] if step.variable >= 0 else 1
            inputs, in_tables = len(step.inputs), sum(n < tables for n in step.inputs)
            place = (card, message_sizes[k], offsets[tables + k], at)
            rows.append((*place, inputs, in_tables, len(axes), len(step.scope)))
            index.append(own)
            at += len(own)
            axes += [position[v] for v in step.scope]
            moves += list(strides_of(step.scope, cards).values())[::-1]
        first = len(self._own_sizes)
        return CompiledRelaxation(
            buckets=np.array(rows, dtype=np.int64).reshape(-1, 8),
            places=np.concatenate(index),
            axes=np.array(axes, dtype=np.int32),
            steps=np.array(moves, dtype=np.int32),
            groups=self._group_rows(),
            copy_entry=np.array(offsets[first:tables], dtype=np.int64),
            copy_axes=_starts([len(scope) for scope in members]),
            copy_buckets=np.array([position[c] for m in members for c in m], dtype=np.int64),
            copy_steps=np.array(
                [strides_of(m, cards)[c] for m in members for c in m], dtype=np.int64
            ),
            entries=int(offsets[first]),
            numbers=int(offsets[tables]),
            total=int(offsets[-1]),
        )

    def _check_size(self, steps: Sequence[_Step]) -> None:
        """Refuse before memory is taken: each input of each bucket entry has a place."""
        plan = self.plan
        places = sum(
            len(s.inputs) * plan.size(s.scope if s.variable < 0 else (*s.scope, s.variable))
            for s in steps
        )
        most = min(SETTINGS.places, self._work.bytes // BYTES_PER_PLACE)
        if places > most:
            raise TooLarge(
                f"the index of this relaxation has {places} places; the limit is {most}: "
                "try a smaller width, or more memory"
            )

    def _numbers(self, step: _Step, steps: Sequence[_Step], offsets: Integers) -> Narrow:
        """(message entry, value, input) -> number, flat."""
        plan, columns = self.plan, []
        order = step.scope if step.variable < 0 else (*step.scope, step.variable)
        for number in step.inputs:
            stride = strides_of(_scope_of(plan, steps, number), plan.cardinalities)
            at = np.array([offsets[number]])
            for v in order:
                moves = stride.get(v, 0) * np.arange(plan.cardinalities[v])
                at = (at[:, np.newaxis] + moves).ravel()
            columns.append(at)
        if not columns:
            return np.zeros(0, dtype=np.uint32)
        return np.stack(columns, axis=1).ravel().astype(np.uint32)

    def _group_rows(self) -> Integers:
        offset = {
            scope[0]: int(self._structure.layout.offsets[i])
            for i, scope in enumerate(self._structure.scopes)
            if len(scope) == 1
        }
        rows, first = [], 0
        for variables, group in self.groups:
            own = offset.get(variables[0], -1) if len(variables) == 1 else -1
            rows.append((first, len(group), self.plan.size(group[0]), own))
            first += len(group)
        return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _shared(
    plan: Plan, origin: Sequence[int], split: set[int], ties: Sequence[Scope]
) -> list[tuple[Scope, list[Scope]]]:
    """Tuples of variables with copies in several pieces: the `ties`, and pairs that meet anyway.

    Multipliers over what the pair takes together cost no width, and tighten the relaxation.
    """
    pairs = [
        (bucket.variable, other)
        for bucket in plan.buckets
        for other in bucket.scope
        if origin[bucket.variable] in split and origin[other] in split
    ]
    shared: dict[Scope, set[Scope]] = {}
    for members in (*ties, *pairs):
        copies = tuple(sorted(members, key=origin.__getitem__))
        key = tuple(origin[c] for c in copies)
        if len(set(key)) == len(key):
            shared.setdefault(key, set()).add(copies)
    return [(key, sorted(copies)) for key, copies in sorted(shared.items()) if len(copies) > 1]


def _starts(sizes: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
