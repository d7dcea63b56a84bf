"""Run the tasks of a plan that are not done yet, each once, on any executor."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cmpe.execution.base import Executor
from study.paper.plan import Plan
from study.paper.stages import run_stage
from study.paper.store import Store, Task

AHEAD = 2  # tasks under way for every worker: the next one is there when one ends

Progress = Callable[[Task, int, int], None]


@dataclass
class Report:
    """What a run did."""

    done: list[Task] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # key to one line
    traces: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def counts(self) -> dict[str, int]:
        """Tasks done by stage."""
        return dict(Counter(task.stage for task in self.done))


def missing(tasks: Iterable[Task], store: Store, wanted: Iterable[str] | None = None) -> list[Task]:
    """The tasks still to be done for the keys `wanted` (default: all), in order.

    An input of a task that is done is not needed: it is not made again if it was removed.
    """
    listed = {task.key: task for task in tasks}
    needed: dict[str, Task] = {}
    waiting = list(listed if wanted is None else wanted)
    seen = set()
    while waiting:
        task = listed[waiting.pop()]
        if task.key in seen:
            continue
        seen.add(task.key)
        if not store.has(task):
            needed[task.key] = task
            waiting.extend(task.inputs.values())
    return [task for task in listed.values() if task.key in needed]


def selected(
    plan: Plan, store: Store, stages: Iterable[str] | None, without: Iterable[str] = ()
) -> list[Task]:
    """The tasks that a run would do, in order."""
    chosen = None if stages is None else set(stages)
    wanted = [t.key for t in plan.tasks.values() if chosen is None or t.stage in chosen]
    barred, left = set(without), []
    out: set[str] = set()
    for task in missing(plan.tasks.values(), store, wanted):
        if task.stage in barred or out & set(task.inputs.values()):
            out.add(task.key)
        else:
            left.append(task)
    return left


def run(
    plan: Plan,
    store: Store,
    executor: Executor,
    *,
    stages: Iterable[str] | None = None,
    without: Iterable[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Do what is missing; with `stages`, only these (and what they still need); nothing of the
    stages `without`, nor what would need it."""
    begin = time.perf_counter()
    for key, artifact in plan.sources.items():
        if not store.has(plan.tasks[key]):
            store.write(plan.tasks[key], artifact)
    work = _Work(plan.tasks, selected(plan, store, stages, without), store, executor)
    report = Report()
    try:
        work.run(report, progress)
    finally:
        executor.close()
        report.seconds = time.perf_counter() - begin
    return report


class _Work:
    """Tasks that wait for inputs, for room, or to end."""

    def __init__(
        self, known: Mapping[str, Task], tasks: list[Task], store: Store, executor: Executor
    ) -> None:
        self._known, self._store, self._executor = known, store, executor
        self._tasks = {task.key: task for task in tasks}
        self._lacks = {t.key: {k for k in t.inputs.values() if k in self._tasks} for t in tasks}
        self._readers: dict[str, list[str]] = {}
        for task in tasks:
            for key in set(task.inputs.values()):
                self._readers.setdefault(key, []).append(task.key)
        self._unread = {key: len(readers) for key, readers in self._readers.items()}
        self._ready = deque(key for key, lacks in self._lacks.items() if not lacks)
        self._shared: dict[str, Any] = {}

    def run(self, report: Report, progress: Progress | None) -> None:
        """Until nothing is left that can be done."""
        under_way = 0
        while self._ready or under_way:
            while self._ready and under_way < AHEAD * self._executor.capacity:
                self._submit(self._tasks[self._ready.popleft()])
                under_way += 1
            outcome = self._executor.next()
            under_way -= 1
            task = self._tasks[outcome.name]
            if outcome.error is None:
                self._store.write(task, outcome.result)
                report.done.append(task)
                self._release(task)
            else:
                report.traces[task.key] = outcome.trace
                self._give_up(task, outcome.error, report)
            self._forget(task)
            if progress is not None:
                progress(task, len(report.done) + len(report.failed), len(self._tasks))

    def _submit(self, task: Task) -> None:
        inputs = [self._share(key) for key in task.inputs.values()]
        names = list(task.inputs)
        self._executor.submit(task.key, run_stage, task.stage, task.settings, names, *inputs)

    def _share(self, key: str) -> Any:
        if key not in self._shared:
            self._shared[key] = self._executor.share(self._store.read(self._known[key]))
        return self._shared[key]

    def _release(self, task: Task) -> None:
        """What waited for this one only goes first: a cell is finished before the next begins."""
        for reader in reversed(self._readers.get(task.key, [])):
            lacks = self._lacks[reader]
            lacks.discard(task.key)
            if not lacks:
                self._ready.appendleft(reader)

    def _forget(self, task: Task) -> None:
        """Drop inputs that no other task will read."""
        for key in set(task.inputs.values()):
            self._unread[key] -= 1
            if not self._unread[key]:
                self._shared.pop(key, None)

    def _give_up(self, task: Task, why: str, report: Report) -> None:
        """A task that failed, and all that depend on it."""
        lost = [task.key]
        while lost:
            key = lost.pop()
            if key not in report.failed:
                report.failed[key] = why
                lost.extend(self._readers.get(key, []))
