"""Executors of tasks, and the outcomes of tasks.

Named tasks become ready one by one and run in this process, in local processes or on the machines
of a Ray cluster. Arguments and results travel as values, so machines need not share a file system.
A task must be a pure function: it runs again when its process or machine dies. What many tasks read
is shared: a process that runs them fetches it once, and leaves it as it is.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from cmpe.errors import CmpeError
from cmpe.execution.settings import EXECUTION


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended: its result, or one line of what went wrong and the trace of it."""

    name: str
    result: Any = None
    error: str | None = None
    trace: str = ""
    refused: bool = False  # the input is at fault: the error is this package's own


@runtime_checkable
class SharedValue(Protocol):
    """What stands for a shared value on its way to a task."""

    @property
    def key(self) -> str:
        """Its name, of which there is no other."""
        ...

    def fetch(self) -> Any:
        """The value, in the process that needs it."""
        ...


class Executor(Protocol):
    """Runs named tasks, several at a time."""

    @property
    def capacity(self) -> int:
        """How many tasks keep it busy."""
        ...

    def share(self, value: Any) -> Any:
        """An argument that many tasks read: it reaches every machine once."""
        ...

    def submit(self, name: str, work: Callable[..., Any], *arguments: Any) -> None:
        """Run `work(*arguments)` when there is room."""
        ...

    def next(self) -> TaskOutcome:
        """Wait for the next task to end, in any order."""
        ...

    def close(self) -> None:
        """Stop; what has not ended is dropped."""
        ...


def attempt(name: str, work: Callable[..., Any], *arguments: Any) -> TaskOutcome:
    """An error of one task is its outcome: the others go on."""
    try:
        return TaskOutcome(name, work(*map(_fetched, arguments)))
    except Exception as error:
        refused = isinstance(error, CmpeError)
        line = str(error) if refused else f"{type(error).__name__}: {error}"
        trace = traceback.format_exc()
        return TaskOutcome(name, None, " ".join(line.split()), trace, refused)


_kept: OrderedDict[str, Any] = OrderedDict()  # the shared values that this process fetched last


def _fetched(argument: Any) -> Any:
    """A shared value, fetched once; anything else as it is."""
    if not isinstance(argument, SharedValue):
        return argument
    if argument.key not in _kept:
        _kept[argument.key] = argument.fetch()
        if len(_kept) > EXECUTION.fetched:
            _kept.popitem(last=False)
    _kept.move_to_end(argument.key)
    return _kept[argument.key]
