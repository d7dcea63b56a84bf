"""Exact inference for all rows of evidence at once: one elimination plan, several semirings.

With y ranging over the free variables of a row and h the chosen function (SPEC §3.2),

    maximum         max over y of h(x, y), and a y that attains it
    minimum         min over y of h(x, y), likewise (-inf where some y is impossible)
    log_partition   log sum over y of exp h(x, y)
    max_marginals   max over y with y_i = a of h(x, y), for every i and a: one pass up, one down

-inf (a potential of 0) is a value like any other; nothing here is ever NaN. The compiled back-end
("cpu") and the tensor one ("torch", on any device) agree to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.elimination import plan as elimination
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import MethodError, ModelError, TooLarge
from cmpe.problem import Instances, Problem

LANES = 64  # rows of one block
WORKING_SET = 1 << 22  # bytes that the lanes of one block should fill at most
BACKENDS = ("cpu", "torch")
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Extreme:
    """The extreme value of each row and an assignment that attains it."""

    values: Floats  # (B,)
    assignments: Assignments  # (B, n), evidence included


@dataclass(frozen=True)
class MaxMarginals:
    """The maximum given each value of each free variable; -inf where it is impossible."""

    values: Floats  # (B, S): the values of variables[0], then those of variables[1], ...
    variables: tuple[int, ...]
    starts: tuple[int, ...]  # of each variable's columns, and S at the end

    def of(self, variable: int) -> Floats:
        """The columns of one free variable: (B, cardinality)."""
        if variable not in self.variables:
            raise ModelError(f"only free variables have max-marginals, found variable {variable}")
        place = self.variables.index(variable)
        return self.values[:, self.starts[place] : self.starts[place + 1]]


@dataclass(frozen=True)
class Backend:
    """Where the tables are added up. float32 is faster on some devices, and certifies nothing."""

    name: str = "cpu"
    device: str = "cpu"
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if self.name not in BACKENDS:
            raise MethodError(f"backend must be one of {', '.join(BACKENDS)}, found {self.name!r}")
        if self.dtype not in DTYPES:
            raise MethodError(f"dtype must be one of {', '.join(DTYPES)}, found {self.dtype!r}")
        if self.name == "cpu" and (self.device, self.dtype) != ("cpu", "float64"):
            raise MethodError(
                "the compiled back-end computes in float64 on the cpu, found "
                f"{self.dtype} on {self.device!r}; use backend='torch'"
            )

    def engine(self, instances: Instances) -> Engine:
        """What computes."""
        if self.name == "cpu":
            return _Compiled(instances)
        from cmpe.tensor.plan import TensorEngine

        return TensorEngine(instances, self.device, self.dtype)


class Engine(Protocol):
    """The same three passes, on one back-end."""

    def extreme(self, which: int, sign: float) -> tuple[Floats, Assignments]:
        """The maximum of `sign` times the function, times `sign`, and where it is attained."""

    def log_partition(self, which: int) -> Floats:
        """log sum exp over the completions: (B,)."""

    def max_marginals(self, which: int) -> Floats:
        """(B, S), variables in the order of `conditioning.free`."""


def maximum(
    instances: Instances,
    which: int = 0,
    *,
    backend: str = "cpu",
    device: str = "cpu",
    dtype: str = "float64",
) -> Extreme:
    """The largest value of function `which` (0 is the objective) over the free variables."""
    engine = _engine(instances, which, Backend(backend, device, dtype))
    return Extreme(*engine.extreme(which, 1.0))


def minimum(
    instances: Instances,
    which: int = 0,
    *,
    backend: str = "cpu",
    device: str = "cpu",
    dtype: str = "float64",
) -> Extreme:
    """The smallest value of function `which`: -inf where some completion is impossible."""
    engine = _engine(instances, which, Backend(backend, device, dtype))
    return Extreme(*engine.extreme(which, -1.0))


def log_partition(
    instances: Instances,
    which: int = 0,
    *,
    backend: str = "cpu",
    device: str = "cpu",
    dtype: str = "float64",
) -> Floats:
    """log sum over completions of exp of function `which`, for every row: (B,)."""
    return _engine(instances, which, Backend(backend, device, dtype)).log_partition(which)


def log_probability_of_evidence(
    instances: Instances,
    which: int = 0,
    *,
    backend: str = "cpu",
    device: str = "cpu",
    dtype: str = "float64",
) -> Floats:
    """log P(x) of every row, where P(z) is proportional to exp of function `which`: (B,).

    The partition function over all variables is computed once, on the CPU; it may be too wide
    where the rows are not.
    """
    rows = log_partition(instances, which, backend=backend, device=device, dtype=dtype)
    everything = elimination.log_partition(instances.problem.models[which])
    if everything == -np.inf:
        raise ModelError("a probability needs a possible assignment, found a sum of 0 over all")
    return rows - everything


def max_marginals(
    instances: Instances,
    which: int = 0,
    *,
    backend: str = "cpu",
    device: str = "cpu",
    dtype: str = "float64",
) -> MaxMarginals:
    """The maximum of function `which` given each value of each free variable."""
    engine = _engine(instances, which, Backend(backend, device, dtype))
    free = instances.conditioning.free
    return MaxMarginals(
        engine.max_marginals(which), free, tuple(marginal_starts(instances.problem).tolist())
    )


def marginal_starts(problem: Problem) -> NDArray[np.int64]:
    """The first column of each free variable's max-marginals, and how many columns there are."""
    structure = problem.conditioning
    cards = [structure.cardinalities[v] for v in structure.free]
    return np.concatenate([[0], np.cumsum(cards, dtype=np.int64)]).astype(np.int64)


def _engine(instances: Instances, which: int, backend: Backend) -> Engine:
    functions = len(instances.problem.functions)
    if not 0 <= which < functions:
        raise MethodError(
            f"which must be 0 (the objective) or a constraint's number, at most {functions - 1}; "
            f"found {which}"
        )
    return backend.engine(instances)


class _Compiled:
    """Blocks of lanes through compiled loops; memory is refused before it is taken."""

    def __init__(self, instances: Instances) -> None:
        problem = instances.problem
        plan = problem.plan
        entries = len(problem.conditioning.layout.values)
        columns = int(marginal_starts(problem)[-1])
        per_lane = 8 * (entries + 2 * plan.message_entries + columns)
        if per_lane > MEMORY_LIMIT:
            raise TooLarge(
                f"elimination of width {plan.width} needs {per_lane / 2**30:.4g} GiB a row; "
                f"the limit is {MEMORY_LIMIT / 2**30:.4g} GiB"
            )
        few = max(4, WORKING_SET // per_lane)
        self._lanes = min(LANES, few, MEMORY_LIMIT // per_lane, max(1, len(instances)))
        self._instances = instances
        self._plan = problem.compiled_plan
        self._evidence = np.ascontiguousarray(instances.evidence.T, dtype=np.int64)

    def extreme(self, which: int, sign: float) -> tuple[Floats, Assignments]:
        """See `Engine`."""
        from cmpe.tensor.kernels import extreme

        values = np.zeros(len(self._instances))
        assignments = self._instances.complete(0)
        gather = self._instances.conditioning.gathers[which]
        extreme(self._plan, gather, self._evidence, self._lanes, sign, values, assignments)
        return values, assignments

    def log_partition(self, which: int) -> Floats:
        """See `Engine`."""
        from cmpe.tensor.kernels import log_partition

        out = np.zeros(len(self._instances))
        gather = self._instances.conditioning.gathers[which]
        log_partition(self._plan, gather, self._evidence, self._lanes, out)
        return out

    def max_marginals(self, which: int) -> Floats:
        """See `Engine`."""
        from cmpe.elimination.kernels import VARIABLE
        from cmpe.tensor.kernels import max_marginals

        starts = marginal_starts(self._instances.problem)
        column = dict(zip(self._instances.conditioning.free, starts[:-1].tolist(), strict=True))
        variables = self._plan.buckets[:, VARIABLE].tolist()
        columns = np.array([column[v] for v in variables], dtype=np.int64)
        out = np.zeros((len(self._instances), int(starts[-1])))
        gather = self._instances.conditioning.gathers[which]
        max_marginals(self._plan, gather, self._evidence, self._lanes, columns, out)
        return out
