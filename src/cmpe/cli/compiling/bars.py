"""Bars on stderr. There is one display at a time: compiling adds its bar to the one that is on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from cmpe.core.compiler.notices import Notice

SHOWN: list[Progress] = []


@contextmanager
def display(*columns: Any) -> Iterator[Progress]:
    """Bars with these columns until the block ends."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        SHOWN.append(bars)
        try:
            yield bars
        finally:
            SHOWN.remove(bars)


class CompilingBar:
    """Says once for each engine what is compiled, and how long it takes; a bar on a terminal."""

    def __init__(self) -> None:
        self._said: set[str | None] = set()
        self._stack = ExitStack()
        self._task: tuple[Progress, TaskID] | None = None

    def __call__(self, notice: Notice) -> None:
        """Told by `compiling.notices` of every function, before and after."""
        if notice.what not in self._said:
            self._said.add(notice.what)
            sys.stderr.write(f"cmpe: {notice.sentence()}\n")
        if not sys.stderr.isatty():
            return
        if notice.is_over:
            self.close()
            return
        bars, task = self._task or self._begin()
        known = notice.cost.functions if notice.cost else None
        total = None if known is None else max(known, notice.begun)
        bars.update(task, completed=notice.begun - 1, total=total)

    def close(self) -> None:
        """Take the bar away."""
        if self._task is not None:
            bars, task = self._task
            bars.remove_task(task)
            self._task = None
        self._stack.close()

    def _begin(self) -> tuple[Progress, TaskID]:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bars = SHOWN[-1] if SHOWN else self._stack.enter_context(display(*columns))
        self._task = (bars, bars.add_task("compiling", total=None))
        return self._task
