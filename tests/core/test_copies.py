"""The layout of a relaxation by copies: what its numbers point to."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.core.cases import Relaxed, examples
from tests.problems import seeds


@given(seeds)
@examples(60)
def test_places_are_the_entries_of_the_relaxed_variables(seed):
    case = Relaxed(seed)
    relaxed, values = case.relaxed, case.begin(0).row.h
    total = case.plain(values)
    for at in case.rng.integers(0, len(case.z), 4):
        chosen = case.z[at][case.eliminated]
        inside = values[0]
        for k, bucket in enumerate(relaxed.buckets):
            card, _, _, index, inputs, tables, axes, count = bucket
            p = sum(
                int(relaxed.steps[axis]) * chosen[relaxed.axes[axis]]
                for axis in range(axes, axes + count)
            )
            first = index + (p * card + (chosen[k] if card > 1 else 0)) * inputs
            inside += values[relaxed.places[first : first + tables]].sum()
        assert np.isclose(inside, total[at], rtol=1e-12, atol=1e-12)


@given(seeds)
@examples(60)
def test_copies_of_a_group_have_its_variables(seed):
    case = Relaxed(seed)
    relaxed = case.relaxed
    for (variables, members), (first, count, card, own) in zip(
        case.relaxation.groups, relaxed.groups.tolist(), strict=True
    ):
        assert count == len(members) > 1
        assert card == np.prod([case.cards[v] for v in variables])
        assert (own >= 0) <= (len(variables) == 1)
        for c, member in enumerate(members, first):
            axes = slice(relaxed.copy_axes[c], relaxed.copy_axes[c + 1])
            decided = [case.eliminated[k] for k in relaxed.copy_buckets[axes]]
            assert tuple(decided) == member
