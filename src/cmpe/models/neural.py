"""Neural networks as objective or constraint: values and gradients, but no tables.

A network reads coordinates: a variable of two values, or in [0, 1], is one number; a variable of
k values is k - 1 indicators, of its values 1, 2, ...
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Floats
from cmpe.domain import Placement, States
from cmpe.errors import ModelError
from cmpe.models.function import Assigned, FiniteFunction, as_rows
from cmpe.models.relu import ReluNetwork
from cmpe.models.spans import Box, Chain

if TYPE_CHECKING:
    from torch import nn

CHUNK = 4096  # A module is called with at most this many rows.


def row_fractions(count: int) -> Floats:
    """The numbers of rows as a variable in [0, 1] holds them."""
    return (np.arange(count) + 0.5) / max(1, count)


def row_numbers(fractions: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The numbers of rows again."""
    numbers: NDArray[np.int64] = np.floor(fractions * count).astype(np.int64)
    return numbers


class Slots:
    """Where the coordinates of each variable lie: `first` (n + 1,), `owner` and `value` (D,)."""

    def __init__(self, cardinalities: Sequence[int]) -> None:
        cards = np.asarray(cardinalities, dtype=np.int64)
        self.sizes = np.maximum(cards - 1, 0)  # (n,)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.count = int(self.first[-1])
        self.owner = np.repeat(np.arange(len(cards)), self.sizes)
        self.value = np.arange(self.count) - self.first[self.owner] + 1
        self._alone = (cards == 2)[self.owner]

    def of(self, values: ArrayLike) -> NDArray[Any]:
        """The coordinates (..., D) of the variables' values (..., n); -1 (none) has no weight."""
        chosen = np.asarray(values)[..., self.owner]
        known: NDArray[Any] = np.maximum(chosen, 0).astype(np.float64)
        if self._alone.all():
            return known
        return np.asarray(np.where(self._alone, known, chosen == self.value))

    def columns(self, variables: Sequence[int]) -> NDArray[np.int64]:
        """The coordinates of `variables`, one after the other."""
        parts = [np.arange(self.first[v], self.first[v + 1]) for v in variables]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


@dataclass(frozen=True, eq=False, repr=False)
class NeuralFunction(FiniteFunction):
    """A torch module as a function of an assignment.

    The module maps the coordinates of `scope` (B, D) to one number a row, (B,) or (B, 1). Values
    are computed by a copy of it in float64; one that is not finite is refused when it appears.
    `largest` bounds them from above, which an objective needs for training; by default it comes
    from the layers, where bounds of them are known (`spans`). `factory` is an import path,
    `package.module:name`, of a function that makes this one without arguments: files keep it where
    the layers alone do not say how the module is made.

    `features` is how many numbers of each row the module reads after the coordinates: the `inputs`
    of `cmpe.solve` and `cmpe.fit`, flattened. They are no variables and may have any size.
    """

    module: nn.Module
    cardinalities: tuple[int, ...]
    scope: tuple[int, ...] = ()  # none: all variables
    largest: float = math.inf
    names: tuple[str, ...] = ()
    states: States = ()
    factory: str = ""
    features: int = 0
    inputs: Floats | None = None  # (B, features), by the number of the row: the last variable

    def __post_init__(self) -> None:
        self._settle()
        cards = self.cardinalities
        scope = tuple(int(v) for v in self.scope) or tuple(range(len(cards)))
        object.__setattr__(self, "scope", scope)
        if not (min(scope, default=0) >= 0 and max(scope, default=0) < len(cards)):
            raise ModelError(f"a scope must be of variables from 0 to {len(cards) - 1}")

    def placed(self, placement: Placement) -> NeuralFunction:
        """The same function over a wider domain."""
        placement.need_order(self.domain, self.scope)
        domain, scope = placement.domain, tuple(placement.variables[v] for v in self.scope)
        return replace(
            self,
            cardinalities=domain.cardinalities,
            scope=scope,
            names=domain.names,
            states=domain.states,
        )

    def reading(self, inputs: NDArray[Any]) -> NeuralFunction:
        """The same function of rows with these inputs (B, ...), numbered by the last variable."""
        if not self.features:
            return self
        flat = inputs.reshape(len(inputs), math.prod(inputs.shape[1:])).astype(np.float64)
        if flat.shape[1] != self.features:
            raise ModelError(
                f"a module reads {self.features} features of each row, found inputs of shape "
                f"{inputs.shape}"
            )
        return replace(self, inputs=flat)

    def _read(self, rows: NDArray[Any]) -> Floats:
        """What the module reads of assignments (B, n)."""
        coordinates = self._slots.of(rows[:, list(self.scope)])
        if not self.features:
            return coordinates
        numbers = row_numbers(rows[:, -1], len(self.known_inputs))
        return np.concatenate([coordinates, self.known_inputs[numbers]], axis=1)

    @property
    def known_inputs(self) -> Floats:
        """The inputs; where they are missing, an error that says how they are given."""
        if self.inputs is None:
            raise ModelError(
                f"a module reads {self.features} features of each row: give them as inputs"
            )
        return self.inputs

    @cached_property
    def _exact(self) -> nn.Module:
        return copy.deepcopy(self.module).cpu().double().eval()

    @cached_property
    def _slots(self) -> Slots:
        return Slots([self.cardinalities[v] for v in self.scope])

    def value(self, assignments: Assigned) -> Floats:
        """The module's output at each row of `assignments` (B, n): (B,)."""
        import torch

        rows = as_rows(assignments, self.domain)
        inputs = torch.as_tensor(self._read(rows))
        with torch.no_grad():
            parts = [self._exact(part).reshape(-1) for part in torch.split(inputs, CHUNK)]
        found: Floats = np.concatenate([np.zeros(0), *(part.numpy() for part in parts)])
        if len(found) != len(rows):
            raise ModelError(f"a module must give one number a row, found {len(found) / len(rows)}")
        if not np.isfinite(found).all():
            raise ModelError("a module gave a value that is not finite")
        return found

    def ceiling(self) -> float:
        """`largest`, or the bound of the layers; inf where there is none."""
        if math.isfinite(self.largest):
            return self.largest
        count = 1 if self.inputs is None else len(self.inputs)
        rows = np.full((count, self.variables), float(FREE))
        if self.inputs is not None:
            rows[:, -1] = row_fractions(count)
        try:
            return float(self.span(rows)[1].max())
        except ModelError:
            return math.inf

    def span(self, rows: ArrayLike) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the values that agree with rows (B, n), -1 where free.

        The rows observe the same variables. Modules of other layers than `spans` knows are refused.
        """
        whole = as_rows(rows, self.domain)
        given = whole[:, list(self.scope)]
        observed = (given != FREE).all(axis=0)
        sizes, count = self._slots.sizes, self._slots.count
        free = np.flatnonzero(~observed[self._slots.owner]) if count else np.zeros(0, np.intp)
        chosen = sizes[~observed & (sizes > 0)]
        firsts = np.cumsum(chosen) - chosen
        low, high = self._chain.span(Box(self._read(whole), free, firsts))
        return low, np.minimum(high, self.largest)

    @cached_property
    def _chain(self) -> Chain:
        return Chain.of(self.module)


@dataclass(frozen=True, eq=False, repr=False)
class ClassMargin(FiniteFunction):
    """The margin by which a changed input keeps the class that a network gives the original one.

        t(z) = F_c(z') - max over k != c of F_k(z'),   c = the class of z at `original`

    where z' are the variables `changed`; with one output F where it decides 1, -F where 0. The
    class flips where t <= 0 (paper §5.4, the function G).
    """

    network: ReluNetwork
    original: tuple[int, ...]
    changed: tuple[int, ...]
    cardinalities: tuple[int, ...]
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        self._settle()
        for name in ("original", "changed"):
            object.__setattr__(self, name, tuple(int(v) for v in getattr(self, name)))
        for name in ("original", "changed"):
            scope = getattr(self, name)
            if len(scope) != self.network.inputs:
                raise ModelError(
                    f"{name}: the network reads {self.network.inputs} variables, found {len(scope)}"
                )
            if not (min(scope) >= 0 and max(scope) < self.variables):
                raise ModelError(f"{name} must be variables from 0 to {self.variables - 1}")
            if any(self.cardinalities[v] != 2 for v in scope):
                raise ModelError("a network's variables have two values, or lie in [0, 1]")

    def placed(self, placement: Placement) -> ClassMargin:
        """The same function over a wider domain."""
        placement.need_order(self.domain, {*self.original, *self.changed})
        domain, move = placement.domain, placement.variables
        scopes = (tuple(move[v] for v in scope) for scope in (self.original, self.changed))
        original, changed = scopes
        return ClassMargin(
            self.network, original, changed, domain.cardinalities, domain.names, domain.states
        )

    def value(self, assignments: Assigned) -> Floats:
        """The margin at each row of `assignments` (B, n), in float64: (B,)."""
        rows = as_rows(assignments, self.domain).astype(np.float64)
        classes = self.network.decide(rows[:, list(self.original)])
        return self.network.margins(rows[:, list(self.changed)], classes)

    def ceiling(self) -> float:
        """Unknown: a margin is a constraint."""
        return math.inf
