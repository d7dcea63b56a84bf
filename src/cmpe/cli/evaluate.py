"""`cmpe evaluate`: a trained solver against proved optima, stage by stage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli import options as asked
from cmpe.cli.info import InfoFormat
from cmpe.cli.options import load_run
from cmpe.compiling import timing
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.evaluation import Evaluation, Reference
    from cmpe.learning.solver import NeuralSolver

LATENCY_ROWS = 20
WORKERS_HELP = "Of the proved optima: rows at the same time, or cores of a cluster started here."
# The stages that are compared, by name, as `with_stages` takes them; "all" is every trained margin.
VARIANTS: dict[str, dict[str, Any]] = {
    "network": {"repair": False, "certificate": "none"},
    "network, all margins": {"repair": False, "certificate": "none", "margins": "all"},
    "network + repair": {"certificate": "none"},
    "network + repair + bound": {},
}


def evaluate(
    run: Annotated[Path, typer.Argument(help="The directory of a trained solver.")],
    problem_dir: Annotated[Path, typer.Argument(help="The problem directory it was trained on.")],
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only the first test rows; default: all.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads over rows.")] = 1,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object; table: for people.")
    ] = InfoFormat.table,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS_HELP)] = 1,
    executor: asked.ExecutorKind = "local",
    address: asked.Address = None,
) -> int:
    """Measure regret, violations, certified gap and time on the directory's test rows."""
    from cmpe.evaluation import reference
    from cmpe.formats.directory import read_directory

    content = read_directory(problem_dir)
    solver = replace(load_run(run, content.problem), running=Running(threads=threads))
    test = content.test[:rows]
    how = Running(workers, threads, executor=executor, address=address)
    against = reference(content.problem, test, running=how)
    found = {name: _measure(solver, against, stages) for name, stages in VARIANTS.items()}
    report = {
        "run": str(run),
        "problem": content.problem.name,
        "relaxed_violation": _relaxed_violation(solver, against),
        "margin": solver.calibrated_margin(),
        "stages": found,
    }
    typer.echo(json.dumps(report) if format is InfoFormat.json else _table(report))
    return 0


def _measure(solver: NeuralSolver, against: Reference, stages: dict[str, Any]) -> dict[str, Any]:
    from cmpe.evaluation import evaluate as compare

    trained = solver.trained.config.margins
    if stages.get("margins") == "all":
        stages = {**stages, "margins": trained}
    staged = solver.with_stages(**stages)
    staged.solve(against.problem, against.evidence[:2])  # compiles
    begin = timing.now()
    answers = staged.solve(against.problem, against.evidence)
    batch = (timing.now() - begin) / max(1, len(answers))
    single = []
    for row in against.evidence[:LATENCY_ROWS]:
        begin = timing.now()
        staged.solve(against.problem, row[None, :])
        single.append(timing.now() - begin)
    result: Evaluation = compare(answers, against)
    return {
        "method": staged.method,
        "all": result.every.to_json(),
        "constrained": result.constrained.to_json(),
        "batch_seconds_per_row": batch,
        "single_row_seconds": sorted(single)[len(single) // 2] if single else None,
    }


def _relaxed_violation(solver: NeuralSolver, against: Reference) -> float | None:
    """The share of relaxed outputs that break a constraint: what the paper's code scored."""
    rows = against.problem.given(against.evidence)
    over = solver.predictor.relaxed_violations(rows, solver.calibrated_margin())
    return float(over.mean()) if len(over) else None


def _table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['run']} on {report['problem'] or 'the test rows'}: margin "
        f"{report['margin']:g}, relaxed outputs violated "
        f"{_cell(report['relaxed_violation'], 0, 2, 100)} %",
        f"{'':26}{'rows':>6}{'distinct':>9}{'regret':>9}{'gap %':>8}{'violated':>10}"
        f"{'certified':>11}{'us/row':>9}{'us alone':>10}",
    ]
    for name, stage in report["stages"].items():
        for which in ("all", "constrained"):
            m = stage[which]
            lines.append(
                f"{name if which == 'all' else '  constrained rows':26}"
                f"{m['rows']:>6}{m['distinct']:>9}{_cell(m['regret'], 9, 3)}"
                f"{_cell(m['gap'], 8, 3, 100)}{_cell(m['violation'], 10, 4)}"
                f"{_cell(m['certified_gap'], 11, 3)}"
                + (
                    f"{1e6 * stage['batch_seconds_per_row']:>9.1f}"
                    f"{1e6 * (stage['single_row_seconds'] or 0):>10.0f}"
                    if which == "all"
                    else ""
                )
            )
    every = (
        stage[which] for stage in report["stages"].values() for which in ("all", "constrained")
    )
    if any((m["regret"] or 0.0) < 0 and m["violation"] for m in every):
        lines.append(
            "A regret below 0: violated answers are better than every feasible one, because they "
            "break\nthe constraint. They count as violated, not as good."
        )
    return "\n".join(lines)


def _cell(value: float | None, width: int, digits: int, times: float = 1.0) -> str:
    return f"{'-':>{width}}" if value is None else f"{times * value:>{width}.{digits}f}"
