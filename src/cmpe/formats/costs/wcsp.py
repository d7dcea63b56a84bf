"""Weighted constraint satisfaction problems (.wcsp): whole costs, to be minimised.

Costs are multiples of a unit of nats, which files of this package name at the end of the problem's
name, as in `model@1e-06`; elsewhere the unit is 1. An entry at or above the upper bound is
forbidden, and so is every sum that reaches it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import InputError, TooLarge
from cmpe.formats.costs.network import CostFunctions, CostTable
from cmpe.formats.tables.bayes import MOST_ENTRIES, MOST_PARENTS
from cmpe.formats.text import Tokens, read_text, write_text
from cmpe.models.loglinear import LogLinearModel

MOST_STATES = 1 << 20
LARGEST_COST = 10**15  # of a sum in toulbar2
MOST_DIGITS = 9  # decimals of what is written
UNIT = re.compile(r"@1e-(\d{2})$")


def read_wcsp(path: Path | str) -> CostFunctions:
    """Read a weighted constraint satisfaction problem."""
    tokens = Tokens(path, read_text(path))
    name = tokens.word("the name of the problem")
    digits = int(found.group(1)) if (found := UNIT.search(name)) else 0
    count = tokens.whole("the number of variables", least=1)
    tokens.whole("the largest domain")
    functions = tokens.whole("the number of functions")
    top = _whole(tokens, "the upper bound")
    cards = tokens.wholes(count, "a domain size", least=1, most=MOST_STATES)
    left = MOST_ENTRIES
    tables = []
    for _ in range(functions):
        tables.append(_read_function(tokens, cards, top, left))
        left -= tables[-1].costs.size
    tokens.finish()
    return CostFunctions(Domain(tuple(cards)), tables, float(top), digits)


def _read_function(tokens: Tokens, cards: Sequence[int], top: int, left: int) -> CostTable:
    arity = _whole(tokens, "the arity of a function")
    if not 0 <= arity <= min(len(cards), MOST_PARENTS):
        raise tokens.error("the arity of a function given by its costs", str(arity), back=1)
    scope = tokens.wholes(arity, "a variable", most=len(cards) - 1)
    if len(set(scope)) != arity:
        raise tokens.error("distinct variables", str(scope), back=arity)
    default = _whole(tokens, "a default cost")
    tuples = tokens.whole("the number of tuples of a function given by its costs")
    if math.prod(cards[v] for v in scope) > left:
        raise TooLarge(f"{tokens.path}: tables of more than {MOST_ENTRIES} entries")
    costs = np.full([cards[v] for v in scope], float(default))
    for _ in range(tuples):
        place = tuple(tokens.whole("a value", most=cards[v] - 1) for v in scope)
        costs[place] = _whole(tokens, "a cost")
    return CostTable(tuple(scope), np.where(costs >= top, np.inf, costs))


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
    digits = digits_of(path, max(1.0, spread, abs(constant)), MOST_DIGITS)
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


def digits_of(path: Path | str, largest: float, most: int) -> int:
    """How many decimals costs up to `largest` may have in toulbar2's range."""
    if largest > LARGEST_COST:
        raise InputError(f"{path}: costs up to {LARGEST_COST:.0e} fit, found {largest:.3g}")
    return min(most, math.floor(math.log10(LARGEST_COST / largest)))
