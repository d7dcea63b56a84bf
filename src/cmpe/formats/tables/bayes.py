"""Shared by formats of Bayesian networks: variables with states, one P(child | parents) each.

A model is read with the scope (parents, child). It is written if it is a Bayesian network: one
table for each variable, which sums to 1 over that variable, and no cycle of parents.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError, ModelError, TooLarge
from cmpe.models.loglinear import LogLinearModel

MOST_ENTRIES = 1 << 26  # of all tables: half a GiB
MOST_PARENTS = 62  # A NumPy array has at most 64 axes.
NORMALISED = 1e-4  # Files round; what is written must sum to 1 this closely.
ODD = 0.01  # A row that is read and sums to 1 less closely is probably a slip.


class NotNormalised(UserWarning):
    """A table that is read as P(child | parents) does not sum to 1."""


@dataclass
class BayesBuilder:
    """A Bayesian network that is being read."""

    path: Path | str
    names: list[str] = field(default_factory=list)
    states: list[tuple[str, ...]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    scopes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[int, Floats] = field(default_factory=dict)
    entries: int = 0

    def error(self, place: str, expected: str, found: str) -> FormatError:
        """An error of this file."""
        return FormatError.at(self.path, place, expected, found)

    def add_variable(self, name: str, states: Sequence[str], place: str) -> None:
        """A variable and its states."""
        if name in self.numbers:
            raise self.error(place, "distinct variables", f"{name[:40]!r} twice")
        if not states:
            raise self.error(place, f"states of {name[:40]!r}", "none")
        self.numbers[name] = len(self.names)
        self.names.append(name)
        self.states.append(tuple(states))

    def number(self, name: str, place: str) -> int:
        """The number of a variable by name."""
        if name not in self.numbers:
            raise self.error(place, "a variable of the network", repr(name[:40]))
        return self.numbers[name]

    def shape(self, child: int, parents: Sequence[int], place: str) -> tuple[int, ...]:
        """The axes of P(child | parents), the child's last; refuses what cannot be held."""
        scope = (*parents, child)
        if child in self.scopes:
            raise self.error(place, "one table per variable", f"another of {self.names[child]!r}")
        if len(set(scope)) != len(scope):
            raise self.error(place, "distinct variables in a table", f"{self.names[child]!r}")
        if len(parents) > MOST_PARENTS:
            raise self.error(place, f"at most {MOST_PARENTS} parents", str(len(parents)))
        shape = tuple(len(self.states[v]) for v in scope)
        self.entries += math.prod(shape)
        if self.entries > MOST_ENTRIES:
            raise TooLarge(f"{self.path}: {place}: tables of more than {MOST_ENTRIES} entries")
        return shape

    def add_table(self, child: int, parents: Sequence[int], values: Floats, place: str) -> None:
        """P(child | parents), flat: the child's states fastest, the first parent's slowest."""
        if not (np.isfinite(values).all() and (values >= 0).all()):
            wrong = values[~(np.isfinite(values) & (values >= 0))][0]
            raise self.error(place, f"probabilities of {self.names[child]!r}", str(wrong))
        self.scopes[child] = (*parents, child)
        self.tables[child] = values

    def model(self) -> LogLinearModel:
        """The model, once all is read; every variable must have a table."""
        if not self.names:
            raise self.error("line 1", "variables", "none")
        missing = [v for v in range(len(self.names)) if v not in self.scopes]
        if missing:
            raise self.error("the end", f"a table of {self.names[missing[0]]!r}", "none")
        order = sorted(self.scopes)
        self._warn_of_sums(order)
        with np.errstate(divide="ignore"):
            values = np.log(np.concatenate([self.tables[v] for v in order]))
        cards = tuple(map(len, self.states))
        try:
            domain = Domain(cards, tuple(self.names), tuple(self.states))
        except ModelError as error:
            raise FormatError(f"{self.path}: {error}") from None
        return LogLinearModel.from_flat(domain, [self.scopes[v] for v in order], values)

    def _warn_of_sums(self, order: Sequence[int]) -> None:
        """Name the first row that does not sum to 1, and how many there are; all are used as they
        are, since files hold potentials, too."""
        rows = {v: self.tables[v].reshape(-1, len(self.states[v])).sum(axis=1) for v in order}
        odd = {v: np.flatnonzero(np.abs(sums - 1.0) > ODD) for v, sums in rows.items()}
        if not (count := sum(map(len, odd.values()))):
            return
        child = next(v for v in order if len(odd[v]))
        row, parents = int(odd[child][0]), self.scopes[child][:-1]
        at = np.unravel_index(row, [len(self.states[v]) for v in parents]) if parents else ()
        given = [f"{self.names[v]}={self.states[v][k]}" for v, k in zip(parents, at, strict=True)]
        named = " | ".join([self.names[child], *([", ".join(given)] if given else [])])
        rest = f", the first of {count} rows that do not sum to 1" if count > 1 else ", not to 1"
        warnings.warn(
            f"{self.path}: P({named}) sums to {rows[child][row]:.6g}{rest}; used as it is",
            NotNormalised,
            stacklevel=2,
        )


def numbers_in(text: str) -> Floats:
    """The numbers of a text, separated by white space or commas; ValueError if it has others."""
    words = text.replace(",", " ").split()
    if "_" in text:  # Python would read 1_0 as 10
        raise ValueError("_")
    return np.array(words, dtype=np.float64) if words else np.zeros(0)


@dataclass(frozen=True)
class Conditional:
    """One table of a Bayesian network to be written."""

    child: int
    parents: tuple[int, ...]
    table: Floats  # axes: parents, child


def conditionals(model: LogLinearModel, path: Path | str) -> list[Conditional]:
    """The tables P(child | parents) that a model is made of, by child; others are refused."""
    found: dict[int, Conditional] = {}
    for factor in model.factors:
        table = np.exp(factor.log_table)
        axis = next((a for a in _axes(len(factor.scope)) if _sums_to_one(table, a)
                     and factor.scope[a] not in found), None)  # fmt: skip
        if axis is None:
            raise InputError(
                f"{path}: holds a Bayesian network, one table per variable that sums to 1 over its "
                f"states; the table over {_called(model, factor.scope)} is none: write .uai instead"
            )
        child = factor.scope[axis]
        parents = tuple(v for v in factor.scope if v != child)
        found[child] = Conditional(child, parents, np.moveaxis(table, axis, -1))
    if len(found) != model.variables:
        missing = next(v for v in range(model.variables) if v not in found)
        raise InputError(f"{path}: {model.domain.called(missing)} needs a table of its own")
    try:
        tuple(TopologicalSorter({c.child: c.parents for c in found.values()}).static_order())
    except CycleError:
        raise InputError(f"{path}: holds a Bayesian network, found a cycle of parents") from None
    return [found[v] for v in range(model.variables)]


def _axes(count: int) -> list[int]:
    return [*range(count - 1, -1, -1)]


def _sums_to_one(table: Floats, axis: int) -> bool:
    return bool((np.abs(table.sum(axis=axis) - 1.0) <= NORMALISED).all())


def _called(model: LogLinearModel, scope: Sequence[int]) -> str:
    return ", ".join(model.domain.name(v) for v in scope) or "no variable"
