"""`cmpe probability`: the posterior of every row, with its best explanations."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.options import (
    ProblemOptions,
    RowOptions,
    Seed,
    TimeLimit,
    checked_suffix,
    spread,
    write_or_print,
)
from cmpe.cli.streaming.rows import row_head
from cmpe.cli.table import answer_text
from cmpe.formats.results import Carried, cells_of
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.tradeoffs.best import Ranked
    from cmpe.tradeoffs.probability import Probability

FORMAT_OF_SUFFIX = {".json": "json", ".jsonl": "json", ".csv": "csv", ".txt": "table"}
OUTPUT_HELP = "Write here instead of to stdout: .json, .csv or .txt."
FORMAT_HELP = "Default: by OUTPUT's suffix; table on a terminal, json."
SHOWN_ROWS = 5  # of a table
SHOWN_VARIABLES = 12  # of a row, the least certain ones
EXPLANATION_WIDTH = 70  # characters


class ProbabilityFormat(StrEnum):
    """How probabilities are written."""

    json = "json"
    csv = "csv"
    table = "table"


class Given(StrEnum):
    """What the posterior is conditioned on."""

    all = "all"
    evidence = "evidence"


@dataclass(frozen=True)
class _Explained:
    """Posteriors and the best explanations of each row, each with its probability and interval."""

    found: Probability
    ranked: list[Ranked]
    shares: list[list[tuple[float, float, float]]]
    carried: Carried

    @property
    def rows(self) -> int:
        return len(self.found)

    def marginals(self, row: int) -> Iterator[tuple[str, list[tuple[str, float, float, float]]]]:
        """Each variable's states with their probabilities and intervals."""
        domain = self.found.problem.domain
        for v, (key, values) in enumerate(self.found.marginals.items()):
            ends = self.found.marginal_intervals[key][row]
            states = [str(domain.label(v, s)) for s in range(values.shape[1])]
            numbers = zip(states, values[row].tolist(), *ends.T.tolist(), strict=True)
            yield domain.name(v), list(numbers)


@spread
def probability(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of explanations for each row.")] = 2,
    given: Annotated[
        Given,
        typer.Option(help="all: given evidence and constraints; evidence: ignore the constraints."),
    ] = Given.all,
    samples: Annotated[
        int, typer.Option(min=1, help="Samples for each row, if exact sums do not fit.")
    ] = 10_000,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    format: Annotated[ProbabilityFormat | None, typer.Option(help=FORMAT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads; each answers rows of its own.")] = 1,
) -> int:
    """Compute probabilities of evidence, states and the best explanations, by row."""
    from cmpe.problem import Problem
    from cmpe.tradeoffs.best import best
    from cmpe.tradeoffs.probability import probability as posterior

    suffix = checked_suffix(output, tuple(FORMAT_OF_SUFFIX))
    problem, directory = models.read_models(context)
    if given is Given.evidence:
        problem = Problem(problem.objective, (), problem.evidence_variables, problem.name)
    problem = models.with_rules(problem)
    rows, carried = files.read(problem, directory)
    how = Running(workers=workers)
    found = posterior(problem, **rows.keywords, samples=samples, seed=seed, running=how)
    ranked = best(problem, **rows.keywords, k=k, time_limit=time_limit, running=how)
    explained = _Explained(found, ranked, _shares(found, ranked), carried)
    fallback = "table" if output is None and sys.stdout.isatty() else "json"
    shape = format.value if format else FORMAT_OF_SUFFIX.get(suffix, fallback)
    text = {"json": _json, "csv": _csv, "table": _table}[shape](explained)
    write_or_print(output, text)
    return int(bool(ranked) and all(each.infeasible for each in ranked))


def _shares(found: Probability, ranked: list[Ranked]) -> list[list[tuple[float, float, float]]]:
    """The probability of each explanation with its interval; the same rank of all rows at once."""
    import numpy as np

    out: list[list[tuple[float, float, float]]] = [[] for _ in ranked]
    for rank in range(max((len(each) for each in ranked), default=0)):
        z = np.full((len(ranked), found.problem.variables), -1, dtype=np.int32)
        for row, each in enumerate(ranked):
            if rank < len(each):
                z[row] = each.answers.assignments[rank]
        values = np.column_stack([found.of(z), found.interval(z)]).tolist()
        for row, each in enumerate(ranked):
            if rank < len(each):
                value, low, high = values[row]
                out[row].append((value, low, high))
    return out


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _json(explained: _Explained) -> str:
    """One object a row."""
    found, lines = explained.found, []
    for row in range(explained.rows):
        low, high = found.log_evidence_interval[row].tolist()
        values: dict[str, Any] = {
            "index": row,
            **cells_of(explained.carried, row),
            "log_evidence": _number(float(found.log_evidence[row])),
            "estimated": found.estimated,
        }
        if found.estimated:
            values["log_evidence_interval"] = [_number(low), _number(high)]
        values["marginals"] = {
            name: {state: _number(value) for state, value, _, _ in states}
            for name, states in explained.marginals(row)
        }
        if found.estimated:
            values["marginal_intervals"] = {
                name: {state: [low, high] for state, _, low, high in states}
                for name, states in explained.marginals(row)
            }
        answers = explained.ranked[row].answers
        values["explanations"] = [
            {
                "rank": rank + 1,
                "probability": _number(value),
                **({"interval": [low, high]} if found.estimated else {}),
                "objective": float(answers.objective[rank]),
                "assignment": answers.assignments[rank].tolist(),
                **({"states": dict(answers[rank])} if found.problem.domain.names else {}),
            }
            for rank, (value, low, high) in enumerate(explained.shares[row])
        ]
        lines.append(f"{json.dumps(values)}\n")
    return "".join(lines)


def _csv(explained: _Explained) -> str:
    """A line for each row, variable and state."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    estimated = explained.found.estimated
    writer.writerow(
        [
            "index",
            *explained.carried,
            "variable",
            "state",
            "probability",
            *["low", "high"] * estimated,
        ]
    )
    for row in range(explained.rows):
        head = [row, *cells_of(explained.carried, row).values()]
        for name, states in explained.marginals(row):
            for state, *numbers in states:
                writer.writerow([*head, name, state, *numbers[: 3 if estimated else 1]])
    return out.getvalue()


def _table(explained: _Explained) -> str:
    """A paragraph a row: the evidence, the explanations, the least certain variables."""
    lines: list[str] = []
    for row in range(min(explained.rows, SHOWN_ROWS)):
        lines.append(f"{row_head(row, explained.carried)}: {explained.found.summary(row)}")
        answers = explained.ranked[row].answers
        for rank, share in enumerate(explained.shares[row]):
            text = answer_text(answers[rank], EXPLANATION_WIDTH)
            lines.append(f"  explanation {rank + 1}: {_percent(*share)}: {text}")
        uncertain = sorted(explained.marginals(row), key=_certainty)[:SHOWN_VARIABLES]
        for name, states in uncertain:
            if _certainty((name, states)) < 1.0:
                words = ", ".join(f"{state} {_percent(*numbers)}" for state, *numbers in states)
                lines.append(f"  {name}: {words}")
    hidden = explained.rows - SHOWN_ROWS
    lines += [f"{hidden} more rows: use --format json"] if hidden > 0 else []
    return "".join(f"{line}\n" for line in lines)


def _certainty(marginal: tuple[str, list[tuple[str, float, float, float]]]) -> float:
    return max(value for _, value, _, _ in marginal[1])


def _percent(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "unknown"
    text = f"{100 * value:.3g} %"
    return text if low == high else f"{text} ({100 * low:.3g} to {100 * high:.3g})"
