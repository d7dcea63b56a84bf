"""Notices about code that is being compiled, on stderr and by the logger.

The first time in a process that a function of an engine is really compiled (not loaded from the
cache), one line goes to the logger `cmpe` with level WARNING, which Python shows on stderr unless
told otherwise. It is no `warnings.warn`: there is nothing to mend in the caller's code, and `-W
error` shall not turn a first use into a failure. To be left alone:

    logging.getLogger("cmpe").setLevel(logging.ERROR)

The command line replaces the line by a bar (`telling`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cmpe.core.compiler.costs import COSTS, Cost

logger = logging.getLogger("cmpe")
slowness = 1  # how much longer it takes than `costs` says; `core.compiler.functions` sets it
NAMES = {"wide": "what wide rows need"}  # where the word of COSTS alone says little


@dataclass(frozen=True)
class Notice:
    """Something is being compiled, or has been."""

    function: str  # module and name
    what: str | None  # a method, a bound or another word of COSTS: what was asked for
    begun: int  # functions of this package that this process began to compile, this one included
    is_over: bool  # whether `function`, and all that waited for it, is ready

    @property
    def cost(self) -> Cost | None:
        """About what all of it takes, where that is known."""
        return COSTS.get(self.what or "")

    def sentence(self) -> str:
        """What is compiled, how long that takes, and how to do it ahead."""
        about = NAMES.get(self.what or "", self.what) or self.function.rpartition(".")[0]
        known = f"up to about {self.cost.seconds * slowness} s" if self.cost else "some seconds"
        return (
            f"compiling {about} for this machine, once, {known}; later runs load it. No time limit "
            "counts this, and `cmpe compile` does all of it ahead."
        )


Teller = Callable[[Notice], None]


def log_once(notice: Notice) -> None:
    """One line for the first function that this process compiles of each engine."""
    if notice.what not in _logged and not notice.is_over:
        _logged.add(notice.what)
        logger.warning("cmpe: %s", notice.sentence())


_logged: set[str | None] = set()
_teller: Teller = log_once
_asked_for: str | None = None  # of the process: engines compile in threads of their own
_begun = 0


@contextmanager
def telling(teller: Teller) -> Iterator[None]:
    """Let `teller` say it, within this block."""
    global _teller
    before, _teller = _teller, teller
    try:
        yield
    finally:
        _teller = before


@contextmanager
def asked_for(what: str, *, more: bool = False) -> Iterator[None]:
    """Say that code compiled within this block is needed for `what`.

    The outermost block counts, but for what takes much `more` than its estimate says.
    """
    global _asked_for
    before = _asked_for
    _asked_for = what if more else before or what
    try:
        yield
    finally:
        _asked_for = before


def begin(function: str) -> None:
    """A function is about to be compiled."""
    global _begun
    _begun += 1
    _tell(function, is_over=False)


def end(function: str) -> None:
    """It is compiled, and nothing waits for it."""
    _tell(function, is_over=True)


def _tell(function: str, *, is_over: bool) -> None:
    _teller(Notice(function, _asked_for, _begun, is_over))
