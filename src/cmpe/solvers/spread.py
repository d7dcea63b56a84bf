"""The one door on the cores of a cluster: rows in blocks, each asked of the same door there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cmpe.arrays import FREE, Values
from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Evidence, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.streams.spreading import rows_of, spread

Row = TypeVar("Row")


def answer_spread(
    answer: Callable[..., Solutions], problem: Problem, rows: Values, method: Any, limits: Limits
) -> Solutions:
    """What `answer` says to `rows` (B, n), -1 where free; after Ctrl-C those that are there."""
    if limits.start is not None and len(limits.start) != len(rows):
        raise MethodError(f"a start must have {len(rows)} rows, found {len(limits.start)}")
    ask = partial(_answer_block, answer, method, limits.of_a_block())
    parts: dict[int, Solutions] = {}
    done = 0
    try:
        for where, part in spread(ask, problem, rows, limits.place, limits.start):
            parts[where.start] = part
            done += len(part)
            limits.report(done, len(rows))
    except KeyboardInterrupt:
        raise Interrupted(_whole(problem, rows, parts), done) from None
    return _whole(problem, rows, parts)


def spread_list(
    ask: Callable[[Problem, Values], list[Row]],
    problem: Problem,
    evidence: Evidence | None,
    running: Running,
) -> list[Row]:
    """What `ask` says of each row of evidence, in their order."""
    rows = rows_of(problem, evidence)
    out: list[Row | None] = [None] * len(rows)
    done = 0
    for where, part in spread(ask, problem, rows, running.place):
        out[where] = part
        done += len(part)
        running.report(done, len(rows))
    return [each for each in out if each is not None]


def _answer_block(
    answer: Callable[..., Solutions],
    method: Any,
    limits: Limits,
    problem: Problem,
    rows: Values,
    start: Values | None,
) -> Solutions:
    return answer(problem, rows, method, replace(limits, start=start))


def _whole(problem: Problem, rows: Values, parts: dict[int, Solutions]) -> Solutions:
    """The answers in the order of the rows; none where there is none yet."""
    nothing = np.full(rows.shape, FREE, dtype=problem.dtype)
    whole = Solutions.of(problem, nothing, method="unfinished")
    if parts:
        firsts = sorted(parts)
        known = np.concatenate([np.arange(first, first + len(parts[first])) for first in firsts])
        found = Solutions.concatenate([parts[first] for first in firsts])
        whole = found if len(known) == len(rows) else whole.replaced(known, found)
    return replace(whole, observed=rows != FREE)
