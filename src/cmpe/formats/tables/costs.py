"""Cost function networks as models: .wcsp (whole costs) and .cfn (JSON, decimal costs).

toulbar2 minimises costs: h = -cost, and -inf where a cost reaches the upper bound. Whole costs are
multiples of a unit of nats, which files of this package name at the end of the problem's name, as
in `model@1e-06`; elsewhere the unit is 1. A `.cfn` that must be above a bound (`mustbe` with ">")
is maximised: h = cost. Functions of a `type` (global constraints) are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError, ModelError, TooLarge
from cmpe.formats.tables.bayes import MOST_ENTRIES, MOST_PARENTS
from cmpe.formats.text import Tokens, parse_object, read_bytes, read_text, stem_of, write_text
from cmpe.models.loglinear import Factor, LogLinearModel

MOST_STATES = 1 << 20
LARGEST_COST = 10**15
UNIT = re.compile(r"@(1e-\d{2})$")
_BOUND = re.compile(r"\s*([<>])\s*([-+0-9.eE]+)\s*")


def read_wcsp(path: Path | str) -> LogLinearModel:
    """Read a weighted constraint satisfaction problem."""
    tokens = Tokens(path, read_text(path))
    name = tokens.word("the name of the problem")
    unit = float(found.group(1)) if (found := UNIT.search(name)) else 1.0
    count = tokens.whole("the number of variables", least=1)
    tokens.whole("the largest domain")
    functions = tokens.whole("the number of functions")
    top = _whole(tokens, "the upper bound")
    cards = tokens.wholes(count, "a domain size", least=1, most=MOST_STATES)
    left = MOST_ENTRIES
    factors = []
    for _ in range(functions):
        factor, size = _read_function(tokens, cards, top, unit, left)
        factors.append(factor)
        left -= size
    tokens.finish()
    return LogLinearModel(tuple(cards), tuple(factors))


def _read_function(
    tokens: Tokens, cards: Sequence[int], top: int, unit: float, left: int
) -> tuple[Factor, int]:
    arity = _whole(tokens, "the arity of a function")
    if not 0 <= arity <= min(len(cards), MOST_PARENTS):
        raise tokens.error("the arity of a function given by its costs", str(arity), back=1)
    scope = tokens.wholes(arity, "a variable", most=len(cards) - 1)
    if len(set(scope)) != arity:
        raise tokens.error("distinct variables", str(scope), back=arity)
    default = _whole(tokens, "a default cost")
    tuples = tokens.whole("the number of tuples of a function given by its costs")
    size = math.prod(cards[v] for v in scope)
    if size > left:
        raise TooLarge(f"{tokens.path}: tables of more than {MOST_ENTRIES} entries")
    costs = np.full([cards[v] for v in scope], float(default))
    for _ in range(tuples):
        place = tuple(tokens.whole("a value", most=cards[v] - 1) for v in scope)
        costs[place] = _whole(tokens, "a cost")
    return Factor(tuple(scope), np.where(costs >= top, -np.inf, -unit * costs)), size


def _whole(tokens: Tokens, expected: str) -> int:
    """A whole number that may be negative."""
    word = tokens.word(expected)
    if not (word.removeprefix("-").isdigit() and len(word) < 20):
        raise tokens.error(expected, repr(word[:40]), back=1)
    return int(word)


def write_wcsp(model: LogLinearModel, path: Path | str) -> None:
    """Write whole costs, rounded to a unit of nats that is as small as toulbar2's range allows."""
    tables = [f.log_table for f in model.factors]
    spread = sum(float(np.ptp(t[np.isfinite(t)])) for t in tables if np.isfinite(t).any())
    constant = sum(float(t[np.isfinite(t)].max()) for t in tables if np.isfinite(t).any())
    largest = max(1.0, spread, abs(constant))
    if largest > LARGEST_COST:
        raise InputError(f"{path}: costs up to {LARGEST_COST:.0e} fit, found {largest:.3g}")
    digits = min(9, math.floor(math.log10(LARGEST_COST / largest)))
    scale = 10**digits
    lines, top = [], 1
    for factor in model.factors:
        costs = _costs(factor.log_table, scale)
        top += max((c for c in costs if c is not None), default=0)
        lines.append((factor.scope, costs))
    lowest = round(-constant * scale)  # what the largest entries of all tables add up to
    top += max(0, lowest)
    name = f"cmpe@1e-{digits:02d}"
    sizes = model.cardinalities
    text = [f"{name} {len(sizes)} {max(sizes)} {len(lines) + 1} {top}", " ".join(map(str, sizes))]
    text.append(f"0 {lowest} 0")
    for scope, costs in lines:
        text.append(f"{len(scope)} {' '.join(map(str, scope))} 0 {len(costs)}".replace("  ", " "))
        shape = [sizes[v] for v in scope]
        for place, cost in zip(np.ndindex(*shape), costs, strict=True):
            text.append(" ".join(map(str, (*place, top if cost is None else cost))))
    write_text(path, "\n".join(text) + "\n")


def _costs(table: Floats, scale: int) -> list[int | None]:
    """How far each entry is below the largest, in units; None where it is -inf."""
    finite = table[np.isfinite(table)]
    best = float(finite.max()) if finite.size else 0.0
    flat = table.ravel().tolist()
    return [None if math.isinf(entry) else round((best - entry) * scale) for entry in flat]


def read_cfn(path: Path | str) -> LogLinearModel:
    """Read a cost function network of tables."""
    data = parse_object(path, read_bytes(path))
    problem, variables = (_object(path, data, name) for name in ("problem", "variables"))
    sense, bound = _mustbe(path, problem.get("mustbe", "<1e300"))
    domain = _domain(path, variables)
    left, factors = MOST_ENTRIES, []
    for name, function in _object(path, data, "functions").items():
        where = f"function {name[:40]!r}"
        factor = _cfn_function(path, where, function, domain, left)
        left -= factor.log_table.size
        costs = factor.log_table
        if sense == "<":
            table = np.where(costs >= bound, -np.inf, -costs)
        else:
            table = np.where(costs <= bound, -np.inf, costs)
        factors.append(Factor(factor.scope, table))
    return LogLinearModel(domain.cardinalities, tuple(factors), domain.names, domain.states)


def _object(path: Path | str, data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict):
        raise FormatError.at(path, f"field {name!r}", "an object", type(value).__name__)
    return value


def _mustbe(path: Path | str, text: Any) -> tuple[str, float]:
    found = _BOUND.fullmatch(text) if isinstance(text, str) else None
    try:
        if found is None:
            raise ValueError
        return found.group(1), float(found.group(2))
    except ValueError:
        raise FormatError.at(
            path, "field 'mustbe'", "'<' or '>' and a number", repr(text)
        ) from None


def _domain(path: Path | str, variables: dict[str, Any]) -> Domain:
    for name, states in variables.items():
        is_count = type(states) is int and 1 <= states <= MOST_STATES
        is_list = isinstance(states, list) and all(isinstance(s, str | int) for s in states)
        if not (is_count or (is_list and states)):
            expected = "a number of states, or a list of them"
            raise FormatError.at(path, f"variable {name[:40]!r}", expected, repr(states)[:40])
    try:
        return Domain.of(
            {n: s if isinstance(s, int) else list(map(str, s)) for n, s in variables.items()}
        )
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def _cfn_function(path: Path | str, where: str, function: Any, domain: Domain, left: int) -> Factor:
    """A factor that holds costs."""
    if not isinstance(function, dict) or "type" in function or "costs" not in function:
        kind = function.get("type", "no costs") if isinstance(function, dict) else "no object"
        raise FormatError.at(path, where, "a function given by its costs", repr(kind)[:40])
    try:
        scope = tuple(domain.variable(name) for name in function.get("scope", []))
        size = math.prod(domain.cardinalities[v] for v in scope)
        if size > left or len(set(scope)) != len(scope) or len(scope) > MOST_PARENTS:
            raise TooLarge(f"{path}: {where}: tables of more than {MOST_ENTRIES} entries")
        costs = function["costs"]
        if "defaultcost" in function:
            table = _from_tuples(domain, scope, float(function["defaultcost"]), costs)
        else:
            table = np.array(costs, dtype=np.float64).reshape(
                [domain.cardinalities[v] for v in scope]
            )
        return Factor(scope, table)
    except (ModelError, ValueError, TypeError) as error:
        raise FormatError.at(path, where, "one cost per entry", str(error)) from None


def _from_tuples(
    domain: Domain, scope: tuple[int, ...], default: float, items: list[Any]
) -> Floats:
    table = np.full([domain.cardinalities[v] for v in scope], default)
    step = len(scope) + 1
    if len(items) % step:
        raise ValueError(f"tuples of {step} items, {len(items)} in all")
    for at in range(0, len(items), step):
        *values, cost = items[at : at + step]
        table[tuple(domain.state(v, s) for v, s in zip(scope, values, strict=True))] = float(cost)
    return table


def write_cfn_model(model: LogLinearModel, path: Path | str) -> None:
    """Write costs -h, exactly; a forbidden entry costs more than the upper bound."""
    finite = [f.log_table[np.isfinite(f.log_table)] for f in model.factors]
    top = 1.0 + sum(float(np.abs(t).max()) for t in finite if t.size)
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
        entries = ", ".join(_decimal(cost) for cost in costs.ravel().tolist())
        functions.append(f'"f{k}": {{"scope": {scope}, "costs": [{entries}]}}')
    problem = f'{{"name": {json.dumps(stem_of(path))}, "mustbe": "<{2 * top:.9f}"}}'
    parts = (f"{{{joined}}}" for joined in map(",\n".join, (variables, functions)))
    fields = zip(("problem", "variables", "functions"), (problem, *parts), strict=True)
    write_text(path, "{" + ",\n".join(f'"{name}": {text}' for name, text in fields) + "}\n")


def _decimal(cost: float) -> str:
    """All digits, without an exponent, which toulbar2 does not read."""
    return f"{Decimal(repr(cost)):f}"
