"""A plan of elimination as the arrays that compiled code reads."""

from __future__ import annotations

import math

import numpy as np

from cmpe.arrays import Integers
from cmpe.core.buckets import CompiledPlan
from cmpe.elimination.plan import Bucket, Plan
from cmpe.models.flat import FlatTables, strides_of


def compile_plan(plan: Plan, layout: FlatTables) -> CompiledPlan:
    """Flatten a plan over the tables of `layout` (same scopes, same order)."""
    sizes = [math.prod(plan.cardinalities[v] for v in b.scope) for b in plan.buckets]
    cards = [plan.cardinalities[b.variable] for b in plan.buckets]
    messages = _starts(sizes) + len(layout.values)
    pairs = _starts([size * card for size, card in zip(sizes, cards, strict=True)])
    inputs = _Inputs()
    for bucket in plan.buckets:
        inputs.add(plan, layout, messages, bucket)
    component = _components(plan)
    position = {b.variable: k for k, b in enumerate(plan.buckets)}
    columns = [
        [b.variable for b in plan.buckets],
        cards,
        sizes,
        messages[:-1],
        pairs[:-1],
        _starts([len(b.scope) for b in plan.buckets])[:-1],
        [len(b.scope) for b in plan.buckets],
        _starts([len(b.inputs) for b in plan.buckets])[:-1],
        [len(b.inputs) for b in plan.buckets],
        component,
    ]
    return CompiledPlan(
        buckets=np.array(columns, dtype=np.int64).T.copy(),
        inputs=np.array(inputs.rows, dtype=np.int64).reshape(-1, 4),
        strides=_integers(inputs.strides),
        axis_cards=_integers([plan.cardinalities[v] for b in plan.buckets for v in b.scope]),
        axis_buckets=_integers([position[v] for b in plan.buckets for v in b.scope]),
        axis_strides=_integers(
            [strides_of(b.scope, plan.cardinalities)[v] for b in plan.buckets for v in b.scope]
        ),
        component_start=_starts(np.bincount(component, minlength=1).tolist()),
        component_buckets=np.argsort(component, kind="stable").astype(np.int64),
        entries=len(layout.values),
        total=int(messages[-1]),
        pairs=int(pairs[-1]),
        widest=max((len(b.scope) for b in plan.buckets), default=0) + 1,
        most_inputs=max((len(b.inputs) for b in plan.buckets), default=0) + 1,
    )


class _Inputs:
    """The inputs of all buckets while they are being laid out."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.strides: list[int] = []

    def add(self, plan: Plan, layout: FlatTables, messages: Integers, bucket: Bucket) -> None:
        """Lay out the inputs of one bucket."""
        for number in bucket.inputs:
            child = number - len(plan.scopes)
            scope = plan.scopes[number] if child < 0 else plan.buckets[child].scope
            stride = strides_of(scope, plan.cardinalities)
            offset = int(layout.offsets[number] if child < 0 else messages[child])
            here = len(self.strides)
            self.rows.append((offset, stride.get(bucket.variable, 0), here, max(child, -1)))
            self.strides.extend(stride.get(v, 0) for v in bucket.scope)


def _components(plan: Plan) -> Integers:
    """Each bucket's tree: the root is the bucket whose message has no scope."""
    position = {b.variable: k for k, b in enumerate(plan.buckets)}
    component = np.zeros(len(plan.buckets), dtype=np.int64)
    count = 0
    for k in range(len(plan.buckets) - 1, -1, -1):
        scope = plan.buckets[k].scope
        if scope:
            component[k] = component[position[scope[0]]]
        else:
            component[k] = count
            count += 1
    return component


def _integers(values: list[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def _starts(lengths: list[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
