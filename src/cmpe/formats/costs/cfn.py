"""Cost function networks in toulbar2's JSON (.cfn): decimal costs, to be minimised or maximised.

`mustbe` has the sense and the bound: "<10.00" minimises costs below 10, ">0" maximises costs above
0. Costs have as many decimals as the bound; toulbar2 drops further ones, and so does the reader.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import FormatError, ModelError, TooLarge
from cmpe.formats.costs.network import CostFunctions, CostTable
from cmpe.formats.costs.relaxed import Bracketed, Quoted, parse_relaxed
from cmpe.formats.costs.wcsp import MOST_STATES, digits_of
from cmpe.formats.tables.bayes import MOST_ENTRIES, MOST_PARENTS
from cmpe.formats.text import read_text, stem_of, write_text
from cmpe.models.loglinear import LogLinearModel

MOST_DIGITS = 30  # decimals of a bound
MOST_WRITTEN = 15  # decimals of what is written
_BOUND = re.compile(r"\s*([<>])\s*([-+]?[0-9.eE+-]+)\s*")
_WHOLE = re.compile(r"[0-9]{1,18}")
_ROUNDING = 4 * np.finfo(np.float64).eps  # of a decimal read and scaled as a float


def read_cfn(path: Path | str) -> CostFunctions:
    """Read a cost function network."""
    sections = _fields(path, parse_relaxed(path, read_text(path, "utf-8")), SECTIONS)
    problem = _fields(path, _group(path, sections, "problem"), ("name", "mustbe"))
    scale = _Scale.of(path, problem.get("mustbe"))
    domain = _domain(path, _group(path, sections, "variables"))
    reader = _Functions(path, domain, scale)
    reader.read(_group(path, sections, "functions"))
    return CostFunctions(domain, reader.tables, scale.top, scale.digits or 0)


SECTIONS = ("problem", "variables", "functions")
Fields = dict[str, "str | Bracketed"]


def _fields(path: Path | str, group: Bracketed, names: Sequence[str]) -> Fields:
    """The values of an object by name; without names they are in this order."""
    where = f"line {group.line}"
    if not any(entry in names for entry in group[::2]):
        return dict(zip(names, group, strict=False))
    try:
        pairs = group.pairs()
    except ValueError as error:
        raise FormatError.at(path, where, str(error), "others") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise FormatError.at(path, where, "each field once", "one of them twice")
    return found


def _group(path: Path | str, fields: Fields, name: str) -> Bracketed:
    value = fields.get(name)
    if not isinstance(value, Bracketed):
        found = "nothing" if value is None else repr(value[:40])
        raise FormatError.at(path, f"field {name!r}", "an object or a list", found)
    return value


@dataclass(frozen=True)
class _Scale:
    """The sense of a file, its bound and its decimals."""

    sign: float = 1.0
    top: float = math.inf
    digits: int | None = None  # None: costs stay as they are

    @classmethod
    def of(cls, path: Path | str, text: str | Bracketed | None) -> _Scale:
        """From the field `mustbe`."""
        if text is None:
            return cls()
        found = _BOUND.fullmatch(text) if isinstance(text, str) else None
        try:
            if found is None:
                raise ValueError
            bound = Decimal(found.group(2))
            exponent = bound.as_tuple().exponent
            digits = max(0, -exponent) if isinstance(exponent, int) else MOST_DIGITS + 1
            if digits > MOST_DIGITS or bound.adjusted() > 300:
                raise ValueError
        except (ValueError, InvalidOperation):
            expected = f"'<' or '>' and a number of at most {MOST_DIGITS} decimals"
            raise FormatError.at(path, "field 'mustbe'", expected, repr(text)[:60]) from None
        sign = 1.0 if found.group(1) == "<" else -1.0
        return cls(sign, sign * float(bound.scaleb(digits)), digits)

    def units(self, words: Sequence[str | Bracketed]) -> Floats:
        """Costs to be minimised, in units."""
        costs = np.array([*map(_cost, words)])
        if self.digits is not None:
            units = costs * 10.0**self.digits
            near = np.rint(units)
            with np.errstate(invalid="ignore"):  # inf - inf
                whole = np.abs(units - near) <= _ROUNDING * np.abs(units)
            costs = np.where(whole, near, np.trunc(units))
        return np.where(np.isposinf(costs), np.inf, self.sign * costs) + 0.0


def _cost(word: str | Bracketed) -> float:
    if isinstance(word, Bracketed):
        raise ValueError("a number, found a list")
    value = float(word)
    if math.isnan(value) or value == -math.inf or "_" in word:
        raise ValueError(f"a finite number or inf, found {word[:40]!r}")
    return value


def _domain(path: Path | str, group: Bracketed) -> Domain:
    """The variables; those without names are called x0, x1, ..., as toulbar2 has it."""
    variables: dict[str, list[str] | int] = {}
    entries = iter(group)
    for entry in entries:
        name, states = f"x{len(variables)}", entry
        if isinstance(entry, str) and (isinstance(entry, Quoted) or not entry[0].isdigit()):
            name, states = str(entry), next(entries, "nothing")
        if name in variables:
            raise FormatError.at(path, f"variable {name[:40]!r}", "distinct names", "it twice")
        variables[name] = _states(path, f"variable {name[:40]!r}", states)
    if not variables:
        raise FormatError.at(path, "field 'variables'", "at least one variable", "none")
    try:
        return Domain.of(variables)
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def _states(path: Path | str, where: str, states: str | Bracketed) -> list[str] | int:
    if isinstance(states, Bracketed):
        if states and not any(isinstance(state, Bracketed) for state in states):
            return [str(state) for state in states]
    elif _WHOLE.fullmatch(states) and 1 <= int(states) <= MOST_STATES:
        return int(states)
    expected = f"a number of states from 1 to {MOST_STATES}, or a list of them"
    raise FormatError.at(path, where, expected, repr(states)[:40])


class _Functions:
    """The functions of a file; functions may share the costs of another one, by its name."""

    def __init__(self, path: Path | str, domain: Domain, scale: _Scale) -> None:
        self._path, self._domain, self._scale = path, domain, scale
        self._numbers = {name: v for v, name in enumerate(domain.names)}
        self._states: dict[int, dict[str, int]] = {}
        self._left = MOST_ENTRIES
        self._named: dict[str, Floats] = {}
        self._sharing: list[tuple[str, tuple[int, ...], str]] = []
        self.tables: list[CostTable] = []

    def read(self, group: Bracketed) -> None:
        """Read every function: a name, which may be missing, and an object."""
        name = ""
        for number, entry in enumerate(group):
            if isinstance(entry, str):
                name = entry
                continue
            self._read(name, f"function {name[:40] or number!r}, line {entry.line}", entry)
            name = ""
        if name:
            raise FormatError.at(self._path, f"function {name[:40]!r}", "an object", "nothing")
        for where, scope, source in self._sharing:
            self._post(where, scope, partial(self._shared, source))

    def _read(self, name: str, where: str, group: Bracketed) -> None:
        is_named = "scope" in group[::2]
        fields = _fields(self._path, group, ("scope",)) if is_named else _positions(group)
        scope = self._scope(where, fields.get("scope"))
        kind = fields.get("type")
        if kind is not None or "costs" not in fields:
            found = "no costs" if kind is None else repr(kind)[:40]
            raise FormatError.at(self._path, where, "a function given by its costs", found)
        costs, default = fields["costs"], fields.get("defaultcost")
        if isinstance(costs, str):
            self._sharing.append((where, scope, costs))
        elif default is None:
            self._post(where, scope, lambda shape: self._scale.units(costs).reshape(shape), name)
        else:
            self._post(where, scope, lambda _: self._sparse(scope, default, costs), name)

    def _scope(self, where: str, group: str | Bracketed | None) -> tuple[int, ...]:
        if not isinstance(group, Bracketed):
            raise FormatError.at(self._path, where, "a list of variables", repr(group)[:40])
        try:
            scope = tuple(_found(self._numbers, word) for word in group)
        except ValueError as error:
            raise FormatError.at(self._path, where, "variables", str(error)) from None
        if len(set(scope)) != len(scope):
            raise FormatError.at(self._path, where, "distinct variables", "one of them twice")
        return scope

    def _post(
        self,
        where: str,
        scope: tuple[int, ...],
        costs_of: Callable[[list[int]], Floats],
        name: str = "",
    ) -> None:
        shape = [self._domain.cardinalities[v] for v in scope]
        if math.prod(shape) > self._left or len(scope) > MOST_PARENTS:
            raise TooLarge(f"{self._path}: {where}: tables of more than {MOST_ENTRIES} entries")
        try:
            costs = costs_of(shape)
        except (ValueError, TypeError) as error:
            raise FormatError.at(self._path, where, "one cost per entry", str(error)) from None
        self._left -= costs.size
        self._named.setdefault(name, costs)
        self.tables.append(CostTable(scope, costs))

    def _sparse(self, scope: tuple[int, ...], default: str | Bracketed, items: Bracketed) -> Floats:
        """Tuples of states, each with its cost; all others have the default."""
        cards = self._domain.cardinalities
        table = np.full([cards[v] for v in scope], self._scale.units([default])[0])
        step = len(scope) + 1
        if len(items) % step:
            raise ValueError(f"tuples of {step} items, {len(items)} in all")
        costs = self._scale.units(items[step - 1 :: step])
        places = [
            [_found(self._states_of(v), word) for word in items[k::step]]
            for k, v in enumerate(scope)
        ]
        if places:
            table[tuple(np.array(column, dtype=np.intp) for column in places)] = costs
        elif len(costs):
            table[()] = costs[-1]
        return table

    def _states_of(self, variable: int) -> dict[str, int]:
        if variable not in self._states:
            states = self._domain.states_of(variable)
            self._states[variable] = {state: k for k, state in enumerate(states)}
        return self._states[variable]

    def _shared(self, source: str, shape: list[int]) -> Floats:
        costs = self._named.get(source)
        if not source or costs is None or list(costs.shape) != shape:
            raise ValueError(f"the name {source[:40]!r} of no function with as many costs")
        return costs


def _positions(group: Bracketed) -> Fields:
    """The fields of a function without names: scope, default cost, then costs."""
    scope, *rest = group or [""]
    names = ("costs",) if len(rest) == 1 else ("defaultcost", "costs")
    if len(rest) == 2 and not (isinstance(rest[0], str) and rest[0][0] in "0123456789+-."):
        names = ("type", "params")
    return {"scope": scope, **dict(zip(names, rest, strict=False))}


def _found(known: Mapping[str, int], word: str | Bracketed) -> int:
    """The number of a name; a bare number is one, and so is a quoted one that is no name."""
    if isinstance(word, Bracketed):
        raise ValueError("a name or a number, found a list")
    if _WHOLE.fullmatch(word) and not (isinstance(word, Quoted) and word in known):
        if int(word) >= len(known):
            raise ValueError(f"a number below {len(known)}, found {word}")
        return int(word)
    if word not in known:
        raise ValueError(f"there is no {word[:40]!r}")
    return known[word]


def write_cfn(model: LogLinearModel, path: Path | str) -> None:
    """Write costs -h, rounded to as many decimals as toulbar2's range allows."""
    tables = [factor.log_table for factor in model.factors]
    top = 1.0 + sum(float(np.abs(t[np.isfinite(t)]).max(initial=0.0)) for t in tables)
    digits = digits_of(path, 3.0 * top, MOST_WRITTEN)
    domain = model.domain
    names = [domain.name(v) if domain.names else f"z{v}" for v in range(model.variables)]
    sizes = [
        json.dumps(domain.states_of(v) if domain.names else domain.cardinalities[v])
        for v in range(model.variables)
    ]
    variables = [f"{json.dumps(n)}: {size}" for n, size in zip(names, sizes, strict=True)]
    functions = []
    for k, factor in enumerate(model.factors):
        costs = np.where(np.isneginf(factor.log_table), 3 * top, -factor.log_table) + 0.0
        scope = json.dumps([names[v] for v in factor.scope])
        entries = ", ".join(f"{cost:.{digits}f}" for cost in costs.ravel().tolist())
        functions.append(f'"f{k}": {{"scope": {scope}, "costs": [{entries}]}}')
    problem = f'{{"name": {json.dumps(stem_of(path))}, "mustbe": "<{2 * top:.{digits}f}"}}'
    parts = (f"{{{joined}}}" for joined in map(",\n".join, (variables, functions)))
    fields = zip(SECTIONS, (problem, *parts), strict=True)
    write_text(path, "{" + ",\n".join(f'"{name}": {text}' for name, text in fields) + "}\n")
