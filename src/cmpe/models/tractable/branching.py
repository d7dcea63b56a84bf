"""Several functions at once, leaf by leaf.

A cutset network is log-linear where one of its contexts holds. So are several functions together
where a joint leaf holds: one leaf of each network among them, such that their contexts agree. The
joint contexts are disjoint and cover everything, as those of one network do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from cmpe.arrays import FREE, Assignments, Indices
from cmpe.errors import MethodError
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.models.tractable.expansion import expanded_entries


@dataclass(frozen=True)
class JointLeaf:
    """One leaf of every network among some functions; 0 for a function that has no leaves."""

    context: Assignments  # (n,): the values that it fixes, -1 elsewhere
    leaves: tuple[int, ...]


@singledispatch
def simplest(function: Function, most_entries: int = 0) -> Function:
    """A tree, or a network of one leaf, as the log-linear model that it is.

    So are networks of several leaves whose tables have at most `most_entries` entries.
    """
    return function


@simplest.register
def _simplest_tree(function: ChowLiuTree, most_entries: int = 0) -> Function:
    return function.to_model()


@simplest.register
def _simplest_network(function: CutsetNetwork, most_entries: int = 0) -> Function:
    is_small = function.leaves == 1 or expanded_entries(function) <= most_entries
    return function.to_model() if is_small else function


@singledispatch
def contexts_of(function: Function) -> Assignments:
    """The contexts of a function's leaves (L, n), -1 where a leaf leaves a variable free."""
    raise MethodError(
        f"this method needs tables: a log-linear model, a tree or a cutset network; "
        f"found {type(function).__name__}"
    )


@contexts_of.register
def _contexts_of_model(function: LogLinearModel) -> Assignments:
    return np.full((1, function.variables), FREE, dtype=np.int32)


@contexts_of.register
def _contexts_of_network(function: CutsetNetwork) -> Assignments:
    return function.contexts


@singledispatch
def leaf_model(function: Function, leaf: int) -> LogLinearModel:
    """What a function is where the context of `leaf` holds."""
    raise MethodError(f"a function of kind {type(function).__name__} has no leaves")


@leaf_model.register
def _leaf_of_model(function: LogLinearModel, leaf: int) -> LogLinearModel:
    return function


@leaf_model.register
def _leaf_of_network(function: CutsetNetwork, leaf: int) -> LogLinearModel:
    return function.leaf_model(leaf)


def joint_leaves(functions: Sequence[Function]) -> list[JointLeaf]:
    """Every joint leaf of `functions`."""
    contexts = np.full((1, functions[0].variables), FREE, dtype=np.int32)
    chosen = np.zeros((1, 0), dtype=np.int64)
    for function in functions:
        own = contexts_of(function)
        first, second = _agreeing(contexts, own)
        contexts = np.maximum(contexts[first], own[second])
        chosen = np.column_stack([chosen[first], second])
    return [
        JointLeaf(context, tuple(row))
        for context, row in zip(contexts, chosen.tolist(), strict=True)
    ]


def _agreeing(first: Assignments, second: Assignments) -> tuple[Indices, Indices]:
    """The pairs of contexts that some assignment has in common."""
    split = np.flatnonzero(((first >= 0).any(axis=0)) & ((second >= 0).any(axis=0)))
    one, two = first[:, split][:, np.newaxis], second[:, split]  # (J, 1, s), (L, s)
    conflict = (one >= 0) & (two >= 0) & (one != two)
    pairs = np.nonzero(~conflict.any(axis=2))
    return pairs[0], pairs[1]


def models_of(functions: Sequence[Function], leaf: JointLeaf) -> tuple[LogLinearModel, ...]:
    """What each function is where the joint leaf holds."""
    pairs = zip(functions, leaf.leaves, strict=True)
    return tuple(leaf_model(function, number) for function, number in pairs)
