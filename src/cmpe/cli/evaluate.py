"""`cmpe evaluate`: a trained solver against proved optima, stage by stage, beside constants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli import options as asked
from cmpe.cli.info import InfoFormat
from cmpe.core.compiler import timing
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.evaluation import Constant, Evaluation, Reference
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.learning.amortised.solver import AmortisedSolver
    from cmpe.learning.solver import NeuralSolver

    Trained = NeuralSolver | AmortisedSolver

LATENCY_ROWS = 20
BLOCK_ROWS = 8192
EVIDENCE_HELP = (
    "Other rows, read in blocks: a file .npy, .csv or .parquet, or a folder "
    "of .parquet files; default: the test rows."
)
WORKERS_HELP = (
    "For the proved optima: rows answered at the same time, or cores of a cluster started here."
)
# The stages that are compared, by name, as `with_stages` takes them; "all" is every trained margin.
VARIANTS: dict[str, dict[str, Any]] = {
    "network": {"repair": False, "certificate": "none"},
    "network, all margins": {"repair": False, "certificate": "none", "margins": "all"},
    "network + repair": {"certificate": "none"},
    "network + repair + bound": {},
}


def evaluate(
    run: Annotated[Path, typer.Argument(help="The directory of a trained solver.")],
    problem_dir: Annotated[
        Path, typer.Argument(help="The problem directory, with the models of its training.")
    ],
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only the first rows; default: all.")
    ] = None,
    evidence: Annotated[Path | None, typer.Option(help=EVIDENCE_HELP)] = None,
    block: Annotated[
        int, typer.Option(min=1, help="Rows of the evidence held in memory at a time.")
    ] = BLOCK_ROWS,
    threads: Annotated[int, typer.Option(min=1, help="Threads; each answers rows of its own.")] = 1,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object; table: for people.")
    ] = InfoFormat.table,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS_HELP)] = 1,
    executor: asked.ExecutorKind = "local",
    address: asked.Address = None,
) -> int:
    """Measure regret, violations, certified gap and time on test rows or on others."""
    from cmpe.evaluation import constants, overlap, reference
    from cmpe.formats.directory import read_directory
    from cmpe.learning.loading import load_solver

    content = read_directory(problem_dir)
    solver = replace(load_solver(run, content.problem), running=Running(threads=threads))
    how = Running(workers=workers, threads=threads, executor=executor, address=address)
    stages = {name: _Stage(each) for name, each in _variants(solver)}
    violated = known = 0.0
    count = 0
    with how.place.kept():
        baseline = _Baseline(constants(content.problem, content.train, running=how))
        for part in _blocks(content, evidence, rows, block):
            against = reference(content.problem, part, running=how)
            for stage in stages.values():
                stage.measure(against)
            baseline.measure(against)
            violated += _relaxed_violations(solver, against)
            count += len(against.evidence)
            known += overlap(against.evidence, content.train) * len(against.evidence)
    parts = next(iter(stages.values())).parts
    report = {
        "run": str(run),
        "problem": content.problem.name,
        "relaxed_violation": violated / count if count else None,
        "margin": solver.calibrated_margin(),
        "binding_share": _binding(parts),
        "overlap_share": known / count if count else None,
        "stages": {name: stage.to_json() for name, stage in stages.items()},
        "constant": baseline.to_json(),
    }
    asked_of = content.problem.name or str(evidence or "the test rows")
    typer.echo(json.dumps(report) if format is InfoFormat.json else _table(report, asked_of))
    return 0


def _blocks(
    content: ProblemDirectory, evidence: Path | None, rows: int | None, block: int
) -> Iterator[Values]:
    """The test rows as one block, or those of a file or folder in pieces; no more than `rows`."""
    import numpy as np

    from cmpe.arrays import FREE
    from cmpe.streams.pieces import source_of

    if evidence is None:
        yield content.test[:rows]
        return
    source = source_of(evidence, content.problem)
    observed = list(content.problem.evidence_variables)
    wanted = np.isin(np.arange(content.problem.variables), observed)
    for found in source.blocks(block, lambda number: rows is None or number * block < rows):
        left = None if rows is None else rows - found.first
        read = found.piece.read(content.problem).states[:left]
        yield read[:, observed] if ((read != FREE) == wanted).all() else read


def _variants(solver: Trained) -> Iterator[tuple[str, Trained]]:
    """The solver with each of the stages; a network for any question was trained at no margin."""
    for name, changes in VARIANTS.items():
        if changes.get("margins") != "all":
            yield name, solver.with_stages(**changes)
        elif solver.trained_margins:
            yield name, solver.with_stages(**{**changes, "margins": solver.trained_margins})


@dataclass
class _Stage:
    """What is known of the answers of one variant, block after block."""

    solver: Trained
    parts: list[Evaluation] = field(default_factory=list)
    seconds: float = 0.0
    rows: int = 0
    single: list[float] = field(default_factory=list)  # seconds of rows on their own

    def measure(self, against: Reference) -> None:
        """Answer a block of rows; of the first one some rows alone, too."""
        from cmpe.evaluation import evaluate as compare

        if not self.parts:
            self.solver.solve(against.problem, against.evidence[:2])  # compiles
        begin = timing.now()
        answers = self.solver.solve(against.problem, against.evidence)
        self.seconds += timing.now() - begin
        self.rows += len(answers)
        for row in against.evidence[: 0 if self.parts else LATENCY_ROWS]:
            begin = timing.now()
            self.solver.solve(against.problem, row[None, :])
            self.single.append(timing.now() - begin)
        self.parts.append(compare(answers, against))

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "method": self.solver.method,
            **_metrics(self.parts),
            "batch_seconds_per_row": self.seconds / max(1, self.rows),
            "single_row_seconds": sorted(self.single)[len(self.single) // 2]
            if self.single
            else None,
        }


@dataclass
class _Baseline:
    """What is known of constant answers, block after block."""

    constants: tuple[Constant, ...]
    parts: list[list[Evaluation]] = field(default_factory=list)  # of each constant

    def measure(self, against: Reference) -> None:
        """Answer a block of rows with each constant."""
        from cmpe.evaluation import evaluate as compare

        for number, constant in enumerate(self.constants):
            if number == len(self.parts):
                self.parts.append([])
            answers = constant.answers(against.problem, against.evidence)
            self.parts[number].append(compare(answers, against))

    def to_json(self) -> dict[str, Any] | None:
        """The chosen constant like a stage, and all of them; None where there is none."""
        from cmpe.evaluation import chosen

        if not self.constants:
            return None
        told = [
            {
                "method": "constant",
                **_metrics(parts),
                "training": {"objective": each.objective, "violation": each.violated},
            }
            for each, parts in zip(self.constants, self.parts, strict=True)
        ]
        return {**told[self.constants.index(chosen(self.constants))], "trade_off": told}


def _metrics(parts: list[Evaluation]) -> dict[str, Any]:
    from cmpe.evaluation import Evaluation

    result = Evaluation.pooled(parts)
    return {"all": result.every.to_json(), "constrained": result.constrained.to_json()}


def _binding(parts: list[Evaluation]) -> float | None:
    from cmpe.evaluation import Evaluation

    share = Evaluation.pooled(parts).binding
    return None if share != share else share


def _relaxed_violations(solver: Trained, against: Reference) -> float:
    """How many relaxed outputs break a constraint: what the paper's code scored."""
    return float(solver.relaxed_violations(against.problem.given(against.evidence)).sum())


def _table(report: dict[str, Any], asked_of: str) -> str:
    lines = [
        f"{report['run']} on {asked_of}: margin "
        f"{report['margin']:g}, relaxed outputs violated "
        f"{_cell(report['relaxed_violation'], 0, 2, 100)} %",
        f"{'':26}{'rows':>6}{'distinct':>9}{'regret':>9}{'gap %':>8}{'violated':>10}"
        f"{'certified':>11}{'answers':>9}{'us/row':>9}{'us alone':>10}",
    ]
    for name, stage in report["stages"].items():
        for which in ("all", "constrained"):
            m = stage[which]
            lines.append(
                f"{name if which == 'all' else '  constrained rows':26}"
                f"{m['rows']:>6}{_cell(m['distinct'], 9, 0)}{_cell(m['regret'], 9, 3)}"
                f"{_cell(m['gap'], 8, 3, 100)}{_cell(m['violation'], 10, 4)}"
                f"{_cell(m['certified_gap'], 11, 3)}{_cell(m['distinct_answers'], 9, 0)}"
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
    lines.append(
        f"The constraint binds on {_cell(report['binding_share'], 0, 1, 100)} % of the rows; "
        f"{_cell(report['overlap_share'], 0, 1, 100)} % of them are training rows."
    )
    if report["constant"]:
        shown = map(_short, report["constant"]["trade_off"])
        lines.append(
            f"One constant answer to all rows: {_short(report['constant'])} violated; the "
            f"trade-off of constants: {', '.join(shown)}"
        )
    return "\n".join(lines)


def _short(constant: dict[str, Any]) -> str:
    """Regret and rate of violations of a constant."""
    m = constant["all"]
    return f"{_cell(m['regret'], 0, 3)} nats / {_cell(m['violation'], 0, 1, 100)} %"


def _cell(value: float | None, width: int, digits: int, times: float = 1.0) -> str:
    return f"{'-':>{width}}" if value is None else f"{times * value:>{width}.{digits}f}"
