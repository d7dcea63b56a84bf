"""What runs tasks, and how a task ends.

Named tasks become ready one by one and run in this process, in local processes or on the machines
of a Ray cluster. Arguments and results travel as values, so machines need not share a file system.
A task must be a pure function: a cluster runs it again when its machine dies.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cmpe.errors import CmpeError


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended: its result, or one line of what went wrong and the trace of it."""

    name: str
    result: Any = None
    error: str | None = None
    trace: str = ""


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
        return TaskOutcome(name, work(*arguments))
    except Exception as error:
        line = str(error) if isinstance(error, CmpeError) else f"{type(error).__name__}: {error}"
        return TaskOutcome(name, error=" ".join(line.split()), trace=traceback.format_exc())
