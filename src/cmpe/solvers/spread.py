"""Dispatch on the cores of a cluster: rows in blocks, each answered by dispatch there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cmpe.arrays import FREE, Floats, Values
from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Evidence, Problem
from cmpe.problem.groups import full_rows
from cmpe.problem.rows import Potential, Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.streams.spreading import spread

Row = TypeVar("Row")


def answer_spread(
    answer: Callable[..., Solutions], rows: Rows, method: Any, limits: Limits
) -> Solutions:
    """What `answer` says to `rows`; after Ctrl-C those that are there."""
    if limits.start is not None and len(limits.start) != len(rows):
        raise MethodError(f"a start must have {len(rows)} rows, found {len(limits.start)}")
    scopes = tuple(p.scope for p in rows.potentials)
    ask = partial(_answer_block, answer, method, limits.of_a_block(), scopes)
    numbers = (limits.start, rows.limits, *(p.values for p in rows.potentials))
    parts: dict[int, Solutions] = {}
    done = 0
    try:
        for where, part in spread(ask, rows.problem, rows.evidence, limits.place, *numbers):
            parts[where.start] = part
            done += len(part)
            limits.report(done, len(rows))
    except KeyboardInterrupt:
        raise Interrupted(_whole(rows, parts), done) from None
    return _whole(rows, parts)


def need_here(running: Running | None) -> None:
    """Refuse a cluster where rows have numbers of their own."""
    if running is not None and running.is_spread:
        raise MethodError(
            "rows with potentials or limits can be sent to a cluster by cmpe.solve only; write "
            'running=cmpe.Running() or executor="local"'
        )


def spread_list(
    ask: Callable[[Problem, Values], list[Row]],
    problem: Problem,
    evidence: Evidence | None,
    running: Running,
) -> list[Row]:
    """What `ask` says of each row of evidence, in their order."""
    rows = full_rows(problem, evidence)
    out: list[Row | None] = [None] * len(rows)
    done = 0
    for where, part in spread(ask, problem, rows, running.place):
        out[where] = part
        done += len(part)
        running.report(done, len(rows))
    return [each for each in out if each is not None]


def _answer_block(  # noqa: PLR0913
    answer: Callable[..., Solutions],
    method: Any,
    limits: Limits,
    scopes: tuple[tuple[int, ...], ...],
    problem: Problem,
    evidence: Values,
    start: Values | None,
    most: Floats | None,
    *potentials: Floats,
) -> Solutions:
    own = tuple(map(Potential, scopes, potentials))
    return answer(Rows(problem, evidence, own, most), method, replace(limits, start=start))


def _whole(rows: Rows, parts: dict[int, Solutions]) -> Solutions:
    """The answers in the order of the rows; none where there is none yet."""
    problem = rows.problem
    nothing = np.full(rows.evidence.shape, FREE, dtype=problem.dtype)
    whole = Solutions.of(problem, nothing, method="unfinished")
    if parts:
        firsts = sorted(parts)
        known = np.concatenate([np.arange(first, first + len(parts[first])) for first in firsts])
        found = Solutions.concatenate([parts[first] for first in firsts])
        whole = found if len(known) == len(rows) else whole.replaced(known, found)
    most = None if rows.limits is None else rows.limits * problem.signs
    return replace(whole, observed=rows.evidence != FREE, limits=most)
