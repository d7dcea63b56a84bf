"""Log-linear models: a sum of log-tables over discrete variables (paper §2).

    h(z) = sum over factors of log_table[z restricted to the factor's scope]

A log-table entry of -inf (a potential of 0) is kept as -inf; NaN and +inf are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arguments import float_array, listed, whole_numbers
from cmpe.arrays import Floats
from cmpe.domain import Domain, Placement, States, join
from cmpe.errors import ModelError
from cmpe.models.constraint import Bounded, between, limit_of
from cmpe.models.extension import extended_value, is_fractional
from cmpe.models.flat import FlatTables
from cmpe.models.function import Assigned, as_rows

if TYPE_CHECKING:
    from cmpe.models.interop import NamedTables


def _own(table: ArrayLike) -> Floats:
    """A copy in C order, or the array itself where nobody can write to it."""
    if isinstance(table, np.ndarray) and table.dtype == np.float64 and table.flags.c_contiguous:
        owner = table if table.base is None else table.base
        if isinstance(owner, np.ndarray) and owner.flags.owndata and not owner.flags.writeable:
            return table
    return float_array("a log-table", table, ModelError)


@dataclass(frozen=True, eq=False)
class Factor:
    """A log-table over the variables of its scope; axis k belongs to `scope[k]`."""

    scope: tuple[int, ...]
    log_table: Floats

    def __post_init__(self) -> None:
        scope = whole_numbers("a scope", self.scope, ModelError)
        # C order always: a table made by transposing is copied into its own layout.
        table = _own(self.log_table)
        if len(set(scope)) != len(scope) or any(v < 0 for v in scope):
            raise ModelError(f"a scope must list distinct variables from 0 up, found {scope}")
        if table.ndim != len(scope):
            raise ModelError(f"scope {scope} needs {len(scope)} table axes, found {table.ndim}")
        if np.isnan(table).any() or np.isposinf(table).any():
            raise ModelError(f"log-table of scope {scope} must be finite or -inf, found NaN or inf")
        table.setflags(write=False)
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "log_table", table)

    @classmethod
    def unchecked(cls, scope: tuple[int, ...], log_table: Floats) -> Factor:
        """A factor of a table that has been checked: float64, C order, read-only; not copied."""
        factor = object.__new__(cls)
        held = factor.__dict__
        held["scope"], held["log_table"] = scope, log_table
        return factor

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Factor)
            and self.scope == other.scope
            and np.array_equal(self.log_table, other.log_table)
        )

    __hash__ = None  # type: ignore[assignment]

    def reduced(self, evidence: Mapping[int, int]) -> Factor:
        """The factor over the variables that `evidence` leaves free."""
        index = tuple(evidence.get(v, slice(None)) for v in self.scope)
        return Factor(tuple(v for v in self.scope if v not in evidence), self.log_table[index])


@dataclass(frozen=True, repr=False)
class LogLinearModel(Bounded):
    """A sum of factors over variables 0..n-1 with the given cardinalities.

    Variables may have names, and then states (see `Domain`).
    """

    cardinalities: tuple[int, ...]
    factors: tuple[Factor, ...] = ()
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        self._settle()
        object.__setattr__(self, "factors", listed("factors", self.factors, Factor, ModelError))
        for number, factor in enumerate(self.factors):
            self._check(number, factor)

    def _check(self, number: int, factor: Factor) -> None:
        if factor.scope and max(factor.scope) >= self.variables:
            found = max(factor.scope)
            raise ModelError(
                f"factor {number}: variables must be below {self.variables}, found {found}"
            )
        shape = tuple(self.cardinalities[v] for v in factor.scope)
        if factor.log_table.shape != shape:
            raise ModelError(
                f"factor {number} over {factor.scope} must have shape {shape}, "
                f"found {factor.log_table.shape}"
            )

    @classmethod
    def from_tables(
        cls,
        cardinalities: Sequence[int],
        tables: Iterable[tuple[Sequence[int | str], ArrayLike]],
        names: Sequence[str] = (),
        states: Sequence[Sequence[Any]] = (),
    ) -> LogLinearModel:
        """Build a model from (scope, log-table) pairs; a scope may list numbers or names."""
        domain = Domain(tuple(cardinalities), tuple(names), tuple(map(tuple, states)))
        try:
            pairs = [(tuple(scope), np.asarray(table)) for scope, table in tables]
        except (TypeError, ValueError) as error:  # rows of different lengths, or no pairs at all
            raise ModelError(f"tables must be pairs (scope, array of numbers): {error}") from None
        factors = tuple(Factor(tuple(map(domain.variable, scope)), t) for scope, t in pairs)
        return cls(domain.cardinalities, factors, domain.names, domain.states)

    @classmethod
    def from_flat(
        cls, domain: Domain, scopes: Sequence[tuple[int, ...]], values: Floats
    ) -> LogLinearModel:
        """Tables that lie end to end in `values`, which becomes read-only, in C order.

        For readers of files: scopes must be valid, and the values are checked all at once.
        """
        if np.isnan(values).any() or np.isposinf(values).any():
            raise ModelError("log-tables must be finite or -inf, found NaN or inf")
        values.setflags(write=False)
        size_of, begin = domain.cardinalities.__getitem__, 0
        made: list[Floats] = []
        shapes = [tuple(map(size_of, scope)) for scope in scopes]
        for shape, run in groupby(shapes):  # tables of one shape that follow each other
            count = len(list(run))
            end = begin + count * math.prod(shape)
            block = values[begin:end].reshape(count, *shape)
            made.extend(block if shape else [block[k, ...] for k in range(count)])
            begin = end
        if begin != len(values):
            raise ModelError(f"tables of these scopes have {begin} entries, found {len(values)}")
        model = cls._unchecked(domain, tuple(map(Factor.unchecked, scopes, made)))
        model.__dict__["flat"] = FlatTables.shaped(domain.cardinalities, scopes, values)
        return model

    def extended(
        self, domain: Domain, scopes: Sequence[tuple[int, ...]], values: Floats
    ) -> LogLinearModel:
        """These tables and those of more scopes, over a domain with more variables.

        All of them lie end to end in `values`, which becomes read-only; scopes must be valid.
        """
        values.setflags(write=False)
        cards, size = domain.cardinalities, len(self.flat.values)
        more = FlatTables.shaped(cards, scopes, values[size:])
        tables = [
            values[size + a : size + b].reshape([cards[v] for v in scope])
            for scope, a, b in zip(scopes, more.offsets[:-1], more.offsets[1:], strict=True)
        ]
        model = self._unchecked(domain, (*self.factors, *map(Factor.unchecked, scopes, tables)))
        model.__dict__["flat"] = self.flat.followed_by(more, values)
        return model

    @classmethod
    def _unchecked(cls, domain: Domain, factors: tuple[Factor, ...]) -> LogLinearModel:
        """Factors that fit the domain, as it is known already."""
        model = object.__new__(cls)
        model.__dict__.update(
            cardinalities=domain.cardinalities,
            factors=factors,
            names=domain.names,
            states=domain.states,
            domain=domain,
        )
        return model

    def placed(self, placement: Placement) -> LogLinearModel:
        """The same function over a wider domain; tables are shared unless states are reordered."""
        factors = []
        for factor in self.factors:
            scope = tuple(placement.variables[v] for v in factor.scope)
            orders = [placement.states[v] for v in factor.scope]
            table = factor.log_table
            for axis, order in enumerate(orders):
                if order is not None:
                    table = table.take(order, axis=axis)
            if table is not factor.log_table:
                table = np.ascontiguousarray(table)
                table.setflags(write=False)
            factors.append(Factor.unchecked(scope, table))
        return self._unchecked(placement.domain, tuple(factors))

    def named(self, names: Sequence[str], states: Sequence[Sequence[Any]] = ()) -> LogLinearModel:
        """The same function with other names, or with none."""
        return replace(self, names=tuple(names), states=tuple(map(tuple, states)))

    @property
    def variables(self) -> int:
        """The number of variables, whether or not a factor mentions them."""
        return len(self.cardinalities)

    @property
    def is_finite(self) -> bool:
        """Whether no entry is -inf."""
        return bool(np.isfinite(self.flat.values).all())

    @cached_property
    def flat(self) -> FlatTables:
        """All tables end to end, for compiled code."""
        return FlatTables.of(self.cardinalities, [(f.scope, f.log_table) for f in self.factors])

    def value(self, assignments: Assigned) -> Floats:
        """h of each row of `assignments` (B, n), or of one assignment (n,), in float64.

        Numbers between 0 and 1 are values of the multilinear extension.
        """
        rows = as_rows(assignments, self.domain)
        if is_fractional(rows):
            tables = ((f.scope, f.log_table) for f in self.factors)
            return extended_value(tables, self.cardinalities, rows)
        return self.flat.evaluate(rows)  # (B,)

    def condition(self, evidence: Mapping[int, int]) -> LogLinearModel:
        """The same variables with `evidence` fixed: observed variables leave every scope."""
        for variable, value in evidence.items():
            if not 0 <= variable < self.variables:
                raise ModelError(f"evidence on variable {variable}: must be below {self.variables}")
            if not 0 <= value < self.cardinalities[variable]:
                raise ModelError(
                    f"evidence on variable {variable}: must be below "
                    f"{self.cardinalities[variable]}, found {value}"
                )
        return replace(self, factors=tuple(f.reduced(evidence) for f in self.factors))

    def __eq__(self, other: object) -> Any:
        """Whether two models are the same; with a number two limits, as `between(t, q, q)`."""
        if isinstance(other, int | float | np.number):
            return between(self, float(other), float(other))
        if not isinstance(other, LogLinearModel):
            return NotImplemented
        return (self.domain, self.factors) == (other.domain, other.factors)

    def __add__(self, other: LogLinearModel | float) -> LogLinearModel:
        """The sum of two functions, joined by name where they have names, or with a number."""
        if isinstance(other, int | float | np.number):
            constant = Factor((), np.array(limit_of(other, "a constant")))
            return self._unchecked(self.domain, (*self.factors, constant))
        if not isinstance(other, LogLinearModel):
            return NotImplemented
        domain, (mine, theirs) = join((self.domain, other.domain), ("the first", "the second"))
        factors = self.placed(mine).factors + other.placed(theirs).factors
        return self._unchecked(domain, factors)

    __radd__ = __add__

    def __sub__(self, other: LogLinearModel | float) -> LogLinearModel:
        return self + -other

    def __rsub__(self, other: float) -> LogLinearModel:
        return -self + other

    def __neg__(self) -> LogLinearModel:
        if not self.is_finite:
            raise ModelError("-t needs finite tables; t >= q is right also with zero potentials")
        return self.scale(-1.0)

    def __mul__(self, weight: float) -> LogLinearModel:
        return self.scale(weight)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        sizes = f"{len(self.factors)} tables, {sum(f.log_table.size for f in self.factors)} entries"
        named = f" {self.names[0]!r}, ..." if self.names else ""
        return f"LogLinearModel({self.variables} variables{named}, {sizes})"

    def scale(self, weight: float) -> LogLinearModel:
        """`weight` times the function; -inf stays, so a negative weight needs finite tables."""
        if not math.isfinite(weight):
            raise ModelError(f"a scale must be finite, found {weight}")
        if weight < 0 and not self.is_finite:
            raise ModelError("a model with zero potentials cannot be scaled by a negative number")
        return self._mapped(
            lambda table: np.where(
                np.isneginf(table), -np.inf, weight * np.where(np.isneginf(table), 0.0, table)
            )
        )

    def negated(self) -> tuple[LogLinearModel, LogLinearModel]:
        """(-h where h is finite and 0 elsewhere, the support of h as a 0/-inf model).

        What `h >= threshold` is made of: the first is at most -threshold, and the second is added
        to an objective, where -inf forbids.
        """
        minus = self._mapped(lambda table: np.where(np.isneginf(table), 0.0, -table))
        support = self._mapped(lambda table: np.where(np.isneginf(table), -np.inf, 0.0))
        return minus, replace(
            support, factors=tuple(f for f in support.factors if np.isneginf(f.log_table).any())
        )

    def perturb(self, variance: float, seed: int | np.random.SeedSequence) -> LogLinearModel:
        """Add independent N(0, variance) noise to every finite entry."""
        if not (math.isfinite(variance) and variance >= 0):
            raise ModelError(f"a variance must be finite and at least 0, found {variance}")
        generator = np.random.default_rng(seed)
        deviation = math.sqrt(variance)
        return self._mapped(lambda t: t + deviation * generator.standard_normal(t.shape))

    def merged(self) -> LogLinearModel:
        """The same function with one factor per set of variables, scopes ascending."""
        tables: dict[tuple[int, ...], Floats] = {}
        for factor in self.factors:
            axes = tuple(int(a) for a in np.argsort(factor.scope))
            scope = tuple(factor.scope[a] for a in axes)
            table = factor.log_table.transpose(axes)
            tables[scope] = tables[scope] + table if scope in tables else table
        return replace(self, factors=tuple(Factor(s, t) for s, t in sorted(tables.items())))

    def ceiling(self) -> float:
        """The sum over tables of the largest finite entry: an upper bound of every finite value."""
        return float(sum(_largest_finite(f.log_table) for f in self.factors))

    def to_model(self) -> LogLinearModel:
        """The model itself; trees and cutset networks are converted."""
        return self

    @classmethod
    def from_pgmpy(cls, network: Any) -> LogLinearModel:
        """Read a pgmpy DiscreteMarkovNetwork or DiscreteBayesianNetwork (extra `interop`).

        Variables are numbered in the order of `network.nodes()`, and the states of a variable in
        the order of `network.states`, whatever order each factor lists them in.
        """
        from cmpe.models.interop import read_pgmpy

        return cls._of_named(read_pgmpy(network))

    def to_pgmpy(self) -> Any:
        """Make a pgmpy DiscreteMarkovNetwork whose product of factors is exp h (extra `interop`).

        Its nodes and states are those of the model, or "0", "1", ... and 0, 1, ... without names.
        """
        from cmpe.models.interop import NamedTables, make_pgmpy

        tables = tuple((f.scope, f.log_table) for f in self.factors)
        return make_pgmpy(NamedTables(self.domain, tables))

    @classmethod
    def from_pyagrum(cls, network: Any) -> LogLinearModel:
        """Read a pyAgrum MarkovRandomField or BayesNet (extra `interop`).

        Variables are numbered in the order of their node ids, and the values of a variable in the
        order of its labels.
        """
        from cmpe.models.interop import read_pyagrum

        return cls._of_named(read_pyagrum(network))

    @classmethod
    def _of_named(cls, read: NamedTables) -> LogLinearModel:
        factors = tuple(Factor(scope, table) for scope, table in read.tables)
        return cls(read.domain.cardinalities, factors, read.domain.names, read.domain.states)

    def _mapped(self, function: Any) -> LogLinearModel:
        factors = tuple(Factor(f.scope, function(f.log_table)) for f in self.factors)
        return replace(self, factors=factors)


def _largest_finite(table: Floats) -> float:
    finite = table[np.isfinite(table)]
    return float(finite.max()) if finite.size else 0.0
