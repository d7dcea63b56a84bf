"""The input of one run of toulbar2, and the run itself, in a separate process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cmpe.execution.isolated import allow_memory
from cmpe.formats.cfn import FORBIDDEN, CostLimit, CostNetwork, Function, knapsack

# How CFN is made, and the options that follow: as competitors run it (UAI 2022).
CONFIGURATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "vac": ({"vac": 1}, {"FullEAC": True, "VACthreshold": True, "useRASPS": 1}),
    "vns": ({"vns": -4}, {}),
}
# Eliminating variables during search, toulbar2 1.4 loses their values where there are knapsacks.
ELIMINATE, KEEP = 3, -1
UNLIMITED = 10**6  # seconds: a limit makes toulbar2 stop on SIGINT and give what it has


@dataclass(frozen=True)
class Posting:
    """A cost function network as toulbar2 takes it."""

    variables: dict[str, int]  # sizes by name
    functions: list[Function]
    limits: list[CostLimit]
    linear: bool  # limits are knapsacks
    free: list[str]
    cuts: list[list[int]]  # values of `free` that are forbidden
    below: int | None  # only answers of a lower cost
    configuration: str
    seed: int
    memory: int  # bytes that its process may take

    @classmethod
    def of(cls, network: CostNetwork, configuration: str, seed: int, memory: int) -> Posting:
        """Everything that one row says."""
        return cls(
            network.variables,
            network.objective + network.channels(),
            [limit for limit in network.limits if not limit.is_idle],
            network.linear,
            [f"z{v}" for v in network.structure.free],
            [],
            None,
            configuration,
            max(1, seed % 2**31),
            memory,
        )


@dataclass(frozen=True)
class Found:
    """What a run says, in costs."""

    values: list[int] | None  # of the free variables
    cost: float = math.inf  # of these values
    bound: float = -math.inf  # below every cost
    complete: bool = False  # it looked everywhere


def run(posting: Posting) -> Found:
    """Post and solve; SIGINT ends it with what is known."""
    import pytoulbar2

    allow_memory(posting.memory)
    making, options = CONFIGURATIONS[posting.configuration]
    target = pytoulbar2.CFN(None, 0, seed=posting.seed, verbose=-1, **making)
    for name, value in options.items():
        setattr(target.Option, name, value)
    knapsacks = posting.linear and posting.limits
    target.Option.elimDegree = KEEP if knapsacks else ELIMINATE
    target.Option.limited = False
    try:
        _post_all(target, pytoulbar2, posting)
        result = target.Solve(timeLimit=UNLIMITED)
    except target.Contradiction:
        return Found(None, complete=True)
    except target.SolverOut:
        return Found(None)
    complete, bound = not target.Option.limited, target.GetDDualBound()
    if result is None:
        return Found(None, math.inf, bound, complete)
    return Found(list(result[0][: len(posting.free)]), result[1], bound, complete)


def _post_all(target: Any, package: Any, posting: Posting) -> None:
    _declare(target, posting)
    for limit in posting.limits:
        if posting.linear:
            weights, at_least = knapsack(limit)
            target.AddGeneralizedLinearConstraint(weights, ">=", at_least)
        else:
            _limit_network(target, package, posting, limit)
    for names, costs in posting.functions:
        _post(target, names, costs)
    for cut in posting.cuts:
        target.AddCompactFunction(posting.free, 0, [cut], [FORBIDDEN])
    if posting.below is not None:
        target.UpdateUB(posting.below)


def _limit_network(target: Any, package: Any, posting: Posting, limit: CostLimit) -> None:
    second = package.CFN(None, 0, verbose=-1, init=False)
    _declare(second, posting)
    for names, costs in limit.functions:
        _post(second, names, costs)
    target.AddWeightedCSPConstraint(second, limit.lowest - 1, limit.limit + 1)


def _declare(target: Any, posting: Posting) -> None:
    for name, size in posting.variables.items():
        target.AddVariable(name, range(size))


def _post(target: Any, names: tuple[str, ...], costs: list[float]) -> None:
    whole = [cost if math.isinf(cost) else int(cost) for cost in costs]
    target.AddFunction(list(names), whole if names else whole[0])
