"""The output of one row, for commands that print it and jobs that write parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from cmpe.formats.results import NOTHING, Carried, cells_of

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.bounds.base import Bounds
    from cmpe.cli.streaming.jobs import BoundJob
    from cmpe.execution import Workplace
    from cmpe.problem import Problem
    from cmpe.problem.rows import Rows
    from cmpe.tradeoffs.best import Ranked
    from cmpe.tradeoffs.front import Front


def row_head(index: int, carried: Carried) -> str:
    """How a line about a row begins: its number, and the cells that are carried."""
    cells = cells_of(carried, index).items()
    return " ".join([f"row {index}", *(f"{name}={cell}" for name, cell in cells)])


def one_by_one(rows: Rows) -> Iterator[tuple[Values, dict[str, Any]]]:
    """Each row's evidence, and the numbers of its own as keywords."""
    for index in range(len(rows)):
        numbers = rows.take(slice(index, index + 1)).keywords
        yield numbers.pop("evidence")[0], numbers


def bounds_by_name(job: BoundJob, rows: Rows, place: Workplace | None = None) -> dict[str, Bounds]:
    """The bounds of all methods; of several, those too large for the problem are left out."""
    from cmpe.bounding import bound as bounds_of
    from cmpe.errors import TooLarge

    known: dict[str, Bounds] = {}
    for name in job.names:
        try:
            known[name] = bounds_of(
                job.problem, **rows.keywords, method=name, work=job.work, training=job.training,
                device=job.device, place=place,
            )  # fmt: skip
        except TooLarge as error:
            if len(job.names) == 1:
                raise
            typer.echo(f"warning: {name}: {error}", err=True)
    return known


def bound_values(
    i: int, known: dict[str, Bounds], names: Sequence[str], carried: Carried
) -> dict[str, Any]:
    """What is written of one row."""
    import numpy as np

    by_method: dict[str, float | None] = dict.fromkeys(names)
    for name, bounds in known.items():
        by_method[name] = float(bounds.upper[i]) if np.isfinite(bounds.upper[i]) else None
    best = min(known, key=lambda name: known[name].upper[i])
    infeasible = bool(known[best].infeasible[i])
    return {
        "index": i,
        **cells_of(carried, i),
        "bound": by_method[best],
        "infeasible": infeasible,
        "multipliers": known[best].multipliers[i].tolist(),
        "method": best,
        "bounds": by_method,
        "seconds": {name: float(bounds.seconds[i]) for name, bounds in known.items()},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def front_values(number: int, traced: Front, cells: Mapping[str, Any]) -> dict[str, Any]:
    """What is written of one row."""
    names = traced.problem.domain.names
    points: list[dict[str, Any]] = []
    columns = zip(
        traced.objective.tolist(), traced.values.tolist(), traced.assignments().tolist(),
        traced.supported.tolist(), strict=True,
    )  # fmt: skip
    for h, t, assignment, supported in columns:
        point = {"objective": h, "value": _finite(t), "assignment": assignment}
        points.append(point | {"supported": supported})
        if names:
            label = traced.problem.domain.label
            points[-1]["states"] = {names[v]: label(v, a) for v, a in enumerate(assignment)}
    steps = [{"value": _finite(q), "objective": _finite(upper)} for q, upper in traced.steps]
    return {
        "index": number,
        **cells,
        "complete": traced.complete,
        "points": points,
        "bound": None if traced.complete else steps,
        "relation": traced.relation,
        "limit": traced.limit,
        "seconds": traced.seconds,
    }


def rank_lines(
    problem: Problem, found: list[Ranked], first: int = 0, carried: Carried = NOTHING
) -> Iterator[str]:
    """What `cmpe solve` writes, with the rank; a row without an answer has no line."""
    from cmpe.formats.results import json_line, row_values

    for i, each in enumerate(found):
        gap, feasible = each.answers.gap, each.answers.feasible
        for rank in range(len(each)):
            values = row_values(problem, each.answers, rank, float(gap[rank]), bool(feasible[rank]))
            proved = {"rank": rank + 1, "proved": each.complete}
            yield json_line({"index": first + i, **cells_of(carried, i), **proved, **values})
