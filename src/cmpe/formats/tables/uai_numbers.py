"""UAI text as one array of numbers: the quick reader of valid files.

Anything odd gives None: the reader then goes word by word, and says what is wrong and where.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.domain import Domain
from cmpe.models.loglinear import LogLinearModel

MOST_CHARACTERS = 1 << 24  # A longer text is read word by word, in little memory.
MOST_AXES = 64
MOST_VALUES = 1 << 20
Scopes = list[tuple[int, ...]]
Order = Callable[[tuple[int, ...]], tuple[int, ...]]  # of a table, from its scope


def read_at_once(text: str, is_log: bool, order: Order = tuple) -> LogLinearModel | None:
    """The model in `text`, or None if the text is not surely one."""
    if len(text) > MOST_CHARACTERS or "_" in text:
        return None
    words = text.split()
    if not words or words[0] not in ("MARKOV", "BAYES"):
        return None
    try:
        with _uncollected():
            return _model(words, is_log, order)
    except (ValueError, IndexError, OverflowError):
        return None


@contextmanager
def _uncollected() -> Iterator[None]:
    """A pause of the garbage collector, which would look at every one of many tables again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _model(words: list[str], is_log: bool, order: Order) -> LogLinearModel | None:
    numbers = np.array(words[1:], dtype=np.float64)
    count = int(words[1])
    factors = int(words[2 + count])
    if not (1 <= count < len(words) and 0 <= factors < len(words)):
        return None
    cards = tuple(map(int, words[2 : 2 + count]))
    scopes, begin = _scopes(numbers, 2 + count, factors)
    sizes = _sizes(cards, scopes, numbers[1 + count + 1 : begin])
    if sizes is None or not "".join(words[1 : 1 + begin]).isdecimal():
        return None
    places = begin + np.concatenate([[0], np.cumsum(sizes + 1)])
    if places[-1] != len(numbers) or (numbers[places[:-1]] != sizes).any():
        return None
    values = np.delete(numbers[begin:], places[:-1] - begin)
    if not is_log:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(values)
    if not np.isfinite(values).all() and not _are_zeros(words, values, is_log):
        return None
    return LogLinearModel.from_flat(Domain(cards), [*map(order, scopes)], values)


def _scopes(numbers: Floats, begin: int, count: int) -> tuple[Scopes, int]:
    """The scopes, and the place after them."""
    longest = 1 + MOST_AXES
    words: list[int] = []
    scopes: Scopes = []
    at = first = 0
    for _ in range(count):
        if at + longest > len(words):  # enough for this scope, if there is so much
            first, at = first + at, 0
            some = numbers[begin + first : begin + first + longest + 4 * count]
            words = np.where(np.abs(some) < 2**31, some, -1).astype(np.int64).tolist()
        after = at + 1 + words[at]
        scopes.append(tuple(words[at + 1 : after]))
        at = after
    return scopes, begin + first + at


def _sizes(cards: tuple[int, ...], scopes: Scopes, listed: Floats) -> Integers | None:
    """How many entries each table has, or None if a scope cannot be right.

    `listed` are the numbers of the scopes, each after its length.
    """
    lengths = np.fromiter(map(len, scopes), dtype=np.int64, count=len(scopes))
    places = np.cumsum(lengths + 1) - lengths - 1
    whole = np.where(np.abs(listed) < 2**31, listed, -1).astype(np.int64)
    variables = np.delete(whole, places)
    is_sound = (
        1 <= min(cards) <= max(cards) <= MOST_VALUES
        and lengths.max(initial=0) <= MOST_AXES
        and variables.max(initial=0) < len(cards)
        and variables.min(initial=0) >= 0
    )
    if not is_sound:
        return None
    within = np.repeat(np.arange(len(lengths)), lengths) * len(cards) + variables
    if len(np.unique(within)) < len(within):  # a variable twice in one scope
        return None
    ends = np.concatenate([[0.0], np.cumsum(np.log2(np.array(cards))[variables])])
    stops = np.cumsum(lengths, dtype=np.int64)
    bits: Floats = ends[stops] - ends[stops - lengths]
    if bits.max(initial=0.0) > 48:
        return None
    return np.rint(np.exp2(bits)).astype(np.int64)


def _are_zeros(words: list[str], values: Floats, is_log: bool) -> bool:
    """Whether nothing is odd but -inf, and that comes from no word such as 1e-400."""
    if np.isnan(values).any() or np.isposinf(values).any():
        return False
    return is_log or not any("e-" in word for word in map(str.lower, words))
