"""Several functions at once, leaf by leaf.

A cutset network is log-linear where one of its contexts holds. So are several functions together
where a joint leaf holds: one leaf of each network among them, such that their contexts agree. The
joint contexts are disjoint and cover everything, as those of one network do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments
from cmpe.errors import MethodError
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork


@dataclass(frozen=True)
class JointLeaf:
    """One leaf of every network among some functions; 0 for a function that has no leaves."""

    context: Assignments  # (n,): the values that it fixes, -1 elsewhere
    leaves: tuple[int, ...]


def simplest(function: Function | ChowLiuTree) -> Function:
    """A tree, or a network of one leaf, as the log-linear model that it is."""
    if isinstance(function, ChowLiuTree):
        return function.to_model()
    if isinstance(function, CutsetNetwork) and function.leaves == 1:
        return function.to_model()
    return function


def joint_leaves(functions: Sequence[Function]) -> list[JointLeaf]:
    """Every joint leaf of `functions`."""
    contexts = np.full((1, functions[0].variables), -1, dtype=np.int32)
    chosen = np.zeros((1, 0), dtype=np.int64)
    for function in functions:
        if isinstance(function, CutsetNetwork):
            first, second = _agreeing(contexts, function.contexts)
            contexts = np.maximum(contexts[first], function.contexts[second])
        elif isinstance(function, LogLinearModel):
            first, second = np.arange(len(contexts)), np.zeros(len(contexts), dtype=np.int64)
        else:
            raise MethodError(
                f"this method needs tables: a log-linear model, a tree or a cutset network; "
                f"found {type(function).__name__}"
            )
        chosen = np.column_stack([chosen[first], second])
    return [
        JointLeaf(context, tuple(row))
        for context, row in zip(contexts, chosen.tolist(), strict=True)
    ]


def _agreeing(first: Assignments, second: Assignments) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs of contexts that some assignment has in common."""
    split = np.flatnonzero(((first >= 0).any(axis=0)) & ((second >= 0).any(axis=0)))
    one, two = first[:, split][:, np.newaxis], second[:, split]  # (J, 1, s), (L, s)
    conflict = (one >= 0) & (two >= 0) & (one != two)
    pairs = np.nonzero(~conflict.any(axis=2))
    return pairs[0], pairs[1]


def models_of(functions: Sequence[Function], leaf: JointLeaf) -> tuple[LogLinearModel, ...]:
    """What each function is where the joint leaf holds."""
    models = []
    for function, number in zip(functions, leaf.leaves, strict=True):
        if isinstance(function, CutsetNetwork):
            models.append(function.leaf_model(number))
        else:
            assert isinstance(function, LogLinearModel)
            models.append(function)
    return tuple(models)
