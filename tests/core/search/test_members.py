"""The layout of members of the pool: what its numbers point to."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given

from cmpe.core.search.members import (
    AXES,
    AXIS_COUNT,
    CARD,
    COUNT,
    FROZEN,
    FROZEN_COUNT,
    INPUT_COUNT,
    INPUTS,
    JUMPS,
    MESSAGE,
    OFFSET,
    SIZE,
    SOURCE,
    STEP,
    STEPS,
    TARGET,
    VARIABLE,
    lay_out,
)
from cmpe.solvers.search.pool import tables_of
from tests.core.cases import Case, examples
from tests.problems import Shape, seeds


class Laid:
    """A member of a random problem, in a random order."""

    def __init__(self, seed):
        case = Case.random(seed, Shape(variables=6, values=3, arity=3, factors=12))
        self.tables, self.rng = tables_of(case.structure), case.rng
        count = len(self.tables.cards)
        self.order = self.rng.permutation(count)[: int(self.rng.integers(0, count + 1))]
        self.member = lay_out(self.order, self.tables)
        self.z = self.rng.integers(0, self.tables.cards)
        self.scopes = [
            self.tables.variables[a:b].tolist() for a, b in itertools.pairwise(self.tables.starts)
        ]

    def entry(self, f, z):
        axes = slice(self.tables.starts[f], self.tables.starts[f + 1])
        return self.tables.offsets[f] + self.tables.strides[axes] @ z[self.tables.variables[axes]]


@given(seeds)
@examples(150)
def test_pieces_are_the_entries_of_the_touched_tables(seed):
    laid = Laid(seed)
    member, inside = laid.member, set(laid.order.tolist())
    touched = [f for f, scope in enumerate(laid.scopes) if inside & set(scope)]
    assert sorted(member.touched.tolist()) == touched
    for f, piece in zip(member.touched, member.pieces, strict=True):
        scope = [v for v in laid.scopes[f] if v in inside]
        frozen = member.frozen[piece[FROZEN] : piece[FROZEN] + piece[FROZEN_COUNT]]
        base = piece[SOURCE] + sum(stride * laid.z[v] for v, stride in frozen)
        values = list(itertools.product(*(range(laid.tables.cards[v]) for v in scope)))
        assert len(values) == piece[COUNT]
        for e, value in enumerate(values):
            z = laid.z.copy()
            z[scope] = value
            assert base + member.steps[piece[STEPS] + e] == laid.entry(f, z)


@given(seeds)
@examples(150)
def test_jumps_lead_to_the_inputs_of_every_message_entry(seed):
    laid = Laid(seed)
    member = laid.member
    buckets, sizes = member.buckets, member.sizes
    scopes = {int(b[VARIABLE]): member.axes[b[AXES] : b[AXES] + b[AXIS_COUNT], 0] for b in buckets}
    assert list(scopes) == laid.order.tolist()
    shared = {
        int(p[TARGET]): [v for v in laid.scopes[f] if v in scopes]
        for f, p in zip(member.touched, member.pieces, strict=True)
    }
    shared |= {int(b[MESSAGE]): scopes[int(b[VARIABLE])].tolist() for b in buckets}
    for bucket in buckets:
        variable, first = int(bucket[VARIABLE]), bucket[INPUTS]
        axes, cards = scopes[variable].tolist(), laid.tables.cards
        assert bucket[CARD] == cards[variable]
        assert bucket[SIZE] == math.prod(cards[v] for v in axes)
        inputs = member.inputs[first : first + bucket[INPUT_COUNT]]
        at = inputs[:, OFFSET].copy()
        begins = at.tolist()
        for e, value in enumerate(itertools.product(*(range(cards[v]) for v in axes))):
            if e:
                axis = max(i for i, a in enumerate(value) if a)
                at += member.jumps[bucket[JUMPS] + axis * len(at) :][: len(at)]
            known = dict(zip(axes, value, strict=True))
            for begin, place, move in zip(begins, at, inputs[:, STEP], strict=True):
                scope = shared.get(begin, [variable])
                for a in range(cards[variable]):
                    digits = [(known | {variable: a})[v] for v in scope]
                    wanted = np.ravel_multi_index(digits, cards[scope])
                    assert place + a * move == begin + wanted
    assert (member.inputs[:, OFFSET] < sizes[2]).all()
