"""From a network's pass to answers: parts of a batch, bound, repair or search, Ctrl-C.

What passes is a `Passing`: a trained network of any kind. The stages after it are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Assignments, Floats
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.learning.certificates import CERTIFICATES, Certified
from cmpe.learning.improvement import Draft, time_left
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.settings import TRAINING
from cmpe.problem import Instances, Problem
from cmpe.problem.starts import check_start
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits


class Passing(Protocol):
    """A network that answers rows, and the stages that follow."""

    @property
    def stages(self) -> Pipeline:
        """What runs after the pass."""
        ...

    def stages_for(self, block: Instances) -> Pipeline:
        """The same for rows of one mask."""
        ...

    def passes(self, block: Instances, limits: Limits) -> tuple[Assignments, Floats | None]:
        """The network's answers (B, n), and its multipliers (B, m) if it predicts any."""
        ...

    def stages_run(self, problem: Problem, seconds: float | None) -> str:
        """The stages as `Solutions.method` has them."""
        ...


def staged_answer(network: Passing, whole: Instances, limits: Limits) -> Solutions:
    """One answer per row, never worse than its start; after Ctrl-C what is finished."""
    starts = _starts(whole, limits.start)
    finished: list[Solutions] = []
    try:
        for part in _parts(len(whole), limits):
            block = Instances(whole.problem, whole.evidence[part])
            start = [] if starts is None else [starts[part]]
            finished.append(_answer_block(network, block, limits, start))
            if limits.progress is not None:
                limits.progress(min(part.stop, len(whole)), len(whole))
    except KeyboardInterrupt:
        raise _interrupted(whole, finished) from None
    return Solutions.concatenate(finished)


def _answer_block(
    network: Passing, block: Instances, limits: Limits, start: list[Assignments]
) -> Solutions:
    """Pass, bound, then what improves the answers in the time that is left."""
    begin = timing.now()
    cores, stages, problem = limits.cores, network.stages_for(block), block.problem
    answers, multipliers = network.passes(block, limits)
    draft = Draft(block, best_of(problem, [answers, *start]), multipliers)
    proved = CERTIFICATES[stages.certificate](block, multipliers, cores)
    rows = _open_rows(draft, proved, limits.gap)
    answers = draft.improved_where(rows, stages, time_left(limits, begin, len(block)))
    return Solutions.of(
        problem, best_of(problem, [answers, *start]),
        bound=proved.bound, infeasible=proved.infeasible,
        method=network.stages_run(problem, limits.seconds),
        seconds=(timing.now() - begin) / max(1, len(block)),
    )  # fmt: skip


def best_of(problem: Problem, candidates: list[Assignments]) -> Assignments:
    """Of several answers (B, n) the best feasible one of each row, else the first."""
    if len(candidates) == 1:
        return candidates[0]
    every = (Solutions.of(problem, rows) for rows in candidates)
    return reduce(Solutions.or_better, every).assignments


def _parts(count: int, limits: Limits) -> Iterator[slice]:
    """Rows that are answered together: under a time limit about a second's work."""
    rows = TRAINING.pass_rows
    if limits.seconds is not None:
        cores = limits.cores
        rows = min(rows, max(TRAINING.searched_together * cores, math.ceil(cores / limits.seconds)))
    yield from (slice(first, first + rows) for first in range(0, max(1, count), rows))


def _starts(instances: Instances, start: Assignments | None) -> Assignments | None:
    """The assignments to begin from (B, n), evidence put in; -1 in rows without one."""
    if start is None:
        return None
    check_start(instances, start)
    free = start[:, list(instances.problem.free)]
    rows = instances.complete(free)
    rows[(free < 0).any(axis=1)] = FREE
    return rows


def _open_rows(draft: Draft, proved: Certified, gap: float) -> NDArray[np.intp]:
    """The rows that need more work: all of them unless a gap is allowed."""
    if gap <= 0.0:
        return np.arange(len(draft.answers))
    known = Solutions.of(
        draft.instances.problem, draft.answers, bound=proved.bound, infeasible=proved.infeasible
    )
    return np.flatnonzero(~(known.gap <= gap) & (known.status != Status.INFEASIBLE))


def _interrupted(instances: Instances, finished: list[Solutions]) -> Interrupted:
    """What is finished after Ctrl-C; the other rows are unknown."""
    problem, done = instances.problem, sum(map(len, finished))
    nothing = np.full((len(instances) - done, problem.variables), FREE)
    rest = Solutions.of(problem, nothing, method="unfinished")
    return Interrupted(Solutions.concatenate([*finished, rest]), done)
