"""The kinds of function that a mixed-integer linear program can say exactly.

Each kind has a class here: which tables it has, which variables it reads without tables, and how
it enters a program as the objective or as a constraint. `readable` is the table by kind: to add
one, write its class and register how a function becomes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from scipy.sparse import csr_array

from cmpe.arrays import Floats
from cmpe.errors import MethodError, ModelError
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction, Slots, row_numbers
from cmpe.models.relu import ReluNetwork
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Problem
from cmpe.solvers.milp.mixed.columns import Affine, Columns, at_least, split_distance
from cmpe.solvers.milp.mixed.margins import Margin
from cmpe.solvers.milp.mixed.program import MixedProgram, Readable

ELSEWHERE = "method local or a trained network answers here"


@dataclass(frozen=True, eq=False)
class ReadableTables:
    """A log-linear model."""

    factors: tuple[Factor, ...]
    scope: tuple[int, ...] = ()

    def objective(self, row: MixedProgram, build: Columns, weight: float) -> Affine:
        """The sum of the tables of the objective."""
        table = row.tables[0]
        return row.weighted(np.where(np.isneginf(table), 0.0, table))

    def require(
        self, row: MixedProgram, build: Columns, number: int, limit: float, weight: float
    ) -> None:
        """A sum of tables; -inf lifts it, where an entry's weight is a number by a column s."""
        table = row.tables[number]
        lifting = [(e, twin) for e, twin in row.weighed_entries() if np.isneginf(table[e])]
        entries = [e for e, _ in lifting]
        rest = table.copy()
        rest[entries] = 0.0
        value = row.weighted(row.polytope.constraint_weights(rest, limit))
        if not lifting:
            build.require(value, -np.inf, limit)
            return
        share = row.indicators([(e,) for e in entries])
        selected = row.indicators(lifting)
        lifted = build.switches(len(entries), lambda z: (share.at(z) > 0.0).astype(np.float64))
        s = build.pick(lifted)
        short = csr_array(build.wide(selected.matrix) - s)
        build.require(Affine(selected.constant, short), 0.0, np.inf)
        enough = csr_array(build.wide(share.matrix) - weight * s)
        build.require(Affine(share.constant, enough), 0.0, np.inf)
        room = max(0.0, row.highest(rest) - limit)
        relief = csr_array(np.full((1, len(entries)), room)) @ s
        build.require(Affine(value.constant, build.wide(value.matrix) - relief), -np.inf, limit)


@dataclass(frozen=True, eq=False)
class ReadableDistance:
    """A distance."""

    distance: Distance
    factors: tuple[Factor, ...] = ()

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables of all pairs."""
        return tuple(sorted({v for pair in self.distance.pairs for v in pair}))

    def objective(self, row: MixedProgram, build: Columns, weight: float) -> Affine:
        """One number that can be smaller than the distance's value, but never larger."""
        return self._value(row, build, exact=False)

    def require(
        self, row: MixedProgram, build: Columns, number: int, limit: float, weight: float
    ) -> None:
        """The value itself is at most `limit`."""
        build.require(self._value(row, build, exact=True), -np.inf, limit)

    def _value(self, row: MixedProgram, build: Columns, *, exact: bool) -> Affine:
        """Pairs with a known end, or of one that has two values only, are linear."""
        weights = np.array(self.distance.weights)
        inputs = row.inputs(self.scope)
        values = Affine(inputs.numbers, build.pick(inputs.columns))
        total, constant, sides = self._split(row, weights)
        linear = values.through(total[np.newaxis], constant)
        split = sides.any(axis=1)
        difference = values.through(sides[split])
        moved = split_distance(build, difference, weights[split], exact=exact)
        matrix = build.wide(linear.matrix) + build.wide(moved.matrix)
        return Affine(linear.constant + moved.constant, csr_array(matrix))

    def _split(self, row: MixedProgram, weights: Floats) -> tuple[Floats, float, Floats]:
        """Weights (n,) and constant of the linear pairs; differences (P, n) of the others."""
        place = {v: k for k, v in enumerate(self.scope)}
        sides = np.zeros((len(weights), len(place)))
        total, constant = np.zeros(len(place)), 0.0
        for k, (i, j) in enumerate(self.distance.pairs):
            given, other = (i, j) if i in row.known else (j, i)
            v = row.known.get(given)
            whole = v in (0.0, 1.0) or other not in row.continuous
            if v is not None and other in row.known:
                constant -= weights[k] * abs(v - row.known[other])
            elif v is not None and whole:  # |v - z| = v + (1 - 2 v) z
                constant -= weights[k] * v
                total[place[other]] -= weights[k] * (1.0 - 2.0 * v)
            elif i != j:
                sides[k, place[j]], sides[k, place[i]] = 1.0, -1.0
        return total, constant, sides


@dataclass(frozen=True, eq=False)
class ReadableNetwork:
    """A NeuralFunction whose module is a ReLU network of one output."""

    network: ReluNetwork
    function: NeuralFunction
    factors: tuple[Factor, ...] = ()

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables whose coordinates the network reads."""
        return self.function.scope

    def objective(self, row: MixedProgram, build: Columns, weight: float) -> Affine:
        """One number that can be smaller than the output, but never larger."""
        inputs = row.inputs(self.scope)
        minus = at_least(build, self._of(row), inputs, np.array([[-1.0]]))
        return minus.through(np.array([[-1.0]]))

    def require(
        self, row: MixedProgram, build: Columns, number: int, limit: float, weight: float
    ) -> None:
        """The output is at most `limit`."""
        value = at_least(build, self._of(row), row.inputs(self.scope), np.ones((1, 1)))
        build.require(value, -np.inf, limit)

    def _of(self, row: MixedProgram) -> ReluNetwork:
        """The network of one row: what it reads of the row's features is part of its biases."""
        inputs = self.function.inputs
        if inputs is None:
            return self.network
        number = np.array([row.known[self.function.variables - 1]])
        (features,) = inputs[row_numbers(number, len(inputs))]
        first, *others = self.network.weights
        bias, *more = self.network.biases
        size = first.shape[1] - len(features)
        return ReluNetwork((first[:, :size], *others), (bias + first[:, size:] @ features, *more))


@dataclass(frozen=True, eq=False)
class ReadableMargin:
    """A class margin."""

    function: ClassMargin
    factors: tuple[Factor, ...] = ()

    @property
    def scope(self) -> tuple[int, ...]:
        """The changed variables and the original ones."""
        return self.function.changed + self.function.original

    def objective(self, row: MixedProgram, build: Columns, weight: float) -> Affine:
        """One number that can be smaller than the margin, but never larger."""
        return self._margin(row, weight).as_objective(build)

    def require(
        self, row: MixedProgram, build: Columns, number: int, limit: float, weight: float
    ) -> None:
        """The margin is at most `limit`."""
        self._margin(row, weight).require_at_most(build, limit)

    def _margin(self, row: MixedProgram, strict: float) -> Margin:
        original, changed = row.inputs(self.function.original), row.inputs(self.function.changed)
        return Margin(self.function.network, original, changed, strict)


def readable_functions(problem: Problem) -> tuple[Readable, ...]:
    """The problem's functions, each of a kind that a linear program can say exactly."""
    functions = tuple(readable(function, problem) for function in problem.functions)
    continuous = set(problem.continuous) & set(problem.free)
    for factor in (factor for function in functions for factor in function.factors):
        both = sorted(continuous & set(factor.scope))
        if len(both) > 1:
            raise MethodError(
                "milp needs tables with at most one free continuous variable; found "
                f"{', '.join(map(str, both))} in the scope {factor.scope}; {ELSEWHERE}"
            )
    return functions


@singledispatch
def readable(function: Function, problem: Problem) -> Readable:
    """A function of the problem as a linear program reads it; other kinds are refused."""
    raise MethodError(
        "milp needs log-linear models, distances, ReLU networks or class margins; found a "
        f"function of kind {type(function).__name__}; {ELSEWHERE}"
    )


@readable.register
def _readable_model(function: LogLinearModel, problem: Problem) -> Readable:
    return ReadableTables(function.factors)


@readable.register
def _readable_cutset(function: CutsetNetwork, problem: Problem) -> Readable:
    if problem.continuous:  # a network of leaves has no multilinear extension
        return readable.dispatch(object)(function, problem)
    return ReadableTables(function.to_model().factors)


@readable.register
def _readable_distance(function: Distance, problem: Problem) -> Readable:
    return ReadableDistance(function)


@readable.register
def _readable_margin(function: ClassMargin, problem: Problem) -> Readable:
    return ReadableMargin(function)


@readable.register
def _readable_module(function: NeuralFunction, problem: Problem) -> Readable:
    name = type(function.module).__name__
    try:
        network = ReluNetwork.of(function.module)
    except ModelError as error:
        raise MethodError(
            f"milp needs ReLU networks ({error}) in the module {name}; {ELSEWHERE}"
        ) from None
    inputs = Slots([function.cardinalities[v] for v in function.scope]).count + function.features
    if network.outputs != 1 or network.inputs != inputs:
        raise MethodError(
            f"the module {name} must map {inputs} numbers to 1; "
            f"found {network.inputs} to {network.outputs}"
        )
    return ReadableNetwork(network, function)
