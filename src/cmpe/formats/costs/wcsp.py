"""Weighted constraint satisfaction problems (.wcsp): whole costs, to be minimised.

Costs are multiples of a unit of nats, which files of this package name at the end of the problem's
name, as in `model@1e-06`; elsewhere the unit is 1. An entry at or above the upper bound is
forbidden, and so is every sum that reaches it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError, TooLarge
from cmpe.formats.costs.functions import KINDS, Row
from cmpe.formats.costs.network import CostFunctions, Nested, nested
from cmpe.formats.costs.rules import CostTable, FileRule
from cmpe.formats.tables.bayes import MOST_ENTRIES, MOST_PARENTS
from cmpe.formats.text import Tokens, read_text, write_text
from cmpe.models.loglinear import LogLinearModel

MOST_STATES = 1 << 20
LARGEST_COST = 10**15  # of a sum in toulbar2
MOST_DIGITS = 9  # decimals of what is written
UNIT = re.compile(r"@1e-(\d{2})$")
_WHOLE = re.compile(r"-?[0-9]{1,19}")


def read_wcsp(path: Path | str) -> CostFunctions:
    """Read a weighted constraint satisfaction problem."""
    tokens = Tokens(path, read_text(path))
    network = _Network(tokens).read()
    tokens.finish()
    return network


class _Network:
    """The network that begins at the next word; a network may hold others."""

    def __init__(
        self, tokens: Tokens, left: int = MOST_ENTRIES, *, is_nested: bool = False
    ) -> None:
        self._tokens, self._left, self._is_nested = tokens, left, is_nested
        self._cards: list[int] = []
        self._top = 0
        self._shared: list[Floats] = []
        self._tables: list[CostTable] = []
        self._rules: list[FileRule] = []
        self._nested: list[Nested] = []

    def read(self) -> CostFunctions:
        """The network; the tokens stand behind its last function."""
        tokens = self._tokens
        name = tokens.word("the name of the problem")
        digits = int(found.group(1)) if (found := UNIT.search(name)) else 0
        count = tokens.whole("the number of variables", least=1)
        tokens.whole("the largest domain")
        functions = tokens.whole("the number of functions")
        self._top = whole(tokens, "the upper bound")
        tokens.need(count, "a domain size")
        self._cards = [self._domain_size() for _ in range(count)]
        for _ in range(functions):
            self._function()
        return CostFunctions(
            str(tokens.path),
            Domain(tuple(self._cards)),
            self._tables,
            self._rules,
            self._nested,
            float(self._top),
            digits,
        )

    def _domain_size(self) -> int:
        """The number of values; a negative one is that of an interval of whole numbers."""
        size = abs(whole(self._tokens, "a domain size"))
        if not 1 <= size <= MOST_STATES:
            raise self._tokens.error(f"a domain size from 1 to {MOST_STATES}", str(size), back=1)
        return size

    def _function(self) -> None:
        tokens = self._tokens
        arity = whole(tokens, "the arity of a function")
        scope = tuple(tokens.wholes(abs(arity), "a variable", most=len(self._cards) - 1))
        if len(set(scope)) != len(scope):
            raise tokens.error("distinct variables", str(list(scope))[:60], back=len(scope))
        default = whole(tokens, "a default cost")
        if default == -1 and not _WHOLE.fullmatch(tokens.peek()):
            self._rule(scope)
            return
        costs = self._costs(scope, default, is_shared=arity < 0)
        self._tables.append(CostTable(scope, np.where(costs >= self._top, np.inf, costs)))

    def _costs(self, scope: tuple[int, ...], default: int, *, is_shared: bool) -> Floats:
        """A default and the tuples that differ, or the costs of a function that shares them."""
        tokens, shape = self._tokens, tuple(self._cards[v] for v in scope)
        tuples = whole(tokens, "the number of tuples of a function given by its costs")
        if tuples < 0:
            if -tuples > len(self._shared) or self._shared[-tuples - 1].shape != shape:
                raise tokens.error("the number of a function with shared costs", str(tuples), 1)
            return self._shared[-tuples - 1]
        if math.prod(shape) > self._left or len(scope) > MOST_PARENTS:
            raise TooLarge(f"{tokens.path}: tables of more than {MOST_ENTRIES} entries")
        costs = np.full(shape, float(default))
        *places, given = self._tuples(tuples, shape)
        if tuples:
            at = tuple(column.astype(np.intp) for column in places)
            costs[at] = given if shape else given[-1]
        self._left -= costs.size
        if is_shared:
            self._shared.append(costs)
        return costs

    def _tuples(self, count: int, shape: tuple[int, ...]) -> list[Floats]:
        """The columns of tuples: values of each variable, then costs."""
        tokens, step = self._tokens, len(shape) + 1
        words = [w for some in tokens.blocks(count * step, "a value or a cost") for w in some]
        most = [*(k - 1 for k in shape), None]
        numbers = _numbers(words).reshape(count, step)
        for at, (column, limit) in enumerate(zip(numbers.T, most, strict=True)):
            wrong = np.isnan(column) if limit is None else ~((column >= 0) & (column <= limit))
            if wrong.any():
                place = int(np.argmax(wrong)) * step + at
                expected = "a cost" if limit is None else f"a value from 0 to {limit}"
                back = len(words) - place
                raise tokens.error(expected, repr(words[place][:40]), back)
        return list(numbers.T)

    def _rule(self, scope: tuple[int, ...]) -> None:
        tokens = self._tokens
        keyword = tokens.word("the keyword of a function")
        where = f"{tokens.path}: function {keyword[:40]!r}"
        if keyword == "wcsp" and not self._is_nested:
            low, high = (float(whole(tokens, "a cost")) for _ in range(2))
            tokens.wholes(2, "0 or 1", most=1)
            inner = _Network(tokens, self._left, is_nested=True).read()
            self._nested.append(nested(where, inner, scope, self._cards, (low, high)))
        elif keyword in KINDS and scope:
            cards = tuple(self._cards[v] for v in scope)
            self._rules += KINDS[keyword](_Words(tokens, where, scope, cards))
        else:
            raise tokens.error("a function that is read here", repr(keyword[:40]), back=1)


@dataclass(frozen=True)
class _Words:
    """The parameters of a function in order, lists after their lengths."""

    tokens: Tokens
    where: str
    scope: tuple[int, ...]
    cardinalities: tuple[int, ...]

    def word(self, name: str, choices: Sequence[str]) -> str:
        found = self.tokens.word(name)
        if found not in choices:
            raise self.tokens.error(f"{name} {' or '.join(choices)}", repr(found[:40]), back=1)
        return found

    def whole(self, name: str) -> int:
        return whole(self.tokens, name)

    def cost(self, name: str, *, signed: bool = False) -> float:
        found = whole(self.tokens, name)
        if found < 0 and not signed:
            raise self.tokens.error(f"a {name} of at least 0", str(found), back=1)
        return float(found)

    def rows(self, name: str, letters: str) -> list[Row]:
        count = self.tokens.whole(f"the number of {name}")
        self.tokens.need(count * len(letters), name)
        return [tuple(self._entry(name, letter) for letter in letters) for _ in range(count)]

    def each(self, name: str) -> list[int]:
        return [whole(self.tokens, name) for _ in self.scope]

    def lists(self, name: str, letters: str, *, is_counted: bool = False) -> list[list[Row]]:
        count = len(self.scope)
        if is_counted:
            count = self.tokens.whole(f"the number of lists of {name}")
            self.tokens.need(count, name)
        return [self.rows(name, letters) for _ in range(count)]

    def groups(self) -> tuple[list[int], list[int]]:
        sizes = [self.tokens.whole("the length of a list of variables") for _ in range(2)]
        self.tokens.need(sum(sizes), "a variable")
        one, two = ([self._place() for _ in range(size)] for size in sizes)
        return one, two

    def arithmetic(self) -> None:
        pass

    def refuse(self, expected: str, found: str) -> FormatError:
        return FormatError(f"{self.where}: expected {expected}, found {found}")

    def _entry(self, name: str, letter: str) -> float:
        if letter == "s":
            return self._place()
        if letter == "v":
            return self.tokens.whole(f"a value of {name}")
        return self.whole(name) if letter == "n" else self.cost(name, signed=letter == "C")

    def _place(self) -> int:
        variable = self.tokens.whole("a variable")
        if variable not in self.scope:
            raise self.tokens.error("a variable of the function", str(variable), back=1)
        return self.scope.index(variable)


def _numbers(words: Sequence[str]) -> Floats:
    """Whole numbers as floats, NaN for words that are none."""
    if "".join(words).replace("-", "").isdecimal():
        with contextlib.suppress(ValueError):
            return np.array(words, dtype=np.float64)
    return np.array([float(w) if _WHOLE.fullmatch(w) else math.nan for w in words])


def whole(tokens: Tokens, expected: str) -> int:
    """A whole number that may be negative."""
    word = tokens.word(expected)
    if not _WHOLE.fullmatch(word):
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
