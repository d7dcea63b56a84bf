"""The layout of a bucket tree: what its numbers point to."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.buckets import (
    AXES,
    AXIS_COUNT,
    CARD,
    CHILD,
    COMPONENT,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    OFFSET,
    SIZE,
    STEP,
    STRIDES,
    VARIABLE,
)
from tests.core.cases import Case, examples
from tests.problems import seeds


def message_entry(plan, k, values):
    """Where bucket k's message has its number for the bucket values `values` (K,)."""
    axes = range(plan.buckets[k, AXES], plan.buckets[k, AXES] + plan.buckets[k, AXIS_COUNT])
    steps = [plan.axis_strides[axis] * values[plan.axis_buckets[axis]] for axis in axes]
    return plan.buckets[k, MESSAGE] + sum(steps)


def input_entry(plan, k, i, values):
    """Where input i of bucket k has its number for these values."""
    place = plan.inputs[i, OFFSET] + plan.inputs[i, STEP] * values[k]
    for axis in range(plan.buckets[k, AXIS_COUNT]):
        parent = plan.axis_buckets[plan.buckets[k, AXES] + axis]
        place += plan.strides[plan.inputs[i, STRIDES] + axis] * values[parent]
    return place


@given(seeds)
@examples(100)
def test_inputs_are_the_entries_of_an_assignment(seed):
    case = Case.random(seed)
    plan, (z, h, _) = case.problem.compiled_plan, case.every(0)
    tables = case.tables(0)[:, 0]
    cards = [case.problem.models[0].cardinalities[v] for v in plan.buckets[:, VARIABLE]]
    assert plan.buckets[:, CARD].tolist() == cards
    for assignment, value in zip(z[::5], h[::5], strict=True):
        values, total = assignment[plan.buckets[:, VARIABLE]], tables[0]
        for k, bucket in enumerate(plan.buckets):
            for i in range(bucket[INPUTS], bucket[INPUTS] + bucket[INPUT_COUNT]):
                place, child = input_entry(plan, k, i, values), plan.inputs[i, CHILD]
                if child < 0:
                    total += tables[place]
                else:
                    assert place == message_entry(plan, child, values)
        assert np.isclose(total, value, rtol=1e-13, atol=1e-13)


@given(seeds)
@examples(60)
def test_trees_and_sizes(seed):
    plan = Case.random(seed).problem.compiled_plan
    for k, bucket in enumerate(plan.buckets):
        axes = slice(bucket[AXES], bucket[AXES] + bucket[AXIS_COUNT])
        assert bucket[SIZE] == np.prod(plan.axis_cards[axes])
        assert (plan.axis_buckets[axes] > k).all()
        parents = plan.buckets[plan.axis_buckets[axes], COMPONENT]
        assert (parents == bucket[COMPONENT]).all()
    ordered = np.split(plan.component_buckets, plan.component_start[1:-1])
    for number, members in enumerate(ordered):
        assert members.tolist() == np.flatnonzero(plan.buckets[:, COMPONENT] == number).tolist()
