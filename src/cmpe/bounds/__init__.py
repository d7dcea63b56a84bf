"""Numbers that are proved: relaxations whose value is never below the optimum.

`BOUNDS` lists the methods by name, `bound` runs one of them:

- lagrangian: the exact dual by elimination, where the width allows;
- minibucket: mini-buckets with an i-bound, tightened by cost shifting;
- splitting: vertex splitting into pieces of small width, the tightest on wide problems;
- messages: message passing (MPLP);
- knapsack: message passing, then a multiple-choice knapsack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cmpe.bounds.base import Bounder, Bounds, Work
from cmpe.errors import MethodError

if TYPE_CHECKING:
    from cmpe.problem import Instances

__all__ = ["BOUNDS", "Bounder", "Bounds", "Work", "bound", "bounder"]


def _lagrangian() -> Bounder:
    from cmpe.bounds.lagrangian import Lagrangian

    return Lagrangian()


def _minibucket() -> Bounder:
    from cmpe.bounds.minibucket import MiniBucket

    return MiniBucket()


def _splitting() -> Bounder:
    from cmpe.bounds.splitting import Splitting

    return Splitting()


def _messages() -> Bounder:
    from cmpe.bounds.messages import Messages

    return Messages()


def _knapsack() -> Bounder:
    from cmpe.bounds.knapsack import Knapsack

    return Knapsack()


BOUNDS: dict[str, Callable[[], Bounder]] = {
    "lagrangian": _lagrangian,
    "minibucket": _minibucket,
    "splitting": _splitting,
    "messages": _messages,
    "knapsack": _knapsack,
}


def bounder(method: str) -> Bounder:
    """The bounder called `method`."""
    if method not in BOUNDS:
        raise MethodError(f"the method must be one of {', '.join(BOUNDS)}; found {method!r}")
    return BOUNDS[method]()


def bound(
    instances: Instances,
    method: str = "splitting",
    work: Work | None = None,
    *,
    training: Sequence[Instances] = (),
) -> Bounds:
    """Bound the best feasible objective of every row from above.

    `splitting` chooses its split by the bounds it measures on `training`; bounds are valid with
    or without.
    """
    from cmpe.bounds.splitting import Splitting

    chosen, amount = bounder(method), work or Work()
    if method != "lagrangian" and not instances.problem.is_log_linear:
        raise MethodError(f"{method} needs tables; lagrangian bounds cutset networks leaf by leaf")
    if isinstance(chosen, Splitting):
        chosen = chosen.fitted(training, amount)
    return chosen.upper_bound(instances, amount)
