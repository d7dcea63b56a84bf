"""Cost function networks in toulbar2's JSON (.cfn): decimal costs, to be minimised or maximised.

`mustbe` has the sense and the bound: "<10.00" minimises costs below 10, ">0" maximises costs above
0. Costs have as many decimals as the bound; toulbar2 drops further ones, and so does the reader.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import FormatError, ModelError, TooLarge
from cmpe.formats.costs.functions import KINDS, Row
from cmpe.formats.costs.network import CostFunctions, Nested, nested
from cmpe.formats.costs.relaxed import Bracketed, Quoted, parse_relaxed
from cmpe.formats.costs.rules import CostTable, FileRule
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
    return _network(path, parse_relaxed(path, read_text(path, "utf-8")))[0]


def _network(
    path: Path | str, group: Bracketed, left: int = MOST_ENTRIES, *, is_nested: bool = False
) -> tuple[CostFunctions, _Scale]:
    sections = _fields(path, group, SECTIONS)
    problem = _fields(path, _group(path, sections, "problem"), ("name", "mustbe"))
    scale = _Scale.of(path, problem.get("mustbe"))
    domain = _domain(path, _group(path, sections, "variables"))
    reader = _Functions(path, domain, scale, left, is_nested=is_nested)
    reader.read(_group(path, sections, "functions"))
    network = CostFunctions(
        str(path),
        domain,
        reader.tables,
        reader.rules,
        reader.nested,
        scale.top,
        scale.digits or 0,
    )
    return network, scale


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
        if isinstance(entry, str) and (isinstance(entry, Quoted) or not entry[0].isdecimal()):
            name, states = str(entry), next(entries, "nothing")
        if name in variables:
            raise FormatError.at(path, f"variable {name[:40]!r}", "distinct names", "it twice")
        variables[name] = _states(path, f"variable {name[:40]!r}", states)
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

    def __init__(
        self,
        path: Path | str,
        domain: Domain,
        scale: _Scale,
        left: int = MOST_ENTRIES,
        *,
        is_nested: bool = False,
    ) -> None:
        self._path, self._domain, self._scale = path, domain, scale
        self._left, self._is_nested = left, is_nested
        self._numbers = {name: v for v, name in enumerate(domain.names)}
        self._states: dict[int, dict[str, int]] = {}
        self._named: dict[str, Floats] = {}
        self._sharing: list[tuple[str, tuple[int, ...], str]] = []
        self.tables: list[CostTable] = []
        self.rules: list[FileRule] = []
        self.nested: list[Nested] = []

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
        if "type" in fields:
            self._rule(where, scope, fields["type"], fields.get("params"))
            return
        if "costs" not in fields:
            raise FormatError.at(self._path, where, "costs or a type", "neither")
        costs, default = fields["costs"], fields.get("defaultcost")
        if isinstance(costs, str):
            self._sharing.append((where, scope, costs))
        elif default is None:
            self._post(where, scope, lambda shape: self._scale.units(costs).reshape(shape), name)
        else:
            self._post(where, scope, lambda _: self._sparse(scope, default, costs), name)

    def _rule(
        self,
        where: str,
        scope: tuple[int, ...],
        kind: str | Bracketed,
        params: str | Bracketed | None,
    ) -> None:
        if not isinstance(params, Bracketed):
            raise FormatError.at(self._path, where, "a list of params", repr(params)[:40])
        here = f"{self._path}: {where} ({str(kind)[:40]})"
        cards = tuple(self._domain.cardinalities[v] for v in scope)
        given = _Fields(here, scope, cards, params, self._scale, self._numbers)
        if kind == "cfnconstraint" and not self._is_nested:
            group = given.group("cfn")
            inner, scale = _network(self._path, group, self._left, is_nested=True)
            low, high = (given.cost(name, signed=True, scale=scale) for name in ("lb", "ub"))
            if scale.sign < 0:  # lb <= cost < ub, where the costs in here are -cost
                low, high = high + 1.0, low + 1.0
            sizes = self._domain.cardinalities
            self.nested.append(nested(here, inner, scope, sizes, (low, high)))
        elif isinstance(kind, str) and kind in KINDS and scope:
            self.rules += KINDS[kind](given)
        else:
            raise FormatError.at(self._path, where, "a function that is read here", repr(kind)[:40])

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


class _Fields:
    """The parameters of a function by name; without names they are in the order of the format."""

    def __init__(
        self,
        where: str,
        scope: tuple[int, ...],
        cardinalities: tuple[int, ...],
        params: Bracketed,
        scale: _Scale,
        variables: Mapping[str, int],
    ) -> None:
        self.where, self.scope, self.cardinalities = where, scope, cardinalities
        self._params, self._scale, self._variables = params, scale, variables
        self._is_named: bool | None = None  # None: not known before the first parameter
        self._next = 0  # where there are no names

    def take(self, name: str) -> str | Bracketed:
        """The parameter of a name, or the next one."""
        names = self._params[::2]
        if self._is_named is None:
            self._is_named = name in names
        at = self._next
        if self._is_named:
            at = 2 * names.index(name) + 1 if name in names else len(self._params)
        self._next += 1
        if at >= len(self._params):
            raise self.refuse(f"a parameter {name!r}", "none")
        return self._params[at]

    def group(self, name: str) -> Bracketed:
        """A parameter in brackets."""
        found = self.take(name)
        if not isinstance(found, Bracketed):
            raise self.refuse(f"a list {name!r}", repr(found[:40]))
        return found

    def word(self, name: str, choices: Sequence[str]) -> str:
        found = self.take(name)
        if isinstance(found, Bracketed) or found not in choices:
            raise self.refuse(f"{name} {' or '.join(choices)}", repr(found)[:40])
        return found

    def whole(self, name: str) -> int:
        return self._whole(name, self.take(name))

    def cost(self, name: str, *, signed: bool = False, scale: _Scale | None = None) -> float:
        return self._cost(name, self.take(name), scale or self._scale, signed=signed)

    def rows(self, name: str, letters: str) -> list[Row]:
        return self._rows(name, self.group(name), letters)

    def each(self, name: str) -> list[int]:
        found = [self._whole(name, word) for word in self.group(name)]
        if len(found) != len(self.scope):
            raise self.refuse(f"{len(self.scope)} {name}", str(len(found)))
        return found

    def lists(self, name: str, letters: str, *, is_counted: bool = False) -> list[list[Row]]:
        groups = self.group(name)
        if not (is_counted or len(groups) == len(self.scope)):
            raise self.refuse(f"{len(self.scope)} lists of {name}", str(len(groups)))
        found = []
        for group in groups:
            if not isinstance(group, Bracketed):
                raise self.refuse(f"lists of {name}", repr(group[:40]))
            found.append(self._rows(name, group, letters))
        return found

    def groups(self) -> tuple[list[int], list[int]]:
        one, two = ([int(v) for (v,) in self.rows(name, "s")] for name in ("vars1", "vars2"))
        return one, two

    def arithmetic(self) -> None:
        if self._scale.digits or self._scale.sign < 0:
            raise self.refuse("whole costs to be minimised", "decimals or a maximum")
        self._is_named = False

    def refuse(self, expected: str, found: str) -> FormatError:
        return FormatError(f"{self.where}: expected {expected}, found {found}")

    def _rows(self, name: str, group: Bracketed, letters: str) -> list[Row]:
        words = [*_flat(group)]
        if len(words) % len(letters):
            raise self.refuse(f"rows of {len(letters)} {name}", f"{len(words)} entries in all")
        entries = [self._entry(name, *pair) for pair in zip(words, cycle(letters), strict=False)]
        return list(zip(*(entries[k :: len(letters)] for k in range(len(letters))), strict=True))

    def _entry(self, name: str, word: str, letter: str) -> float:
        if letter == "s":
            return self._place(word)
        if letter in "cC":
            return self._cost(name, word, self._scale, signed=letter == "C")
        return self._whole(name, word, least=0 if letter == "v" else None)

    def _place(self, word: str) -> int:
        try:
            return self.scope.index(_found(self._variables, word))
        except ValueError:
            raise self.refuse("a variable of its scope", repr(word[:40])) from None

    def _whole(self, name: str, word: str | Bracketed, least: int | None = None) -> int:
        is_whole = isinstance(word, str) and _WHOLE.fullmatch(word.removeprefix("-"))
        if not is_whole or (least is not None and int(word) < least):  # type: ignore[arg-type]
            raise self.refuse(f"whole numbers as {name}", repr(word)[:40])
        return int(word)  # type: ignore[arg-type]

    def _cost(self, name: str, word: str | Bracketed, scale: _Scale, *, signed: bool) -> float:
        try:
            cost = float(scale.units([word])[0])
        except ValueError as error:
            raise self.refuse(f"a number as {name}", str(error)) from None
        if cost < 0 and not signed:
            raise self.refuse(f"a {name} that makes an answer no better", repr(word)[:40])
        return cost


def _flat(group: Bracketed) -> Iterator[str]:
    """All words of a list and of the lists in it."""
    stack = [iter(group)]
    while stack:
        for entry in stack[-1]:
            if isinstance(entry, Bracketed):
                stack.append(iter(entry))
                break
            yield entry
        else:
            stack.pop()


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
